"""Runs on examples of different sizes: their losses, measurements, and how they go on."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file as read_tensors

import meganeura
from meganeura import StopTraining
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.events import Stepped
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import prepare
from tests.ragged import GRAPHS, PROGRAM

ARRAYS = dict(vars(GRAPHS))
SETTINGS = {"device": "cpu", "optimize": False}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> meganeura.Program:
    file = tmp_path_factory.mktemp("ragged") / "fit.mgn"
    file.write_text(PROGRAM)
    return meganeura.load(str(file))


def test_a_run_moves_weights_as_its_steps_say(program: meganeura.Program, tmp_path: Path) -> None:
    """Steps of nine sizes, each opened when it comes, against the reference in double precision."""
    run = program.train(data=ARRAYS, settings=SETTINGS, out=tmp_path / "run", live=False)
    file = tmp_path / "fit.mgn"
    file.write_text(PROGRAM)
    data = PythonData(train=ARRAYS)
    job = prepare(pipeline.load(str(file)), "fit", tmp_path, ["optimize=false"], data=data)
    values, feeder = job.spec.initial_values(), Feeder(job)
    first = {name: each.copy() for name, each in values.items()}
    sizes: set[tuple[int, ...]] = set()
    for step in range(job.steps):
        fed = feeder.feeds(step)
        sizes.add((len(fed["x"]), len(fed["source"])))
        reference = Interpreter(job.step_at(step, fed), Precision.DOUBLE)
        given = {**values, **fed}
        results = reference.run({name: given[name] for name in reference.leaves})
        values.update(results.updates)
    assert len(sizes) == job.steps == 6
    found = read_tensors(tmp_path / "run" / "weights.safetensors")
    assert run.weights
    for info in job.spec.parameters:
        moved = values[info.name].astype(np.float64)
        assert np.abs(moved - first[info.name].astype(np.float64)).max() > 1e-3
        np.testing.assert_allclose(found[info.name], moved, rtol=1e-3, atol=1e-4)


def test_all_examples_are_measured_as_one_batch(program: meganeura.Program, tmp_path: Path) -> None:
    """A mean over rows counts every row once, and offsets count all of them."""
    out = tmp_path / "run"
    run = program.train(data=ARRAYS, settings={**SETTINGS, "epochs": 1}, out=out, live=False)
    right = program.evaluate(weights=run.weights, data=ARRAYS, settings=SETTINGS)
    for batch in (3, 26):
        settings = {**SETTINGS, "batch": batch}
        found = program.evaluate(weights=run.weights, data=ARRAYS, settings=settings)
        assert found["last"] == GRAPHS.e.sum()
        assert found == pytest.approx(right, rel=1e-6)


def test_a_run_goes_on_where_it_stopped(program: meganeura.Program, tmp_path: Path) -> None:
    whole = program.train(data=ARRAYS, settings=SETTINGS, out=tmp_path / "whole", live=False)
    seen: list[int] = []

    def stop(event: object) -> None:
        if isinstance(event, Stepped):
            seen.append(event.step)
            if event.step == 4:
                raise StopTraining

    part = tmp_path / "part"
    program.train(data=ARRAYS, settings=SETTINGS, out=part, watch=stop, live=False)
    assert seen[-1] == 4
    program.train(data=ARRAYS, resume=part, live=False)
    wanted, found = (
        read_tensors(each / "weights.safetensors") for each in (tmp_path / "whole", part)
    )
    assert whole.weights
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_loop_of_ones_own_is_refused(program: meganeura.Program) -> None:
    with pytest.raises(ProblemError, match="no loop of one's own gives them"):
        program.trainer(settings=SETTINGS)
