"""Golden files: the plan of a graph for the webgpu backend, with the text of its kernels.

A file opens with comments: why it exists, and its target, as `# style: cpu-adapter`,
`# limit: lanes=8` and `# attends` (attention is one kernel). Then come a graph, a line `=>`, and
its plan. Of a kernel of more than `LONGEST` lines only the length and a checksum stand there.

`python -m tests.plans.golden` writes the plans anew; read the difference before you keep it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import parse_graph
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.plan import Plan, PlanTensor, Slot
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

FOLDER = Path(__file__).parent
MARK = "\n=>\n"
LONGEST = 300


@dataclass(frozen=True)
class Golden:
    """One file."""

    path: Path
    before: str
    after: str

    @property
    def graph(self) -> Graph:
        """The graph that is planned."""
        return parse_graph(self.before, (*OPS, *FUSED_OPS))

    @property
    def limits(self) -> DeviceLimits:
        """The limits of the adapter that the comments describe."""
        found = re.findall(r"# limit: (\w+)=(\d+)", self.before)
        limits: dict[str, Any] = {name: int(number) for name, number in found}
        return DeviceLimits(**limits)

    def plan(self) -> Plan:
        """The plan as it is made now."""
        graph = self.graph
        style = re.search(r"# style: (\S+)", self.before)
        fused = FusionConfig(fuse_attention=True)
        fusings = {step_name(graph): fused} if "# attends" in self.before else {}
        choices = TunedConfigs("", {}, fusings)
        return plan_graph(graph, self.limits, Style(style[1]) if style else Style.GPU, choices)


def goldens() -> Iterator[Golden]:
    """All files, by name."""
    for path in sorted(FOLDER.glob("*.txt")):
        before, _, after = path.read_text().partition(MARK)
        yield Golden(path, before, after)


def text_of(plan: Plan) -> str:
    """Everything that a plan says."""
    return "\n".join([*_lines(plan), ""])


def _lines(plan: Plan) -> Iterator[str]:
    for number, buffer in enumerate(plan.buffers):
        yield f"buffer {number}: {buffer.bytes} bytes of {buffer.role.value}"
    yield f"the temporaries need at least {plan.least_bytes} bytes"
    for word, tensors in (
        ("input", plan.inputs),
        ("parameter", plan.parameters),
        ("output", plan.outputs),
    ):
        yield from (_tensor(word, tensor) for tensor in tensors)
    for each in plan.dispatches:
        yield f"kernel {each.kernel}: {each.name} ({each.kind})"
        workgroups = " x ".join(map(str, each.workgroups))
        yield f"    {workgroups} workgroups, {each.flops} flops, {each.bytes} bytes"
        yield f"    on {', '.join(map(_slot, each.slots))}"
    for loop in plan.loops:
        yield f"loop of {loop.rounds} iterations: from dispatch {loop.first} to before {loop.last}"
    for copy in plan.copies:
        yield f"copy {_slot(copy.source)} to {_slot(copy.target)}"
    for number, text in enumerate(plan.kernels):
        lines = text.count("\n")
        shown = text.rstrip() if lines <= LONGEST else f"{lines} lines, {crc32(text.encode()):08x}"
        yield f"\n--- kernel {number}\n{shown}"


def _tensor(word: str, tensor: PlanTensor) -> str:
    return f"{word} {tensor}: {_slot(tensor.slot)}"


def _slot(slot: Slot) -> str:
    return f"{slot.buffer}[{slot.offset}:{slot.end}]"


def update() -> None:
    """Write the second half of every file."""
    for golden in goldens():
        golden.path.write_text(golden.before.rstrip() + "\n" + MARK + text_of(golden.plan()))


if __name__ == "__main__":
    update()
