"""Options of the optimizer, and its messages for impossible ones."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Input, MatMul, Neg, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.egraph import optimize as optimizer
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import MissingEngineError, Progress
from meganeura_dsl.transforms.egraph.encoding.encode import encode
from meganeura_dsl.transforms.egraph.optimize import select
from meganeura_dsl.transforms.egraph.optimizer_problems import (
    FoldedOverflow,
    GaveUp,
    UnknownRule,
)
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.egraph.rewrite_report import Findings, RewriteReport
from meganeura_dsl.transforms.egraph.rules.rule import STACKED, rank_word
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.rule_pruning import features_of
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from meganeura_dsl.transforms.egraph.saturate.saturation import (
    STAGES,
    OptimizerError,
    saturate,
)
from tests.dsl.transforms.egraph.compare import names, ops_of
from tests.narrow import NARROW


def model() -> Graph:
    return NARROW["digits_cnn"].elaborate().graph


def test_a_disabled_rule_is_not_applied() -> None:
    assert "FusedConv_residual" in ops_of(RewriteOptions().optimize(model(), "infer").graph)
    without = RewriteOptions(disabled=("conv-residual",)).optimize(model(), "infer")
    assert "FusedConv_residual" not in ops_of(without.graph)


def test_what_is_derived_is_named_after_the_layer_that_reads_it() -> None:
    graph = RewriteOptions().optimize(model(), "infer").graph
    stem, head = ("derived.0", "derived.1"), ("fc.bias", "fc.derived.0")
    first, second = ([f"block{block}.derived.{n}" for n in range(4)] for block in (1, 2))
    shortcut = ("derived.2", "derived.3")
    assert names(graph) == ["image", *stem, *first, *shortcut, *second, *head]


def test_an_unknown_rule_is_refused_with_the_nearest() -> None:
    with pytest.raises(ProblemError) as caught:
        RewriteOptions(disabled=("conv-bias", "conv-residul")).optimize(model(), "train")
    problem = caught.value.problem
    assert isinstance(problem, UnknownRule)
    assert problem.name == "conv-residul"
    assert "did you mean `conv-residual`?" in render(problem.report())


def test_giving_up_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(graph: Graph, **_: object) -> None:
        raise OptimizerError(f"{len(graph.values)} values are too many for `conv-bias`")

    monkeypatch.setattr(optimizer, "optimize", give_up)
    with pytest.raises(ProblemError) as caught:
        RewriteOptions().optimize(model(), "infer")
    problem = caught.value.problem
    assert isinstance(problem, GaveUp)
    assert "too many for `conv-bias`" in render(problem.report())


@pytest.mark.parametrize("installed", ["", "egglog-12.0.0"])
def test_without_egglog_the_program_can_run_as_it_is_written(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Graph, **__: object) -> None:
        raise MissingEngineError(installed)

    monkeypatch.setattr(optimizer, "optimize", missing)
    with pytest.raises(ProblemError) as caught:
        RewriteOptions().optimize(model(), "infer")
    shown = render(caught.value.problem.report())
    assert "error[E0577]" in shown
    assert installed in shown
    assert "--no-opt" in shown
    assert "[optimize]" in shown


@pytest.mark.parametrize(("count", "more"), [(1, ""), (11, ""), (12, ""), (13, ", ...")])
def test_messages_list_a_dozen_names(count: int, more: str) -> None:
    names = tuple(f"n{number}" for number in range(count))
    listed = ", ".join(names[:12]) + more
    for problem in (UnknownRule("other", names), FoldedOverflow("derived.0", "f32", names)):
        (remark,) = problem.report().remarks
        assert remark.text == listed


def test_a_report_as_data_leaves_nothing_out() -> None:
    report = RewriteOptions().optimize(model(), "train").report
    data = report.data()
    own = {each.name for each in fields(RewriteReport)} - {"look", "trace"}
    assert data.keys() == own | {each.name for each in fields(Findings)} | {"contributed"}
    assert {name: data[name] for name in own} == {name: getattr(report, name) for name in own}


@pytest.mark.parametrize("mode", ["forward", "train", "infer"])
def test_a_node_of_another_type_than_its_class_is_no_result(mode: Mode) -> None:
    """It would be the work of a wrong rule, which is named."""
    graph = model()
    explored = saturate_graph(graph, mode)
    found = explored.found
    (output,) = graph.outputs.values()
    number = found.values[graph.values.index(output)]
    types = list(found.types)
    types[number] = TensorType(DType.F32, (*output.type.shape, 1))
    wrong = replace(
        explored,
        found=replace(found, types=tuple(types), why={**found.why, number: ("first", "last")}),
    )
    with pytest.raises(OptimizerError, match=r"which gives a .* rewrote it: `first`, `last`"):
        select(graph, wrong, mode, DEFAULT_DEVICE)


def test_a_class_of_another_type_is_found_beside_one_that_is_right() -> None:
    """The same op of operands of the same type: each type of a result is held against the rule."""
    build = Builder()
    x, y = (build.add(Input(name, DType.F32, (4,))) for name in "xy")
    graph = build.graph({"a": build.add(Neg(), x), "b": build.add(Neg(), y)})
    explored = saturate_graph(graph, "train")
    found = explored.found
    types = list(found.types)
    types[found.values[graph.values.index(graph.outputs["b"])]] = TensorType(DType.F32, (4, 1))
    wrong = replace(explored, found=replace(found, types=tuple(types)))
    with pytest.raises(OptimizerError, match="which gives a"):
        select(graph, wrong, "train", DEFAULT_DEVICE)


def test_an_op_of_operands_of_another_type_is_found_beside_one_that_is_right() -> None:
    """The same op, whose results are of one type, but whose operands are not."""
    build = Builder()
    x, y = (build.add(Input(name, DType.F32, (4, size))) for name, size in (("x", 3), ("y", 5)))
    graph = build.graph({"a": build.add(Sum((1,)), x), "b": build.add(Sum((1,)), y)})
    explored = saturate_graph(graph, "train")
    found = explored.found
    types = list(found.types)
    types[found.values[graph.values.index(y)]] = TensorType(DType.F32, (5, 4))
    wrong = replace(explored, found=replace(found, types=tuple(types)))
    with pytest.raises(OptimizerError, match=r"which gives a f32\[5\]"):
        select(graph, wrong, "train", DEFAULT_DEVICE)


def test_a_graph_has_the_features_of_each_type_that_an_op_makes() -> None:
    """Of a product of matrices and of one of stacked matrices, whichever comes first."""
    build = Builder()
    shapes = ((3, 3), (2, 3, 3))
    x, y = (build.add(Input(f"x{len(each)}", DType.F32, each)) for each in shapes)
    for first, second in ((x, y), (y, x)):
        products = [build.add(MatMul(), each, each) for each in (first, second)]
        found = features_of(encode((first, second, *products)))
        assert {STACKED, rank_word(2, "MatMul"), rank_word(3, "MatMul")} <= found


@pytest.mark.parametrize(
    ("values", "most"), [(1, 20_000), (500, 20_000), (501, 20_040), (9000, 360_000)]
)
@pytest.mark.parametrize("more", [0, 1])
def test_an_e_graph_may_grow_with_its_program(values: int, most: int, more: int) -> None:
    """Of a small program to a least bound, of a large one to forty entries for each value."""
    iterations = iter([True, *[False] * len(STAGES)])
    engine = SimpleNamespace(
        run=lambda _: Progress(next(iterations), {"grows": 3}), entries=lambda: most + more
    )
    if more:
        with pytest.raises(OptimizerError, match=f"{most + 1} entries, .* more than {most};"):
            saturate(cast("Any", engine), values)
    else:
        assert saturate(cast("Any", engine), values).matches == {"grows": 12}
