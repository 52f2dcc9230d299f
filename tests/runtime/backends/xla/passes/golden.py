"""Golden files: the graph before a pass for XLA and the graph after it, as text.

A file lies in `goldens`, in the folder of its pass. It opens with a comment that says why it
exists; then come the graph before the pass, a line `=>`, and the graph after it.

`python -m tests.runtime.backends.xla.passes.golden` writes the second graphs anew; read the
difference before you keep it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import format_graph, parse_graph
from meganeura_runtime.backends.xla.passes.fuse_attention import CUDNN, fuse_into
from meganeura_runtime.backends.xla.passes.pipeline import PASSES

FOLDER = Path(__file__).parent / "goldens"
MARK = "\n=>\n"


def _fuse_attention(graph: Graph) -> Graph:
    """Fuses every attention, as on a machine whose cuDNN supports all of them."""
    return fuse_into(graph, CUDNN, lambda *_: True)


REWRITES: dict[str, Callable[[Graph], Graph]] = {
    **{each.name: each.rewrite for each in PASSES},
    "fuse-attention": _fuse_attention,
}


@dataclass(frozen=True)
class Golden:
    """One file."""

    path: Path
    before: str
    after: str

    @property
    def name(self) -> str:
        """The pass and the case."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def graph(self) -> Graph:
        """The graph before the pass."""
        return parse_graph(self.before, (*OPS, *FUSED_OPS))

    def run(self) -> Graph:
        """Returns the graph after the pass."""
        return REWRITES[self.path.parent.name](self.graph)


def goldens() -> Iterator[Golden]:
    """Yields all files, by pass and name."""
    for path in sorted(FOLDER.glob("*/*.txt")):
        before, _, after = path.read_text().partition(MARK)
        yield Golden(path, before, after)


def update() -> None:
    """Writes the second half of every file."""
    for golden in goldens():
        golden.path.write_text(golden.before.rstrip() + "\n" + MARK + format_graph(golden.run()))


if __name__ == "__main__":
    update()
