"""Ragged examples: how they are joined, and data that does not fit."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.pipeline import Program
from meganeura_runtime.io.data.ragged_split import RaggedSplit
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.spec.train_job import TrainJob, prepare
from tests.ragged import GRAPHS, PROGRAM

ARRAYS = dict(vars(GRAPHS))
OFF = "optimize=false"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    file = tmp_path_factory.mktemp("ragged") / "fit.mgn"
    file.write_text(PROGRAM)
    return pipeline.load(str(file))


def job(program: Program, *overrides: str, **others: Array) -> TrainJob:
    data = PythonData(train={**ARRAYS, **others})
    return prepare(program, "fit", Path(), (OFF, *overrides), data=data)


def test_a_batch_is_its_examples_one_behind_the_other(program: Program) -> None:
    split = job(program).dataset.train
    assert isinstance(split, RaggedSplit)
    for chosen in (np.array([5, 0, 5, 25]), np.arange(26), slice(3, 6)):
        numbers = np.arange(26)[chosen]
        nodes, sources, targets, of, first = [], [], [], [], [0]
        for place, number in enumerate(numbers):
            x, source, target = GRAPHS.one(int(number))
            sources.append(source + first[-1])
            targets.append(target + first[-1])
            nodes.append(x)
            of.append(np.full(len(x), place))
            first.append(first[-1] + len(x))
        found = split.take(chosen)
        np.testing.assert_array_equal(found["x"], np.concatenate(nodes))
        np.testing.assert_array_equal(found["source"], np.concatenate(sources))
        np.testing.assert_array_equal(found["target"], np.concatenate(targets))
        np.testing.assert_array_equal(found["label"], GRAPHS.label[numbers])
        np.testing.assert_array_equal(found["example_of(v)"], np.concatenate(of))
        np.testing.assert_array_equal(found["offsets(v)"], first)
        edges = np.concatenate([[0], np.cumsum(GRAPHS.e[numbers])])
        np.testing.assert_array_equal(found["offsets(e)"], edges)
        assert found["source"].dtype == found["example_of(v)"].dtype == np.int32
        assert split.sizes_of(chosen) == {"v": first[-1], "e": int(edges[-1])}
    some = split.only(np.array([7, 2])).take(np.array([1]))
    np.testing.assert_array_equal(some["x"], GRAPHS.one(2)[0])


def changed(name: str, at: int, value: int) -> dict[str, Array]:
    array = ARRAYS[name].copy()
    array[at] = value
    return {name: array}


FIRST = int(GRAPHS.v[0])


@pytest.mark.parametrize(
    ("others", "code", "words"),
    [
        (changed("v", 3, int(GRAPHS.v[3]) + 1), "E0578", "`x` has"),
        ({"source": GRAPHS.source[1:]}, "E0578", "`source` has"),
        (changed("v", 0, -1), "E0578", "example 0 has -1 rows of `v`"),
        (changed("source", 0, FIRST), "E0578", "found at  example 0, row 0 of it"),
        (changed("target", -1, -1), "E0578", "`target` holds -1"),
        ({"e": GRAPHS.e[:-1]}, "E0525", "different numbers of examples"),
        ({"label": GRAPHS.label[:-1]}, "E0525", "different numbers of examples"),
        ({"e": np.zeros(26, np.int32), "source": GRAPHS.source[:0], "target": GRAPHS.target[:0]},
         "E0578", "have no row of `e`"),
    ],
)  # fmt: skip
def test_data_that_does_not_fit_is_refused_before_a_run(
    program: Program, others: dict[str, Array], code: str, words: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        job(program, **others)
    assert code in str(caught.value)
    assert words in str(caught.value)


def test_counts_are_needed(program: Program) -> None:
    arrays = {name: each for name, each in ARRAYS.items() if name != "v"}
    with pytest.raises(ProblemError, match="E0522"):
        prepare(program, "fit", Path(), (OFF,), data=PythonData(train=arrays))


@pytest.mark.parametrize("setting", ["accumulate=2", "devices=2"])
def test_what_divides_or_joins_batches_is_refused(program: Program, setting: str) -> None:
    with pytest.raises(ProblemError, match="E0579"):
        job(program, setting)


def test_batches_of_an_iterable_are_refused(program: Program) -> None:
    data = PythonData(train=iter([ARRAYS]))
    with pytest.raises(ProblemError, match="E0579"):
        prepare(program, "fit", Path(), (OFF, "steps_per_epoch=1"), data=data)
