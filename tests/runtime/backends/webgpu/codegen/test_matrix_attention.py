"""Attention by matrix units, in f16: every orientation of a tile, at sizes with ragged edges.

Software has no such units, so the operations on squares are loops. Operands are halves. What is
rounded to f16 within a kernel is the weights and their gradients.
"""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_runtime.backends.webgpu.codegen.attention import kernel_choice as choice
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.passes import fuse_attention
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.backends.webgpu.codegen.test_attention import attention
from tests.runtime.running import run_plan

pytestmark = [pytest.mark.adapter, pytest.mark.usefixtures("apart")]

LIMITS = DeviceLimits(
    workgroup_bytes=32 << 10, half_floats=True, matrix_units=MatrixUnits(MatrixDialect.PLAIN)
)
SMALL = AttentionTile(32, 32, 16, 4, 4, 32)
FLAT = AttentionTile(16, 32, 16, 4, 4, 32)
TALL = AttentionTile(32, 16, 16, 4, 4, 16)
"""Tiles of one subgroup."""


def halves(*shape: int, seed: int = 0) -> Array:
    drawn = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return drawn.astype(np.float16).astype(np.float32)


@pytest.fixture(autouse=True)
def _everything_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_attention, "is_fused", lambda *_, **__: True)
    both_tiles(monkeypatch, SMALL)


def both_tiles(monkeypatch: pytest.MonkeyPatch, tile: AttentionTile) -> None:
    monkeypatch.setattr(choice, "MATRIX_TILE", tile)
    monkeypatch.setattr(choice, "MATRIX_GRADIENT_TILE", tile)


def assert_right(graph: Graph, feeds: dict[str, Array], device: Device, kernels: int) -> None:
    plan = plan_graph(graph, LIMITS, Style.GPU)
    assert sum(one.name.startswith("flash attention") for one in plan.dispatches) == kernels
    actual = run_plan(plan, graph, feeds, device)
    expected = evaluate(graph, feeds, Precision.DOUBLE)
    for name, value in expected.outputs.items():
        largest = np.abs(value).max()
        np.testing.assert_allclose(actual.outputs[name], value, 0, 1.5e-3 * largest, err_msg=name)


@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width", "tile"),
    [
        *[(41, 70, 8, 9, SMALL), (1, 41, 64, 64, SMALL), (33, 129, 41, 9, FLAT)],
        *[(64, 64, 16, 16, SMALL), (41, 70, 8, 40, TALL), (33, 70, 16, 64, choice.MATRIX_TILE)],
    ],
    ids=str,
)
def test_gradients(
    queries: int, keys: int, width: int, value_width: int, tile: AttentionTile, device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    both_tiles(monkeypatch, tile)
    q, k = halves(1, 2, queries, width), halves(1, 2, keys, width, seed=1)
    v, dy = halves(1, 2, keys, value_width), halves(1, 2, queries, value_width, seed=1)
    assert_right(*attention(Attention(width**-0.5, causal=False), q, k, v, dy), device, 3)


@pytest.mark.parametrize(
    ("window", "shared", "size", "tile"),
    effort(
        [(20, 2, 35, FLAT)],
        [(20, 2, 70, SMALL), (0, 1, 70, TALL), (5, 3, 41, FLAT), (40, 2, 70, SMALL)],
    ),
    ids=str,
)
def test_what_is_hidden(
    window: int, shared: int, size: int, tile: AttentionTile, device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    both_tiles(monkeypatch, tile)
    q, dy = (halves(1, 2 * shared, size, 8, seed=seed) for seed in (0, 3))
    k, v = (halves(1, 2, size, 8, seed=seed) for seed in (1, 2))
    op = Attention(8**-0.5, causal=True, window=window, shared=shared)
    assert_right(*attention(op, q, k, v, dy), device, 3)


def test_keys_in_parts_of_which_some_rows_see_nothing(device: Device) -> None:
    q, k, v = (halves(1, 1, 260, 8, seed=seed) for seed in range(3))
    graph, feeds = attention(Attention(8**-0.5, causal=True), q, k, v)
    assert plan_graph(graph, LIMITS, Style.GPU).dispatches[0].name == "flash attention 2x1x1x260x8"
    assert_right(graph, feeds, device, 1)
