"""Times an editor's wait for the problems and the hints of a program after a keystroke.

    python -m benchmarks.editing

A keystroke changes a number within a block and the next one changes it back, 100 in all. What is
timed is the analysis with its answers; the protocol and the pause of the server come on top.
"""

from statistics import median
from time import perf_counter

from meganeura.language_server.analysis import analyse
from meganeura.language_server.diagnostics import diagnostics
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura_dsl.resources import standard_models

KEYSTROKES = 100
BLOCK = """\
block Part{0}(c)(x: [n, d]) -> [n, c]:
  h = x |> a: linear(64) |> relu
  h = h |> b: linear(2 * c) |> relu
  return h |> c: linear(c)

"""
LONG = "".join(map(BLOCK.format, range(400)))
"""A program of 2,000 lines."""


def times(text: str, place: str) -> tuple[float, float, float]:
    """Median seconds until the problems, until the hints, and the longest until both."""
    at = text.index(place)
    edited = text[:at] + place.replace(place[-1], place[-1] + " ") + text[at + len(place) :]
    problems: list[float] = []
    hints: list[float] = []
    for number in range(KEYSTROKES):
        began = perf_counter()
        analysis = analyse("file:///edited.mgn", (text, edited)[number % 2], {})
        diagnostics(analysis)
        problems.append(perf_counter() - began)
        inlay_hints(analysis)
        hints.append(perf_counter() - began)
    return median(problems), median(hints), max(hints)


def main() -> None:
    """Print the table."""
    resnet, whisper = (
        (standard_models() / f"{name}.mgn").read_text() for name in ("resnet", "whisper")
    )
    programs = {
        "resnet.mgn": (resnet, "return relu(x + y)"),
        "whisper.mgn": (whisper, "  return "),
        "2,000 lines": (LONG, "linear(64)"),
    }
    print(f"{'program':<12} {'problems':>9} {'hints':>9} {'longest':>9}")
    for name, (text, place) in programs.items():
        shown = "".join(f"{1000 * each:7.0f} ms" for each in times(text, place))
        print(f"{name:<12} {shown}")


if __name__ == "__main__":
    main()
