"""Kernels of attention: every orientation of a tile, at sizes that leave its edges ragged."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, continued
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Add, Input, Reshape, Slice, Transpose
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.attention import kernel_choice as choice
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Affine, bounds
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.ops.attention import (
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
)
from meganeura_runtime.backends.webgpu.passes import fuse_attention
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.running import assert_close, run_plan

pytestmark = [pytest.mark.adapter, pytest.mark.usefixtures("apart")]

SMALL = AttentionTile(16, 16, 4, 4, 4, 16)
WIDE = AttentionTile(16, 32, 4, 4, 8, 16)
TALL = AttentionTile(32, 16, 4, 8, 4, 8)
DEEP = AttentionTile(32, 16, 4, 4, 4, 16)
"""More lanes along the rows than terms at once."""
ONES = (1, 1, 1)


@pytest.fixture(autouse=True)
def _everything_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(heads: Heads, target: Target, *, trains: bool) -> bool:
        return bool(heads and target) or trains

    monkeypatch.setattr(fuse_attention, "is_fused", always)
    monkeypatch.setattr(choice, "TILE", SMALL)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def attention(
    op: Attention, q: Array, k: Array, v: Array, dy: Array | None = None
) -> tuple[Graph, dict[str, Array]]:
    """Means and logarithms of sums; means and gradients where the means have one."""
    build = Builder()
    feeds = {"q": q, "k": k, "v": v} | ({} if dy is None else {"dy": dy})
    inputs = {n: build.add(Input(n, DType.F32, array.shape)) for n, array in feeds.items()}
    operands = inputs["q"], inputs["k"], inputs["v"]
    results = build.add_all(op, *operands)
    outputs = {"y": results[0]}
    if dy is None:
        outputs["rows"] = results[1]
    else:
        found = op.pullback(build, results, (inputs["dy"], None))
        outputs |= {f"d{n}": each for n, each in zip("qkv", found, strict=True) if each}
    return build.graph(outputs), feeds


def assert_right(graph: Graph, feeds: dict[str, Array], device: Device, kernels: int) -> None:
    """The kernels give what the reference gives in double precision, and there are so many."""
    plan = plan_graph(graph, device.limits, Style.GPU)
    assert sum(one.name.startswith("flash attention") for one in plan.dispatches) == kernels
    actual = run_plan(plan, graph, feeds, device)
    expected = evaluate(graph, feeds, Precision.DOUBLE)
    for name, value in expected.outputs.items():
        assert_close(actual.outputs[name], value.astype(np.float32), name)


@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width", "tile"),
    [
        (1, 41, 64, 64, SMALL),
        (127, 129, 41, 8, WIDE),
        (3, 127, 128, 1, SMALL),
        (37, 21, 9, 5, DEEP),
        (20, 64, 8, 8, SMALL),
        *effort([], [(41, 1, 8, 128, SMALL), (129, 3, 1, 41, TALL)]),
    ],
)
def test_queries_keys_and_widths(
    queries: int,
    keys: int,
    width: int,
    value_width: int,
    tile: AttentionTile,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "TILE", tile)
    q, k = numbers(1, 2, queries, width), numbers(1, 2, keys, width, seed=1)
    v = numbers(1, 2, keys, value_width)
    assert_right(*attention(Attention(width**-0.5, causal=False), q, k, v), device, 1)


@pytest.mark.parametrize(
    ("window", "shared", "size", "tile"),
    [
        (0, 1, 41, SMALL),
        (5, 3, 41, WIDE),
        (40, 2, 41, TALL),
        *effort([], [(0, 1, 64, TALL), (17, 1, 48, SMALL)]),
    ],
)
def test_what_is_hidden(
    window: int,
    shared: int,
    size: int,
    tile: AttentionTile,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In blocks that end where the keys do, and in others."""
    monkeypatch.setattr(choice, "TILE", tile)
    q, k = numbers(2, 2 * shared, size, 8), numbers(2, 2, size, 8, seed=1)
    v = numbers(2, 2, size, 8, seed=2)
    op = Attention(8**-0.5, causal=True, window=window, shared=shared)
    assert_right(*attention(op, q, k, v), device, 1)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_in_parts_of_which_some_rows_see_nothing(causal: bool, device: Device) -> None:  # noqa: FBT001
    q, k, v = (numbers(1, 1, 130, 8, seed=seed) for seed in range(3))
    graph, feeds = attention(Attention(8**-0.5, causal), q, k, v)
    plan = plan_graph(graph, device.limits, Style.GPU)
    assert plan.dispatches[0].name == "flash attention 2x1x1x130x8"
    assert_right(graph, feeds, device, 1)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_enormous_scores(scale: float, device: Device) -> None:
    q = np.sign(numbers(1, 1, 20, 8)) * np.float32(2.0**30)
    k, v = np.round(numbers(1, 1, 70, 8, seed=1)), numbers(1, 1, 70, 8, seed=2)
    assert_right(*attention(Attention(scale, causal=False), q, k, v), device, 1)


@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width", "tile"),
    [
        (1, 41, 8, 8, SMALL),
        *effort(
            [],
            [
                (37, 130, 8, 64, WIDE),
                (41, 1, 41, 1, SMALL),
                (129, 3, 64, 8, TALL),
                (32, 48, 8, 8, SMALL),
            ],
        ),
    ],
)
def test_gradients(
    queries: int,
    keys: int,
    width: int,
    value_width: int,
    tile: AttentionTile,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "TILE", tile)
    q, k = numbers(1, 2, queries, width), numbers(1, 2, keys, width, seed=1)
    v, dy = numbers(1, 2, keys, value_width), numbers(1, 2, queries, value_width, seed=1)
    assert_right(*attention(Attention(width**-0.5, causal=False), q, k, v, dy), device, 3)


@pytest.mark.parametrize(
    ("window", "shared", "size", "tile"),
    [
        (0, 1, 41, TALL),
        (5, 3, 41, SMALL),
        *effort([], [(20, 2, 41, WIDE), (0, 1, 64, TALL)]),
    ],
)
def test_gradients_of_what_is_hidden(
    window: int,
    shared: int,
    size: int,
    tile: AttentionTile,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "TILE", tile)
    q, k = numbers(2, 2 * shared, size, 8), numbers(2, 2, size, 8, seed=1)
    v = numbers(2, 2, size, 8, seed=2)
    op = Attention(8**-0.5, causal=True, window=window, shared=shared)
    assert_right(*attention(op, q, k, v, numbers(2, 2 * shared, size, 8, seed=3)), device, 3)


def test_heads_of_a_projection_are_read_in_place(device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 41, 24)))
    heads = [
        build.add(
            Transpose((0, 2, 1, 3)),
            build.add(
                Reshape((2, 41, 1, 8)), build.add(Slice((0, 0, at), (2, 41, at + 8), ONES), x)
            ),
        )
        for at in (0, 8, 16)
    ]
    mean = build.add(Attention(0.5, causal=True), *heads)
    graph = build.graph({"y": build.add(Reshape((2, 41, 8)), mean)})
    plan = plan_graph(graph, device.limits, Style.GPU)
    assert [one.name for one in plan.dispatches] == ["flash attention 2x1x41x8"]
    assert_right(graph, {"x": numbers(2, 41, 24)}, device, 1)


@pytest.mark.parametrize("tile", [choice.TILE, SMALL, WIDE, TALL], ids=str)
@pytest.mark.parametrize("width", [1, 8, 41, 64, 128])
def test_every_lane_fetches_whole_vec4s(tile: AttentionTile, width: int) -> None:
    for size in (tile.rows, tile.columns, tile.sums(width).columns):
        assert size * tile.terms % (4 * tile.lanes) == 0
    assert tile.sums(width).columns >= width
    assert tile.sums(width).lanes == tile.lanes
    columns = {bounds(tile.column(Affine(number))) for number in range(tile.columns)}
    assert columns == {(number, number) for number in range(tile.columns)}


def test_the_ops_of_kernels_mean_what_the_attention_means() -> None:
    whole = Attention(8**-0.5, causal=True)
    q, k, v, dy = (numbers(1, 2, 9, 8, seed=seed) for seed in range(4))
    graph, feeds = attention(whole, q, k, v, dy)
    expected = evaluate(graph, feeds).outputs
    lowered = fuse_attention.fuse_attention(graph, Target(DeviceLimits(), Style.GPU))
    assert {type(one.op) for one in lowered.values} >= {
        FlashAttention,
        FlashAttentionBackwardKV,
        FlashAttentionBackwardQ,
    }
    for name, value in evaluate(lowered, feeds).outputs.items():
        np.testing.assert_allclose(value, expected[name], 1e-5, 1e-6)


def finished(*names: str) -> tuple[Graph, dict[str, Array]]:
    """Some of the gradients of attention, each with work that follows it, and what is stored."""
    q, k, v, dy = (numbers(1, 2, 20, 8, seed=seed) for seed in range(4))
    graph, feeds = attention(Attention(8**-0.5, causal=False), q, k, v, dy)
    build, copy = continued(graph)
    found = copy.outputs
    doubled = {f"2 {name}": build.add(Add(), found[name], found[name]) for name in found}
    doubled["dk + dv"] = build.add(Add(), found["dk"], found["dv"])
    every = {**found, **doubled}
    return build.graph({name: every[name] for name in names}), feeds


@pytest.mark.parametrize(
    ("names", "buffers", "dispatches"),
    [
        (("dk",), 8, 3),
        (("dv",), 8, 3),
        (("dk", "2 dk", "dv"), 9, 3),
        (("dk", "2 dk", "dv"), 8, 4),
        (("dk", "dv", "2 dv"), 9, 4),
        (("dk + dv",), 9, 4),
        (("2 y", "dq", "2 dq"), 9, 3),
    ],
)
def test_work_joins_the_kernel_of_the_first_result(
    names: tuple[str, ...], buffers: int, dispatches: int
) -> None:
    """The elements of the others are in other lanes. `level` is a separate kernel."""
    graph, _ = finished(*names)
    limits = replace(DeviceLimits(), storage_buffers=buffers)
    assert len(plan_graph(graph, limits, Style.GPU).dispatches) == dispatches


@pytest.mark.parametrize("names", [*effort([], [("dv",)]), ("dk", "2 dk", "2 dv", "dk + dv")])
def test_what_joins_is_right(names: tuple[str, ...], device: Device) -> None:
    assert_right(*finished(*names), device, 2)
