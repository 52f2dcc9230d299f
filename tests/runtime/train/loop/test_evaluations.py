"""Evaluations of a run: which examples they count, when they are made, what follows from them."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.train.events import (
    Evaluated,
    Event,
    Finished,
    Logged,
    Stepped,
    StoppedEarly,
)
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import new_folder
from tests.runtime.train.loop.one_parameter import (
    X,
    job,
    metrics,
    run,
)


def test_evaluation_covers_every_example_once_weighted_by_rows(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(eval_every=2))
    evaluations = [each for each in events if isinstance(each, Evaluated)]
    assert [each.epoch for each in evaluations] == [1, 2]
    w = float(load_file(folder.weights)["w"][0])
    assert evaluations[-1].loss == pytest.approx(float(np.mean((X * (w - 2)) ** 2)), rel=1e-5)
    assert evaluations[-1].metrics["size"] == pytest.approx(float(X.mean()))
    # the step, batches of four, and the remainder of two; each planned once
    assert [len(each.fed) for each in sessions.opened] == [6, 4, 2]


def test_evaluations_within_an_epoch_change_nothing_but_what_is_measured(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(eval_every_steps=3, eval_every=3, epochs=4))
    found = [each for each in events if isinstance(each, Evaluated)]
    # 3 within the second epoch; 6 is the end of the third, evaluated once; 8 is the end of all.
    assert [(each.step, each.epoch, each.is_within_epoch) for each in found] == [
        (3, 1, True), (6, 2, False), (8, 3, False),
    ]  # fmt: skip
    plain, other, _ = run(tmp_path, job(epochs=4))
    by_step = {each.step: each for each in plain if isinstance(each, Evaluated)}
    assert [by_step[step].loss for step in (6, 8)] == [each.loss for each in found[1:]]
    assert folder.weights.read_bytes() == other.weights.read_bytes()
    kept = [each["step"] for each in metrics(folder) if each["kind"] == "held_out"]
    assert kept == [3, 6, 8]


def test_a_run_ends_within_an_epoch_where_nothing_gets_better(tmp_path: Path) -> None:
    wanted = job(epochs=9, eval_every_steps=1, stop_after=2, best="lowest size")
    events, folder, _ = run(tmp_path, wanted)
    (early,) = [event for event in events if isinstance(event, StoppedEarly)]
    assert (early.step, early.epoch, early.evaluations) == (3, 1, 2)
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position, progress.stale) == (3, 1, 1, 2)
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (3, False)
    assert load_file(folder.weights).keys() == {"w"}


def test_a_last_batch_of_one_example_counts_once(tmp_path: Path) -> None:
    wanted = job(test=X[:7], sizes={"batch": 3}, epochs=1)
    events, folder, sessions = run(tmp_path, wanted)
    [measured] = [each for each in events if isinstance(each, Evaluated)]
    w = float(load_file(folder.weights)["w"][0])
    assert measured.loss == pytest.approx(float(np.mean((X[:7] * (w - 2)) ** 2)), rel=1e-5)
    assert [[len(feeds["x"]) for feeds in each.fed] for each in sessions.opened[1:]] == [
        [3, 3],
        [1],
    ]


def test_evaluation_avoids_a_remainder_where_a_batch_of_another_size_does(tmp_path: Path) -> None:
    _, _, sessions = run(tmp_path, job(sizes={"batch": 6}))
    assert [len(each.fed) for each in sessions.opened] == [3, 6]
    assert {len(feeds["x"]) for feeds in sessions.opened[1].fed} == {5}


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(optimizer={"kind": "sgd", "lr": 20.0}, epochs=2))
    evaluations = [each for each in events if isinstance(each, Evaluated)]
    assert [each.best for each in evaluations] == [True, False]
    assert evaluations[1].loss > evaluations[0].loss
    assert load_file(folder.best)["w"] != load_file(folder.weights)["w"]


def test_without_held_out_examples_nothing_is_evaluated(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(held_out=False))
    assert not any(isinstance(each, Evaluated) for each in events)
    assert not folder.best.exists()
    assert folder.weights.exists()


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_run_may_be_stopped_by_an_evaluation(epoch: int, tmp_path: Path) -> None:
    """It is as far then as one that was stopped after the epoch; after the last it is over."""
    events: list[Event] = []

    def stop() -> bool:
        return sum(isinstance(event, Evaluated) for event in events) == epoch

    with new_folder(tmp_path, "fit") as folder:
        finished = train(job(), folder, ReferenceSession, events.append, stop)
    assert (finished.steps, finished.interrupted) == (2 * epoch, epoch < 3)
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position) == (2 * epoch, epoch, 0)
    assert sum(isinstance(event, Stepped) for event in events) == 2 * epoch


def test_a_plateau_lowers_the_rate_of_what_follows(tmp_path: Path) -> None:
    """A metric that never changes is no better after the first evaluation."""
    plateau = {"kind": "plateau", "metric": "size", "factor": 0.5, "patience": 0, "final": 0.2}
    events, folder, sessions = run(tmp_path, job(schedule=plateau, epochs=5, log_every=1))
    rates = [each.learning_rate for each in events if isinstance(each, Logged)]
    expected = [0.5, 0.5, 0.25, 0.125, 0.1]
    assert rates == pytest.approx([rate for rate in expected for _ in range(2)])
    fed = [float(feeds["learning_rate"]) for feeds in sessions.opened[0].fed]
    assert fed == pytest.approx(rates)
    told = [each.learning_rate for each in events if isinstance(each, Evaluated)]
    assert told == [None, pytest.approx(0.25), pytest.approx(0.125), pytest.approx(0.1), None]
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.reduction.scale, progress.reduction.bad) == (0.2, 0)


def test_a_plateau_lowers_the_rate_within_an_epoch(tmp_path: Path) -> None:
    plateau = {"kind": "plateau", "metric": "size", "factor": 0.5, "patience": 0}
    wanted = job(schedule=plateau, epochs=2, log_every=1, eval_every_steps=1)
    events, _, sessions = run(tmp_path, wanted)
    rates = [each.learning_rate for each in events if isinstance(each, Logged)]
    assert rates == pytest.approx([0.5, 0.5, 0.25, 0.125])
    assert [float(feeds["learning_rate"]) for feeds in sessions.opened[0].fed] == rates


@pytest.mark.parametrize("of_all", [True, False])
def test_a_plateau_of_some_paths_changes_no_other_rate(tmp_path: Path, *, of_all: bool) -> None:
    """The rate of all paths is reported if it changed."""
    plateau = {"kind": "plateau", "metric": "size", "factor": 0.5, "patience": 0, "final": 0.2}
    rest, own = (plateau, {"kind": "constant"})[:: 1 if of_all else -1]
    wanted = job(schedule=rest, schedules={"*": own}, epochs=5, log_every=1)
    events, folder, sessions = run(tmp_path, wanted)
    fed = np.array([feeds["learning_rate"].tolist() for feeds in sessions.opened[0].fed])
    lowered = [rate for rate in (0.5, 0.5, 0.25, 0.125, 0.1) for _ in range(2)]
    np.testing.assert_allclose(fed[:, 0 if of_all else 1], lowered)
    np.testing.assert_allclose(fed[:, 1 if of_all else 0], 0.5)
    told = [each.learning_rate for each in events if isinstance(each, Evaluated)]
    changes = [None, 0.25, 0.125, 0.1, None] if of_all else [None] * 5
    assert told == [each and pytest.approx(each) for each in changes]
    progress = read_checkpoint(folder.checkpoint)[1]
    scales = [progress.reduction.scale, progress.reductions["*"].scale]
    assert scales == ([0.2, 1.0] if of_all else [1.0, 0.2])
