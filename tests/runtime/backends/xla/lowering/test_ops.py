"""Every op as XLA computes it against the reference semantics.

All samples are one program: XLA takes longer to begin a compilation than to compile an op.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Op
from meganeura_dsl.ir.interpreter import Results, evaluate
from meganeura_dsl.ir.ops import (
    OPS,
    ArgMax,
    Cast,
    Gather,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    RandomBits,
    ReduceMax,
    Scan,
    ScatterAdd,
    Sort,
    Sum,
    Tanh,
)
from meganeura_dsl.ir.ops.fused.softmax import CrossEntropy
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import Numerics
from meganeura_runtime.backends.xla.lowering.elementwise import tanh_by_exponential
from meganeura_runtime.backends.xla.lowering.reduction import sum_by_parts
from meganeura_runtime.backends.xla.lowering.table import (
    COMPUTES,
    CONTRACTIONS,
    IN_BFLOAT16,
    MOVES,
)
from meganeura_runtime.backends.xla.passes.support import SUPPORT
from meganeura_runtime.backends.xla.step import step_function
from tests.effort import effort
from tests.folded import each_of
from tests.runtime.running import assert_results, graph_of
from tests.samples import SAMPLES, Sample

COMPUTED = [sample for sample in SAMPLES if not isinstance(sample.op, Leaf)]
F32, BF16 = ComputePrecision.F32, ComputePrecision.BF16
ROUNDED: Mapping[type[Op], float] = {**dict.fromkeys(CONTRACTIONS, 2**-7), Scan: 2**-5}
"""By how much the operands of products that are rounded to bfloat16 change their results.

In units of the largest element; all other ops compute in float32.
"""


IN_BF16 = [
    sample
    for number, sample in enumerate(COMPUTED)
    if type(sample.op) in ROUNDED or number % effort(8, 1) == 0
]
"""All that is rounded, and by day an eighth of what is not."""


def computed(
    samples: Mapping[str, tuple[Op, tuple[Array, ...]]], precision: ComputePrecision
) -> dict[str, dict[str, Array]]:
    """The results of many ops, compiled as one program."""
    lowerings = IN_BFLOAT16 if precision is BF16 else {}
    graphs, feeds = {}, {}
    for name, (op, operands) in samples.items():
        graph, feeds[name] = graph_of(op, *operands)
        graphs[name] = SUPPORT.supported(graph)

    def everything(
        fed: Mapping[str, Mapping[str, jax.Array]],
    ) -> dict[str, dict[str, jax.Array]]:
        steps = {
            name: step_function(graph, Numerics.of(graph, precision), {}, lowerings, Barriers())
            for name, graph in graphs.items()
        }
        return {name: step({}, {}, fed[name])[0] for name, step in steps.items()}

    found: dict[str, dict[str, jax.Array]] = jax.jit(everything)(feeds)
    return {
        name: {output: np.array(array) for output, array in outputs.items()}
        for name, outputs in found.items()
    }


@pytest.mark.parametrize(
    ("shape", "axes", "is_cut"),
    [
        ((16, 5, 8, 8), (0, 2, 3), True),
        ((16, 197, 3), (0, 1), True),
        ((3136, 2), (0,), True),
        ((1024,), (0,), False),
        ((4, 1024), (1,), False),
        ((8192, 2), (0,), False),
        ((128, 2), (0,), False),
        ((1021, 2), (0,), False),
    ],
)
def test_sums_along_thousands_of_rows_are_cut(
    shape: tuple[int, ...], axes: tuple[int, ...], *, is_cut: bool
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    found = np.asarray(jax.jit(lambda x: sum_by_parts(Sum(axes), x))(x))
    np.testing.assert_allclose(found, x.sum(axes, np.float64), rtol=1e-5, atol=1e-3)
    text = jax.jit(lambda x: sum_by_parts(Sum(axes), x)).lower(x).as_text()
    assert ("optimization_barrier" in text) == is_cut


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Array]]:
    choose_device("xla:cpu")
    return computed({each.name: (each.op, each.operands) for each in COMPUTED}, F32)


@each_of("sample", COMPUTED, ids=lambda sample: sample.name)
def test_an_op_computes_the_reference(sample: Sample, results: dict[str, dict[str, Array]]) -> None:
    graph, feeds = graph_of(sample.op, *sample.operands)
    assert_results(Results(results[sample.name], {}), graph, feeds)


@pytest.fixture(scope="module")
def narrow() -> dict[str, dict[str, Array]]:
    choose_device("xla:cpu")
    return computed({each.name: (each.op, each.operands) for each in IN_BF16}, BF16)


@each_of("sample", IN_BF16, ids=lambda sample: sample.name)
def test_in_bf16_only_products_are_rounded(
    sample: Sample, narrow: dict[str, dict[str, Array]]
) -> None:
    graph, feeds = graph_of(sample.op, *sample.operands)
    most = ROUNDED.get(type(sample.op))
    if most is None:
        assert_results(Results(narrow[sample.name], {}), graph, feeds)
        return
    for output, value in evaluate(graph, feeds).outputs.items():
        tolerance = most * np.abs(value).max()
        np.testing.assert_allclose(narrow[sample.name][output], value, 0, tolerance)


def test_every_primitive_is_in_exactly_one_table() -> None:
    leaves = [op for op in OPS if issubclass(op, Leaf)]
    tables = [*MOVES, *CONTRACTIONS, *COMPUTES, *leaves, Scan]
    assert [op for op in OPS if tables.count(op) != 1] == []
    assert len(tables) == len(OPS)


# --- where others differ -------------------------------------------------------------------------

NAN, INF = np.nan, np.inf
POOL = ((2, 2), (2, 2), (1, 1))
TIES = np.array([[[[1, 1, 0], [1, NAN, 2], [-INF, 2, NAN]]]], np.float32)
PICKED = np.array([[[[3, 2], [1, 0]]]], np.int32)
EXACT: dict[str, tuple[Op, tuple[Array, ...]]] = {
    "pool of ties and NaN": (MaxPool(*POOL), (TIES,)),
    "pool of minus infinity": (MaxPool(*POOL), (np.full((1, 1, 3, 3), -INF, np.float32),)),
    "select": (MaxPoolSelect(*POOL), (PICKED, TIES)),
    "pool gradient": (
        MaxPoolGradient(*POOL, (3, 3)),
        (PICKED, np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)),
    ),
    "largest with NaN": (ReduceMax((1,)), (np.array([[1, NAN, 2], [3, 4, 4]], np.float32),)),
    "first of NaN": (ArgMax(1), (np.array([[1, NAN, NAN], [3, 4, 4]], np.float32),)),
    **{
        f"floats as {dtype.value}": (
            Cast(dtype),
            (np.array([NAN, INF, -INF, 3e9, 5e9, -3e9, 2147483520, -1.9, 0.5], np.float32),),
        )
        for dtype in (DType.I32, DType.U32, DType.BOOL, DType.F16)
    },
    **{
        f"{numbers.dtype} sorted{' from the largest' if descending else ''}": (
            Sort(0, descending=descending),
            (numbers,),
        )
        for descending in (False, True)
        for numbers in (
            np.array([1, NAN, -INF, 2, NAN, INF, 2, -3], np.float32),
            np.array([0, -(2**31), 5, 2**31 - 1, -(2**31), -1, 0], np.int32),
            np.array([1, 0, 2**32 - 1, 2**31, 0, 1], np.uint32),
        )
    },
    "wrapping": (Cast(DType.U32), (np.array([-1, -(2**31)], np.int32),)),
    "words": (
        RandomBits(7, (3, 5, 7)),
        (np.array([4_000_000_000, 123], np.uint32),),
    ),
    "many words": (RandomBits(2**32 - 1, (70_000,)), (np.array([1, 2], np.uint32),)),
}


@pytest.fixture(scope="module")
def exactly() -> dict[str, dict[str, Array]]:
    choose_device("xla:cpu")
    return computed(EXACT, F32)


@pytest.mark.parametrize("name", EXACT)
def test_it_is_the_reference_to_the_bit(name: str, exactly: dict[str, dict[str, Array]]) -> None:
    graph, feeds = graph_of(EXACT[name][0], *EXACT[name][1])
    for output, value in evaluate(graph, feeds).outputs.items():
        np.testing.assert_array_equal(exactly[name][output], value)


def test_a_pooling_may_be_used_for_its_indices_alone() -> None:
    graph, feeds = graph_of(*EXACT["pool of ties and NaN"][:1], TIES)
    alone = Graph(
        tuple(value for value in graph.values if value is not graph.outputs["y"]),
        {"y.1": graph.outputs["y.1"]},
    )
    with choose_device("xla:cpu").open(alone) as session:
        found = session.step(feeds)["y.1"]
    np.testing.assert_array_equal(found, evaluate(graph, feeds).outputs["y.1"])


def test_a_label_outside_the_classes_costs_nothing() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 4, 3), np.float32)
    labels = np.array([[0, 2, -1, 3], [1, 1, 2**31 - 1, -(2**31)]], np.int32)
    found = computed({"loss": (CrossEntropy(), (logits, labels))}, F32)["loss"]
    (loss,) = found.values()
    np.testing.assert_allclose(loss, CrossEntropy().evaluate(logits, labels), rtol=1e-5)
    assert (loss[:, 2:] == 0).all()


def test_the_loss_of_large_logits_is_a_number() -> None:
    """Their powers are none."""
    logits = np.array([[1000, 999, 0], [-1000, -1001, -999], [200, -1e30, 1e30]], np.float32)
    labels = np.array([1, 2, 0], np.int32)
    (loss,) = computed({"loss": (CrossEntropy(), (logits, labels))}, F32)["loss"].values()
    np.testing.assert_allclose(loss, CrossEntropy().evaluate(logits, labels), rtol=1e-5)
    assert np.isfinite(loss).all()


def test_tanh_by_exponential_is_tanh() -> None:
    ends = [0, 1e-30, 9, 50, 1e4, np.inf]
    sizes = np.concatenate([ends, np.geomspace(1e-6, 9, 10_000)])
    x = np.concatenate([-sizes, sizes, [np.nan]]).astype(np.float32)
    found = np.asarray(tanh_by_exponential(Tanh(), jnp.asarray(x, np.float32)))
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), rtol=2**-15)


def test_a_row_that_is_not_there_is_no_row() -> None:
    """Sessions check indices; what is not checked is at least not a neighbour's value."""
    choose_device("xla:cpu")
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    for dtype, outside in ((np.int32, [-1, 3, 2**31 - 1]), (np.uint32, [3, 2**31, 2**32 - 1])):
        ids = np.array([0, *outside], dtype)
        found = computed(
            {
                "gather": (Gather(0), (table, ids)),
                "scatter": (ScatterAdd(0, 3), (ids, np.ones((4, 2), np.float32))),
            },
            F32,
        )
        np.testing.assert_array_equal(found["gather"]["y"][0], table[0])
        assert np.isnan(found["gather"]["y"][1:]).all()
        np.testing.assert_array_equal(found["scatter"]["y"], [[1, 1], [0, 0], [0, 0]])
