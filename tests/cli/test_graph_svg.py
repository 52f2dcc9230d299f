"""`explain-opt --svg`: both graphs, no box over another."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from meganeura.cli.reports.graph_svg import COLOURS, graph_svg, lay_out
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Add, Constant, Exp, Input, Mul
from meganeura_dsl.ir.ops.fused import Activation
from meganeura_dsl.ir.types import DType
from tests.cli.command import Command

SVG = "{http://www.w3.org/2000/svg}"


def graph() -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    two = build.add(Mul(), *(build.add(Constant(2.0, DType.F32)),) * 2)
    left, right = build.add(Exp(), x), build.add(Activation("silu"), x)
    return build.graph({"y": build.add(Add(), left, build.add(Mul(), right, two))})


def test_a_value_stands_below_all_it_reads_and_beside_no_other() -> None:
    drawing = lay_out("before", graph())
    assert [type(value.op).__name__ for value in drawing.shown] == [
        "Input", "Exp", "Activation", "Mul", "Add",
    ]  # fmt: skip
    for value in drawing.shown:
        x, y = drawing.positions[value.id]
        assert 0 < x < drawing.width
        assert 0 < y < drawing.height
        for operand in value.operands:
            if operand.id in drawing.positions:
                assert drawing.positions[operand.id][1] < y
    assert len(set(drawing.positions.values())) == len(drawing.shown)
    assert drawing.title == "before: 5 of 7 values"


def test_fused_ops_and_inputs_are_marked() -> None:
    root = ET.fromstring(graph_svg(graph(), graph(), as_page=False))  # noqa: S314 - our own
    fills = [box.get("fill", "none") for box in root.iter(f"{SVG}rect")]
    wanted = [COLOURS[kind][0] for kind in ("input", "op", "fused", "op", "op")]
    assert sorted(fills) == sorted(wanted * 2)
    assert {each.text for each in root.iter(f"{SVG}title")} == {"f32[]"}
    assert len(list(root.iter(f"{SVG}path"))) == 2 * 5


@pytest.mark.parametrize("name", ["net.svg", "net.html"])
def test_a_model_is_drawn_to_a_file(meganeura: Command, tmp_path: Path, name: str) -> None:
    shown = meganeura("explain-opt", "digits_cnn", "--svg", str(tmp_path / name))
    assert shown.code == 0
    text = (tmp_path / name).read_text()
    assert text.startswith("<svg" if name == "net.svg" else "<!doctype html>")
    assert "FusedConv" in text
    assert "block1.conv1 digits_cnn.mgn:" in text


def test_another_kind_of_file_is_refused(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("explain-opt", "digits_cnn", "--svg", str(tmp_path / "net.png"))
    assert shown.code == 2
    assert "neither a .svg nor a .html file" in shown.err
