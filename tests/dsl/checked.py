"""Results of a check for files with one or two declarations of many kinds, in a line each.

`checked.txt` has of each piece of `PIECES` alone what is said, proved and held, and of each two a
checksum of that: for the whole file, where the second is chosen, and where it alone is asked about.

`python -m tests.dsl.checked` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from zlib import crc32

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import Checker

FILE = Path(__file__).with_suffix(".txt")
LIBRARY = {
    "parts": """\
from deeper import Inner, Fine
block Outer(c)(x: [n, d]) -> [n, c] = x |> a: linear(c) |> b: Fine()
block Broken(c)(x: [n, d]) -> [n, c] = x |> a: linear(c + 1)
block Above()(x: [n, d]) -> [n, 3] = x |> i: Inner()
def half(n) = n // 2
""",
    "twin": """\
# the same place here
block Twin(c)(x: [n, d]) -> [n, d] = x |> fc: linear(c)
""",
    "deeper": """\
block Inner()(x: [n, d]) -> [n, 2] = x |> fc: linear(3)
block Fine()(x: [n, d]) -> [n, d] = x |> fc: linear(d)
""",
}
PIECES = {
    "good": "block Good(c)(x: [n, d]) -> [n, c] = x |> fc: linear(c)",
    "model": "block Net()(x: [n, 3]) -> [n, 2] = x |> fc: linear(2)\nmodel net = Net()",
    "refuted": "block Wrong(c)(x: [n, d]) -> [n, d] = x |> fc: linear(c)",
    "wrong model": "block Few(c)(x: [n, 3]) -> [n, c] = x |> fc: linear(c)\n"
    "model few = Few(more=2)",
    "too many": "model many = Good(2, 3, 4)",
    "twice": "model twice = Good(2, c=3)",
    "undecided": "block Lists(widths: list)(x: [n, d]) -> [n, 8]:\n"
    "  for i in 0..len(widths):\n    x = x |> fc[i]: linear(widths[i])\n  return x",
    "decides": "model lists = Lists(widths=[4, 8])",
    "decides wrongly": "model lists4 = Lists(widths=[8, 4])",
    "expects": "expect Lists(widths=[4, 8]) maps [n, 3] -> [n, 8]",
    "expects wrongly": "expect Lists(widths=[4, 8]) maps [n, 3] -> [n, 4]",
    "expects net": "expect net has 2 params, 8 weights\nexpect net holds fc.bias: [2]",
    "expects another net": "expect net has 3 params",
    "train": "train fit(x: [n, 3], y: [n]):\n  minimize mean(sum(x |> net, 1) * y)\n"
    '  run:\n    data = "digits"\n    n = 2\n    epochs = 1',
    "train of its own": "train own(x: [n, 3]):\n  minimize mean(x |> head: linear(1))\n"
    '  run:\n    data = "digits"\n    n = 2\n    epochs = 1',
    "wrong train": "train bad(x: [n, 3]):\n  minimize x\n  run:\n"
    '    data = "digits"\n    n = 2\n    epochs = 1',
    "wrong settings": "train unset(x: [n, 3]):\n  minimize mean(x |> head: linear(1))\n"
    '  run:\n    data = "digits"\n    n = 2\n    epochs = 0\n    nothing = 1',
    "shows": "train shows(x: [n, 4, 4]):\n  y = x |> end: linear(4)\n  minimize mean(y)\n"
    '  show seen = y\n  run:\n    data = "digits"\n    n = 2\n    epochs = 1',
    "imports": "from parts import Outer, half\n"
    "block Uses(c)(x: [n, 4 * c]) -> [n, half(2 * c)] = x |> out: Outer(c)",
    "imports wrong": "from parts import Broken\n"
    "block Spoilt()(x: [n, d]) -> [n, 2] = x |> b: Broken(2)",
    "imports deep": "from parts import Above\nmodel above = Above()",
    "imports more": "from parts import Above, Broken",
    "imports its like": "from twin import Twin\n"
    "block Same(c)(x: [n, d]) -> [n, d] = x |> fc: linear(c)\n"
    "block User()(x: [n, d]) -> [n, d] = x |> t: Twin(3)",
    "imports nothing": "from nowhere import f",
    "unused": "block Idle()(x: [n]) -> [n]:\n  y = x + 1\n  z = 2 * x\n  return x",
    "unread": "block Cut()(x: [n]) -> [n]:\n  return x )\nmodel cut = Cut()",
    "taken": "block Good(c)(x: [n]) -> [n] = x",
    "twice wrong": "block Two()(x: [n]) -> [n]:\n  return unknown(x) + unknown(x) + other(x)",
}

BESIDE = ("model", "wrong model", "undecided", "expects wrongly")
"""Declarations that stand before the chosen ones."""


def described() -> Iterator[str]:
    """All lines of the file."""
    for number, (name, text) in enumerate(PIECES.items()):
        yield f"# {name}"
        yield from (f"    {line}".rstrip() for line in _said([text]))
        for other, second in islice(PIECES.items(), number):
            sums = [_sum(_said([second, text]))]
            target = _target(text)
            if target and other in BESIDE:
                sums.append(_sum(_said([second, text], target)))
                sums.append(_sum(_said([second, text], target, only=True)))
            yield f"{other}: {' '.join(sums)}"


def _target(text: str) -> str:
    """The model or training that a piece declares."""
    words = [line.split() for line in text.splitlines() if line.startswith(("model", "train"))]
    return words[0][1].partition("(")[0] if words else ""


def _said(texts: Sequence[str], chosen: str = "", *, only: bool = False) -> list[str]:
    source = Source("net.mgn", "\n\n".join(texts) + "\n")
    checker = Checker(source, _library, chosen or None, "net.mgn:")
    checker.only = chosen if only else None
    try:
        found = checker.run()
    except ProblemError as error:
        return [render(error.problem.report())]
    shown = [render(report) for report in found.reports]
    types = [f"{line} {name}: {type_}" for (line, name), type_ in found.bindings.items()]
    said = f"proved {', '.join(found.proved) or 'nothing'}; holds {found.holds}"
    return [*"\n".join(shown).splitlines(), said, *types]


def _library(words: tuple[str, ...]) -> Source | None:
    (name,) = words
    return Source(f"{name}.mgn", LIBRARY[name]) if name in LIBRARY else None


def _sum(lines: Sequence[str]) -> str:
    return f"{crc32(chr(10).join(lines).encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
