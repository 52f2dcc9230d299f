"""Gradients of one parameter are added before they are summed over devices."""

from collections.abc import Callable

import numpy as np
import pytest
from jax.sharding import Mesh

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    ConvWeightGradient,
    Gather,
    Input,
    MatMul,
    Mul,
    Parameter,
    Reshape,
    ScatterAdd,
    Slice,
    Sub,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla.analysis.partial_sums import PartialSums
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import (
    AXIS,
    OneDevice,
    Placement,
    SeveralDevices,
)
from meganeura_runtime.backends.xla.session import XlaSession

EXAMPLES, WORDS, WIDTH = 8, 4100, 4
"""So many words that the rows of logits get zeros behind them in bf16."""
ROWS = {"ids": 1, "dlogits": 1, "image": 1}


def several(sharding: DeviceSharding = DeviceSharding.DATA) -> SeveralDevices:
    """One device in the place of several: XLA is given the same program."""
    return SeveralDevices(Mesh([named("xla:cpu")], (AXIS,)), sharding, ROWS)


def tied() -> Graph:
    """A table that is read by ids and multiplied for logits, and takes a step along its gradient.

    What comes back from the logits is an input.
    """
    build = Builder()
    table = build.add(Parameter("table", DType.F32, (WORDS, WIDTH), "param"))
    ids = build.add(Input("ids", DType.I32, (EXAMPLES,)))
    dlogits = build.add(Input("dlogits", DType.F32, (EXAMPLES, WORDS)))
    read = build.add(Gather(0), table, ids)
    written = build.add(MatMul(transpose_left=True), dlogits, read)
    looked_up = build.add(ScatterAdd(0, WORDS), ids, build.add(MatMul(), dlogits, table))
    gradient = build.add(Add(), written, looked_up)
    return build.graph({}, {"table": build.add(Sub(), table, gradient)})


@pytest.mark.parametrize("precision", [ComputePrecision.F32, ComputePrecision.BF16])
@pytest.mark.parametrize(
    ("sharding", "collective"),
    [(DeviceSharding.DATA, "all_reduce"), (DeviceSharding.FSDP, "reduce_scatter")],
)
def test_a_table_that_reads_and_writes_is_reduced_once(
    precision: ComputePrecision, sharding: DeviceSharding, collective: str
) -> None:
    text = Program.of(tied(), precision, several(sharding)).exported()
    assert text.count(f'"stablehlo.{collective}"') == 1
    # What is communicated has the size of the table, without what products are aligned by.
    line = text[text.index(f'"stablehlo.{collective}"') :]
    assert f"(tensor<{WORDS}x{WIDTH}xf32>) -> tensor<{WORDS}x{WIDTH}xf32>" in line


@pytest.mark.parametrize("sharding", [*DeviceSharding])
def test_the_sum_is_that_of_one_device(sharding: DeviceSharding) -> None:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, WORDS, EXAMPLES).astype(np.int32)
    ids[1] = ids[0]
    dlogits = generator.normal(size=(EXAMPLES, WORDS)).astype(np.float32)
    table = generator.normal(size=(WORDS, WIDTH)).astype(np.float32)

    def stepped(placement: Placement) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        with XlaSession(Program.of(tied(), ComputePrecision.F32, placement)) as session:
            session.write("table", table)
            session.step({"ids": ids, "dlogits": dlogits})
            return session.read("table")

    one = stepped(OneDevice(named("xla:cpu")))
    gradient = dlogits.T @ table[ids]
    np.add.at(gradient, ids, dlogits @ table)
    np.testing.assert_allclose(one, table - gradient, atol=1e-3)
    np.testing.assert_allclose(stepped(several(sharding)), one, atol=1e-5)


def graph_of(gradient: Callable[[Builder, Value], Value]) -> Graph:
    """A value of a batch of images."""
    build = Builder()
    return build.graph({"y": gradient(build, build.add(Input("image", DType.F32, (8, 3, 5, 5))))})


def sum_of(build: Builder, x: Value) -> Value:
    return build.add(Sum((0, 2, 3)), x)


def three(build: Builder, x: Value) -> Value:
    """Sums of three kinds of use, as of a bias."""
    squares = build.add(Mul(), x, x)
    two = build.add(Add(), sum_of(build, x), sum_of(build, squares))
    return build.add(Add(), two, sum_of(build, build.add(Mul(), squares, x)))


def kernels(build: Builder, x: Value) -> Value:
    """A convolution that is used twice."""
    op = ConvWeightGradient((1, 1), (1, 1), (1, 1), 1, (3, 3))
    squares = build.add(Mul(), x, x)
    return build.add(Add(), build.add(op, x, squares), build.add(op, squares, x))


def read_alone(build: Builder, x: Value) -> Value:
    """A sum whose first part something else reads too."""
    part = sum_of(build, x)
    both = build.add(Add(), part, sum_of(build, build.add(Mul(), x, x)))
    return build.add(Mul(), both, part)


def norm(build: Builder, x: Value) -> Value:
    """The squares of what was summed over the examples, along its own first axis."""
    parts = [build.add(Sum((0,)), each) for each in (x, build.add(Mul(), x, x))]
    squares = [build.add(Sum((0, 1, 2)), build.add(Mul(), each, each)) for each in parts]
    return build.add(Add(), *squares)


def of_channels(build: Builder, x: Value) -> Value:
    """Sums along the first axis, which is not that of the examples."""
    turned = build.add(Transpose((1, 0, 2, 3)), x)
    parts = [build.add(Sum((0,)), each) for each in (turned, build.add(Mul(), turned, turned))]
    return build.add(Add(), *parts)


def products(*, left: bool, right: bool) -> Callable[[Builder, Value], Value]:
    """Products of square matrices, which sum along any axis: two of one kind."""

    def made(build: Builder, x: Value) -> Value:
        rows = build.add(
            Reshape((8, 8)), build.add(Slice((0, 0, 0, 0), (8, 2, 4, 1), (1, 1, 1, 1)), x)
        )
        op = MatMul(transpose_left=left, transpose_right=right)
        squares = build.add(Mul(), rows, rows)
        return build.add(Add(), build.add(op, rows, squares), build.add(op, squares, rows))

    return made


@pytest.mark.parametrize(
    ("gradient", "parts"),
    [
        *((three, 3), (kernels, 2), (read_alone, 0), (norm, 0), (of_channels, 0)),
        *((products(left=True, right=False), 2), (products(left=False, right=False), 0)),
        *((products(left=True, right=True), 0), (products(left=False, right=True), 0)),
    ],
)
def test_sums_over_the_examples_are_parts(
    gradient: Callable[[Builder, Value], Value], parts: int
) -> None:
    graph = graph_of(gradient)
    sums = PartialSums.of(graph, several())
    found = [] if sums is None else [len(each) for each in sums.parts.values()]
    assert found == ([parts] if parts else [])
    assert PartialSums.of(graph, OneDevice(named("xla:cpu"))) is None


def test_a_sum_that_is_given_is_no_part_of_another() -> None:
    build = Builder()
    x = build.add(Input("image", DType.F32, (8, 3, 5, 5)))
    first, second = sum_of(build, x), sum_of(build, build.add(Mul(), x, x))
    both = build.add(Add(), first, second)
    assert PartialSums.of(build.graph({"y": both}), several()) is not None
    for other in (first, second):
        assert PartialSums.of(build.graph({"y": both, "z": other}), several()) is None
