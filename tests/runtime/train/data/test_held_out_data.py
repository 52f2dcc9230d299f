"""Held-out data of a run: tensors of its data, a share of it, a file, or data from Python."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.setting_values import with_overrides
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.source_problems import UnclearValidation, WrongBatch, WrongWeights
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.train.data.run_data import PythonData, dataset_of
from meganeura_runtime.train.spec.step_graphs import TrainSignature
from meganeura_runtime.train.spec.train_spec import settings_of

PROGRAM = """\
train fit(x: [batch, 2]):
  minimize mean(x |> fc: linear(1))
  run:
    data      = "plain.safetensors"
    batch     = 4
    optimizer = sgd(lr=0.1)
"""


def rows(count: int, first: int = 0) -> NDArray[np.float32]:
    """Examples that tell their numbers."""
    return np.arange(first, first + count, dtype=np.float32)[:, None].repeat(2, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("held_out")
    (found / "fit.mgn").write_text(PROGRAM)
    kinds = 1 + np.arange(10, dtype=np.int32) % 2
    save_file({"x": rows(10), "kind": kinds}, found / "plain.safetensors")
    save_file({"train.x": rows(10), "test.x": rows(3, 50)}, found / "split.safetensors")
    save_file({"x": rows(5, 90)}, found / "held.safetensors")
    return found


@pytest.fixture(autouse=True)
def _beside_its_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths of the command line start where it runs."""
    monkeypatch.chdir(folder)


def data(folder: Path, *overrides: str, given: PythonData | None = None) -> Dataset:
    given = PythonData() if given is None else given
    overrides = (*overrides, *given.overrides)
    program = pipeline.load(str(folder / "fit.mgn"))
    settings = settings_of(program, "fit", overrides)
    written = with_overrides(pipeline.train_settings(program, "fit"), overrides)
    demand = TrainSignature.of(program, "fit", settings).input_spec
    return dataset_of(written, settings, demand, folder, given)


def numbers(split: object) -> list[int]:
    """The numbers of all examples."""
    assert isinstance(split, StoredSplit)
    return [int(each) for each in split.take(slice(0, split.examples))["x"][:, 0]]


@pytest.mark.parametrize(
    ("overrides", "held_out"),
    [
        ([], None),
        (["data=split.safetensors"], [50, 51, 52]),
        (["validation=held.safetensors"], [90, 91, 92, 93, 94]),
        (["validation=split.safetensors"], [50, 51, 52]),
        (["validation=plain.safetensors"], [*range(10)]),
    ],
)
def test_a_file_is_held_out_or_what_of_it_is_so_named(
    folder: Path, overrides: Sequence[str], held_out: Sequence[int] | None
) -> None:
    found = data(folder, *overrides)
    assert numbers(found.train) == [*range(10)]
    assert (None if found.test is None else numbers(found.test)) == held_out


@pytest.mark.parametrize(("share", "count"), [(0.1, 1), (0.25, 2), (0.5, 5), (0.6, 6)])
def test_a_share_is_held_out_once_and_the_rest_is_trained_on(
    folder: Path, share: float, count: int
) -> None:
    for seed in (0, 1):
        found = data(folder, f"validation={share}", f"seed={seed}")
        train, test = numbers(found.train), numbers(found.test)
        assert len(test) == count
        assert sorted(train + test) == [*range(10)]
        again = data(folder, f"validation={share}", f"seed={seed}")
        assert (numbers(again.train), numbers(again.test)) == (train, test)


@pytest.mark.parametrize("setting", ["sampling_weights", "balance"])
def test_how_often_an_example_is_drawn_is_said_of_those_that_are_trained_on(
    folder: Path, setting: str
) -> None:
    """An example that is held out is measured once."""
    found = data(folder, "validation=0.5", f"{setting}=kind")
    assert isinstance(found.train, StoredSplit)
    assert isinstance(found.test, StoredSplit)
    assert found.train.weights is not None
    assert len(found.train.weights) == 5
    assert found.test.weights is None


def test_classes_are_in_balance_among_the_examples_that_are_trained_on(folder: Path) -> None:
    """However few the held-out ones leave of a class."""
    for seed in range(5):
        found = data(folder, "validation=0.6", "balance=kind", f"seed={seed}").train
        assert isinstance(found, StoredSplit)
        assert found.weights is not None
        odd = np.array(numbers(found)) % 2 == 1
        assert found.weights[odd].sum() == pytest.approx(float(odd.any()))
        assert found.weights[~odd].sum() == pytest.approx(float((~odd).any()))


def test_weights_of_examples_that_are_all_held_out_are_refused(folder: Path) -> None:
    test = numbers(data(folder, "validation=0.3").test)
    weights = np.isin(np.arange(10), test).astype(np.float32)
    save_file({"x": rows(10), "w": weights}, folder / "weighted.safetensors")
    named = ("data=weighted.safetensors", "validation=0.3")
    with pytest.raises(ProblemError) as caught:
        data(folder, *named, "sampling_weights=w")
    problem = caught.value.problem
    assert isinstance(problem, WrongWeights)
    assert problem.reason == "all examples with a weight above 0 are held out"
    found = data(folder, *named, "sampling_weights=w", "seed=1").train
    assert isinstance(found, StoredSplit)
    assert found.weights is not None
    assert found.weights.tolist() == weights[numbers(found)].tolist()


@pytest.mark.parametrize("validation", ["0.5", "held.safetensors", "split.safetensors"])
def test_data_with_held_out_examples_leaves_nothing_to_hold_out(
    folder: Path, validation: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        data(folder, "data=split.safetensors", f"validation={validation}")
    problem = caught.value.problem
    assert isinstance(problem, UnclearValidation)
    assert "its tensors named `test.`" in problem.reason


@pytest.mark.parametrize("share", [0.01, 0.04, 0.96, 0.999])
def test_a_share_of_no_examples_or_of_all_is_refused(folder: Path, share: float) -> None:
    with pytest.raises(ProblemError) as caught:
        data(folder, f"validation={share}")
    problem = caught.value.problem
    assert isinstance(problem, UnclearValidation)
    assert problem.reason == f"{share:g} of 10 examples are {0 if share < 0.5 else 10}"


def batches(*counts: int) -> list[object]:
    starts = [sum(counts[:number]) for number in range(len(counts))]
    return [{"x": rows(count, start)} for start, count in zip(starts, counts, strict=True)]


def test_each_held_out_batch_of_python_is_measured_whatever_its_place(folder: Path) -> None:
    """A small batch before others is refused, and not left out, as one to train on may be."""
    held_out = data(folder, given=PythonData(train=batches(4, 4), held_out=batches(4, 2))).test
    assert held_out is not None
    taken = [held_out.take(np.arange(*each))["x"][:, 0].tolist() for each in ((0, 4), (4, 6))]
    assert taken == [[0, 1, 2, 3], [4, 5]]
    held_out = data(folder, given=PythonData(train=batches(4, 4), held_out=batches(4, 2, 4))).test
    assert held_out is not None
    held_out.take(np.arange(4))
    with pytest.raises(ProblemError) as caught:
        held_out.take(np.arange(4, 8))
    assert caught.value.problem == WrongBatch(2, 2, 4, "batch")


@pytest.mark.parametrize("drop_last", [True, False])
def test_a_small_batch_to_train_on_is_left_out_if_the_last_one_is(
    folder: Path, *, drop_last: bool
) -> None:
    given = PythonData(train=batches(4, 2, 4))
    split = data(folder, f"drop_last={str(drop_last).lower()}", given=given).train
    split.take(np.arange(4))
    if drop_last:
        assert split.take(np.arange(4, 8))["x"][:, 0].tolist() == [6, 7, 8, 9]
        return
    with pytest.raises(ProblemError) as caught:
        split.take(np.arange(4, 8))
    assert isinstance(caught.value.problem, WrongBatch)
