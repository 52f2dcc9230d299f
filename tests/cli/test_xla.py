"""The device `xla` and its precisions on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.support.installation import install_command
from meganeura_runtime.backends.xla import backend
from tests.cli.command import Command


def test_devices_lists_it_and_says_what_is_missing(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "xla:cpu" in meganeura("devices").out
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    shown = meganeura("devices")
    assert shown.code == 0
    assert "xla:cpu" not in shown.out
    told = f"no device of JAX can be used: JAX is not installed: {install_command('xla')}"
    assert told in shown.err


def test_a_run_that_needs_it_says_how_to_install_it(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    shown = meganeura("train", "digits_mlp", "--device", "xla")
    assert shown.code != 0
    assert f"error[E0551]: JAX is not installed: {install_command('xla')}" in shown.err


def test_a_program_says_what_it_computes_in(meganeura: Command) -> None:
    narrow = ("--set", "precision=bf16")
    header, *lines = meganeura("build", "digits_mlp", "--emit", "precision", *narrow).out.split(
        "\n"
    )
    assert header.split() == ["value", "computed", "in", "stored", "in", "place"]
    product = next(line for line in lines if "MatMul" in line)
    assert "bfloat16, summed in float32  bfloat16" in product
    assert "bf16" in meganeura("build", "digits_mlp", "--emit", "stablehlo", *narrow).out
    assert "bf16" not in meganeura("build", "digits_mlp", "--emit", "stablehlo").out
    refused = meganeura("build", "digits_mlp", "--emit", "plan", *narrow)
    assert refused.code != 0
    assert "E0559" in refused.err
    others = meganeura("build", "digits_mlp", "--emit", "plan", "--device", "xla:cpu")
    assert others.code != 0
    assert "there is no plan for the device of JAX, but stablehlo or precision" in others.err


def test_a_model_runs_in_a_precision(meganeura: Command, tmp_path: Path) -> None:
    image, output = tmp_path / "image.npy", tmp_path / "output.npy"
    np.save(image, np.arange(128, dtype=np.float32).reshape(2, 1, 8, 8) % 17)
    found = {}
    for precision in ("f32", "bf16"):
        shown = meganeura(
            *("run", "digits_mlp", "--random-weights", "1", "--input", str(image)),
            *("--device", "xla:cpu", "--precision", precision, "--output", str(output)),
        )
        assert shown.code == 0, shown.err
        assert ("in bf16" in shown.out) == (precision == "bf16")
        found[precision] = np.load(output)
    difference = np.abs(found["f32"] - found["bf16"]).max()
    assert 0 < difference < 0.03 * np.abs(found["f32"]).max()


def test_a_step_is_profiled(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "xla:cpu", "--json")
    found = json.loads(shown.out)
    assert found["clock"].startswith("JAX's profiler")
    assert any(row["kind"] == "matmul" for row in found["rows"])
