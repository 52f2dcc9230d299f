"""`meganeura weights check`: what it says of files that fit, differ, lie or hold no numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import meganeura as api
from tests.cli.command import Command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Weights of `digits_mlp`."""
    path = tmp_path / "weights.safetensors"
    api.load("digits_mlp").model(seed=0).save(path)
    return path


def changed(file: Path, **changes: np.ndarray | None) -> str:
    """The same file with some tensors replaced, added, or left out; `_` stands for a dot."""
    named = {name.replace("_", "."): each for name, each in changes.items()}
    tensors = {**load_file(file), **named}
    save_file({name: each for name, each in tensors.items() if each is not None}, file)
    return str(file)


def test_weights_that_fit(meganeura: Command, file: Path) -> None:
    shown = meganeura("weights", "check", "digits_mlp", str(file))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == "digits_mlp: fine, 4 tensors fit (4 f32)\n"


def test_everything_that_differs_is_told(meganeura: Command, file: Path) -> None:
    extra = {f"more_{number}": np.zeros(1, np.float32) for number in range(20)}
    transposed = load_file(file)["fc1.weight"].T[:, :32].copy().reshape(64, 32)
    changed(file, fc1_weight=transposed, fc1_bias=None, fc2_bias=np.zeros(10, np.int64), **extra)
    shown = meganeura("weights", "check", "digits_mlp", str(file))
    assert shown.code == 1
    assert "1 missing, 20 unexpected, 1 of another shape, 1 of another type" in shown.out
    assert "more.19" in shown.out
    assert "the file has i64, the model f32" in shown.out
    assert shown.out.endswith("digits_mlp: 1 error\n")


def test_a_transposed_matrix_is_recognised(meganeura: Command, file: Path) -> None:
    matrix = np.ascontiguousarray(load_file(file)["fc2.weight"].T)
    shown = meganeura("weights", "check", "digits_mlp", changed(file, fc2_weight=matrix))
    assert "the file has [64, 10], the model [10, 64]" in shown.out
    assert "transposed by [1, 0]?" in shown.out


def test_what_is_excused_is_listed(meganeura: Command, file: Path) -> None:
    shown = meganeura(
        "weights", "check", "digits_mlp", str(file), "--set", "classes=3",
        "--allow-missing", "fc2.*", "--allow-unexpected", "fc2.*",
    )  # fmt: skip
    assert shown.code == 0
    assert "2 tensors fit" in shown.out
    assert "at their initial values: fc2.weight, fc2.bias" in shown.out


def test_a_part_of_a_checkpoint_is_a_model(meganeura: Command, file: Path) -> None:
    both = {f"{part}.{name}": each for name, each in load_file(file).items() for part in "ab"}
    save_file(both, file)
    arguments = "weights", "check", "digits_mlp", str(file), "--allow-unexpected", "b.*"
    shown = meganeura(*arguments, "--rename", r"a\.(.*)=\1")
    assert shown.code == 0
    assert "digits_mlp: fine, 4 tensors fit" in shown.out
    assert "renamed: a.fc1.bias to fc1.bias and 3 more" in shown.out
    shown = meganeura(*arguments, "--rename", r"a\.(.*)=\1", "--json")
    assert json.loads(shown.out)["renamed"]["a.fc2.weight"] == "fc2.weight"
    for code, rename in [("E0585", "a"), ("E0586", "c.*=x"), ("E0587", ".*bias=x")]:
        shown = meganeura(*arguments, "--rename", rename)
        assert (shown.code, code in shown.err) == (2, True)


def test_a_glob_that_excuses_nothing_is_a_wrong_command_line(
    meganeura: Command, file: Path
) -> None:
    shown = meganeura("weights", "check", "digits_mlp", str(file), "--allow-missing", "fx.*")
    assert shown.code == 2
    assert "error[E0541]" in shown.err


def test_data_for_programs(meganeura: Command, file: Path) -> None:
    path = changed(file, fc1_bias=None, fc1_bias0=np.zeros(64, np.float32))
    shown = meganeura("weights", "check", "digits_mlp", path, "--json")
    assert shown.code == 1
    data = json.loads(shown.out)
    assert (data["model"], data["fine"], data["fit"]) == ("digits_mlp", False, 3)
    assert data["missing"] == [{"name": "fc1.bias", "nearest": "fc1.bias0"}]
    assert data["unexpected"] == ["fc1.bias0"]
    assert [report["code"] for report in data["reports"]] == ["E0540"]


def test_data_about_a_file_that_cannot_be_read(meganeura: Command, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])
    shown = meganeura("weights", "check", "digits_mlp", str(file), "--json")
    assert shown.code == 1
    assert [report["code"] for report in json.loads(shown.out)["reports"]] == ["E0530"]


def test_every_tensor_with_a_value_that_is_none_is_named(meganeura: Command, file: Path) -> None:
    nothing = np.full(64, np.nan, np.float32)
    path = changed(file, fc1_bias=nothing, fc2_bias=np.full(10, np.inf, np.float32))
    shown = meganeura("weights", "check", "digits_mlp", path)
    assert shown.code == 1
    assert "`fc1.bias` holds nan" in shown.out
    assert "`fc2.bias` holds inf" in shown.out
    assert shown.out.endswith("digits_mlp: 2 errors\n")


def test_a_file_cut_short_anywhere_is_refused(meganeura: Command, file: Path) -> None:
    whole = file.read_bytes()
    for length in range(0, len(whole), 1024):
        file.write_bytes(whole[:length])
        shown = meganeura("weights", "check", "digits_mlp", str(file))
        assert (shown.code, shown.out) == (1, "")
        assert "error[E0530]" in shown.err


@pytest.mark.parametrize("file_name", ["no.safetensors", "no/where"])
def test_a_file_that_is_not_there(meganeura: Command, file_name: str) -> None:
    assert meganeura("weights", "check", "digits_mlp", file_name).code == 2
