"""The parts of a new command, renderer, rewrite rule, pass or kernel.

Each test names every source file that such a piece touches: those it edits, and those it adds.
"""

from pathlib import Path

import pytest

from tests.edited import COMMAND, Edits, run

GREET = '''"""`meganeura greet`: a greeting."""

from meganeura.cli.ui.console import say


def greet(name: str) -> None:
    """Greet somebody."""
    say(f"hello, {name}")
'''


def test_a_command_takes_one_new_file(tmp_path: Path) -> None:
    new = {"meganeura.cli.commands.greet": GREET}
    done = run({}, COMMAND, "greet", "Ada", new=new, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello, Ada\n"), done.stderr
    assert "Greet somebody." in run({}, COMMAND, "--help", new=new, folder=tmp_path).stdout
    assert run({}, COMMAND, "greet", "Ada").returncode == 2


CODES = '''"""Reports as their codes."""

from meganeura_dsl.diagnostics.problem import Report


def code_line(report: Report) -> str:
    """The code alone."""
    return report.code
'''
WITH_CODES: Edits = {
    "meganeura.cli.commands.check": [
        ('    GITHUB = "github"\n', '    GITHUB = "github"\n    CODES = "codes"\n'),
        (
            "        case _:\n            assert_never(shape)\n\n\ndef _annotate",
            """        case Format.CODES:
            from meganeura_dsl.diagnostics.codes import code_line

            for report in reports:
                say(code_line(report))
        case _:
            assert_never(shape)


def _annotate""",
        ),
    ]
}


def test_a_renderer_takes_one_new_file_and_a_case(tmp_path: Path) -> None:
    file = tmp_path / "wrong.mgn"
    file.write_text("block f()(x: [n]) -> [n] = y\n")
    assert len(WITH_CODES) == 1
    new = {"meganeura_dsl.diagnostics.codes": CODES}
    arguments = ("check", str(file), "--output-format", "codes")
    done = run(WITH_CODES, COMMAND, *arguments, new=new, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.split() == ["E0201"]
    assert run({}, COMMAND, *arguments).returncode == 2


RULE: Edits = {
    "meganeura_dsl.transforms.egraph.rules.algebra": [
        (
            '        Rewrite("double-negation",',
            """        Rewrite("abs-of-abs", "||x|| = |x|", "(= e (Abs (Abs x _) t))", "(Abs x t)"),
        Rewrite("double-negation",""",
        )
    ]
}
ABS = """
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Abs, Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize

build = Builder()
x = build.add(Input("x", DType.F32, (5,)))
graph = build.graph({"y": build.add(Abs(), build.add(Abs(), x))})
print(sum(isinstance(each.op, Abs) for each in optimize(graph, mode="infer").graph.values))
"""


def test_a_rewrite_rule_takes_one_file() -> None:
    assert len(RULE) == 1
    done = run(RULE, ABS)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert run({}, ABS).stdout == "2\n"


PASSES = "meganeura_runtime.backends.webgpu.passes"
CANCEL = '''"""Negations of negations, which change nothing."""

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Neg
from meganeura_runtime.backends.webgpu.config.limits import Target


def cancel_negations(graph: Graph, _target: Target) -> Graph:
    """The graph without -(-x)."""
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if isinstance(value.op, Neg) and isinstance(operands[0].op, Neg):
            return operands[0].operands[0]
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)
'''
WITH_PASS: Edits = {
    f"{PASSES}.pipeline": [
        (
            "from meganeura_runtime.backends.webgpu.passes.channels_last",
            f"""from {PASSES}.cancel_negations import cancel_negations
from meganeura_runtime.backends.webgpu.passes.channels_last""",
        ),
        ("    legalize,\n    rematerialize,\n", "    cancel_negations,\n    legalize,\n"),
    ]
}
NEGATED = """
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input, Neg
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Target
from meganeura_runtime.backends.webgpu.passes.pipeline import after_each

build = Builder()
x = build.add(Input("x", DType.F32, (5,)))
graph = build.graph({"y": build.add(Neg(), build.add(Neg(), build.add(Neg(), x)))})
for name, after in after_each(graph, Target(DeviceLimits())):
    print(name, sum(isinstance(each.op, Neg) for each in after.values))
"""


def test_a_pass_takes_one_new_file_and_a_line(tmp_path: Path) -> None:
    assert len(WITH_PASS) == 1
    new = {f"{PASSES}.cancel_negations": CANCEL}
    done = run(WITH_PASS, NEGATED, new=new, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert (counts["channels-last-layout"], counts["cancel-negations"]) == ("3", "1")


CODEGEN = "meganeura_runtime.backends.webgpu.codegen"
SCALARS = '''"""Which results are so few that one invocation computes them."""

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.types import element_count


def few_elements(value: Value) -> int:
    """The number of its elements if that is small, else 0."""
    count = element_count(value.type)
    return count if count <= 4 else 0
'''
SCALAR_KERNEL = f'''"""The kernel of few elements: one invocation computes them all."""

from {CODEGEN}.kernels.kernel import (
    Element, Kernel, Launch, Memory, Work, result_of, write_result,
)
from {CODEGEN}.lowering.scalars import few_elements
from {CODEGEN}.wgsl.affine import Affine
from {CODEGEN}.wgsl.emitter import WgslEmitter
from {CODEGEN}.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.config.limits import Target


def scalar_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Compute and store each element of the results."""
    launch, writer = Launch(1, 1, target), WgslEmitter()
    launch.declare(writer, "i")
    elements = [Element(Affine(at), {{}}) for at in range(few_elements(work.stores[0]))]
    write_result(
        writer, memory, result_of(Expressions(), work.stores, memory.before(work), elements)
    )
    return launch.kernel(writer, memory)
'''
WITH_KERNEL: Edits = {
    "meganeura_runtime.backends.webgpu.schedule.kernel_selection": [
        (
            f"from {CODEGEN}.kernels.winograd_kernel",
            f"""from {CODEGEN}.kernels.scalar_kernel import scalar_kernel
from {CODEGEN}.lowering.scalars import few_elements
from {CODEGEN}.kernels.winograd_kernel""",
        ),
        (
            "    if not work.anchors:\n",
            """    if not work.anchors and few_elements(work.stores[0]):
        return scalar_kernel(work, memory, target)
    if not work.anchors:
""",
        ),
    ]
}
TINY = """
import numpy as np
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Add, Exp, Input
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

build = Builder()
x, z = build.add(Input("x", DType.F32, (3,))), build.add(Input("z", DType.F32, (5,)))
graph = build.graph({"y": build.add(Add(), x, x), "w": build.add(Exp(), z)})
sizes = sorted("workgroup_size(1)" in text for text in plan_graph(graph, DeviceLimits()).kernels)
assert sizes == [False, True], sizes
feeds = {"x": np.arange(3, dtype=np.float32), "z": np.zeros(5, np.float32)}
with choose_device("wgpu:0").open(graph) as session:
    outputs = session.step(feeds)
    assert outputs["y"].tolist() == [0, 2, 4] and outputs["w"].tolist() == [1] * 5
"""


@pytest.mark.adapter
def test_a_kernel_takes_two_new_files_and_a_case(tmp_path: Path) -> None:
    assert len(WITH_KERNEL) == 1
    new = {
        f"{CODEGEN}.lowering.scalars": SCALARS,
        f"{CODEGEN}.kernels.scalar_kernel": SCALAR_KERNEL,
    }
    done = run(WITH_KERNEL, TINY, new=new, folder=tmp_path)
    assert done.returncode == 0, done.stderr
