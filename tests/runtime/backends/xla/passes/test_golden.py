"""Every pass for XLA returns what its golden files hold, and keeps the meaning of the graph."""

import re

import pytest

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.verify_passes import VERIFY, PassError
from meganeura_runtime.backends.xla.config.measured_choices import FLATTEN_NORM_ROWS, disabled
from meganeura_runtime.backends.xla.passes import pipeline
from meganeura_runtime.backends.xla.passes.pipeline import (
    PASSES,
    Pass,
    PassTarget,
    after_each,
    run_passes,
)
from tests.dsl.transforms.egraph.compare import assert_equal_results, feeds, run
from tests.runtime.backends.xla.command_lines import ROOT
from tests.runtime.backends.xla.passes.golden import REWRITES, Golden, goldens

GOLDENS = tuple(goldens())
F32, TF32, BF16 = ComputePrecision.F32, ComputePrecision.TF32, ComputePrecision.BF16


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_pass_returns_what_its_file_holds_and_keeps_the_meaning(golden: Golden) -> None:
    before, after = golden.graph, golden.run()
    assert format_graph(after) == golden.after
    verify(before)
    verify(after)
    fed = feeds(before)
    leaves = {value.op.name for value in after.values if isinstance(value.op, Leaf)}
    found = run(after, {name: fed[name] for name in leaves})
    assert_equal_results(found, run(before, fed))


def test_every_pass_has_a_file_that_it_changes() -> None:
    changed = {each.path.parent.name for each in GOLDENS if each.after != format_graph(each.graph)}
    assert changed == {*REWRITES} == {each.name for each in PASSES}


def graph_of(name: str) -> Graph:
    """The graph of a golden file before its pass."""
    return next(each for each in GOLDENS if each.name == name).graph


@pytest.mark.parametrize(
    ("precision", "platform", "names"),
    [
        (F32, "cpu", ["reuse-attention-weights", "expand-unsupported"]),
        (TF32, "gpu", ["reuse-attention-weights", "expand-unsupported"]),
        (BF16, "cpu", ["expand-unsupported", "one-pass-variance", "relu-backward-from-output"]),
        (BF16, "gpu", [each.name for each in PASSES if each.name != "reuse-attention-weights"]),
    ],
)
def test_passes_run_for_their_precisions_and_platforms(
    precision: ComputePrecision, platform: str, names: list[str]
) -> None:
    graph = graph_of("flatten-norm-rows/variance")
    found = [each.name for each, _ in after_each(graph, PassTarget(precision, platform))]
    assert found == names


def test_some_passes_are_for_inference_alone() -> None:
    target = PassTarget(BF16, "gpu")
    inference = graph_of("flatten-norm-rows/variance")
    training = graph_of("one-pass-variance/row-in-training")
    skipped = {each.name for each in PASSES if each.runs(inference, target)} - {
        each.name for each in PASSES if each.runs(training, target)
    }
    assert skipped == {"fuse-matmul-epilogue", "flatten-norm-rows"}
    assert format_graph(run_passes(inference, target)) != format_graph(inference)
    with disabled(FLATTEN_NORM_ROWS):
        assert "flatten-norm-rows" not in {each.name for each, _ in after_each(inference, target)}


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("fuse-matmul-epilogue", "bf16, gpu, inference"),
        ("reuse-attention-weights", "f32 or tf32"),
        ("expand-unsupported", ""),
    ],
)
def test_a_pass_says_what_it_needs(name: str, needs: str) -> None:
    assert next(each.needs for each in PASSES if each.name == name) == needs


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_values(graph: Graph) -> Graph:
        return Graph((), graph.outputs)

    graph = graph_of("flatten-norm-rows/variance")
    monkeypatch.setattr(pipeline, "PASSES", (Pass(drop_values),))
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(PassError, match=r"after drop-values: .* not among"):
        list(after_each(graph, PassTarget(F32, "cpu")))
    monkeypatch.setenv(VERIFY, "0")
    assert [each.name for each, _ in after_each(graph, PassTarget(F32, "cpu"))] == ["drop-values"]


def test_the_page_lists_the_passes_with_what_they_need() -> None:
    page = (ROOT / "docs" / "xla.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z0-9, ]+) \| [a-z]", page, re.MULTILINE)
    assert rows == [(each.name, each.needs or "all") for each in PASSES]
