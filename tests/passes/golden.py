"""Golden files: what each pass makes of a graph, as text.

A file lies in the folder of its pass. It opens with comments: why it exists, and for passes of the
webgpu backend the target, as `# style: cpu-adapter`, `# limit: binding_bytes=4096` and `# matrix
units`. Then come the graph before the pass, a line `=>`, and the graph after it.

`python -m tests.passes.golden` writes the second graphs anew; read the difference before you keep
it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meganeura_dsl.ir.graph import Graph, Leaf, Op, continued
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import format_graph, parse_graph
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
    Target,
)
from meganeura_runtime.backends.webgpu.ops import attention, lowered
from meganeura_runtime.backends.webgpu.passes.pipeline import PASSES, name_of

FOLDER = Path(__file__).parent
MARK = "\n=>\n"
LOWERED = tuple(
    found
    for module in (attention, lowered)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Op)
)


def gradient(graph: Graph) -> Graph:
    """The gradient of the output `loss` with respect to all parameters, beside the loss."""
    build, copy = continued(graph)
    leaves = {
        value.op.name: value
        for value in copy.values
        if isinstance(value.op, Leaf) and value.op.is_persistent
    }
    found = differentiate(build, copy.outputs["loss"], tuple(leaves.values()))
    named = {f"d {name}": each for name, each in zip(leaves, found, strict=True)}
    return build.graph({**copy.outputs, **named})


def sgd_step(graph: Graph) -> Graph:
    """One step of gradient descent with momentum."""
    return training_step(graph, TrainingSettings(Sgd(0.1, momentum=0.9)))


def optimize_inference(graph: Graph) -> Graph:
    """Returns the graph after equality saturation, with its parameters as constants."""
    return RewriteOptions().optimize(graph, "infer").graph


FRONT_END: dict[str, Callable[[Graph], Graph]] = {
    "gradient": gradient,
    "sgd-step": sgd_step,
    "expand-fused": expand_fused,
    "optimize-inference": optimize_inference,
}
BACK_END = {name_of(each): each for each in PASSES}


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
        return parse_graph(self.before, (*OPS, *FUSED_OPS, *LOWERED))

    @property
    def target(self) -> Target:
        """The target that the comments describe."""
        found = re.findall(r"# limit: (\w+)=(\d+)", self.before)
        limits: dict[str, Any] = {name: int(number) for name, number in found}
        style = re.search(r"# style: (\S+)", self.before)
        if "# matrix units" in self.before:
            limits["matrix_units"] = MatrixUnits(MatrixDialect.PLAIN)
        return Target(DeviceLimits(**limits), Style(style[1]) if style else Style.GPU)

    def run(self) -> Graph:
        """The graph after the pass."""
        name = self.path.parent.name
        if name in FRONT_END:
            return FRONT_END[name](self.graph)
        return BACK_END[name](self.graph, self.target)


def goldens() -> Iterator[Golden]:
    """All files, by pass and name."""
    for path in sorted(FOLDER.glob("*/*.txt")):
        before, _, after = path.read_text().partition(MARK)
        yield Golden(path, before, after)


def update() -> None:
    """Write the second half of every file."""
    for golden in goldens():
        golden.path.write_text(golden.before.rstrip() + "\n" + MARK + format_graph(golden.run()))


if __name__ == "__main__":
    update()
