"""`meganeura gradcheck`, and the way it fails."""

from pathlib import Path

import pytest

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Mul, Tanh
from meganeura_dsl.ir.ops.primitive.broadcast import full
from tests.cli.command import Command


def test_an_index_out_of_range_is_no_mistake_of_ours(meganeura: Command, tmp_path: Path) -> None:
    text = "block B()(x: [4, 3], y: i32[4]) -> [4, 3] = gather(x, y + 4) * 2\n\nmodel b = B()\n"
    (tmp_path / "b.mgn").write_text(text)
    shown = meganeura("gradcheck", str(tmp_path / "b.mgn"), "--examples", "1")
    assert shown.code == 1
    assert "error[E0537]" in shown.err


def test_a_block_that_is_fine(meganeura: Command) -> None:
    shown = meganeura("gradcheck", "nn", "--block", "silu", "--examples", "5")
    assert shown.code == 0
    assert shown.out.startswith("silu: fine, 5 examples, ")


def test_every_block_and_model_of_a_file(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text("block F(c)(x: [n, 3]) -> [n, c] = x |> fc: linear(c)\nmodel f = F(c=2)\n")
    shown = meganeura("gradcheck", str(file), "--examples", "5", "--device", "cpu")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "device: cpu (as asked)"
    assert [line.partition(":")[0] for line in lines[1:]] == ["F", "f"]


def test_a_wrong_gradient_exits_with_1(meganeura: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_op: Tanh, build: Builder, out: Value, cotangent: Value) -> tuple[Value]:
        return (build.add(Mul(), cotangent, full(build, out.type, 0.5)),)

    monkeypatch.setattr(Tanh, "pullback", wrong)
    shown = meganeura("gradcheck", "nn", "--block", "sigmoid", "--examples", "5")
    assert shown.code == 1
    assert "sigmoid: WRONG: the gradient along x" in shown.out
    assert "first wrong: `Tanh`" in shown.out


def test_an_unknown_block_exits_with_2(meganeura: Command) -> None:
    shown = meganeura("gradcheck", "nn", "--block", "sillu")
    assert shown.code == 2
    assert "silu" in shown.err


def test_a_file_without_blocks_and_models_says_so(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text("def f(x) = x\n")
    shown = meganeura("gradcheck", str(file))
    assert shown.code == 0
    assert shown.out.endswith("net.mgn: it declares no block and no model\n")


def test_kinks(meganeura: Command) -> None:
    shown = meganeura("gradcheck", "nn", "--block", "relu", "--kinks", "--examples", "5")
    assert (shown.code, shown.out) == (0, "relu: fine, 5 examples\n")
