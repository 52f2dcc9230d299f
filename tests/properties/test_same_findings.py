"""The comparison of two versions of the compiler sees what one of them does otherwise."""

from dataclasses import replace

import pytest

from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck import probabilities
from tests.properties.findings import Findings, findings
from tests.properties.same_findings import differences, reworded_graphs, same_expression

GRAPH = """\
%0 = Input(name="x", dtype=f32, shape=[n]) : f32[n]
%1 = Constant(value=2.0, dtype=f32) : f32[]
%2 = Neg(%0) : f32[n]
output "y" = %2
"""
FINE = "block Net()(x: [n, 3]) -> [n, 2] = x |> fc: linear(2)\nmodel net = Net()\n"
NOTED = """\
model net = linear(3)
train fit(x: [n, 4], labels: i32[n]):
  minimize x |> net |> softmax() |> cross_entropy(labels)
  run:
    n = 8
"""
WRONG = "block Net()(x: [n, 3]) -> [n, 4] = x |> fc: linear(2)\n"
NESTED = """\
block Part()(x: [n, 4]) -> [n, 4] = x |> fc: linear(4)
model net = Part()
block Net()(x: [n, 4]) -> [n, 4] = x |> part: Part()
model deep = Net()
"""


def found(text: str) -> Findings:
    return findings(text, "net.mgn")


def test_equal_findings_do_not_differ() -> None:
    assert differences(found(FINE), found(FINE)) == []


def test_a_refusal_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(WRONG)
    monkeypatch.setattr("meganeura_dsl.checker.Checker._add", lambda *_: None)
    assert "reports" in differences(before, found(WRONG))


def test_a_path_that_is_relative_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(NESTED)
    assert "part.fc" in str(before["parameters"])
    location = Frame.location
    monkeypatch.setattr(
        Frame,
        "location",
        lambda self, span: replace(at := location(self, span), path=at.path.rpartition(".")[2]),
    )
    assert differences(before, found(NESTED)) == ["parameters"]


def test_a_note_that_is_dropped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(NOTED)
    assert "N0006" in str(before["reports"])
    monkeypatch.setattr(probabilities, "normalised_by", lambda _: "")
    assert differences(before, found(NOTED)) == ["reports"]


def test_a_graph_may_be_written_otherwise() -> None:
    reordered = """\
%0 = Constant(value=2.0, dtype=f32) : f32[]
%1 = Input(name="x", dtype=f32, shape=[n]) : f32[n]
%2 = Neg(%1) : f32[n]
output "y" = %2
"""
    assert same_expression(GRAPH, reordered)
    assert not same_expression(GRAPH, GRAPH.replace("Neg", "Exp"))
    assert not same_expression(GRAPH, GRAPH.replace('output "y"', 'output "z"'))
    first, second = ({"graphs": {"net": text}} for text in (GRAPH, reordered))
    assert differences(first, second) == []
    assert reworded_graphs(first, second) == ["net"]
    assert differences(first, {"graphs": {"net": GRAPH.replace("Neg", "Exp")}}) == ["graphs"]
