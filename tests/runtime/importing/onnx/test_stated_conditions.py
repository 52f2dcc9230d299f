"""Conditions on sizes that a program was exported under."""

from pathlib import Path

import pytest
from onnx import helper

from fuzz.onnx_models import model, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.importing.onnx.stated import Stated


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shape = ["s77", "s27"]
    made = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", shape)], [value("y", shape)])
    found = tmp_path / "model.onnx"
    found.write_bytes(made.SerializeToString())
    return found


def _stated(*conditions: str) -> Stated:
    return Stated(sizes={"s77": "n", "s27": "k"}, conditions=conditions, origin=Path("net.py:Net"))


def test_the_program_states_them(path: Path, tmp_path: Path) -> None:
    stated = _stated("n <= 3", "k % 3 == 0", "n*(k // 2) != 7", "2*n + -k**2 < 100")
    made = import_onnx(path, tmp_path / "net.mgn", None, stated)
    text = made.program.read_text()
    assert text.startswith("# From net.py:Net.\n")
    facts = "n <= 3, k % 3 == 0, n * (k // 2) != 7, 2 * n - k * k < 100"
    assert facts in " ".join(text.split())
    assert made.sizes["k"] % 3 == 0


def test_given_sizes_take_their_place(path: Path, tmp_path: Path) -> None:
    made = import_onnx(path, tmp_path / "net.mgn", {"n": 2}, _stated("n <= 3", "n <= k"))
    assert "where 2 <= k" in made.program.read_text()
    with pytest.raises(ProblemError, match="does not hold for the sizes that are given"):
        import_onnx(path, tmp_path / "net.mgn", {"n": 5}, _stated("n <= 3"))


@pytest.mark.parametrize("text", ["max(3, n) == 3", "n < 3 or k < 3", "n / 2 == 1", "n"])
def test_others_are_refused(text: str, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="E0649"):
        import_onnx(path, tmp_path / "net.mgn", None, _stated(text))
    assert not (tmp_path / "net.mgn").exists()
