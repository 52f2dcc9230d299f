"""The choice of attentions that become kernels: a function of shapes and of limits alone."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Op
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_choice import (
    MATRIX_GRADIENT_TILE,
    MATRIX_TILE,
    TILE,
    is_fused,
    kv_splits,
)
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
    Target,
)
from meganeura_runtime.backends.webgpu.ops.attention import (
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
    FlashAttentionOp,
)
from meganeura_runtime.backends.webgpu.passes.fuse_attention import fuse_attention

LARGE = DeviceLimits(buffer_bytes=1 << 32, binding_bytes=1 << 31)
SMALL = replace(LARGE, binding_bytes=64 << 20)


def heads(
    count: int, queries: int, keys: int, width: int, values: int = 0, dtype: DType = DType.F32
) -> Heads:
    build = Builder()
    shapes = ((queries, width), (keys, width), (keys, values or width))
    operands = [build.add(Input(f"x{n}", dtype, (1, count, *s))) for n, s in enumerate(shapes)]
    return Heads(Attention(0.125, causal=False), *operands)


@pytest.mark.parametrize(
    ("found", "fused"),
    [
        (heads(48, 1500, 1500, 64), True),
        (heads(6, 1500, 1500, 64), True),
        (heads(144, 128, 128, 64), True),
        (heads(32, 1024, 1024, 32), True),
        (heads(32, 256, 256, 64), True),
        (heads(31, 256, 256, 64), False),
        (heads(200, 127, 128, 64), False),
        (heads(200, 128, 127, 64), False),
        (heads(6, 128, 128, 64), False),
        (heads(16, 1024, 1024, 128), False),
        (heads(32, 1024, 1024, 64, 65), False),
        (heads(32, 1024, 1024, 65, 64), False),
        (heads(32, 1024, 1024, 31), False),
        (heads(32, 1024, 1024, 31, 64), False),
        (heads(32, 1024, 1024, 64, 31), False),
        (heads(32, 1024, 1024, 64, 32), True),
        (heads(32, 1024, 1024, 32, 64), True),
        (heads(48, 1500, 1500, 64, dtype=DType.F16), False),
    ],
)
def test_where_it_is_faster(found: Heads, fused: bool) -> None:  # noqa: FBT001
    assert is_fused(found, Target(LARGE, Style.GPU), trains=False) is fused
    assert not is_fused(found, Target(LARGE, Style.GPU), trains=True)
    assert not is_fused(found, Target(LARGE, Style.SOFTWARE_VULKAN), trains=False)


@pytest.mark.parametrize("trains", [False, True])
def test_where_scores_would_not_fit(trains: bool) -> None:  # noqa: FBT001
    assert is_fused(heads(16, 1025, 1024, 128), Target(SMALL, Style.GPU), trains=trains)
    assert not is_fused(heads(16, 1024, 1024, 128), Target(SMALL, Style.GPU), trains=trains)
    enough = 4 * TILE.words(128, 128)
    for size, fits in ((4096, False), (enough - 1, False), (enough, True)):
        target = Target(replace(SMALL, workgroup_bytes=size), Style.GPU)
        assert is_fused(heads(16, 1025, 1024, 128), target, trains=trains) is fits
    for count, fits in ((TILE.lanes - 1, False), (TILE.lanes, True)):
        target = Target(replace(SMALL, invocations=count), Style.GPU)
        assert is_fused(heads(16, 1025, 1024, 128), target, trains=trains) is fits


def test_matrix_units_make_it_in_training_too() -> None:
    units = MatrixUnits(MatrixDialect.CHROMIUM)
    limits = replace(LARGE, workgroup_bytes=48 << 10, matrix_units=units)
    enough = max(
        MATRIX_TILE.matrix_bytes(16, (64,), (64, 64)),
        MATRIX_GRADIENT_TILE.matrix_bytes(16, (64, 64), (64, 64)),
    )
    for one, fits in ((enough - 1, False), (enough, True), (limits.workgroup_bytes, True)):
        target = Target(replace(limits, workgroup_bytes=one), Style.GPU)
        assert is_fused(heads(48, 1500, 1500, 64), target, trains=True) is fits
    assert not is_fused(heads(48, 1500, 1500, 128), Target(limits, Style.GPU), trains=True)
    assert not is_fused(heads(48, 100, 1500, 64), Target(limits, Style.GPU), trains=True)


def test_few_rows_look_at_keys_in_parts() -> None:
    assert kv_splits(heads(48, 1500, 1500, 64), LARGE) == 1
    assert kv_splits(heads(6, 1500, 1500, 64), LARGE) == 6
    assert kv_splits(heads(24, 512, 512, 64), LARGE) == 2
    assert kv_splits(heads(1, 4000, 100, 64), LARGE) == 1


def made(op: Op, *shapes: tuple[int, ...], limits: DeviceLimits = LARGE) -> list[Op]:
    """The ops that take the place of one on inputs of such shapes."""
    build = Builder()
    operands = [build.add(Input(f"x{n}", DType.F32, shape)) for n, shape in enumerate(shapes)]
    results = build.add_all(op, *operands)
    graph = build.graph({str(each.index): each for each in results})
    return [value.op for value in fuse_attention(graph, Target(limits, Style.GPU)).values]


@pytest.mark.parametrize("is_read", [False, True])
def test_an_attention_whose_rows_are_read_is_trained(*, is_read: bool) -> None:
    """Of such sizes one that is trained is no faster as a kernel."""
    build = Builder()
    qkv = [build.add(Input(name, DType.F32, (1, 48, 1500, 64))) for name in "qkv"]
    mean, rows = build.add_all(Attention(0.125, causal=False), *qkv)
    graph = build.graph({"mean": mean, **({"rows": rows} if is_read else {})})
    found = fuse_attention(graph, Target(LARGE, Style.GPU)).values
    assert any(isinstance(value.op, FlashAttentionOp) for value in found) != is_read


@pytest.mark.parametrize("gradient", [False, True])
def test_a_mask_of_numbers_is_left_to_the_expansion(gradient: bool) -> None:  # noqa: FBT001
    q, scores = (1, 16, 1025, 128), (1, 16, 1025, 1025)
    op = Attention(1.0, causal=True)
    operands = (q, q, q, q, q[:-1], q[:-1]) if gradient else (q, q, q)
    for shapes, fused in ((operands, True), ((*operands, scores), False)):
        ops = made(op.gradient if gradient else op, *shapes, limits=SMALL)
        assert any(isinstance(each, FlashAttentionOp) for each in ops) is fused


@pytest.mark.parametrize(("queries", "keys", "parts"), [(3, 1000, 3), (3, 300, 1), (70, 700, 2)])
def test_parts_of_the_keys_are_the_whole(queries: int, keys: int, parts: int) -> None:
    """The means of all parts, weighted, and the logarithm of all weights."""
    build = Builder()
    shapes = {"q": (1, 2, queries, 8), "k": (1, 2, keys, 8), "v": (1, 2, keys, 8)}
    operands = [build.add(Input(name, DType.F32, shape)) for name, shape in shapes.items()]
    mean, rows = build.add_all(Attention(0.5, causal=False), *operands)
    graph = build.graph({"mean": mean, "rows": rows})
    assert kv_splits(Heads(Attention(0.5, causal=False), *operands), LARGE) >= parts
    changed = fuse_attention(graph, Target(LARGE, fusing=FusionConfig(fuse_attention=True)))
    assert any(isinstance(value.op, FlashAttentionOp) for value in changed.values)
    random = np.random.default_rng(0)
    feeds = {name: random.normal(size=each).astype(np.float32) for name, each in shapes.items()}
    expected, found = (evaluate(each, feeds).outputs for each in (graph, changed))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-6)


def test_each_kernel_counts_the_products_it_computes() -> None:
    """Scores and gradients of q and k by vectors of 8, slopes, means and gradients of v of 4."""
    q, k, v = (TensorType(DType.F32, (1, 2, *of)) for of in ((5, 8), (7, 8), (7, 4)))
    whole = Attention(0.125, causal=False)
    pairs = 2 * 5 * 7
    assert FlashAttention(whole, 3).flops([q, k, v], q) == 2 * pairs * (8 + 4)
    assert FlashAttentionBackwardQ(whole).flops([q, k, v], q) == 2 * pairs * (8 + 4 + 8)
    assert FlashAttentionBackwardKV(whole).flops([q, k, v], k) == 2 * pairs * (8 + 4 + 8 + 4)
