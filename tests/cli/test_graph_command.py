"""`meganeura graph`: the layers of a model for Graphviz, which is not needed here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.graph_drawing import drawing_data, graphviz
from meganeura_dsl.summary import summarize
from tests.cli.command import Command

NET = """\
block Body()(x: [n, d]) -> [n, d] = x + (x |> fc: linear(d) |> relu)

block Net(depth=3)(x: [n, 8], y: [n, 8]) -> [n, 2]:
  x = x * y
  for i in 0..depth:
    x = x |> body[i]: Body
  return x |> head: linear(2)

model net = Net()
"""
NODE = re.compile(r'^ *"([^"]+)" \[', re.MULTILINE)
EDGE = re.compile(r'^  "([^"]+)" -> "([^"]+)" \[label="([^"]*)"\];$', re.MULTILINE)
FRAME = re.compile(r'subgraph "cluster ([^"]+)" \{\n *label="([^"]*)"')


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.mgn").write_text(NET)
    return "net.mgn"


def test_a_residual_in_equal_blocks_is_drawn_once(meganeura: Command, net: str) -> None:
    shown = meganeura("graph", net)
    assert (shown.code, shown.err) == (0, "")
    assert FRAME.findall(shown.out) == [("body.0", r"body.[0-2]\nBody\n3 x 72 weights")]
    assert NODE.findall(shown.out) == [
        *("x", "y", "body.0.fc", "body.0#add1", "head", "#mul1", "output 0")
    ]
    assert EDGE.findall(shown.out) == [
        ("x", "#mul1", "f32[n, 8]"),
        ("y", "#mul1", "f32[n, 8]"),
        ("#mul1", "body.0.fc", "f32[n, 8]"),
        ("#mul1", "body.0#add1", "f32[n, 8]"),
        ("body.0.fc", "body.0#add1", "f32[n, 8]"),
        ("body.0#add1", "head", "f32[n, 8]"),
        ("head", "output 0", "f32[n, 2]"),
    ]
    assert 'tooltip="net.mgn:1"' in shown.out


def test_blocks_are_opened_as_deep_as_is_asked(meganeura: Command, net: str) -> None:
    shown = meganeura("graph", net, "--depth", "1", "--set", "n=4").out
    assert FRAME.findall(shown) == []
    assert EDGE.findall(shown)[2:] == [
        ("#mul1", "body.0", "f32[4, 8]"),
        ("body.0", "head", "f32[4, 8]"),
        ("head", "output 0", "f32[4, 2]"),
    ]


def test_a_layer_is_coloured_by_its_share(meganeura: Command, net: str) -> None:
    shares = {"weights": (72 / 234, 18 / 234), "flops": (136 / 522, 34 / 522)}
    for measure, (body, head) in shares.items():
        shown = meganeura("graph", net, "--colour", measure).out
        fills = dict(
            re.findall(r'^ *"([^"]+)" \[.*fillcolor="0.58 ([\d.]+) 1.000"', shown, re.MULTILINE)
        )
        assert float(fills["head"]) == pytest.approx(0.6 * head, abs=0.01)
        assert float(fills["body.0.fc"]) == pytest.approx(0.6 * body, abs=0.01)
    open_size = meganeura("graph", "resnet18", "--colour", "flops")
    assert open_size.code == 2
    assert "--set h=NUMBER --set w=NUMBER" in " ".join(open_size.err.split())


def test_a_drawing_replaces_drawings_alone(meganeura: Command, net: str) -> None:
    for _ in range(2):
        shown = meganeura("graph", net, "-o", "net.dot")
        assert shown.out == "written: net.dot; dot -Tsvg net.dot lays it out\n"
    assert Path("net.dot").read_text() == meganeura("graph", net).out
    Path("net.dot").write_text("mine")
    assert "E0539" in meganeura("graph", net, "-o", "net.dot").err
    assert "the name ends in .dot" in " ".join(meganeura("graph", net, "-o", "net.svg").err.split())
    assert Path("net.dot").read_text() == "mine"


def inside(layers: list[dict[str, Any]]) -> Iterator[str]:
    for each in layers:
        yield from inside(each["inside"]) if each["inside"] else (each["id"],)


@pytest.mark.parametrize("name", ["resnet18", "gpt2:gpt2_tiny", "densenet121"])
def test_all_that_is_joined_is_drawn(name: str) -> None:
    program = pipeline.load(name)
    model = program.models[0] if program.chosen is None else program.model()
    found = summarize(
        model, lambda sizes: pipeline.elaborate_model(program, model, sizes=sizes), {}
    )
    text = graphviz(found, pipeline.elaborate_model(program, model).graph)
    nodes, edges = NODE.findall(text), EDGE.findall(text)
    assert len(nodes) == len(set(nodes))
    assert text.count("{") == text.count("}")
    joined = {end for source, target, _ in edges for end in (source, target)}
    assert joined <= set(nodes)
    assert {each for each in nodes if each not in joined} == set()
    data = drawing_data(found, pipeline.elaborate_model(program, model).graph)
    apart = [each["id"] for each in (*data["joins"], *data["ends"])]
    assert sorted([*inside(data["layers"]), *apart]) == sorted(nodes)
    assert [tuple(each.values()) for each in data["edges"]] == edges
