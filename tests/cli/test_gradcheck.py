"""`meganeura gradcheck`, and the way it fails."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from meganeura.cli.commands import gradcheck
from meganeura_dsl.gradcheck import case_search
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.subjects import Subject
from meganeura_dsl.gradcheck.verdicts import Skipped, Verdict
from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import Logistic, Mul
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.backends.errors import LimitError
from tests.cli.command import Command


def test_an_index_out_of_range_is_no_mistake_of_ours(meganeura: Command, tmp_path: Path) -> None:
    text = "block B()(x: [4], t: [5]) -> [4] = gather(t, i32(100 * abs(x))) * 2\n"
    (tmp_path / "b.mgn").write_text(f"{text}block C()(x: [n]) -> [n] = x * x\n")
    shown = meganeura("gradcheck", str(tmp_path / "b.mgn"), "--examples", "2")
    assert shown.code == 1
    assert "B: not checked: an index is " in shown.out
    assert "C: fine, 2 examples, " in shown.out, "one block does not end the run"
    assert shown.err == ""


def test_without_hypothesis_the_command_to_install_it_is_named(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    shown = meganeura("gradcheck", "nn", "--block", "relu", "--examples", "2")
    assert (shown.code, shown.out) == (1, "")
    assert "error[E0564]: `hypothesis` is not installed" in shown.err
    assert install_command("gradcheck") in shown.err


def test_an_index_that_is_computed_is_drawn_in_range(meganeura: Command, tmp_path: Path) -> None:
    text = "block B()(x: [4, 3], y: i32[4]) -> [4, 3] = gather(x, y + 4) * 2\n"
    (tmp_path / "b.mgn").write_text(text)
    shown = meganeura("gradcheck", str(tmp_path / "b.mgn"), "--examples", "2")
    assert (shown.code, shown.err) == (0, "")


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("N()(x: [n]) -> [] = 1e9 + 1e-3 * sum(sin(x))", 1),
        ("N()(x: [n]) -> [n] = relu(x) + log(1 + exp(-abs(x)))", 1),
        ("N(iterations)(x: [n]) -> [n] = x / (iterations - 1)", 1),
        ("N()(x: [n]) -> [n] = f32(x > 0)", 0),
        ("N()(x: i32[n]) -> i32[n] = x + x", 0),
    ],
)
def test_a_gradient_that_was_not_decided_exits_with_1(
    meganeura: Command, tmp_path: Path, block: str, code: int
) -> None:
    """Beside a block that is fine; what has no gradient, or one of 0, has none to decide."""
    file = tmp_path / "net.mgn"
    file.write_text(f"block {block}\nblock F()(x: [n]) -> [n] = x * x\n")
    shown = meganeura("gradcheck", str(file), "--examples", "20")
    assert shown.code == code
    assert "F: fine, 20 examples" in shown.out
    assert ("not checked" in shown.out) is ("WRONG" not in shown.out)


def test_a_limit_of_the_device_is_no_mistake_of_ours(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(graph: Graph) -> object:
        raise LimitError(graph.values[0], "max-buffer-size", "8 bytes", "4 bytes")

    small = SimpleNamespace(description="small", open=refuse)
    monkeypatch.setattr(gradcheck, "choose_device", lambda _: small)
    shown = meganeura("gradcheck", "nn", "--block", "silu", "--examples", "1", "--device", "cpu")
    assert shown.code == 1
    said = "silu: not checked: a value exceeds the adapter's limit `max-buffer-size`"
    assert said in shown.out
    assert shown.err == ""


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
    def wrong(_op: Logistic, build: Builder, out: Value, cotangent: Value) -> tuple[Value]:
        return (build.add(Mul(), cotangent, full(build, out.type, 0.5)),)

    monkeypatch.setattr(Logistic, "pullback", wrong)
    shown = meganeura("gradcheck", "nn", "--block", "sigmoid", "--examples", "5")
    assert shown.code == 1
    assert "sigmoid: WRONG: the gradient along x" in shown.out
    assert "first wrong: `Logistic`" in shown.out


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


def unchecked(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make the check of some subjects find no case."""

    def verdict(subject: Subject, effort: SearchBudget) -> Verdict:
        if subject.name in names:
            return Skipped(subject.name, "no case fits")
        return check_gradients(subject, effort)

    monkeypatch.setattr(case_search, "check_gradients", verdict)


TWO = "block F(c)(x: [n, 3]) -> [n, c] = x |> fc: linear(c)\nblock G()(x: [n]) -> [n] = x * x\n"


@pytest.mark.parametrize(
    ("options", "skipped", "code"),
    [
        ([], ["F"], 1),  # although G was checked
        ([], ["F", "G"], 1),
        (["--block", "G"], ["F"], 0),
        (["--block", "F"], ["F"], 1),
    ],
)
def test_what_was_asked_for_and_is_not_checked_exits_with_1(
    meganeura: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    skipped: list[str],
    code: int,
) -> None:
    unchecked(monkeypatch, *skipped)
    file = tmp_path / "net.mgn"
    file.write_text(TWO)
    shown = meganeura("gradcheck", str(file), "--examples", "2", *options)
    assert shown.code == code
    assert [f"{name}: not checked: no case fits" in shown.out for name in skipped] == [
        not options or name in options for name in skipped
    ]


def test_one_target_that_is_not_checked_decides(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked(monkeypatch, "F", "G")
    file = tmp_path / "net.mgn"
    file.write_text(TWO)
    other = tmp_path / "other.mgn"
    other.write_text("block H()(x: [n]) -> [n] = x * x\n")
    for targets in ((file, other), (other, file)):
        assert meganeura("gradcheck", *map(str, targets), "--examples", "2").code == 1


def test_a_train_block_has_no_check_of_its_own(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(f"{TWO}train fit(x: [batch]):\n  minimize mean(x |> G())\n")
    shown = meganeura("gradcheck", f"{file}:fit")
    assert shown.code == 1
    assert "`fit` is no block and no model: it is not checked" in shown.out
