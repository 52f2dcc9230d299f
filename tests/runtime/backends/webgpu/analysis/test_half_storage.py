"""Storage in f16: which values memory holds as halves, and what kernels make of them.

The kernels run with operations on squares written out as loops, as in `test_matrix_units`.
"""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Add, Exp, Input, MatMul, Mul, Parameter, Sum, Tanh
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.primitive.movement import Transpose
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.analysis.half_storage import values_in_halves
from meganeura_runtime.backends.webgpu.codegen.matmul import tile_sizes
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
    Target,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import excesses, plan_graph
from tests.effort import effort
from tests.runtime.running import run

LIMITS = DeviceLimits(
    workgroup_bytes=32 << 10,
    half_floats=True,
    matrix_units=MatrixUnits(MatrixDialect.PLAIN),
)
SMALL = Tile(32, 32, 16, 4, 4)


def normalized(build: Builder, x: Value) -> Value:
    """Rows over their sums of exponentials."""
    rows = build.add(Sum((1,)), build.add(Exp(), x))
    return build.add(Mul(), x, build.add(Broadcast(x.type.shape, (0,)), rows))


def layers(rows: int = 64, width: int = 48) -> tuple[Graph, dict[str, Value]]:
    """Two products with a row reduction between them, a residual, and an update."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (rows, width)))
    w = build.add(Parameter("w", DType.F32, (width, width), "param"))
    first = build.add(MatMul(), x, w)
    bent = build.add(Tanh(), first)
    second = build.add(MatMul(), bent, w)
    residual = build.add(Add(), first, second)
    scaled = normalized(build, residual)
    last = build.add(MatMul(), build.add(Add(), scaled, residual), w)
    slope = build.add(MatMul(transpose_left=True), bent, last)
    graph = build.graph({"y": last}, {"w": build.add(Add(), w, slope)})
    (total,) = (value for value in graph.values if isinstance(value.op, Sum))
    return graph, {
        "first": first,
        "bent": bent,
        "second": second,
        "residual": residual,
        "last": last,
        "slope": slope,
        "total": total,
    }


def test_activations_between_products_are_halves_and_the_rest_is_not() -> None:
    graph, named = layers()
    found = values_in_halves(graph, Target(LIMITS))
    narrow = {name for name, value in named.items() if value.id in found}
    assert narrow == {"first", "bent", "second", "residual"}
    assert values_in_halves(graph, Target(DeviceLimits())) == frozenset()


def test_what_products_alone_read_is_a_half_even_of_parameters_alone() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (64, 32)))
    w = build.add(Parameter("w", DType.F32, (48, 32), "param"))
    bent = build.add(Tanh(), w)
    y = build.add(MatMul(), x, build.add(Transpose((1, 0)), bent))
    assert bent.id in values_in_halves(build.graph({"y": y}), Target(LIMITS))
    shown = build.graph({"y": y, "bent": bent})
    assert bent.id not in values_in_halves(shown, Target(LIMITS))


def test_halves_take_half_the_memory() -> None:
    """The limit of a binding counts them as they are, too."""
    graph, _ = layers()
    wide, narrow = (plan_graph(graph, limits).least_bytes for limits in (DeviceLimits(), LIMITS))
    assert narrow < 0.7 * wide
    build = Builder()
    x, w, v = (build.add(Input(n, DType.F32, (64, 64))) for n in ("x", "w", "v"))
    bent = build.add(Tanh(), build.add(MatMul(), x, w))
    chained = build.graph({"y": build.add(Sum((0, 1)), build.add(MatMul(), bent, v))})
    few = DeviceLimits(binding_bytes=64 * 64 * 4 - 4)
    assert {each.value.op for each in excesses(chained, few)} >= {Input("x", DType.F32, (64, 64))}
    told = {type(each.value.op) for each in excesses(chained, few)}
    assert Tanh in told
    half = DeviceLimits(
        binding_bytes=few.binding_bytes, half_floats=True, matrix_units=LIMITS.matrix_units
    )
    assert Tanh not in {type(each.value.op) for each in excesses(chained, half)}


def test_inputs_parameters_and_outputs_keep_their_type() -> None:
    graph, _ = layers()
    plan = plan_graph(graph, LIMITS)
    for tensor in (*plan.inputs, *plan.parameters, *plan.outputs):
        assert tensor.dtype is DType.F32
    wide = plan_graph(graph, DeviceLimits())
    for role in (Role.INPUTS, Role.PARAMETERS, Role.OUTPUTS):
        assert plan.bytes_for(role) == wide.bytes_for(role)


@pytest.mark.adapter
class TestAdapter:
    """Tests that run kernels."""

    @pytest.mark.parametrize("width", effort([24], [20, 24, 33, 48]))
    def test_results_are_those_of_f32_up_to_the_rounding_of_halves(
        self, width: int, device: Device, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Widths that lanes fetch one, four and eight at a time."""
        monkeypatch.setattr(tile_sizes, "MATRIX_SPEEDS", {SMALL: 1.0})
        graph, _ = layers(40, width)
        drawn = np.random.default_rng(width)
        fed: dict[str, Array] = {
            "x": drawn.standard_normal((40, width), np.float32),
            "w": drawn.standard_normal((width, width), np.float32) / width,
        }
        found = run(graph, fed, device, Style.GPU, LIMITS)
        expected = evaluate(graph, fed)
        for actual, wanted in (
            (found.outputs["y"], expected.outputs["y"]),
            (found.updates["w"], expected.updates["w"]),
        ):
            np.testing.assert_allclose(actual, wanted, 0, 4e-3 * np.abs(wanted).max())
            assert not np.array_equal(actual, wanted)
