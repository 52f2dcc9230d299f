"""`meganeura export`: ONNX files from the command line and from Python."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import meganeura as api
from tests.cli.command import Command


def test_a_model_is_written_and_compared(meganeura: Command, tmp_path: Path) -> None:
    path = tmp_path / "digits.onnx"
    shown = meganeura("export", "digits_cnn", "--random-weights", "3", "-o", str(path))
    assert (shown.code, shown.err) == (0, "")
    difference, written = shown.out.splitlines()
    assert difference.startswith("largest difference of an output: ")
    assert difference.endswith(" at h=32, n=1, w=32 and h=64, n=2, w=64")
    assert written == f"written: {path} (30 nodes, opset 20)"


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
    assert "pip install 'meganeura[onnx]'" in shown.err
