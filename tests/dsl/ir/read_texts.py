"""Results of reading texts of graphs in which a word is missing, doubled or another.

`read_texts.snap` has of some graphs the lines that are changed, with the graph that is read or the
message, and a checksum of those of all graphs and ways to change them.

`python -m tests.dsl.ir.read_texts` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator
from textwrap import indent

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import OPS, Input
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import TOKEN, GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.symbolic.assumptions import Unproved
from tests.samples import SAMPLES
from tests.scans import NESTED, forward
from tests.snapshots import Snapshot, Text

OTHERS = (
    "%0",
    "1",
    "-1",
    "2.5",
    "x",
    '"x"',
    "true",
    "n",
    "99999999999999999999",
    "(",
    "]",
    "body0",
)
PROGRAMS = {"loops": NESTED}
EVERY = {"loops": 60}
"""One of so many words is changed, and one of two elsewhere."""


def graphs() -> Iterator[tuple[str, Graph]]:
    """Graphs of all kinds of attributes, and their names."""
    seen: set[type] = set()
    for sample in SAMPLES:
        if type(sample.op) in seen:
            continue
        seen.add(type(sample.op))
        build = Builder()
        operands = [
            build.add(Input(f"x{index}", each.dtype, each.shape))
            for index, each in enumerate(sample.types)
        ]
        results = build.add_all(sample.op, *operands)
        yield sample.name, build.graph({f"y{each.index}": each for each in results})
    for name, text in PROGRAMS.items():
        yield name, forward(text)


SHOWN = ("texts: Sort, another", "texts: Sum-rows, missing", "texts: Where, doubled")


def texts() -> Iterator[Text]:
    """Of each graph and each way to change it what is read, or why it is refused."""
    for name, graph in graphs():
        text = format_graph(graph)
        words = [match.span() for match in TOKEN.finditer(text) if match[0].strip()]
        step = EVERY.get(name, 2)
        ways = {"missing": ("",), "doubled": (None,), "another": OTHERS}
        for way, instead in ways.items():
            said: list[str] = []
            for number, (start, stop) in enumerate(words[::step]):
                other = instead[number % len(instead)]
                word = f"{text[start:stop]} " * 2 if other is None else f" {other} "
                changed = text[:start] + word + text[stop:]
                line = changed[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
                said.append(f"{line}\n{indent(_said(changed), '    ')}")
            yield Text("texts", f"{name}, {way}", "\n".join(said))


def _said(text: str) -> str:
    try:
        graph = parse_graph(text, [*OPS, *FUSED_OPS])
        verify(graph)
    except GraphTextError as error:
        return f"refused: {error}"
    except (GraphError, ProblemError, Unproved) as error:
        return f"refused as a graph: {error}"
    return format_graph(graph)


SNAPSHOT = Snapshot("tests.dsl.ir.read_texts", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
