"""`meganeura check --limits`: what does not fit a GPU, and what would."""

from pathlib import Path

import pytest

from tests.cli.command import Command

PROGRAM = """\
train fit(image: [batch, 784], label: i32[batch]):
  minimize cross_entropy(image |> fc1: linear(1024) |> relu |> fc2: linear(10), label)
  run:
    data      = "digits.safetensors"
    batch     = {batch}
    optimizer = sgd(lr=0.01)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "net.mgn"


def test_a_step_that_fits_says_what_it_needs(meganeura: Command, program: Path) -> None:
    program.write_text(PROGRAM.format(batch=64))
    shown = meganeura("check", str(program), "--limits", "webgpu-default")
    assert shown.code == 0
    assert "`fit` fits webgpu-default: " in shown.out
    assert "MB, largest binding " in shown.out


def test_every_value_that_is_too_large_is_named_with_a_batch_that_fits(
    meganeura: Command, program: Path
) -> None:
    program.write_text(PROGRAM.format(batch=131072))
    shown = meganeura("check", str(program), "--limits", "webgpu-default")
    assert shown.code == 1
    assert shown.out.count("error[E0552]") >= 2
    assert "max-storage-buffer-binding-size" in shown.out
    assert "net.mgn:" in shown.out
    assert "`fit` would fit with batch = " in shown.out


def test_one_that_never_fits_is_told(meganeura: Command, program: Path) -> None:
    program.write_text(PROGRAM.format(batch=1).replace("linear(1024)", "linear(65536)"))
    shown = meganeura("check", str(program), "--limits", "webgpu-default")
    assert shown.code == 1
    assert "`fit` does not fit, however small its batch" in shown.out


@pytest.mark.adapter
def test_the_limits_of_an_adapter(meganeura: Command, program: Path) -> None:
    program.write_text(PROGRAM.format(batch=64))
    shown = meganeura("check", str(program), "--limits", "adapter")
    assert (shown.code, shown.err) == (0, "")
    assert "`fit` fits adapter: " in shown.out


def test_an_adapter_that_does_not_exist(meganeura: Command, program: Path) -> None:
    program.write_text(PROGRAM.format(batch=64))
    assert meganeura("check", str(program), "--limits", "abacus").code == 2
