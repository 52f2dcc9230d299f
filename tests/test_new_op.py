"""The parts of a new op: its class, and a line for each compiled backend and for ONNX.

A fused op expands where it has no line. A process reads these files as if somebody had edited them,
and all others as they are.
"""

from pathlib import Path

import pytest

from tests.edited import COMMAND, Edits, run

PRIMITIVE = "meganeura_dsl.ir.ops.primitive.elementwise"
KERNEL = "meganeura_runtime.backends.webgpu.codegen.lowering.elementwise"
LAX = "meganeura_runtime.backends.xla.lowering.elementwise"
ONNX = "meganeura_runtime.export.onnx.ops.elementwise"
SOFTSIGN = '''@dataclass(frozen=True)
class Softsign(Unary):
    """x / (1 + |x|)."""

    builtin = "softsign"
    element_cost = ElementCost.ROOT

    def evaluate(self, x: Array) -> Array:
        return x / (1 + np.abs(x))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        below = build.add(Add(), full(build, out.type, 1), build.add(Abs(), out.operands[0]))
        return (build.add(Div(), build.add(Div(), cotangent, below), below),)


'''
ELEMENTWISE: Edits = {
    PRIMITIVE: [
        (
            "@dataclass(frozen=True)\nclass Floor(",
            f"{SOFTSIGN}@dataclass(frozen=True)\nclass Floor(",
        ),
        ("    Round,\n    StopGradient,\n)", "    Round,\n    Softsign,\n    StopGradient,\n)"),
        ('    "Sqrt",\n', '    "Softsign",\n    "Sqrt",\n'),
    ],
    KERNEL: [
        (
            '    Floor: "floor({0})",\n',
            '    Floor: "floor({0})",\n    Softsign: "{0} / (1.0f + abs({0}))",\n',
        ),
        ("    Sqrt,\n", "    Softsign,\n    Sqrt,\n"),
    ],
    LAX: [
        (
            "    Floor: lax.floor,\n",
            "    Floor: lax.floor,\n    Softsign: lambda x: x / (1 + lax.abs(x)),\n",
        ),
        ("    Sqrt,\n", "    Softsign,\n    Sqrt,\n"),
    ],
    ONNX: [
        (
            '    Floor: elementwise("Floor"),\n',
            '    Floor: elementwise("Floor"),\n    Softsign: elementwise("Softsign"),\n',
        ),
        ("    Sqrt,\n", "    Softsign,\n    Sqrt,\n"),
    ],
}
SQUASH = """
block Squash(d)(x: [n, d]) -> [n, d]:
  return softsign(x) * 2

model squash = Squash(d=4)
"""


@pytest.mark.adapter
def test_an_elementwise_op_takes_four_files(tmp_path: Path) -> None:
    """Every backend runs it, and ONNX Runtime gives what it gives."""
    file = tmp_path / "squash.mgn"
    file.write_text(SQUASH)
    assert len(ELEMENTWISE) == 4
    gradcheck = ("gradcheck", str(file), "--block", "Squash", "--examples", "1")
    lines = (
        (*gradcheck, "--device", "wgpu:0"),
        (*gradcheck, "--device", "xla:cpu"),
        ("export", str(file), "--random-weights", "0", "-o", str(tmp_path / "squash.onnx")),
    )
    done = run(ELEMENTWISE, f"from meganeura.cli.app import run\nprint(*map(run, {lines}))")
    assert (done.returncode, done.stdout.split()[-3:]) == (0, ["0"] * 3), done.stdout + done.stderr
    unknown = run({}, COMMAND, "check", str(file))
    assert "E0" in unknown.stdout + unknown.stderr
    assert unknown.returncode == 1


CUBE = '''@dataclass(frozen=True)
class Cube(Fused):
    """x (x x)."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    flops_per_element = 2

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        return x

    def evaluate(self, x: Array) -> Array:
        return x**3

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (x,) = operands
        return build.add(Mul(), x, build.add(Mul(), x, x))


'''
RULE = """
        Rewrite(
            "cube", "x x x", "(product e x (Mul x x _)) (= t (type x))", "(Cube x t)"
        ),
"""
FUSED: Edits = {
    "meganeura_dsl.ir.ops.fused.activation": [
        ("OPS: tuple", f"{CUBE}OPS: tuple"),
        (
            "(Activation, ActivationGradient, SwiGLU)",
            "(Activation, ActivationGradient, SwiGLU, Cube)",
        ),
        ('"ActivationGradient", "SwiGLU"', '"ActivationGradient", "Cube", "SwiGLU"'),
    ],
    "meganeura_dsl.transforms.egraph.rules.fusion": [
        ('    "activations",\n    (\n', f'    "activations",\n    ({RULE}'),
    ],
}
CUBED = """
import numpy as np
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Input, Mul
from meganeura_dsl.ir.ops.fused import Cube
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

build = Builder()
x = build.add(Input("x", DType.F32, (5,)))
graph = build.graph({"y": build.add(Mul(), x, build.add(Mul(), x, x))})
optimized = optimize(graph, mode="infer").graph
assert isinstance(optimized.outputs["y"].op, Cube)
feeds = {"x": np.arange(5, dtype=np.float32)}
assert evaluate(optimized, feeds).outputs["y"].tolist() == [0, 1, 8, 27, 64]
assert len(plan_graph(optimized, DeviceLimits()).dispatches) == 1
"""


def test_a_fused_op_takes_two_files_where_its_expansion_is_its_kernel() -> None:
    assert len(FUSED) == 2
    done = run(FUSED, CUBED)
    assert done.returncode == 0, done.stderr
