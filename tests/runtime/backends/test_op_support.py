"""The tables of ops: a backend runs, lowers or refuses each of them, and does what it says."""

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Leaf, Op
from meganeura_dsl.ir.ops import OPS, Exp, Gather, Input, MaxPoolGradient, Scan
from meganeura_dsl.ir.ops.fused import Activation
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Region
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.backend import Backend
from meganeura_runtime.backends.op_support import ALL_OPS, OpSupport
from meganeura_runtime.backends.registry import BUILT_IN
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, Target
from meganeura_runtime.backends.webgpu.passes.pipeline import run_passes
from meganeura_runtime.backends.webgpu.passes.support import SUPPORT
from tests.folded import each_of
from tests.runtime.running import graph_of
from tests.samples import SAMPLES, Sample

REDUCTIONS = {"MatMul-wide"}
"""Products of a vector, which become reductions."""
COMPUTED = [sample for sample in SAMPLES if not isinstance(sample.op, Leaf)]


@pytest.mark.parametrize("backend", BUILT_IN, ids=lambda backend: backend.name)
def test_every_op_is_run_or_lowered_and_none_is_refused(backend: Backend) -> None:
    table = backend.ops()
    assert table.backend == backend.name
    for op in ALL_OPS:
        assert [op in each for each in (table.runs, table.lowers, table.refuses)].count(True) == 1
    assert table.lowers < set(ALL_OPS)
    assert table.refuses == frozenset()


@each_of("sample", COMPUTED, ids=lambda sample: sample.name)
def test_what_the_passes_leave_is_what_the_table_says(sample: Sample) -> None:
    graph, _ = graph_of(sample.op, *sample.operands)
    left = {type(value.op) for value in run_passes(graph, Target(PORTABLE)).values}
    is_run = type(sample.op) in SUPPORT.runs and sample.name not in REDUCTIONS
    assert (type(sample.op) in left) == is_run
    assert not left & SUPPORT.lowers


def test_a_table_is_a_partition_whatever_it_names() -> None:
    some = OpSupport("some", frozenset((Input, Exp, Activation)), frozenset((MaxPoolGradient,)))
    for op in ALL_OPS:
        assert [op in each for each in (some.runs, some.lowers, some.refuses)].count(True) == 1
    assert some.refuses == set(OPS) - {Input, Exp, MaxPoolGradient}
    with pytest.raises(ValueError, match="some both runs and rewrites Exp"):
        OpSupport("some", frozenset((Exp,)), frozenset((Exp,)))


def test_fused_ops_that_are_not_run_expand_and_what_remains_is_refused_by_name() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    graph = build.graph({"y": build.add(Activation("silu"), x)})

    def left(*more: type[Op]) -> set[type[Op]]:
        table = OpSupport("some", frozenset((Input, *more)))
        return {type(value.op) for value in table.supported(graph).values}

    assert left(Activation) == {Input, Activation}
    assert left(*OPS) <= set(OPS)
    with pytest.raises(ProblemError, match=r"E0558.*the backend `some` does not support the op"):
        left(Gather)


def test_what_is_refused_is_refused_in_a_loop_too() -> None:
    build = Builder()
    start = build.add(Input("x", DType.F32, (3,)))
    region = Region(build, 5)
    leaf = region.leaf(start.type)
    attributes, operands = region.close(
        [Carry(leaf, start, build.add(Exp(), leaf))], [], backward=False
    )
    graph = build.graph({"y": build.add(Scan(*attributes), *operands)})
    some = OpSupport("some", frozenset(OPS))
    assert {type(value.op) for value in some.supported(graph).values} == {Input, Scan}
    with pytest.raises(ProblemError, match=r"E0558.*the backend `less` does not support the op"):
        OpSupport("less", frozenset(OPS) - {Exp}).supported(graph)
