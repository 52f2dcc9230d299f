"""`meganeura evaluate`: what weights give on examples, and how each class is told."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura import load
from meganeura_runtime.train.report.run_records import HELD_OUT
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


def test_a_run_is_measured_by_its_folder(
    meganeura: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its settings, of the examples it held out, and of its best weights."""
    monkeypatch.chdir(folder)
    more = ("--device", "cpu", "--out", "run", "--set", "validation=0.4", "--set", "epochs=2")
    assert meganeura("train", "net.mgn", *more).code == 0
    shown = meganeura("evaluate", "run")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[:4] == [
        "program: net.mgn:fit",
        "weights: run/best.safetensors",
        "device: cpu (as asked)",
        "3 examples, held out",
    ]
    held = load(folder / "net.mgn").evaluate(
        weights="run/best.safetensors", device="cpu", settings={"validation": 0.4}
    )
    data = meganeura("evaluate", "run", "--json")
    assert json.loads(data.out)["values"] == held
    records = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    best = min(each["loss"] for each in records if each["kind"] == HELD_OUT)
    assert held["loss"] == pytest.approx(best, rel=1e-6)
    two = meganeura("evaluate", "run", "--data", "two.npz", "--weights", "w.safetensors").out
    assert two.splitlines()[1:4] == [
        "weights: w.safetensors",
        "device: cpu (as asked)",
        "2 examples, all there are",
    ]
    again = meganeura("evaluate", "run", "--set", "validation=0.8").out
    assert "6 examples, held out" in again


def test_a_run_whose_program_changed_is_told(
    meganeura: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert meganeura("train", "net.mgn", "--device", "cpu", "--out", "run").code == 0
    (folder / "net.mgn").write_text(f"# another\n{PROGRAM}")
    changed = meganeura("evaluate", "run")
    assert (changed.code, changed.err) == (0, "net.mgn has changed since the run\n")
    np.save("x.npy", np.ones((1, 3), np.float32))
    shown = meganeura("run", "run", "--input", "x.npy", "--device", "cpu")
    assert shown.err == "program: net.mgn:fit\nnet.mgn has changed since the run\n"
    assert "weights: run/weights.safetensors" in shown.out
    assert "weights: run/weights.safetensors" in changed.out
    (folder / "net.mgn").rename(folder / "other.mgn")
    gone = meganeura("evaluate", "run")
    assert gone.code == 1
    assert "E0624" in gone.err
    assert "net.mgn:fit --weights run/best.safetensors" in gone.err
    (folder / "other.mgn").rename(folder / "net.mgn")
    for text in ("{", "[]", '{"batch": 3}', '{"epochs": "many"}'):
        (folder / "run" / "settings.json").write_text(text)
        broken = meganeura("evaluate", "run")
        assert broken.code == 1
        assert "E0621" in broken.err
    missing = meganeura("evaluate", "nowhere/run")
    assert missing.code == 2


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
    for command in ("shapes", "summary"):
        shown = meganeura(command, run)
        assert (shown.code, shown.out) == (2, "")
        assert "the folder of a run: name its program here" in " ".join(shown.err.split())


def test_weights_are_asked_for(meganeura: Command, folder: Path) -> None:
    shown = meganeura("evaluate", str(folder / "net.mgn"))
    assert shown.code == 2
    assert "--weights runs/fit-1/best.safetensors" in " ".join(shown.err.split())


@pytest.mark.parametrize("weights", [(), ("--weights", "w.safetensors")])
def test_a_folder_that_is_no_run_is_refused(
    meganeura: Command, folder: Path, weights: tuple[str, ...]
) -> None:
    shown = meganeura("evaluate", str(folder), *weights)
    assert shown.code == 2
    assert "is not the folder of a run, which has a run.json" in " ".join(shown.err.split())


def test_a_folder_may_have_the_name_of_a_standard_model(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits_mlp").mkdir()
    assert "--weights runs/fit-1" in " ".join(meganeura("evaluate", "digits_mlp").err.split())
    Path("digits_mlp", "run.json").write_text("{}")
    assert meganeura("check", "digits_mlp").code == 0
