"""`meganeura quantize`: a smaller file that every command takes, with what that changes."""

from pathlib import Path

import numpy as np
import pytest

import meganeura as api
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.ir.quantization import Quantization
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.preprocess.preparation import preparation_of
from meganeura_runtime.io.tensors.quantized_tensors import read_weights
from tests.cli.command import Command

MODEL = "digits_mlp"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Weights of `digits_mlp`, with the names of classes."""
    path = tmp_path / "weights.safetensors"
    api.load(MODEL).model(seed=0).save(path)
    return path


def test_the_file_is_smaller_and_says_what_it_lost(
    meganeura: Command, file: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.safetensors"
    shown = meganeura(
        "quantize", MODEL, "--weights", str(file), "--bits", "4", "-o", str(small),
        "--data", "digits", "--device", "cpu",
    )  # fmt: skip
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "2 weights quantized: 19,240 bytes become 3,256"
    assert [line.split()[0] for line in lines[2:4]] == ["fc1.weight", "fc2.weight"]
    assert lines[4].split() == ["before", "4", "bits"]
    before, after = map(float, lines[5].split()[1:])
    assert lines[5].startswith("loss")
    assert 0 < abs(before - after) < 0.1
    assert {name: str(each) for name, each in read_weights(small).items()} == {
        "fc1.bias": "f32[64]",
        "fc1.weight": "4-bit[64, 64]",
        "fc2.bias": "f32[10]",
        "fc2.weight": "4-bit[10, 64]",
    }
    assert preparation_of([small]) == preparation_of([file])
    found = meganeura("weights", "check", MODEL, str(small))
    assert found.out == "digits_mlp: fine, 4 tensors fit (2 4-bit, 2 f32)\n"
    measured = meganeura(
        "evaluate", MODEL, "--weights", str(small), "--device", "cpu", "--data", "digits"
    )
    assert f"{after:.5g}" in measured.out


def test_rows_that_are_no_whole_groups_have_one_scale(meganeura: Command, tmp_path: Path) -> None:
    program, file = tmp_path / "net.mgn", tmp_path / "weights.safetensors"
    program.write_text(
        "block Net()(x: [n, 64]) -> [n, 9]:\n"
        "  return x |> a: linear(48) |> b: linear(9)\n\n"
        "model net = Net()\n"
    )
    api.load(program).model(seed=0).save(file)
    small = tmp_path / "small.safetensors"
    shown = meganeura(
        "quantize", str(program), "--weights", str(file), "--bits", "4", "-o", str(small)
    )
    assert shown.out.startswith("2 weights quantized, 1 with a scale for each row: ")
    found = read_weights(small)
    assert [found[name].quantization for name in ("a.weight", "b.weight")] == [
        Quantization(4, 32),
        Quantization(4),
    ]


def test_quantized_twice_is_quantized_once(meganeura: Command, file: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.safetensors", tmp_path / "twice.safetensors"
    for source, target in ((file, once), (once, twice)):
        assert meganeura(
            "quantize", MODEL, "--weights", str(source), "--group", "16", "-o", str(target)
        ).code == 0  # fmt: skip
    assert once.read_bytes() == twice.read_bytes()


@pytest.mark.adapter
def test_python_keeps_them_packed_unless_they_are_given_other_values(
    meganeura: Command, file: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.safetensors"
    meganeura("quantize", MODEL, "--weights", str(file), "-o", str(small))
    x = {"image": np.random.default_rng(0).normal(size=(3, 1, 8, 8)).astype(np.float32)}
    model = api.load(MODEL).model(weights=small)
    wanted = model.run(x, device="cpu")["output"]
    kept: list[int] = []
    for _ in range(2):
        with model.session({"n": 3}, device="wgpu") as session:
            found = session.step(x)["output"]
            inner = session.innermost
            assert isinstance(inner, WebGpuSession)
            kept.append(inner.plan.bytes_for(Role.PARAMETERS))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        model.values["fc1.weight"] = model.values["fc1.weight"] * np.float32(0.7) + np.float32(1e-3)
        wanted = model.run(x, device="cpu")["output"]
    assert kept[0] < kept[1] - 64 * 64 * 2


def test_python_takes_other_values_as_those_of_any_file(
    meganeura: Command, file: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.safetensors"
    meganeura("quantize", MODEL, "--weights", str(file), "--group", "16", "-o", str(small))
    x = {"image": np.zeros((3, 1, 8, 8), np.float32)}
    model = api.load(MODEL).model(weights=small)
    whole = model.values["fc1.weight"]
    model.values["fc1.weight"] = whole * np.float32(np.nan)
    assert np.isnan(model.run(x, device="xla:cpu")["output"]).all()
    model.values["fc1.weight"] = whole[:, 1:]
    with pytest.raises(FeedError, match=r"`fc1.weight` is f32\[64, 64\], not float32\[64, 63\]"):
        model.run(x, device="xla:cpu")


def test_a_compiled_model_keeps_them_packed(meganeura: Command, file: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.safetensors"
    meganeura("quantize", MODEL, "--weights", str(file), "-o", str(small))
    x = tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32))
    sizes: list[int] = []
    for each in (file, small):
        made = tmp_path / f"{each.stem}.mgb"
        shown = meganeura(
            "build", MODEL, "--mode", "infer", "--weights", str(each), "--size", "n=1",
            "-o", str(made),
        )  # fmt: skip
        assert (shown.code, shown.err) == (0, "")
        sizes.append(made.stat().st_size)
    assert sizes[1] < sizes[0] - 12_000
    outputs: list[str] = []
    for target, more in ((str(made), ()), (MODEL, ("--weights", str(small)))):
        shown = meganeura("run", target, *more, "--input", str(x), "--device", "cpu")
        assert shown.code == 0
        outputs.append(shown.out.partition("output:")[2])
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--keep", "fc9.*"], 1, "E0576"),
        (["--keep", "*"], 1, "`--keep` leaves every weight as it is"),
        (["--bits", "3"], 2, "--bits"),
        (["--group", "0"], 2, "--group"),
        (["--group", "48"], 2, "no weight has rows that are whole groups of 48"),
        (["--data", "digits", "--set", "classes=10"], 2, "as the program's `train` has it"),
        (["--device", "cpu"], 2, "the examples of --data"),
        (["--data", "nowhere.npz"], 2, "E0520"),
    ],
)
def test_mistakes_write_nothing(
    meganeura: Command, file: Path, tmp_path: Path, more: list[str], code: int, said: str
) -> None:
    target = tmp_path / "small.safetensors"
    shown = meganeura("quantize", MODEL, "--weights", str(file), "-o", str(target), *more)
    assert (shown.code, said in shown.err) == (code, True)
    assert not target.exists()
