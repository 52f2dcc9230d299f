"""`meganeura export`: ONNX files from the command line and from Python."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from meganeura_verify.__main__ import main

import meganeura as api
from meganeura_dsl.support.installation import install_command
from tests.cli.command import Command


def test_a_model_is_written_and_compared(meganeura: Command, tmp_path: Path) -> None:
    path = tmp_path / "digits.onnx"
    shown = meganeura("export", "digits_cnn", "--random-weights", "3", "-o", str(path))
    assert (shown.code, shown.err) == (0, "")
    difference, written = shown.out.splitlines()
    assert difference.startswith("largest difference of an output: ")
    assert difference.endswith(" at h=32, n=1, w=32 and h=64, n=2, w=64")
    assert written == f"written: {path} (30 nodes, opset 20)"


def test_onnx_of_a_training_says_that_the_model_is_written(
    meganeura: Command, tmp_path: Path
) -> None:
    path = tmp_path / "digits.onnx"
    shown = meganeura("export", "digits_mlp:fit", "--random-weights", "3", "-o", str(path))
    assert shown.code == 0
    assert "an ONNX file holds no training: it is of the model `digits_mlp`" in shown.err


@pytest.mark.parametrize("to", ["torch", "jax"])
def test_a_model_is_written_as_source(meganeura: Command, tmp_path: Path, to: str) -> None:
    path = tmp_path / "digits.py"
    shown = meganeura("export", "digits_mlp", "--to", to, "-o", str(path))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == f"written: {path} ({path.read_text().count(chr(10))} lines)\n"
    again = meganeura("export", "digits_mlp", "--to", to, "-o", str(path))
    assert (again.code, again.out) == (0, shown.out)
    path.write_text("print(1)\n")
    refused = meganeura("export", "digits_mlp", "--to", to, "-o", str(path))
    assert "E0539" in refused.err
    assert path.read_text() == "print(1)\n"


def test_source_is_asked_for_by_name(meganeura: Command, tmp_path: Path) -> None:
    path = str(tmp_path / "digits.py")
    shown = meganeura("export", "digits_mlp", "--random-weights", "0", "-o", path)
    assert shown.code == 2
    assert "--to torch" in shown.err


SALIENCY = """\
block Net(hidden)(x: [n, 4]) -> [n, 3] = x |> a: linear(hidden) |> tanh |> b: linear(3)

block Saliency(hidden)(x: [n, 4]) -> [n, 3], [n, 4]:
  z = x |> net: Net(hidden)
  return z, grad(sum(max(z, 1)), x)

model saliency = Saliency(hidden=8)
"""


def test_a_gradient_is_written_and_its_rewrites_are_certified(
    meganeura: Command, tmp_path: Path
) -> None:
    program, certificate = tmp_path / "saliency.mgn", tmp_path / "run.json"
    program.write_text(SALIENCY)
    path = str(tmp_path / "saliency.onnx")
    shown = meganeura("export", str(program), "--random-weights", "0", "-o", path)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("largest difference of an output: ")
    values = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": values})
    wanted = api.load(str(program)).model(seed=0).run({"x": values}, device="cpu")
    for ours, theirs in zip(wanted.values(), found, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-6)
    assert meganeura("explain-opt", str(program), "--certificate", str(certificate)).code == 0
    assert main([str(certificate)]) == 0


def test_python_writes_the_same_file(meganeura: Command, tmp_path: Path) -> None:
    model = api.load("digits_mlp").model(seed=3)
    model.export(tmp_path / "a.onnx", opset=18)
    given = ("--random-weights", "3", "--opset", "18")
    meganeura("export", "digits_mlp", *given, "-o", str(tmp_path / "b.onnx"))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    image = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(
        str(tmp_path / "a.onnx"),
        onnxruntime.SessionOptions(),
        providers=["CPUExecutionProvider"],
    )
    (name,) = model.inputs
    (found,) = session.run(["output"], {name: image})
    assert np.allclose(found, model.run({name: image}, device="cpu")["output"], atol=1e-5)
    with pytest.raises(ValueError, match="17 to 20, not 16"):
        model.export(tmp_path / "c.onnx", opset=16)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "a.onnx"), "an ONNX file holds weights"),
        (("--random-weights", "0", "-o", "a.bin"), "the name ends in .onnx"),
        (("--random-weights", "0", "-o", "a.onnx", "--opset", "21"), "less than or equal to 20"),
    ],
)
def test_mistakes_on_the_command_line(
    meganeura: Command, words: tuple[str, ...], message: str
) -> None:
    shown = meganeura("export", "digits_mlp", *words)
    assert shown.code == 2
    assert message in " ".join(shown.err.split())


def test_a_missing_library_is_named(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    words = ("--random-weights", "0", "-o", str(tmp_path / "a.onnx"))
    shown = meganeura("export", "digits_mlp", *words)
    assert shown.code == 1
    assert install_command("onnx") in shown.err
