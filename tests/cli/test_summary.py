"""`meganeura summary`: each layer with its block, what it gives, its weights and its arithmetic."""

from pathlib import Path

import numpy as np
import pytest

from meganeura import load
from meganeura_dsl import pipeline
from meganeura_dsl.ir.types import element_count
from meganeura_dsl.resources import standard_models
from meganeura_dsl.summary import Layer, summary_of
from tests.cli.command import Command

NET = """\
block Body()(x: [n, d]) -> [n, d] = x |> fc: linear(d) |> relu

block Net(depth=3)(x: [n, 8]) -> [n, 2]:
  for i in 0..depth:
    x = x |> body[i]: Body
  frozen param scale: [8] = ones
  return x * expand(scale, [d] -> [n, d]) |> head: linear(2)

model net = Net()
"""


def rows(text: str) -> list[list[str]]:
    """The cells of the table, without the head."""
    lines = text.partition("\n\n")[0].splitlines()[1:]
    return [[cell for cell in line.strip().split("  ") if cell.strip()] for line in lines]


def test_equal_layers_are_one_line_with_its_count(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(NET)
    shown = meganeura("summary", str(file))
    assert (shown.code, shown.err) == (0, "")
    cells = [[cell.strip() for cell in row] for row in rows(shown.out)]
    # A product of [1, 8] and [8, 8] has 128 additions and multiplications, the bias 8, the relu
    # 16, the scale 8. Each of these values takes 4 bytes for an element; the relu compares and
    # chooses.
    assert cells == [
        ["net", "f32[n, 2]", "242", "498", "432 B"],
        ["body.[0-2]", "Body", "f32[n, 8]", "3 x 72", "3 x 152", "3 x 128 B"],
        ["body.0.fc", "linear", "f32[n, 8]", "72", "136", "64 B"],
        ["head", "linear", "f32[n, 2]", "18", "34", "16 B"],
    ]
    assert shown.out.splitlines()[-3:] == [
        "242 weights, 8 of them frozen; 968 B in memory, states included",
        "498 FLOPs for n=1: additions and multiplications",
        "432 B of values are computed by the program as it is written",
    ]
    flat = meganeura("summary", str(file), "--depth", "1", "--set", "depth=1").out
    assert [row[0].strip() for row in rows(flat)] == ["net", "body.0", "head"]


def test_a_label_with_a_value_in_it_is_a_path(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(NET.replace("body[i]:", "body{i+1}:"))
    cells = [[cell.strip() for cell in row] for row in rows(meganeura("summary", str(file)).out)]
    assert [row[0] for row in cells] == [
        *("net", "body1", "body1.fc", "body2", "body2.fc", "body3", "body3.fc", "head")
    ]
    assert cells[0] == ["net", "f32[n, 2]", "242", "498", "432 B"]
    assert cells[1] == ["body1", "Body", "f32[n, 8]", "72", "152", "128 B"]


def test_python_gives_the_table_of_the_command(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(NET.replace("[n, 8]", "[n, t, 8]").replace("-> [n, 2]", "-> [n, t, 2]"))
    text = file.read_text().replace("[n, d]", "[n, t, d]")
    file.write_text(text)
    model = load(file).model()
    found = model.summary({"t": np.int64(4)})
    assert f"{found}\n" == meganeura("summary", str(file), "--set", "t=4").out
    assert (found.root.weights, found.trained, found.sizes) == (242, 234, {"t": 4, "n": 1})
    assert found.text(1) in meganeura("summary", str(file), "--set", "t=4", "--depth", "1").out
    assert str(model.summary()).endswith("FLOPs and memory follow from numbers: t=NUMBER")
    with pytest.raises(ValueError, match="the inputs leave no size `h` open, but n, t"):
        model.summary({"h": 3})
    with pytest.raises(ValueError, match="the size `t` is a number from 1, not 0"):
        model.summary({"t": 0})


def test_the_figures_of_resnet18_are_those_that_are_known(meganeura: Command) -> None:
    """1.82 G multiply-adds, 11,689,512 weights (torchvision)."""
    shown = meganeura("summary", "resnet18", "--set", "w=224", "--set", "h=224", "--depth", "1")
    assert "11,689,512 weights; 46.8 MB in memory" in shown.out
    assert "3.64 G FLOPs for w=224, h=224, n=1: " in shown.out
    assert ["layer4", "Stage", "f32[n, 512, 7, 7]", "8,393,728", "823 M", "3.04 MB"] in [
        [cell.strip() for cell in row] for row in rows(shown.out)
    ]


def test_sizes_without_a_number_are_asked_for(meganeura: Command) -> None:
    shown = meganeura("summary", "resnet18", "--set", "h=224").out
    assert shown.endswith("FLOPs and memory follow from numbers: --set w=NUMBER\n")
    assert "f32[n, 64, 112, ceil(w/2)]" in shown


def everything(layer: Layer) -> int:
    """The weights of the layers inside, each as often as it is there."""
    return sum(each.times * each.weights for each in layer.inside)


@pytest.mark.parametrize("name", ["gpt2", "resnet", "mamba", "t5", "recurrent", "vit"])
def test_no_weight_is_counted_twice_or_left_out(name: str) -> None:
    program = pipeline.load(str(standard_models() / f"{name}.mgn"))
    for model in program.models:
        symbolic = pipeline.elaborate_model(program, model)
        found = summary_of(model, symbolic, None)
        held = (each for each in symbolic.parameters if each.kind != "state")
        assert found.root.weights == sum(element_count(each.type) for each in held)
        pending = [found.root]
        while pending:
            layer = pending.pop()
            assert everything(layer) <= layer.weights
            assert layer.output
            pending += layer.inside


def test_a_file_of_several_models_asks_which(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(f"{NET}\nmodel deep = Net(depth=9)\n")
    shown = meganeura("summary", str(file))
    assert (shown.code, shown.out) == (2, "")
    assert "which model is meant?" in shown.err
    assert f"`{file}:net`" in shown.err
