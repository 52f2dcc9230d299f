"""NaN, infinities, enormous and tiny numbers: an adapter gives what the reference gives.

Left out is what software Vulkan does by itself: its logarithm of a denormal is that of the least
normal number, and it may flush denormals to zero. No kernel relies on either.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Op, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    ArgMax,
    Cast,
    Compare,
    Cos,
    Div,
    Input,
    MaxPool,
    MaxPoolGradient,
    ReduceMax,
    Sin,
    Sub,
    Sum,
    Tanh,
    Where,
)
from meganeura_dsl.ir.ops.fused import (
    Activation,
    ActivationGradient,
    Attention,
    FusedMatMul,
    FusedWinogradOutput,
    LogSoftmax,
    Softmax,
    Standardize,
    SwiGLU,
)
from meganeura_dsl.ir.ops.fused.activation import ActivationKind
from meganeura_dsl.ir.ops.fused.winograd import WinogradOutput
from meganeura_dsl.ir.ops.primitive import elementwise
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.attention import kernel_choice as choice
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.passes import fuse_attention
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.dsl.transforms.egraph.net import Net
from tests.effort import effort
from tests.runtime.running import run

pytestmark = pytest.mark.adapter

NAN, INF = np.float32(np.nan), np.float32(np.inf)
NEGATIVE_NAN = np.array(0xFFC0_0001, np.uint32).view(np.float32)[()]
SPECIAL = np.array(
    (
        *(0, -0.0, 1, -1, 0.3, -0.7, 2.5, -2.5, 12, -12, INF, -INF, NAN, NEGATIVE_NAN),
        *(1.2e-38, 3.4e38, -3.4e38, 88.7, 89, -88, -104, 1e5, 1e6, 1e8, 1e19, -1e19),
        *(1e30, -1e30, 16777217, 3e9, -4e9),
    ),
    np.float32,
)
FEWER = SPECIAL[np.r_[0:6, 10:14, 15:17]]
ACTIVATIONS: tuple[ActivationKind, ...] = get_args(ActivationKind)
PLAIN = {"transpose_left": False, "transpose_right": False}
UNARY = elementwise.UNARY
BINARY = [op for op in elementwise.BINARY if op is not Div]
"""Quotients have a test of their own: of some divisors WGSL promises nothing."""
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def compare(
    graph: Graph, feeds: Mapping[str, Array], device: Device, styles: Iterable[Style] = Style
) -> None:
    """Kernels of each style give NaN, infinities and numbers where the reference does."""
    expected = evaluate(graph, feeds).outputs
    for style in styles:
        actual = run(graph, feeds, device, style).outputs
        for name, value in expected.items():
            np.testing.assert_allclose(
                actual[name].astype(np.float64),
                value.astype(np.float64),
                2e-5,
                1e-6 if value.dtype == np.float32 else 0,
                err_msg=f"{name} {style}",
            )


def test_functions_of_special_numbers(device: Device) -> None:
    net = Net()
    x = net.x(SPECIAL.size)
    ops: list[Op] = [op() for op in UNARY]
    ops += [Cast(dtype) for dtype in (DType.I32, DType.U32, DType.BOOL)]
    ops += [Activation(kind) for kind in ACTIVATIONS]
    # Each by itself: no other kernel may be the only one that keeps a NaN.
    for op in ops:
        compare(net.build.graph({repr(op): net.do(op, x)}), {"x1": SPECIAL}, device)


def test_functions_of_two_special_numbers(device: Device) -> None:
    net = Net()
    a, b = (each.ravel() for each in np.meshgrid(FEWER, FEWER))
    x, y = net.x(a.size), net.x(b.size)
    ops: list[Op] = [op() for op in BINARY]
    ops += [Compare(kind) for kind in RELATIONS]
    ops += [ActivationGradient(kind) for kind in ACTIVATIONS]
    made = {repr(op): net.do(op, x, y) for op in [*ops, SwiGLU()]}
    made["where"] = net.relu(net.do(Sub(), x, y))
    compare(net.build.graph(made), {"x1": a, "x2": b}, device)


def test_a_choice_is_a_relu_only_where_it_is_one(device: Device) -> None:
    """One that writes 0 where x <= 0, and x elsewhere, is called by its name."""
    net = Net()
    a, b = (each.ravel() for each in np.meshgrid(FEWER, FEWER))
    x, y = net.x(a.size), net.x(b.size)
    zero, one = net.full(0, x), net.full(1, x)
    made = {
        "relu": (Compare("le"), x, zero, zero, x),
        "another value": (Compare("le"), x, zero, zero, y),
        "another relation": (Compare("ge"), x, zero, zero, x),
        "another bound": (Compare("le"), x, one, zero, x),
        "bound and value": (Compare("le"), x, one, one, x),
        "a value below": (Compare("le"), x, zero, one, x),
        "a bound that varies": (Compare("le"), x, y, zero, x),
    }
    for name, (relation, left, right, low, other) in made.items():
        chosen = net.do(Where(), net.do(relation, left, right), low, other)
        graph = net.build.graph({name: chosen})
        leaves = {each.op.name for each in graph.values if isinstance(each.op, Leaf)}
        (text,) = plan_graph(graph, device.limits).kernels
        assert ("= rectified(" in text) == (name == "relu")
        feeds = {fed: array for fed, array in {"x1": a, "x2": b}.items() if fed in leaves}
        compare(graph, feeds, device, [Style.GPU])


def test_a_choice_among_whole_numbers(device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", DType.I32, (5,)))
    zero = full(build, x.type, 0)
    graph = build.graph({"y": build.add(Where(), build.add(Compare("le"), x, zero), zero, x)})
    compare(graph, {"x": np.array([-2, -1, 0, 1, 2], np.int32)}, device)


def test_a_quotient_by_all_that_wgsl_promises(device: Device) -> None:
    """Of finite divisors beyond 2**126 it promises nothing, and adapters make NaN of them."""
    net = Net()
    a, b = (each.ravel() for each in np.meshgrid(FEWER, FEWER))
    within = ~(np.isfinite(b) & (np.abs(b) > 2.0**126))
    a, b = a[within], b[within]
    x, y = net.x(a.size), net.x(b.size)
    compare(net.build.graph({"quotient": net.do(Div(), x, y)}), {"x1": a, "x2": b}, device)


def test_reductions_and_rows_with_special_numbers(device: Device) -> None:
    rows = np.random.default_rng(0).normal(size=(24, 40)).astype(np.float32)
    for place, value in enumerate((NAN, NEGATIVE_NAN, INF, -INF, 1e30, -1e30)):
        rows[place, 7] = rows[place + 6, 3] = value
        rows[place + 6, 30] = rows[place + 12, 0] = value
        rows[place + 18] = value
    rows[6, 5], rows[8, 20], rows[22, 3] = INF, NAN, -1e30
    net = Net()
    x = net.x(*rows.shape)
    made = {
        "sum": net.do(Sum((1,)), x),
        "largest": net.do(ReduceMax((1,)), x),
        "least": net.negative(net.do(ReduceMax((1,)), net.negative(x))),
        "first": net.do(ArgMax(1), x),
        "first of columns": net.do(ArgMax(0), x),
        "softmax": net.do(Softmax(1), x),
        "log softmax": net.do(LogSoftmax(1), x),
        "softmax of tanh": net.do(Softmax(1), net.do(Tanh(), x)),
        "standardized": net.do(Standardize((1,), 1e-5, centred=True), x),
    }
    compare(net.build.graph(made), {"x1": rows}, device)


def test_pooling_of_nan(device: Device) -> None:
    x = np.random.default_rng(1).normal(size=(1, 2, 7, 7)).astype(np.float32)
    x[0, 0, 2, 3] = x[0, 0, 3, 3] = x[0, 1, 6, 6] = NAN
    x[0, 1, 0, 0] = INF
    net = Net()
    value = net.x(*x.shape)
    pool = MaxPool((3, 3), (2, 2), (1, 1))
    y, indices = net.build.add_all(pool, value)
    dy = net.x(1, 2, 4, 4)
    back = net.do(MaxPoolGradient(pool.window, pool.stride, pool.padding, (7, 7)), indices, dy)
    slopes = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    compare(net.build.graph({"y": y, "dx": back}), {"x1": x, "x2": slopes}, device)


@pytest.mark.parametrize("places", [(50,), (3, 39_998), (39_999,), (20_000,), ()])
@pytest.mark.parametrize("size", [40_000, 40_001])
def test_the_first_nan_of_a_long_row_is_its_largest(
    places: tuple[int, ...], size: int, device: Device
) -> None:
    net = Net()
    x = np.random.default_rng(2).normal(size=(2, size)).astype(np.float32)
    x[0, list(places)] = NAN
    x[1, -1] = 100
    compare(net.build.graph({"y": net.do(ArgMax(1), net.x(*x.shape))}), {"x1": x}, device)


def test_products_keep_nan_through_what_finishes_them(device: Device) -> None:
    random = np.random.default_rng(3)
    feeds = {
        "x1": random.normal(size=(6, 5)).astype(np.float32),
        "x2": random.normal(size=(5, 7)).astype(np.float32),
        "x3": random.normal(size=7).astype(np.float32),
        "x4": random.normal(size=(6, 7)).astype(np.float32),
    }
    feeds["x1"][1, 2], feeds["x3"][4], feeds["x4"][3, 0] = NAN, NEGATIVE_NAN, INF
    feeds["x4"][5, 5], feeds["x4"][0, 1] = NAN, -INF
    net = Net()
    a, b, bias, rest = (net.x(*each.shape) for each in feeds.values())
    made: dict[str, Value] = {}
    for kind in ("relu", "sigmoid", "gelu"):
        made[kind] = net.do(FusedMatMul(epilogue=kind, **PLAIN), a, b, bias)
    for kind in ("silu", "gelu_tanh"):
        made[kind] = net.do(FusedMatMul(epilogue=kind, **PLAIN), a, b, bias, rest)
    for name, value in made.items():
        graph = net.build.graph({name: value})
        leaves = {each.op.name for each in graph.values if isinstance(each.op, Leaf)}
        compare(graph, {name: feeds[name] for name in leaves}, device)


def test_tiles_keep_nan_through_what_finishes_them(device: Device) -> None:
    random = np.random.default_rng(4)
    net = Net()
    products, bias, rest = net.x(16, 3, 8), net.x(3), net.x(2, 3, 4, 3)
    feeds = {
        name: random.normal(size=[int(str(size)) for size in value.type.shape]).astype(np.float32)
        for name, value in {"x1": products, "x2": bias, "x3": rest}.items()
    }
    feeds["x1"][5, 1, 3], feeds["x2"][2], feeds["x3"][1, 0, 2, 2] = NAN, NEGATIVE_NAN, NAN
    plain = WinogradOutput(2, 2, (4, 3))
    made = {"plain": net.do(plain, products)}
    for kind in ACTIVATIONS:
        op = FusedWinogradOutput(plain.outputs, plain.images, plain.spatial, kind)
        made[kind] = net.do(op, products, bias)
        made[f"{kind} of a sum"] = net.do(op, products, bias, rest)
    compare(net.build.graph(made), feeds, device)


@pytest.fixture
def _every_attention_is_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(heads: Heads, target: Target, *, trains: bool) -> bool:
        return bool(heads and target) or trains

    monkeypatch.setattr(fuse_attention, "is_fused", always)
    monkeypatch.setattr(choice, "TILE", AttentionTile(16, 16, 4, 4, 4, 16))


@pytest.mark.usefixtures("_every_attention_is_a_kernel")
@pytest.mark.parametrize(
    ("keys", "trains"), [(21, True), (130, False), *effort([], [(21, False), (130, True)])]
)
def test_attention_to_special_numbers(keys: int, trains: bool, device: Device) -> None:  # noqa: FBT001
    random = np.random.default_rng(5)
    feeds = {
        "x1": random.normal(size=(1, 9, 8)).astype(np.float32),
        "x2": np.abs(random.normal(size=(1, keys, 8))).astype(np.float32) + np.float32(0.1),
        "x3": random.normal(size=(1, keys, 8)).astype(np.float32),
    }
    feeds["x1"][0, 1, 3] = NAN
    # Keys are positive, so these give scores that are all -inf, or all inf.
    feeds["x1"][0, 2] = -INF
    feeds["x1"][0, 3] = INF
    net = Net()
    q, k, v = (net.x(*each.shape) for each in feeds.values())
    op = Attention(0.5, causal=False)
    mean, rows = net.build.add_all(op, q, k, v)
    made = {"y": mean}
    if trains:
        dy = net.x(1, 9, 8)
        feeds["x4"] = random.normal(size=(1, 9, 8)).astype(np.float32)
        found = op.pullback(net.build, (mean, rows), (dy, None))
        made |= {
            f"d{name}": each for name, each in zip("qkv", found, strict=True) if each is not None
        }
    compare(net.build.graph(made), feeds, device, [Style.GPU])


def _angles() -> Array:
    """Every exponent and both signs with random mantissas, and numbers near multiples of pi/2."""
    random = np.random.default_rng(6)
    mantissas = random.integers(0, 1 << 23, (255, 60), np.uint32)
    bits = (np.arange(255, dtype=np.uint32)[:, None] << np.uint32(23) | mantissas).ravel()
    near = np.floor(2 ** random.uniform(0, 120, 4000)) * (np.pi / 2)
    edge = np.float32(8192)
    edges = [edge, np.nextafter(edge, INF), np.finfo(np.float32).max, INF, -INF, NAN]
    both = [bits.view(np.float32), (bits | np.uint32(1 << 31)).view(np.float32)]
    return np.concatenate([*both, near.astype(np.float32), np.array(edges, np.float32)])


@pytest.mark.parametrize(("op", "function"), [(Sin(), math.sin), (Cos(), math.cos)])
def test_the_sine_of_every_size_of_angle(
    op: Op, function: Callable[[float], float], device: Device
) -> None:
    """Off by at most 2e-7, and NaN where there is no angle."""
    x = _angles()
    exact = [function(each) if math.isfinite(each) else math.nan for each in x.tolist()]
    net = Net()
    graph = net.build.graph({"y": net.do(op, net.x(x.size))})
    for style in Style:
        found = run(graph, {"x1": x}, device, style).outputs["y"].astype(np.float64)
        np.testing.assert_allclose(found, np.array(exact), 0, 2e-7)
