"""An index that picks one of the rows of its batch is below the size of that very batch."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.spec.train_job import prepare

DATA = "rows.safetensors"
PROGRAM = """\
train fit(x: [batch, 2], i: i32[batch], word: i32[batch]):
  h = (gather(x, i) + (word |> words: embedding(20, 2))) |> fc: linear(3)
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
    return error.value.problem.report().headline


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
    ("examples", "row", "measured"),
    [(20, 5, 5), (20, 7, 5), (23, 7, 7), (20, 4, 0), (24, 7, 0), (20, 8, -1), (24, 8, -1)],
)
def test_an_evaluation_says_that_its_batches_are_smaller(
    program: meganeura.Program, examples: int, row: int, measured: int
) -> None:
    """A step's batch, of eight, has the row that is indexed: 20 examples are four batches of 5."""
    with program.trainer(device="cpu") as trainer:
        if not measured:
            assert trainer.evaluate(batch(examples, row)).keys() == {"loss"}
            return
        with pytest.raises(ProblemError, match="E0535") as caught:
            trainer.evaluate(batch(examples, row))
    said = render(caught.value.problem.report())
    assert refusal(caught).startswith(f"`i` holds {row}, and must be below batch = ")
    is_cut = measured > 0
    assert (f"in batches of {measured}, where a step has 8" in said) == is_cut
    assert ("help: measure a multiple of 8 examples" in said) == is_cut


def test_no_smaller_batch_is_to_blame_for_a_row_below_the_first(
    program: meganeura.Program,
) -> None:
    with program.trainer(device="cpu") as trainer, pytest.raises(ProblemError) as caught:
        trainer.evaluate(batch(20, -1))
    said = render(caught.value.problem.report())
    assert refusal(caught) == "`i` holds -1, and must be at least 0"
    assert "help: measure" not in said
    assert "in batches of" not in said


def test_batches_that_are_given_to_an_evaluation_are_not_cut(program: meganeura.Program) -> None:
    with program.trainer(device="cpu") as trainer:
        assert trainer.evaluate([batch(8, 7), batch(12, 11)]).keys() == {"loss"}
        with pytest.raises(ProblemError, match="below batch = 5") as caught:
            trainer.evaluate([batch(5, 5)])
    assert "help: measure" not in render(caught.value.problem.report())


def test_examples_held_out_of_a_run_are_cut_too(program: meganeura.Program, tmp_path: Path) -> None:
    held_out = {f"test.{name}": array for name, array in batch(20, 6).items()}
    save_file({**{f"train.{k}": v for k, v in batch(8).items()}, **held_out}, tmp_path / DATA)
    with pytest.raises(ProblemError, match="E0535") as caught:
        program.train(device="cpu", out=tmp_path / "run", settings={"epochs": 1})
    assert "in batches of 5, where a step has 8" in render(caught.value.problem.report())


def test_an_evaluation_keeps_to_what_the_program_states(tmp_path: Path) -> None:
    (tmp_path / "rows.mgn").write_text(PROGRAM.replace("[batch]):", "[batch]) where word < 15:"))
    with meganeura.load(str(tmp_path / "rows.mgn")).trainer(device="cpu") as trainer:
        assert trainer.evaluate(batch(8, 0, 14)).keys() == {"loss"}
        with pytest.raises(ProblemError, match="`word` holds 15, and must be below 15"):
            trainer.evaluate(batch(8, 0, 15))


@pytest.mark.parametrize(
    ("settings", "rows", "refused"),
    [
        ({}, {5: 7}, ""),
        ({}, {9: 7}, ""),
        ({}, {5: 8}, "`i` holds 8, and must be below batch = 8"),
        ({"drop_last": False}, {5: 7, 9: 1}, ""),
        ({"drop_last": False}, {9: 2}, "`i` holds 2, and must be below batch = 2"),
        ({"drop_last": False, "accumulate": 3, "epochs": 2}, {8: 1}, ""),
        (
            {"drop_last": False, "accumulate": 3, "epochs": 2},
            {8: 7},
            "`i` holds 7, and must be below batch = 2",
        ),
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
    save_file(data, tmp_path / DATA)

    def train() -> meganeura.Run:
        return program.train(device="cpu", out=tmp_path / "run", settings=settings)

    if not refused:
        assert train().weights.exists()
        return
    with pytest.raises(ProblemError, match="E0535") as caught:
        train()
    assert refusal(caught).startswith(refused)


def test_what_the_data_keeps_to_is_not_looked_at_again(tmp_path: Path) -> None:
    """But for a row of the batch, of which a last one has fewer."""
    (tmp_path / "rows.mgn").write_text(PROGRAM)
    save_file(batch(10), tmp_path / DATA)
    program = pipeline.load(str(tmp_path / "rows.mgn"))
    job = prepare(program, "fit", tmp_path, ("drop_last=false", "accumulate=2"))
    assert not job.spec.whole_step.bounds
    found = {(each.examples, each.part): {*each.bounds} for each in job.others}
    sums = {(8, StepPart.SUM): set[str](), (2, StepPart.SUM): {"i"}}
    assert found == {(2, StepPart.WHOLE): {"i"}, **sums}
