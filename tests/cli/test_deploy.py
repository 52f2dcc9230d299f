"""`meganeura deploy`: from trained weights to those of the inference form."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.io.weights import initial_values, write_weights
from tests.cli.command import Command, Outcome
from tests.narrow import NARROW, Narrow, trained


def deploy(
    meganeura: Command, model: Narrow, folder: Path, values: dict[str, Array], *more: str
) -> Outcome:
    source = folder / "in.safetensors"
    write_weights(source, model.elaborate().parameters, values, {})
    files = ("--weights", str(source), "-o", str(folder / "out.safetensors"))
    return meganeura("deploy", model.target, *files, *model.options, *more)


def test_the_inference_form_is_written_and_measured(meganeura: Command, tmp_path: Path) -> None:
    model = NARROW["repvgg_b1g4"]
    shown = deploy(meganeura, model, tmp_path, trained(model.elaborate()))
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "repvgg_b1g4: 96 tensors become 16"
    assert lines[1].startswith("largest difference of an output: ")
    assert lines[2] == f"written: {tmp_path / 'out.safetensors'}"
    tensors = load_file(tmp_path / "out.safetensors")
    assert tensors["stages.0.1.reparam_conv.weight"].shape == (8, 2, 3, 3)
    assert tensors["stem.reparam_conv.bias"].shape == (8,)


def test_an_untrained_model_is_warned_of(meganeura: Command, tmp_path: Path) -> None:
    model = NARROW["resnet18"]
    shown = deploy(meganeura, model, tmp_path, initial_values(model.elaborate().parameters, 0))
    assert shown.code == 0
    assert shown.err.startswith("warning: all running statistics are what they start as")


def test_a_form_that_differs_is_not_written(meganeura: Command, tmp_path: Path) -> None:
    model = NARROW["resnet18"]
    values = trained(model.elaborate())
    values["conv1.weight"] = np.full_like(values["conv1.weight"], 1e38)
    shown = deploy(meganeura, model, tmp_path, values)
    assert shown.code == 1
    assert "error[E0580]" in shown.err
    assert not (tmp_path / "out.safetensors").exists()


def test_weights_of_another_model_are_refused(meganeura: Command, tmp_path: Path) -> None:
    model = NARROW["resnet18"]
    values = trained(model.elaborate())
    shown = deploy(meganeura, model, tmp_path, values, "--set", "classes=4")
    assert shown.code == 1
    assert "error[E0540]" in shown.err
