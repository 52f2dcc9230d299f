"""`meganeura graph`: the layers of a model for Graphviz, which is not needed here, and as SVG."""

import re
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

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
TIMES = "\N{MULTIPLICATION SIGN}"
SVG = "{http://www.w3.org/2000/svg}"
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
    shown = " ".join(meganeura("graph", net, "-o", "net.txt").err.split())
    assert "the name ends in .html, .svg or .dot" in shown
    assert Path("net.dot").read_text() == "mine"


@pytest.mark.parametrize("name", ["net.svg", "net.html"])
def test_a_file_that_is_no_drawing_is_not_replaced(meganeura: Command, net: str, name: str) -> None:
    for _ in range(2):
        assert meganeura("graph", net, "-o", name).code == 0
    Path(name).write_text("<svg>mine</svg>")
    assert "E0539" in meganeura("graph", net, "-o", name).err
    assert meganeura("graph", net, "-o", name, "--force").code == 0


def elements(tag: str) -> list[ET.Element]:
    """Returns the elements of the picture that was written, which is well-formed XML."""
    root = ET.fromstring(Path("net.svg").read_text())  # noqa: S314 - our own
    return list(root.iter(f"{SVG}{tag}"))


def texts() -> list[str]:
    """Returns all that is written in the picture."""
    return ["".join(each.itertext()) for each in elements("text")]


def test_a_picture_has_the_layers_once_with_their_types(meganeura: Command, net: str) -> None:
    shown = meganeura("graph", net, "-o", "net.svg")
    assert shown.out == "written: net.svg\n"
    frame, *_ = written = texts()
    assert frame == f"3 {TIMES} body.[0-2] Body"
    assert written.count("f32[n, 8]") == 8  # six edges, two inputs
    assert {"fc", "linear · 72 weights", "add", "mul", "head", "f32[n, 2]"} <= set(written)
    titles = [each.text for each in elements("title")]
    assert "body.0.fc: linear\n72 weights, 136 FLOPs, 64 B of memory\nnet.mgn:1" in titles
    meganeura("graph", net, "-o", "net.svg", "--depth", "1")
    assert f"Body · 3 {TIMES} 72 weights" in texts()
    assert "fc" not in texts()


def test_a_picture_keeps_its_boxes_apart(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meganeura("graph", "resnet18", "-o", "net.svg")
    boxes = list[tuple[float, float, float, float]]()
    for group in elements("g"):
        if group.get("class") in {"layer", "join", "end"}:
            outline = group.find(f"{SVG}rect")
            assert outline is not None
            x, y, wide, high = (float(outline.get(k, "")) for k in ("x", "y", "width", "height"))
            boxes.append((x, y, x + wide, y + high))
    assert len(boxes) > 30
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)


def test_a_long_model_is_laid_out(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.svg"
    assert meganeura("graph", "densenet121", "-o", str(file)).code == 0
    assert file.read_text().count('class="layer"') > 240


def test_without_the_engine_a_picture_says_what_to_install(
    meganeura: Command, net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "quickjs", None)
    shown = meganeura("graph", net, "-o", "net.svg").err
    assert "E0564" in shown
    assert "drawing" in shown
    assert not Path("net.svg").exists()


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
