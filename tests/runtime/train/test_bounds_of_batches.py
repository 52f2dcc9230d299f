"""An index that picks one of the rows of its batch is below the size of that very batch."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.tensors.stored_tensor import Array

PROGRAM = """\
train fit(x: [batch, 2], i: i32[batch], word: i32[batch]):
  h = gather(x, i) + (word |> words: embedding(20, 2)) |> fc: linear(3)
  minimize mean(h * h)
  run:
    data      = "rows.safetensors"
    batch     = 8
    shuffle   = false
    optimize  = false
    optimizer = sgd(lr=0.01)
"""


@pytest.fixture
def program(tmp_path: Path) -> meganeura.Program:
    (tmp_path / "rows.mgn").write_text(PROGRAM)
    return meganeura.load(str(tmp_path / "rows.mgn"))


def batch(examples: int, row: int = 0, word: int = 0) -> dict[str, Array]:
    """Examples of which the last has these indices."""
    indices = {name: np.zeros(examples, np.int32) for name in ("i", "word")}
    indices["i"][-1], indices["word"][-1] = row, word
    return {"x": np.ones((examples, 2), np.float32), **indices}


def refusal(error: pytest.ExceptionInfo[ProblemError]) -> str:
    return str(error.value).splitlines()[0].partition("]: ")[2]


def test_batches_of_any_size_have_bounds_of_their_own(program: meganeura.Program) -> None:
    """Whichever size came before, and whether a step is made whole or in parts."""
    with program.trainer(device="cpu") as trainer:
        for make in (trainer.step, trainer.gradients):
            for examples in (8, 12, 3, 8):
                make(batch(examples, examples - 1, 19))
                with pytest.raises(ProblemError, match="E0535") as caught:
                    make(batch(examples, examples))
                told = f"`i` holds {examples}, and must be below batch = {examples}"
                assert refusal(caught) == told
                with pytest.raises(ProblemError, match="E0535") as caught:
                    make(batch(examples, 0, 20))
                assert refusal(caught).startswith("`word` holds 20, and must be below 20")
                with pytest.raises(ProblemError, match="E0535"):
                    make(batch(examples, -1))


@pytest.mark.parametrize(
    ("settings", "rows", "refused"),
    [
        ({}, {5: 7}, ""),
        ({}, {9: 7}, ""),
        ({}, {5: 8}, "`i` holds 8, and must be below batch = 8"),
        ({"drop_last": False}, {5: 7, 9: 1}, ""),
        ({"drop_last": False}, {9: 2}, "`i` holds 2, and must be below batch = 2"),
        ({"drop_last": False, "accumulate": 3}, {8: 1}, ""),
        ({"drop_last": False, "accumulate": 3}, {8: 7}, "`i` holds 7, and must be below batch = 2"),
        ({"drop_last": False, "batch": 5}, {4: 4, 9: 4}, ""),
        ({"drop_last": False, "batch": 6}, {9: 4}, "`i` holds 4, and must be below batch = 4"),
    ],
)
def test_a_last_batch_has_bounds_of_its_own(
    program: meganeura.Program,
    tmp_path: Path,
    settings: Mapping[str, object],
    rows: Mapping[int, int],
    refused: str,
) -> None:
    """Of ten examples in batches of eight two are left."""
    data = batch(10)
    for at, row in rows.items():
        data["i"][at] = row
    save_file(data, tmp_path / "rows.safetensors")

    def train() -> meganeura.Run:
        return program.train(device="cpu", out=tmp_path / "run", settings=settings)

    if not refused:
        assert train().weights.exists()
        return
    with pytest.raises(ProblemError, match="E0535") as caught:
        train()
    assert refusal(caught).startswith(refused)
