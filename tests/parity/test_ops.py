"""The reference semantics and gradients against PyTorch's, in double precision."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    Conv,
    Cumulative,
    Erf,
    Gather,
    Input,
    Maximum,
    MaxPool,
    Minimum,
    ReduceMax,
    ScatterAdd,
    ScatterExtreme,
    Sort,
    Sqrt,
    Tanh,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.autodiff import differentiate
from tests.parity.torch_graph import run

pytestmark = pytest.mark.parity


def ours(op: Op, operands: Sequence[Array], upstream: Array) -> list[Array]:
    """The result, and the gradient of each float operand under a cotangent."""
    build = Builder()
    values = [
        build.add(Input(str(index), _dtype(array), array.shape))
        for index, array in enumerate(operands)
    ]
    out = build.add(op, *values)
    seed = build.add(Input("upstream", out.type.dtype, out.type.shape))
    floats = [value for value in values if value.type.dtype.is_float]
    gradients = differentiate(build, out, floats, seed)
    named = {str(index): value for index, value in enumerate((out, *gradients))}
    feeds = {str(index): array for index, array in enumerate(operands)}
    results = evaluate(build.graph(named), {**feeds, "upstream": upstream}, Precision.DOUBLE)
    return list(results.outputs.values())


def theirs(
    function: Callable[..., torch.Tensor], operands: Sequence[Array], upstream: Array
) -> list[Array]:
    """The same of PyTorch."""
    tensors = [torch.tensor(array) for array in operands]
    floats = [tensor.requires_grad_() for tensor in tensors if tensor.is_floating_point()]
    out = function(*tensors)
    gradients = torch.autograd.grad(out, floats, torch.tensor(upstream))
    return [tensor.detach().numpy() for tensor in (out, *gradients)]


def _dtype(array: Array) -> DType:
    return DType.F32 if np.issubdtype(array.dtype, np.floating) else DType.I32


def _compare(op: Op, function: Callable[..., torch.Tensor], *operands: Array) -> None:
    generator = np.random.default_rng(0)
    with torch.no_grad():
        shape = tuple(function(*map(torch.tensor, operands)).shape)
    upstream = np.asarray(generator.normal(size=shape))
    pairs = zip(ours(op, operands, upstream), theirs(function, operands, upstream), strict=True)
    for mine, reference in pairs:
        np.testing.assert_allclose(mine, reference, rtol=1e-10, atol=1e-10)


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape)


@dataclass(frozen=True)
class Geometry:
    """A convolution that is possible."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: Mapping[str, tuple[int, ...]]
    groups: int

    def convolve(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Returns PyTorch's result."""
        function = {3: F.conv1d, 4: F.conv2d}[len(self.x)]
        return function(x, w, None, groups=self.groups, **self.attributes)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    rank, groups = draw(st.integers(1, 2)), draw(st.integers(1, 3))

    def several(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, stride, dilation, padding = several(1, 3), several(1, 3), several(1, 2), several(0, 2)
    reach = (d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    least = (max(1, r - 2 * p) for r, p in zip(reach, padding, strict=True))
    spatial = tuple(size + draw(st.integers(0, 4)) for size in least)
    batch, depth, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    return Geometry(
        (batch, depth * groups, *spatial),
        (outputs * groups, depth, *kernel),
        {"stride": stride, "padding": padding, "dilation": dilation},
        groups,
    )


@given(geometries())
def test_convolution(geometry: Geometry) -> None:
    _compare(
        Conv(**geometry.attributes, groups=geometry.groups),
        geometry.convolve,
        _normal(*geometry.x),
        _normal(*geometry.w),
    )


@given(geometries())
def test_second_order_of_convolution(geometry: Geometry) -> None:
    """The gradients of `Conv` are ops whose own gradients are those of PyTorch's."""
    x, w = _normal(*geometry.x), _normal(*geometry.w)

    def squared_slope(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = geometry.convolve(*tensors)
        first = torch.autograd.grad((out * out).sum(), tensors, create_graph=True)
        loss = sum(((each * each).sum() for each in first), torch.zeros(()))
        second = torch.autograd.grad(loss, tensors)
        return second[0], second[1]

    reference = squared_slope(*(torch.tensor(each, requires_grad=True) for each in (x, w)))
    for mine, other in zip(_squared_slope(geometry, x, w), reference, strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=1e-9, atol=1e-9)


def _squared_slope(geometry: Geometry, x: Array, w: Array) -> list[Array]:
    build = Builder()
    operands = (
        build.add(Input("x", DType.F32, x.shape)),
        build.add(Input("w", DType.F32, w.shape)),
    )
    out = build.add(Conv(**geometry.attributes, groups=geometry.groups), *operands)
    # The gradient of sum(y * y) is the pullback of y + y, and so on.
    first = differentiate(build, out, operands, build.add(Add(), out, out))
    second = [differentiate(build, each, operands, build.add(Add(), each, each)) for each in first]
    sums = [build.add(Add(), *parts) for parts in zip(*second, strict=True)]
    graph = build.graph({str(index): each for index, each in enumerate(sums)})
    return list(evaluate(graph, {"x": x, "w": w}, Precision.DOUBLE).outputs.values())


POOLS = [
    ((2, 3, 8, 6), (2, 2), (2, 2), (0, 0)),
    ((2, 3, 7, 9), (3, 3), (2, 2), (1, 1)),
    ((1, 2, 5, 8), (2, 3), (1, 2), (1, 0)),
    ((1, 1, 9, 9), (3, 3), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("values", [1, 3, 1000], ids=["all-tied", "ties", "few-ties"])
@pytest.mark.parametrize(("shape", "window", "stride", "padding"), POOLS)
def test_max_pooling(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    values: int,
) -> None:
    x = np.random.default_rng(values).integers(0, values, shape).astype(np.float64)
    _compare(
        MaxPool(window, stride, padding), lambda x: F.max_pool2d(x, window, stride, padding), x
    )


@pytest.mark.parametrize("values", [1, 3, 1000], ids=["all-tied", "ties", "few-ties"])
@pytest.mark.parametrize(("shape", "window", "stride", "padding"), POOLS)
def test_the_indices_of_max_pooling(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    values: int,
) -> None:
    x = np.random.default_rng(values).integers(0, values, shape).astype(np.float64)
    build = Builder()
    pool = MaxPool(window, stride, padding)
    results = build.add_all(pool, build.add(Input("x", DType.F32, shape)))
    graph = build.graph(dict(zip(("largest", "index"), results, strict=True)))
    theirs, _ = run(graph, {"x": x})
    for name, mine in evaluate(graph, {"x": x}, Precision.DOUBLE).outputs.items():
        np.testing.assert_array_equal(mine, theirs[name].detach().numpy())


def test_gather_of_repeated_rows() -> None:
    ids = np.random.default_rng(0).integers(0, 5, (3, 7)).astype(np.int32)
    _compare(Gather(0), lambda table, ids: F.embedding(ids, table), _normal(5, 3), ids)


def test_scatter_add() -> None:
    ids = np.random.default_rng(0).integers(0, 5, 7).astype(np.int32)
    _compare(
        ScatterAdd(1, 5),
        lambda ids, updates: torch.zeros(3, 5, 2, dtype=updates.dtype).index_add(1, ids, updates),
        ids,
        _normal(3, 7, 2),
    )


def test_scatter_of_extremes() -> None:
    ids = np.random.default_rng(0).permutation(np.arange(12) % 5).astype(np.int32)

    def reduced(how: str) -> Callable[..., torch.Tensor]:
        def reduce(ids: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
            table = torch.zeros(3, 5, 2, dtype=updates.dtype)
            rows = ids.long()[None, :, None].expand(3, 12, 2)
            return table.scatter_reduce(1, rows, updates, how, include_self=False)

        return reduce

    _compare(ScatterExtreme("max", 1, 5), reduced("amax"), ids, _normal(3, 12, 2))
    _compare(ScatterExtreme("min", 1, 5), reduced("amin"), ids, _normal(3, 12, 2))


def test_gather_and_scatter_of_a_table_each() -> None:
    ids = np.random.default_rng(0).integers(0, 5, (3, 7)).astype(np.int32)
    _compare(
        Gather(1, 1), lambda table, ids: torch.gather(table, 1, ids.long()), _normal(3, 5), ids
    )
    _compare(
        ScatterAdd(1, 5, 1),
        lambda ids, x: torch.zeros(3, 5, dtype=x.dtype).scatter_add(1, ids.long(), x),
        ids,
        _normal(3, 7),
    )


@pytest.mark.parametrize("zeros", [0, 1, 3])
def test_what_accumulates_along_an_axis(zeros: int) -> None:
    x = _normal(4, 9)
    x[1, :zeros] = 0
    _compare(Cumulative("sum", 1), lambda x: torch.cumsum(x, 1), x)
    _compare(Cumulative("prod", 1), lambda x: torch.cumprod(x, 1), x)
    _compare(Cumulative("max", 0), lambda x: torch.cummax(x, 0)[0], _normal(4, 9))
    _compare(Cumulative("min", 1), lambda x: torch.cummin(x, 1)[0], _normal(4, 9))
    back = Cumulative("prod", 1, backward=True)
    _compare(back, lambda x: torch.cumprod(x.flip(1), 1).flip(1), x)


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_values(descending: bool) -> None:  # noqa: FBT001 - a parameter of the test
    sort = lambda x: torch.sort(x, dim=1, descending=descending, stable=True)  # noqa: E731
    _compare(Sort(1, descending), lambda x: sort(x)[0], _normal(4, 9, 2))
    for x in (TIED, np.array([[1, np.nan, -np.inf, np.nan, 0.0, np.inf]])):
        theirs = sort(torch.tensor(x))[1].numpy()
        np.testing.assert_array_equal(Sort(1, descending).evaluate(x)[1], theirs)


TIED = np.array([[1.0, 2, 2], [3, 3, 3], [0, -1, -0.0], [5, 4, 3]])


def test_the_largest_among_ties() -> None:
    _compare(ReduceMax((1,)), lambda x: torch.amax(x, 1), TIED)
    _compare(ReduceMax((0, 1)), lambda x: torch.amax(x, (0, 1)), TIED)


@pytest.mark.parametrize(
    ("op", "function"),
    [(Maximum(), torch.maximum), (Minimum(), torch.minimum)],
    ids=["maximum", "minimum"],
)
def test_the_larger_of_two_equal_numbers(op: Op, function: Callable[..., torch.Tensor]) -> None:
    _compare(op, function, TIED, np.roll(TIED, 1, axis=1))


@pytest.mark.parametrize(
    ("op", "function"),
    [(Abs(), torch.abs), (Erf(), torch.erf), (Tanh(), torch.tanh)],
    ids=["abs", "erf", "tanh"],
)
def test_functions_of_one_number(op: Op, function: Callable[..., torch.Tensor]) -> None:
    _compare(op, function, np.array([-30, -4.5, -1, -1e-3, 0, 1e-9, 0.46, 0.47, 2, 4.1, 7]))


def test_the_slope_of_a_root_at_zero_is_infinite() -> None:
    _compare(Sqrt(), torch.sqrt, np.array([0.0, 4.0]))
