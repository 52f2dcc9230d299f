"""`meganeura import`: ONNX files as programs, from the command line and from Python."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from safetensors import safe_open

import meganeura as api
from fuzz.onnx_models import convolutional, model, reshaped, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.importing.onnx.folding import SHAPES
from meganeura_runtime.importing.onnx.ops.table import TABLE
from meganeura_runtime.importing.onnx.sequences import SEQUENCES
from meganeura_runtime.importing.source import source_import
from tests.cli.command import Command

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.onnx"
    found.write_bytes(convolutional().SerializeToString())
    return found


def test_a_program_and_its_weights_are_written(
    meganeura: Command, path: Path, tmp_path: Path
) -> None:
    program = tmp_path / "net.mgn"
    shown = meganeura("import", str(path), "-o", str(program))
    assert (shown.code, shown.err) == (0, "")
    difference, trained, written = shown.out.splitlines()
    assert trained == "trained: 5 parameters"
    assert difference.startswith("largest difference of an output: ")
    assert difference.endswith(" at h=32, n=1, w=32")
    assert written == f"written: {program} (6 nodes) and {tmp_path / 'net.safetensors'}"
    assert meganeura("check", str(program)).code == 0
    weights = str(tmp_path / "net.safetensors")
    assert meganeura("weights", "check", str(program), weights).code == 0


def test_a_size_is_given(meganeura: Command, path: Path, tmp_path: Path) -> None:
    given = ("--set", "h=12", "--set", "w=10")
    shown = meganeura("import", str(path), "-o", str(tmp_path / "net.mgn"), *given)
    assert shown.code == 0
    assert "(x: [n, 3, 12, 10]) -> [n, 2]" in (tmp_path / "net.mgn").read_text()


def test_what_is_called_otherwise_is_listed(meganeura: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(reshaped().SerializeToString())
    shown = meganeura("import", str(path), "-o", str(tmp_path / "net.mgn"))
    assert "called otherwise: 1 parameter, listed in the weights" in shown.out
    with safe_open(str(tmp_path / "net.safetensors"), "np") as file:  # pyright: ignore[reportUnknownVariableType] - untyped
        names = file.metadata()["onnx"]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - as above
    assert json.loads(names) == {"proj.weight": "onnx::MatMul_7"}  # pyright: ignore[reportUnknownArgumentType] - as above


def test_what_is_not_trained_and_what_told_nothing_is_said(
    meganeura: Command, tmp_path: Path
) -> None:
    weights = {"bias": np.ones(4, np.float32), "scale": np.zeros((4, 4), np.float32),
               **{f"m{index}": np.eye(4, dtype=np.float32) for index in range(6)}}  # fmt: skip
    nodes = [helper.make_node("Gemm", ["x", "scale", "bias"], ["t0"])]
    nodes += [
        helper.make_node("Mul", [f"t{index}", f"m{index}"], [f"t{index + 1}"]) for index in range(6)
    ]
    made = model(nodes, [value("x", ["n", 4])], [value("t6", ["n", 4])], weights)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    shown = meganeura("import", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "net.mgn"))
    lines = shown.out.splitlines()
    assert lines[:2] == [
        "largest difference of an output: 0 at n=4",
        "trained: 2 parameters, and not 6 constants: m0, m1, m2, m3, m4, ...",
    ]


def test_a_comparison_that_tells_nothing_is_said(meganeura: Command, tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["x", "zero"], ["y"])
    made = model([node], [value("x", ["n", 4])], [value("y", ["n", 4])],
                 {"zero": np.zeros((), np.float32)})  # fmt: skip
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    shown = meganeura("import", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "net.mgn"))
    first, *_ = shown.out.splitlines()
    assert first == "not compared: `y` is 0 everywhere on the inputs that were tried at n=1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "net.txt"), "the name ends in .mgn"),
        (("-o", "net.mgn", "--set", "h"), "`h` is not NAME=NUMBER"),
        (("-o", "net.mgn", "--set", "h=0"), "`h=0` is not NAME=NUMBER"),
        ((), "Missing option"),
    ],
)
def test_mistakes_on_the_command_line(
    meganeura: Command, path: Path, words: tuple[str, ...], message: str
) -> None:
    shown = meganeura("import", str(path), *words)
    assert shown.code == 2
    assert message in " ".join(shown.err.split())


def test_a_missing_library_is_named(
    meganeura: Command, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    shown = meganeura("import", str(path), "-o", str(tmp_path / "net.mgn"))
    assert shown.code == 1
    assert install_command("onnx") in shown.err


def test_what_source_prints_is_shown_and_pytorch_may_be_missing(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text("")
    (tmp_path / "onnxscript.py").write_text("print('a line')\nraise ImportError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = (f"{tmp_path}/net.py:Net", "--example", "x: f32[n, 3]", "-o", f"{tmp_path}/net.mgn")
    shown = meganeura("import", *asked)
    assert shown.code == 1
    first, *_ = shown.err.splitlines()
    assert first == "a line"
    assert re.search(r"pip install .*\[torch\]'", shown.err)  # from where the package came


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("net.py:Net",), 2, "there is no `net.py`"),
        (("net.py:Net(x)",), 2, "`x` is not a literal"),
        (("net.py:Net", "--example", "x: f32"), 2, "`x: f32` is not like"),
        (("net.onnx", "--example", "x: f32[n]"), 2, "a file has its inputs"),
    ],
)
def test_mistakes_in_naming_source(
    meganeura: Command, words: tuple[str, ...], code: int, message: str
) -> None:
    shown = meganeura("import", *words, "-o", "net.mgn")
    assert shown.code == code
    assert message in " ".join(shown.err.split())


def test_source_that_does_not_end_is_ended(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text("")
    (tmp_path / "onnxscript.py").write_text("import time\ntime.sleep(100)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(source_import, "LONGEST", 1)
    shown = meganeura("import", f"{tmp_path}/net.py:Net", "-o", f"{tmp_path}/net.mgn")
    assert shown.code == 1
    assert "it took more than 1 seconds" in shown.err


def test_python_gives_the_model(path: Path, tmp_path: Path) -> None:
    made = api.import_onnx(path, tmp_path / "net.mgn", sizes={"h": 6, "w": 6})
    assert isinstance(made, api.Imported)
    model = api.load(str(made.program)).model(weights=made.weights)
    found = model.run({"x": np.zeros((3, 3, 6, 6), np.float32)}, device="cpu")["output"]
    assert found.shape == (3, 2)
    with pytest.raises(ValueError, match=r"something\.mgn"):
        api.import_onnx(path, tmp_path / "net.py")
    with pytest.raises(ProblemError, match="E0640"):
        api.import_onnx(path, tmp_path / "net.mgn", sizes={"depth": 6})


def test_the_page_lists_the_ops_that_are_read() -> None:
    """`python -m tests.cli.test_import_command` writes the list anew."""
    assert _page(PAGE.read_text()) == PAGE.read_text()


def _page(text: str) -> str:
    names = ", ".join(sorted({*TABLE, *SHAPES, *SEQUENCES, "If", "Loop", "Scan"}))
    lines = re.findall(r".{1,99}(?:,|$)(?: |$)", names)
    listed = "\n".join(each.rstrip() for each in lines)
    return re.sub(r"```text\n.*?```", f"```text\n{listed}\n```", text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(_page(PAGE.read_text()))
