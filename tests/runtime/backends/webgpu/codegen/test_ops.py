"""Every op's kernel against the reference semantics."""

import pytest

from meganeura_dsl.ir.graph import Leaf
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.traits import ANCHORS, Trait
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import REDUCTIONS
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import READS
from meganeura_runtime.backends.webgpu.codegen.lowering.winograd import TRANSFORMS
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import CONTRACTIONS
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.ops.attention import (
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
)
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial
from meganeura_runtime.backends.webgpu.passes.legalize import REWRITTEN
from tests.effort import effort
from tests.runtime.running import assert_as_reference, graph_of
from tests.samples import SAMPLES, Sample

pytestmark = pytest.mark.adapter

COMPUTED = [sample for sample in SAMPLES if not isinstance(sample.op, Leaf)]


def test_every_op_is_in_exactly_one_table() -> None:
    leaves = [op for op in OPS if issubclass(op, Leaf)]
    loops = [op for op in OPS if op.traits == {Trait.LOOP}]  # run by the plan
    tables = [*READS, *REDUCTIONS, *CONTRACTIONS, *REWRITTEN, *leaves, *loops]
    assert [op for op in OPS if tables.count(op) != 1] == []


def test_the_tables_hold_what_the_traits_say() -> None:
    kinds = {
        Trait.REDUCTION: REDUCTIONS,
        Trait.CONTRACTION: {**CONTRACTIONS, SplitKPartial: None},
        Trait.TRANSFORM: TRANSFORMS,
    }
    for trait, table in kinds.items():
        assert [op for op in table if op.traits != {trait}] == []
    assert [op for op in READS if not op.traits.isdisjoint(ANCHORS)] == []
    attention = (FlashAttention, FlashAttentionBackwardKV, FlashAttentionBackwardQ)
    assert all(op.traits == {Trait.ATTENTION} for op in attention)


@pytest.mark.parametrize(
    ("sample", "style"),
    [
        pytest.param(sample, style, id=f"{sample.name}-{style}")
        for number, sample in enumerate(COMPUTED)
        for style in effort([[*Style][number % len(Style)]], [*Style])
    ],
)
def test_a_kernel_computes_the_reference(sample: Sample, style: Style, device: Device) -> None:
    graph, feeds = graph_of(sample.op, *sample.operands)
    assert_as_reference(graph, feeds, device, style)
