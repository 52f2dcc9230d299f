"""A graph of fused ops, expanded: the same numbers, in primitives, with shared values shared."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Builder, Graph, Origin, Value
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.fused import Activation, FusedConv, Norm, Standardize, StandardizeGradient
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from tests.dsl.transforms.egraph.compare import (
    assert_equal_results,
    feeds,
    names,
    run,
    run_optimized,
)
from tests.narrow import NARROW


def fused_ops(graph: Graph) -> set[type]:
    return {type(value.op) for value in graph.values if isinstance(value.op, Fused)}


@pytest.mark.parametrize("name", NARROW)
def test_a_model_is_the_same_original_fused_and_spelled_out(name: str) -> None:
    graph = NARROW[name].elaborate().graph
    optimized = optimize(graph, mode="infer")
    fed = feeds(graph)
    derived = run(optimized.load, {each: fed[each] for each in names(optimized.load)}).outputs
    known = {**fed, **derived}
    expanded = expand_fused(optimized.graph)
    verify(expanded)
    assert fused_ops(optimized.graph)
    assert not fused_ops(expanded)
    assert names(expanded) == names(optimized.graph)
    expected = run(graph, fed)
    assert_equal_results(run_optimized(optimized, fed), expected)
    assert_equal_results(run(expanded, {each: known[each] for each in names(expanded)}), expected)


def test_a_training_step_is_the_same_spelled_out() -> None:
    program = pipeline.load("digits_cnn")
    forward = pipeline.elaborate_train(program, sizes={"batch": 3}, training=True).graph
    step = training_step(optimize(forward, mode="forward").graph, TrainingSettings(Sgd(0.1, 0.9)))
    fused = optimize(step, mode="train").graph
    expanded = expand_fused(fused)
    fed = feeds(step)
    assert fused_ops(fused)
    assert not fused_ops(expanded)
    assert_equal_results(run(expanded, fed), run(fused, fed))


def norm_and_its_gradient(build: Builder) -> tuple[Value, Value]:
    x, dy = (build.add(Input(name, DType.F32, (2, 3))) for name in ("x", "dy"))
    with build.at(Origin(path="ln")):
        return (
            build.add(Standardize((1,), 1e-5, centred=True), x),
            build.add(StandardizeGradient((1,), 1e-5, centred=True), x, dy),
        )


def test_what_two_ops_compute_alike_is_one_value() -> None:
    build = Builder()
    forward, backward = norm_and_its_gradient(build)
    counts = [
        len(expand_fused(build.graph(roots)).values)
        for roots in ({"y": forward}, {"dx": backward}, {"y": forward, "dx": backward})
    ]
    # The gradient standardises x too: with it at hand, the forward pass costs nothing more.
    assert counts[2] == counts[1] > counts[0]


def test_ops_with_a_kernel_stay_and_places_too() -> None:
    build = Builder()
    forward, backward = norm_and_its_gradient(build)
    graph = build.graph({"y": forward, "dx": backward})
    kept = expand_fused(graph, keep=(Standardize,))
    assert fused_ops(kept) == {Standardize}
    assert {value.origin.path for value in kept.values if value.operands} == {"ln"}
    assert fused_ops(expand_fused(graph, keep=(Standardize, StandardizeGradient))) == {
        Standardize,
        StandardizeGradient,
    }


def test_a_graph_without_fused_ops_stays_as_it_is() -> None:
    assert not {Activation, FusedConv, Norm} & fused_ops(
        graph := pipeline.elaborate_model(pipeline.load("digits_mlp"), sizes={"n": 1}).graph
    )
    assert [value.op for value in expand_fused(graph).values] == [v.op for v in graph.values]
