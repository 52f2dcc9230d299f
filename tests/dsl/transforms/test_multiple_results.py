"""An op with several results, from text to extraction: a graph, a gradient and an e-graph of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, Cost
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value, by_application
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import (
    OPS,
    Add,
    Broadcast,
    Exp,
    Input,
    Mul,
    Neg,
    Op,
    Parameter,
    Reshape,
    Sum,
)
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.egraph.cost.graph_cost import graph_cost
from meganeura_dsl.transforms.egraph.encoding import encode, schema
from meganeura_dsl.transforms.egraph.extract.extract import ask
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from tests.gradients import assert_same, fed, numeric_gradient, weighted_loss

Calls = list[str]
MODES: tuple[Mode, ...] = ("forward", "train", "infer")


@dataclass(frozen=True)
class ScaleAndSum(Op):
    """x times a number, and the sum of its squares."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True
    calls: ClassVar[Calls] = []

    factor: int

    def infer(self, facts: Facts, x: TensorType) -> tuple[TensorType, TensorType]:  # noqa: ARG002
        return x, x.with_shape(())

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        self.calls.append("evaluate")
        return self.factor * x, np.sum(x * x)

    def pullback(
        self, build: Builder, out: tuple[Value, ...], cotangent: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        self.calls.append("pullback")
        (scaled, _), (of_scaled, of_sum) = out, cotangent
        (x,) = scaled.operands
        found: list[Value] = []
        if of_scaled is not None:
            found.append(build.add(Mul(), full(build, x.type, self.factor), of_scaled))
        if of_sum is not None:
            spread = build.add(Broadcast(x.type.shape, ()), of_sum)
            found.append(build.add(Mul(), spread, build.add(Add(), x, x)))
        return (build.add(Add(), *found) if len(found) > 1 else found[0],)


EVERY_OP = (*OPS, ScaleAndSum)
TEXT = """\
%0 = Input(name="x", dtype=f32, shape=[2, 3]) : f32[2, 3]
%1 = ScaleAndSum(%0, factor=5).0 : f32[2, 3]
%2 = ScaleAndSum(%0, factor=5).1 : f32[]
output "scaled" = %1
output "sum" = %2
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _is_an_op(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the e-graph know the op too."""

    def forget() -> None:
        schema.constructors.cache_clear()
        encode._without_reals.cache_clear()

    monkeypatch.setattr(schema, "OPS", EVERY_OP)
    forget()
    ScaleAndSum.calls.clear()
    yield
    forget()


def graph_of(*names: str) -> Graph:
    """The results of these names."""
    build = Builder()
    scaled, total = build.add_all(ScaleAndSum(5), build.add(Input("x", DType.F32, (2, 3))))
    return build.graph({name: scaled if name == "scaled" else total for name in names})


# --- graphs and text ------------------------------------------------------------------------------


def test_an_application_is_made_once() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    scaled, total = results = build.add_all(ScaleAndSum(5), x)
    assert [each.index for each in results] == [0, 1]
    assert build.add_all(ScaleAndSum(5), x) == results == build.results_of(total)
    assert build.add(ScaleAndSum(5), x) is scaled
    assert build.reapply(total, x) is total
    assert scaled.application == total.application
    assert build.add_all(ScaleAndSum(4), x)[1] is not total
    assert by_application(build.values)[1] == [scaled, total]


def test_a_graph_holds_the_results_that_are_used() -> None:
    assert [value.index for value in graph_of("sum").values] == [0, 1]
    assert len(graph_of("scaled", "sum").values) == 3


def test_what_is_written_reads_back() -> None:
    assert format_graph(graph_of("scaled", "sum")) == TEXT
    assert format_graph(parse_graph(TEXT, EVERY_OP)) == TEXT
    alone = format_graph(graph_of("sum"))
    read = parse_graph(alone, EVERY_OP)
    assert format_graph(read) == alone
    for graph in (parse_graph(TEXT, EVERY_OP), read):
        verify(graph)
        assert evaluate(graph, {"x": X}).outputs["sum"] == 55


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("factor=5).1", "factor=5)", "line 3: a result is expected, not `:`"),
        ("shape=[2, 3])", "shape=[2, 3]).0", "line 1: `:` is expected before `.0`"),
    ],
)
def test_a_result_is_numbered_where_there_are_several(right: str, wrong: str, words: str) -> None:
    with pytest.raises(GraphTextError, match=words):
        parse_graph(TEXT.replace(right, wrong, 1), EVERY_OP)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("factor=5).1", "factor=5).2", "%2 = ScaleAndSum is result 2 of 2"),
        ("factor=5).1", "factor=5).0", "is marked f32\\[\\], but its op gives f32\\[2, 3\\]"),
    ],
)
def test_a_wrong_result_is_refused(right: str, wrong: str, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        verify(parse_graph(TEXT.replace(right, wrong), EVERY_OP))


# --- numbers and gradients ------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("scaled",), ("sum",), ("scaled", "sum")])
def test_all_results_are_computed_at_once(names: tuple[str, ...]) -> None:
    found = evaluate(graph_of(*names), {"x": X}).outputs
    expected = {"scaled": 5 * X, "sum": np.float32(55)}
    assert found.keys() == set(names)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
        assert array.dtype == np.float32
    assert ScaleAndSum.calls == ["evaluate"]


def test_the_result_that_is_sought_is_found() -> None:
    """3e30 times 5 is a number of f32, and the sum of squares is not."""
    found = Interpreter(graph_of("scaled", "sum")).find(
        {"x": np.full_like(X, 3e30)}, lambda array: bool(np.isinf(array).any())
    )
    assert found is not None
    assert found.index == 1


@pytest.mark.parametrize("used", [slice(0, 1), slice(1, 2), slice(None)])
def test_a_gradient_comes_through_each_result(used: slice) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    y = build.add(Neg(), x)
    loss = weighted_loss(build, build.add_all(ScaleAndSum(5), y)[used])
    (gradient,) = differentiate(build, loss, [x])
    assert ScaleAndSum.calls == ["pullback"]
    graph = build.graph({"dx": gradient})
    verify(graph)
    feeds = fed(build.graph({"loss": loss}), {"x": X.astype(np.float64)})
    given = {name: feeds[name] for name in Interpreter(graph).leaves}
    found = evaluate(graph, given, Precision.DOUBLE).outputs["dx"]
    assert_same(found, numeric_gradient(build.graph({"loss": loss}), feeds, "x"))


# --- the e-graph ----------------------------------------------------------------------------------


def rewritten() -> Graph:
    """Both results, with work before and behind them that rules rewrite."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    scaled, total = build.add_all(ScaleAndSum(5), build.add(Neg(), build.add(Neg(), x)))
    scaled = build.add(Add(), build.add(Reshape((2, 3)), scaled), full(build, x.type, 0))
    return build.graph({"scaled": scaled, "sum": build.add(Neg(), build.add(Neg(), total))})


def test_results_stay_together_when_what_is_around_them_is_rewritten() -> None:
    graph = rewritten()
    optimized = optimize(graph, mode="infer").graph
    verify(optimized)
    assert format_graph(optimized) == TEXT
    expected = evaluate(graph, {"x": X}).outputs
    for name, array in evaluate(optimized, {"x": X}).outputs.items():
        np.testing.assert_array_equal(array, expected[name])


def test_an_application_is_paid_for_once() -> None:
    x, scaled, total = (each.type for each in graph_of("scaled", "sum").values)
    work = ScaleAndSum(5).flops([x], scaled)
    assert graph_cost(graph_of("scaled", "sum")) == Cost(24 + 24 + 4, work, 1)
    assert graph_cost(graph_of("scaled")) == Cost(24 + 24, work, 1)
    assert total.rank == 0


def extraction_cost(graph: Graph) -> float:
    """The seconds that extraction minimizes."""
    found = saturate_graph(graph, "train").found
    roots = tuple(dict.fromkeys(found.values[-len(graph.outputs) :]))
    question = ask(found, roots, DEFAULT_DEVICE, apart=False)
    return question.problem.cost(extract(question.problem))


def test_extraction_pays_for_an_application_once() -> None:
    one, both = extraction_cost(graph_of("scaled")), extraction_cost(graph_of("scaled", "sum"))
    assert DEFAULT_DEVICE.launch < one < both < one + DEFAULT_DEVICE.launch / 100


@pytest.mark.parametrize("mode", MODES)
def test_one_op_applied_to_two_tensors_is_paid_for_twice(mode: Mode) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    one, other = (build.add_all(ScaleAndSum(5), each) for each in (x, build.add(Exp(), x)))
    graph = build.graph({"a": one[0], "b": one[1], "c": other[0], "d": other[1]})
    assert graph_cost(graph).launches == 2
    assert 2 * DEFAULT_DEVICE.launch < extraction_cost(graph) < 3 * DEFAULT_DEVICE.launch
    optimized = optimize(graph, mode=mode).graph
    verify(optimized)
    expected = evaluate(graph, {"x": X}).outputs
    for name, array in evaluate(optimized, {"x": X}).outputs.items():
        np.testing.assert_array_equal(array, expected[name])


def test_results_of_a_constant_are_computed_when_it_is_loaded() -> None:
    build = Builder()
    x, w = (
        build.add(Input("x", DType.F32, ())),
        build.add(Parameter("w", DType.F32, (2, 3), "param")),
    )
    scaled, total = build.add_all(ScaleAndSum(5), w)
    graph = build.graph({"scaled": build.add(Exp(), scaled), "sum": build.add(Mul(), total, x)})
    optimized = optimize(graph, mode="infer")
    assert not any(isinstance(value.op, ScaleAndSum) for value in optimized.graph.values)
    derived = evaluate(optimized.load, {"w": X}).outputs
    expected = evaluate(graph, {"x": np.array(3, np.float32), "w": X}).outputs
    found = evaluate(optimized.graph, {"x": np.array(3, np.float32), **derived}).outputs
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-6)


def test_both_results_are_of_one_way_to_compute_them() -> None:
    """Attention with repeated heads: the rule that shares them matches each result by itself."""
    build = Builder()
    q, k, v = (
        build.add(Input(name, DType.F32, (heads, 8, 4)))
        for name, heads in (("q", 6), ("k", 2), ("v", 2))
    )
    repeated = [
        build.add(Reshape((6, 8, 4)), build.add(Broadcast((2, 3, 8, 4), (0, 2, 3)), each))
        for each in (k, v)
    ]
    mean, rows = build.add_all(Attention(0.5, causal=False), q, *repeated)
    outputs = {"mean": mean, "rows": build.add(Sum((1,)), rows)}
    optimized = optimize(build.graph(outputs), mode="train").graph
    verify(optimized)
    results = [value for value in optimized.values if isinstance(value.op, Attention)]
    assert [value.index for value in results] == [0, 1]
    assert {value.op for value in results} == {Attention(0.5, causal=False, shared=3)}
    assert len(by_application(results)) == 1
