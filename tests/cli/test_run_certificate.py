"""`train` and `build --certificate`: the optimizations of the very graphs that run."""

import json
from pathlib import Path

import numpy as np
import pytest
from meganeura_verify.__main__ import main
from safetensors.numpy import save_file

from tests.cli.command import Command

PROGRAM = """\
block Net()(x: [n, 6]) -> [n, 3]:
  h = x |> fc1: linear(8) |> relu
  return h |> fc2: linear(3)

model net = Net()

train fit(x: [batch, 6], y: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 1
    device    = "cpu"
    optimizer = sgd(lr=0.1)
"""
SIZED = ("--mode", "infer", "--size", "n=2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program and nine examples, in which commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mgn").write_text(PROGRAM)
    x = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    save_file({"x": x, "y": np.arange(9, dtype=np.int32) % 3}, tmp_path / "points.safetensors")
    return tmp_path


def modes(file: Path) -> list[str]:
    return [run["mode"] for run in json.loads(file.read_text())["runs"]]


def test_a_training_certifies_each_step_that_it_makes(
    meganeura: Command, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of a full batch and that of the last, which is smaller."""
    file = folder / "step.json"
    shown = meganeura("train", "p.mgn", "--certificate", "step.json", "--set", "drop_last=false")
    assert shown.code == 0
    assert "of 4 optimizations; check it by meganeura-verify step.json" in shown.out
    assert modes(file) == ["forward", "train"] * 2
    assert main([str(file), "--text", "p.mgn"]) == 0
    shown = capsys.readouterr().out
    assert "`p.mgn` has the digest of p.mgn in the certificate" in shown
    assert "a digest is a claim" in shown
    (folder / "p.mgn").write_text(PROGRAM + "\n")
    assert main([str(file), "--text", "p.mgn"]) == 1
    assert "it is about other texts than `p.mgn`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--certificate", "nowhere/step.json"), "there is no folder `nowhere`"),
        (("--certificate", "other.json"), "it is not a certificate of an optimization"),
        (("--certificate", "step.txt"), "the name ends in .json"),
        (("--certificate", "step.json", "--no-opt"), "so there is nothing to certify"),
        (("--certificate", "step.json", "--set", "optimize=false"), "nothing to certify"),
        (("--force",), "there is no file to replace: give --certificate FILE"),
    ],
)
def test_where_nothing_can_be_certified_no_run_begins(
    meganeura: Command, folder: Path, given: tuple[str, ...], said: str
) -> None:
    (folder / "other.json").write_text("{}")
    shown = meganeura("train", "p.mgn", *given)
    assert shown.code in (1, 2)
    assert said in " ".join(shown.err.split())
    assert not (folder / "runs").exists()
    assert (folder / "other.json").read_text() == "{}"
    assert not (folder / "step.json").exists()


@pytest.mark.parametrize(("options", "found"), [(SIZED, ["infer"]), ((), ["forward", "train"])])
def test_a_build_certifies_what_it_prints(
    meganeura: Command, folder: Path, options: tuple[str, ...], found: list[str]
) -> None:
    target = "p.mgn:net" if options else "p.mgn:fit"
    plain = meganeura("build", target, *options)
    shown = meganeura("build", target, *options, "--certificate", "run.json")
    assert shown.out == plain.out
    assert "check it by meganeura-verify run.json" in shown.err
    assert modes(folder / "run.json") == found
    assert main([str(folder / "run.json")]) == 0
