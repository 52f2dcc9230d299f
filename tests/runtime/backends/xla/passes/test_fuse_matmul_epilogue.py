"""Products that a library finishes: which are, and that they are those of the program."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Input, MatMul, Parameter
from meganeura_dsl.ir.ops.fused.activation import Epilogue
from meganeura_dsl.ir.ops.fused.contraction import FusedMatMul
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.ops.matmul import LibraryMatMul
from meganeura_runtime.backends.xla.passes.fuse_matmul_epilogue import fuse_matmul_epilogue
from meganeura_runtime.backends.xla.session import XlaSession


def network(
    epilogue: Epilogue, *, residual: bool = False, left: bool = False, batch: tuple[int, ...] = ()
) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (8, 8) if left else (2, 8, 8)))
    a = build.add(Parameter("a", DType.F32, (*batch, 8, 8), "param"))
    bias = build.add(Parameter("bias", DType.F32, (8,), "param"))
    product = FusedMatMul(transpose_left=left, transpose_right=False, epilogue=epilogue)
    rest = (x,) if residual else ()
    hidden = build.add(product, x, a, bias, *rest)
    return build.graph({"y": build.add(MatMul(), hidden, a)})


def finished(graph: Graph) -> bool:
    return any(isinstance(each.op, LibraryMatMul) for each in fuse_matmul_epilogue(graph).values)


def test_only_a_bias_and_the_approximate_gelu_are_finished() -> None:
    assert finished(network("gelu_tanh"))
    assert not finished(network("gelu"))
    assert not finished(network("none"))
    assert not finished(network("gelu_tanh", residual=True))
    assert not finished(network("gelu_tanh", left=True))
    assert not finished(network("gelu_tanh", batch=(2,)))


@pytest.mark.parametrize("precision", [ComputePrecision.F32, ComputePrecision.BF16])
def test_a_finished_product_is_that_of_the_program(precision: ComputePrecision) -> None:
    graph = network("gelu_tanh")
    generator = np.random.default_rng(0)
    values = {
        name: generator.standard_normal(shape, np.float32)
        for name, shape in (("x", (2, 8, 8)), ("a", (8, 8)), ("bias", (8,)))
    }
    expected = evaluate(graph, values).outputs["y"]
    whole = fuse_matmul_epilogue(graph)
    np.testing.assert_allclose(evaluate(whole, values).outputs["y"], expected, 1e-6, 1e-6)
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)
    program = replace(device.program(graph), graph=whole, precision=precision)
    with XlaSession(program) as session:
        session.load({name: values[name] for name in ("a", "bias")})
        found = session.step({"x": values["x"]})["y"]
    apart = 1e-5 if precision is ComputePrecision.F32 else 0.03
    np.testing.assert_allclose(found, expected, 0, apart * np.abs(expected).max())


def test_inferences_in_bf16_on_a_gpu_have_them() -> None:
    class Gpu:
        platform = "gpu"

    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)
    placement = replace(device, device=Gpu()).program(network("none")).placement

    def kinds(precision: ComputePrecision, *, trains: bool) -> set[type]:
        graph = network("gelu_tanh")
        updates = {"bias": graph.outputs["y"].operands[0].operands[2]} if trains else {}
        graph = Graph(graph.values, graph.outputs, updates)
        return {type(each.op) for each in Program.of(graph, precision, placement).graph.values}

    assert LibraryMatMul in kinds(ComputePrecision.BF16, trains=False)
    assert LibraryMatMul not in kinds(ComputePrecision.BF16, trains=True)
    assert LibraryMatMul not in kinds(ComputePrecision.F32, trains=False)
