"""Every pass makes of its golden files what stands there, and keeps their meaning."""

import pytest

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_runtime.backends.verify_passes import VERIFY, PassError
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.passes import pipeline
from meganeura_runtime.backends.webgpu.passes.pipeline import after_each
from tests.dsl.transforms.egraph.compare import assert_equal_results, feeds, run
from tests.passes.golden import BACK_END, FRONT_END, Golden, goldens

GOLDENS = tuple(goldens())
CHANGING = ("gradient", "sgd-step")
"""Passes that add outputs or updates."""


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_pass_makes_what_stands_in_its_file(golden: Golden) -> None:
    after = golden.run()
    assert format_graph(after) == golden.after
    verify(after)


@pytest.mark.parametrize(
    "golden",
    [each for each in GOLDENS if each.path.parent.name not in CHANGING],
    ids=lambda golden: golden.name,
)
def test_a_pass_keeps_the_meaning(golden: Golden) -> None:
    before, after = golden.graph, golden.run()
    verify(before)
    fed = feeds(before)
    leaves = {value.op.name for value in after.values if isinstance(value.op, Leaf)}
    found = run(after, {name: fed[name] for name in leaves})
    assert_equal_results(found, run(before, fed))


def test_every_pass_has_a_file_that_it_changes() -> None:
    changed = {each.path.parent.name for each in GOLDENS if _changes(each)}
    assert changed == {*BACK_END, *FRONT_END}


def _changes(golden: Golden) -> bool:
    return format_graph(golden.graph) != golden.after


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_values(graph: Graph, _target: Target) -> Graph:
        return Graph((), graph.outputs)

    graph = next(each for each in GOLDENS if each.path.parent.name == "legalize").graph
    monkeypatch.setattr(pipeline, "PASSES", (drop_values,))
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(PassError, match=r"after drop-values: .* not among") as raised:
        list(after_each(graph, Target()))
    assert isinstance(raised.value.__cause__, GraphError)
    monkeypatch.setenv(VERIFY, "0")
    assert [name for name, _ in after_each(graph, Target())] == ["drop-values"]
