"""A compiled model holds what it is given against what the program states, as the program does."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura.cli.app import run
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.index_checks import Bound
from meganeura_runtime.export import mgb
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.mgb.container import KEY
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from tests.effort import effort
from tests.runtime.infer.test_generator import NEXT

PROGRAM = """\
block Pick(words)(ids: i32[n]) -> [n, 2]
    where 0 <= ids, ids < words - 3:
  param table: [words, 2] = normal(std=1)
  return {picked} + table[0]

model pick = Pick(8)

train fit(ids: i32[batch]) where ids < 5:
  minimize mean(ids |> pick)
  run:
    data      = "rows.safetensors"
    batch     = 2
    optimizer = sgd(lr=0.01)
"""
PICKED = {"a table": "gather(table, ids)", "no table": "one_hot(ids, words) @ table"}


def built(folder: Path, picked: str, *options: str) -> Path:
    """Returns the file that `meganeura build` makes of the model or the training."""
    (folder / "pick.mgn").write_text(PROGRAM.format(picked=picked))
    save_file({"ids": np.arange(4, dtype=np.int32)}, folder / "rows.safetensors")
    save_file({"table": np.ones((8, 2), np.float32)}, folder / "model.safetensors")
    options = (*options, "--weights", str(folder / "model.safetensors"))
    file = folder / "pick.mgb"
    assert run(["build", str(folder / "pick.mgn"), *options, "-o", str(file)]) == 0
    return file


@pytest.mark.parametrize("picked", PICKED)
def test_inputs_of_a_compiled_model_keep_to_what_is_stated(tmp_path: Path, picked: str) -> None:
    file = built(tmp_path, PICKED[picked], "--size", "n=3")
    with mgb.open(file, "cpu") as session:
        assert session.step({"ids": np.array([0, 1, 4], np.int32)})["output"].shape == (3, 2)
        for wrong in (5, -1):
            with pytest.raises(ProblemError, match=f"E0535.*`ids` holds {wrong}, and must be"):
                session.step({"ids": np.array([0, wrong, 4], np.int32)})


@pytest.mark.parametrize("picked", PICKED)
def test_a_compiled_training_says_what_is_stated_of_its_data(tmp_path: Path, picked: str) -> None:
    file = built(tmp_path, PICKED[picked], "--mode", "train")
    assert Artefact.read(file).bounds["ids"].count == 5


def test_a_compiled_model_takes_numbers_below_zero_that_are_stated(tmp_path: Path) -> None:
    (tmp_path / "pick.mgn").write_text(
        "block Net()(ids: i32[n]) -> [n]\n    where -2 <= ids, ids < 5:\n"
        "  param bias: [1] = zeros\n  return f32(ids) + bias[0]\n\nmodel net = Net()\n"
    )
    weights, file = tmp_path / "model.safetensors", tmp_path / "net.mgb"
    save_file({"bias": np.zeros(1, np.float32)}, weights)
    options = ("--size", "n=2", "--weights", str(weights))
    assert run(["build", str(tmp_path / "pick.mgn"), *options, "-o", str(file)]) == 0
    assert Artefact.read(file).bounds == {"ids": Bound(5, frozenset({-1, -2}))}
    with mgb.open(file, "cpu") as session:
        given = np.array([-2, 4], np.int32)
        assert session.step({"ids": given})["output"].tolist() == [-2, 4]
        for wrong, wanted in ((5, "below 5"), (-3, "at least -2")):
            with pytest.raises(ProblemError, match=f"holds {wrong}, and must be {wanted}"):
                session.step({"ids": np.array([0, wrong], np.int32)})


MASKED = """\
train fit(ids: i32[batch]):
  minimize masked_cross_entropy(f32(insert_axis(ids, 1, 1)) |> fc: linear(5), ids)
  run:
    data      = "rows.safetensors"
    batch     = 2
    optimizer = sgd(lr=0.01)
"""


def test_a_compiled_training_says_which_number_stands_for_no_class(tmp_path: Path) -> None:
    (tmp_path / "fit.mgn").write_text(MASKED)
    save_file({"ids": np.arange(4, dtype=np.int32)}, tmp_path / "rows.safetensors")
    file = tmp_path / "fit.mgb"
    assert run(["build", str(tmp_path / "fit.mgn"), "--mode", "train", "-o", str(file)]) == 0
    assert Artefact.read(file).bounds == {"ids": Bound(5, frozenset({-100}))}


@pytest.mark.parametrize(
    ("rows", "stated", "table"),
    [
        (256, ", ids < 70", "one_hot(ids, 256) @ table"),
        *effort([], [(256, ", ids < 70", "gather(table, ids)")]),
    ],
)
def test_a_compiled_generation_says_which_tokens_it_takes(
    tmp_path: Path, rows: int, stated: str, table: str
) -> None:
    text = NEXT.replace("9", "256").format(rows=rows, stated=stated, table=table)
    (tmp_path / "lm.mgn").write_text(text)
    save_file({"table": np.ones((rows, 256), np.float32)}, tmp_path / "model.safetensors")
    file = tmp_path / "lm.mgb"
    options = ("--mode", "generate", "--weights", str(tmp_path / "model.safetensors"))
    assert run(["build", str(tmp_path / "lm.mgn"), *options, "-o", str(file)]) == 0
    assert Artefact.read(file).bounds["ids"].count == 70


BOUNDS = {
    "as stated": ({"ids": {"count": 5, "exempt": []}}, True),
    "narrower": ({"ids": {"count": 3, "exempt": []}}, True),
    "wider than the table": ({"ids": {"count": 9, "exempt": []}}, False),
    "with another exempt number": ({"ids": {"count": 5, "exempt": [-1]}}, False),
    "none": ({}, False),
    "of no input": ({"moth": {"count": 5, "exempt": []}}, False),
    "of a parameter": ({"table": {"count": 5, "exempt": []}}, False),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_a_file_may_be_narrower_than_its_graph_says(tmp_path: Path, name: str) -> None:
    bounds, is_read = BOUNDS[name]
    file = built(tmp_path, PICKED["a table"], "--size", "n=3")
    tensors, metadata = open_tensors(file)
    header = {**json.loads(metadata[KEY]), "bounds": bounds}
    arrays = {key: tensor.bits for key, tensor in tensors.items()}
    write_tensors(file, arrays, {**metadata, KEY: json.dumps(header)})
    if is_read:
        assert Artefact.read(file).bounds["ids"].count == bounds["ids"]["count"]
        return
    with pytest.raises(ProblemError, match="its bounds are not those of its graph"):
        Artefact.read(file)
