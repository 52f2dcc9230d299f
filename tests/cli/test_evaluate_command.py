"""`meganeura evaluate`: what weights give on examples, and how each class is told."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura import load
from tests.cli.command import Command

PROGRAM = """\
block Net()(x: [n, 3]) -> [n, 3]:
  param scale: [3] = ones
  return x * expand(scale, [c] -> [n, c])

model net = Net()

train fit(x: [batch, 3], y: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    data  = "x.npz"
    batch = 4
"""
PREDICTED = (0, 0, 1, 1, 1, 2, 0)
LABELS = (0, 0, 1, 1, 0, 1, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Weights that let each example be what it is, and seven examples."""
    (tmp_path / "net.mgn").write_text(PROGRAM)
    examples = np.eye(3, dtype=np.float32)[list(PREDICTED)]
    np.savez(tmp_path / "x.npz", x=examples, y=np.array(LABELS, np.int32))
    np.savez(tmp_path / "two.npz", x=examples[:2], y=np.array(LABELS[:2], np.int32))
    save_file({"scale": np.full(3, 5, np.float32)}, tmp_path / "w.safetensors")
    return tmp_path


def command(folder: Path, *more: str) -> tuple[str, ...]:
    weights = ("--weights", str(folder / "w.safetensors"))
    return "evaluate", str(folder / "net.mgn"), *weights, "--device", "cpu", *more


def test_classes_have_their_recall_and_precision(meganeura: Command, folder: Path) -> None:
    shown = meganeura(*command(folder))
    assert (shown.code, shown.err) == (0, "")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["device:", "cpu", "(as", "asked)"],
        ["7", "examples,", "all", "there", "are"],
        ["loss", f"{loss():.5g}"],
        ["accuracy", f"{4 / 7:.5g}"],
        [],
        ["class", "examples", "recall", "precision", "mostly", "taken", "for"],
        ["0", "3", "0.6667", "0.6667", "1", "(1)"],
        ["1", "4", "0.5000", "0.6667", "2", "(1)"],
        ["2", "0", "-", "0.0000"],
    ]


def loss() -> float:
    """Of logits 5 at what is predicted and 0 elsewhere."""
    total = np.log(np.exp(5) + 2)
    right = [p == y for p, y in zip(PREDICTED, LABELS, strict=True)]
    return float(np.mean([total - 5 * each for each in right]))


def test_python_measures_the_same(meganeura: Command, folder: Path) -> None:
    shown = json.loads(meganeura(*command(folder, "--json")).out)
    found = load(folder / "net.mgn").evaluate(weights=folder / "w.safetensors", device="cpu")
    assert shown["values"] == found
    assert (shown["examples"], shown["held_out"]) == (7, False)
    assert [each["predicted"] for each in shown["classes"]] == [[2, 1, 0], [1, 2, 1], [0, 0, 0]]
    assert shown["classes"][2]["recall"] is None


def test_other_examples_and_those_held_out(meganeura: Command, folder: Path) -> None:
    two = meganeura(*command(folder, "--data", str(folder / "two.npz"))).out
    assert two.splitlines()[1] == "2 examples, all there are"
    assert ["accuracy", "1"] in [line.split() for line in two.splitlines()]
    held = meganeura(*command(folder, "--set", "validation=0.4")).out
    assert held.splitlines()[1] == "3 examples, held out"


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--data", "digits"), 2, 'help: name the tensor data = file("digits", x="...")'),
        (("--data", "nowhere.npz"), 2, "nowhere.npz"),
        (("--set", "bach=2"), 2, "E0510"),
        (("--rename", "scale=other"), 1, "E0540"),
    ],
)
def test_what_is_wrong_is_said(
    meganeura: Command, folder: Path, more: tuple[str, ...], code: int, told: str
) -> None:
    shown = meganeura(*command(folder, *more))
    assert (shown.code, shown.out) == (code, ""), shown.err
    assert told in " ".join(shown.err.split())
    assert "Traceback" not in shown.err


def test_the_folder_of_a_run_is_no_program(meganeura: Command, folder: Path) -> None:
    run = str(folder / "run")
    trained = meganeura("train", str(folder / "net.mgn"), "--out", run, "--device", "cpu")
    assert trained.code == 0, trained.err
    for command in ("evaluate", "summary"):
        more = ("--weights", run) if command == "evaluate" else ()
        shown = meganeura(command, run, *more)
        assert (shown.code, shown.out) == (2, "")
        assert "the folder of a run: name its program here" in " ".join(shown.err.split())


def test_weights_are_asked_for(meganeura: Command, folder: Path) -> None:
    shown = meganeura("evaluate", str(folder / "net.mgn"))
    assert shown.code == 2
    assert "--weights runs/fit-1/best.safetensors" in " ".join(shown.err.split())
