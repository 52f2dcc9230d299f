"""The training loop on a reference session: order, log points, files, interruption."""

import gc
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.settings_problems import MetricTaken
from meganeura_dsl.transforms.optimizers.optimizers import AdamW, Sgd
from meganeura_runtime.backends.backend import Hosts, OpenDevice
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.train.events import (
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Logged,
    Saved,
    Started,
    Stepped,
    StoppedEarly,
)
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.training_loop import TrainingLoop, train
from meganeura_runtime.train.records import run_folder
from meganeura_runtime.train.records.run_folder import RunFolder, named_folder, new_folder
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.spec.step_graphs import training_settings
from meganeura_runtime.train.spec.train_job import prepare
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.runtime.runs import PROGRAM, Workspace
from tests.runtime.train.loop.one_parameter import (
    X,
    job,
    metrics,
    run,
)


def test_a_run_does_all_steps_and_tells_them(tmp_path: Path) -> None:
    events, _, sessions = run(tmp_path, job())
    assert isinstance(events[0], Started)
    assert (events[0].steps_per_epoch, events[0].examples, events[0].held_out) == (2, 10, 10)
    assert (events[0].parameters, events[0].weights) == (1, 1)
    assert [each.step for each in events if isinstance(each, Stepped)] == [1, 2, 3, 4, 5, 6]
    assert [each.epoch for each in events if isinstance(each, Stepped)] == [0, 0, 1, 1, 2, 2]
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (6, False)
    assert len(sessions.opened[0].fed) == 6
    assert all(each.closed for each in sessions.opened)


def test_metrics_are_read_at_log_points_only(tmp_path: Path) -> None:
    events, _, sessions = run(tmp_path, job(log_every=4))
    assert [each.step for each in events if isinstance(each, Logged)] == [1, 4, 6]
    assert sessions.opened[0].reads == 3


def test_what_is_learned_is_what_the_numbers_say(tmp_path: Path) -> None:
    wanted = job(shuffle=False)
    _, folder, _ = run(tmp_path, wanted)
    w = 1.0
    for _ in range(3):
        for batch in (X[:4], X[4:8]):
            w -= 0.5 * 2 * float(np.mean(batch**2)) * (w - 2)
    assert load_file(folder.weights)["w"] == pytest.approx([w], rel=1e-6)


def test_every_epoch_has_another_order_which_the_seed_decides(tmp_path: Path) -> None:
    def order(seed: int) -> list[float]:
        _, _, sessions = run(tmp_path, job(seed=seed))
        return [float(x) for feeds in sessions.opened[0].fed for x in feeds["x"].ravel()]

    first = order(1)
    assert first == order(1)
    assert first != order(2)
    assert first[:8] != first[8:16]
    assert len(set(first[:8])) == 8


def test_the_mean_loss_of_an_epoch_is_that_of_all_its_steps(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(held_out=False, log_every=100))
    w, losses = 1.0, list[float]()
    for feeds in sessions.opened[0].fed:
        scale = float(np.mean(np.square(feeds["x"], dtype=np.float64)))
        losses.append(scale * (w - 2) ** 2)
        w -= 0.5 * 2 * scale * (w - 2)
    means = [float(np.mean(losses[first : first + 2])) for first in (0, 2, 4)]
    ended = [each for each in events if isinstance(each, EpochEnded)]
    assert [(each.step, each.epoch, each.steps) for each in ended] == [
        (2, 0, 2),
        (4, 1, 2),
        (6, 2, 2),
    ]
    assert [each.loss for each in ended] == pytest.approx(means, rel=1e-5)
    assert all(each.seconds > 0 for each in ended)
    records = [each for each in metrics(folder) if each["kind"] == "epoch"]
    assert [each["loss"] for each in records] == [each.loss for each in ended]


def test_no_steps_are_logged_where_none_are_asked_for(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(log_every=0))
    assert not any(isinstance(each, Logged) for each in events)
    assert [each["kind"] for each in metrics(folder)] == ["epoch", "held_out"] * 3


def test_a_loss_that_is_not_finite_is_noticed_without_a_log(tmp_path: Path) -> None:
    with np.errstate(all="ignore"), pytest.raises(ProblemError) as caught:
        run(tmp_path, job(optimizer={"kind": "sgd", "lr": 1e30}, epochs=10, log_every=0))
    assert isinstance(caught.value.problem, LossNotFinite)
    assert caught.value.problem.step == 2
    assert metrics(RunFolder(tmp_path / "fit-1"))[-1] == {
        "kind": "step", "step": 2, "epoch": 0, "loss": None,
    }  # fmt: skip


def test_no_epochs_leave_the_initial_weights(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(epochs=0))
    assert [type(each) for each in events] == [Started, Saved, Finished]
    assert [len(each.fed) for each in sessions.opened] == [0]
    assert load_file(folder.weights)["w"].tolist() == [1.0]
    assert read_checkpoint(folder.checkpoint)[1].step == 0
    assert not folder.metrics.exists()


def test_the_folder_holds_settings_and_metrics(tmp_path: Path) -> None:
    wanted = job()
    _, folder, _ = run(tmp_path, wanted)
    written = json.loads(folder.settings.read_text())
    assert written.pop("weights") == []
    assert RunSettings.model_validate(written) == wanted.settings
    records = metrics(folder)
    assert [(each["kind"], each["step"]) for each in records] == [
        ("step", 1), ("step", 2), ("epoch", 2), ("held_out", 2), ("step", 4), ("epoch", 4),
        ("held_out", 4), ("step", 6), ("epoch", 6), ("held_out", 6),
    ]  # fmt: skip
    assert all(isinstance(each["loss"], float) for each in records)
    assert {"learning_rate", "steps_per_second", "size"} <= set(records[0])


def test_weights_say_which_run_and_step_they_are_of(workspace: Workspace) -> None:
    """The best are those of the step that was evaluated."""
    folder = workspace.start("run", "epochs=2", "best=highest loss", "optimize=false")
    evaluated = [event.loss for event in workspace.events if isinstance(event, Evaluated)]
    best = 5 * (1 + int(np.argmax(evaluated)))
    for path, step in ((folder.weights, 10), (folder.best, best)):
        with safe_open(path, "np") as file:
            said = {"format": "pt", "train": "fit", "step": str(step)}
            assert {name: file.metadata()[name] for name in said} == said


def test_a_checkpoint_holds_the_place_in_the_run(tmp_path: Path) -> None:
    wanted = job(optimizer={"kind": "adam"})
    _, folder, _ = run(tmp_path, wanted)
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert sorted(tensors) == [
        "optimizer.step",
        "optimizer.w.exp_avg",
        "optimizer.w.exp_avg_sq",
        "w",
    ]
    assert int(tensors["optimizer.step"].bits) == 6
    assert (progress.step, progress.epoch, progress.position) == (6, 3, 0)
    assert progress.program == wanted.spec.program_hash
    assert progress.best_value is not None


def test_an_interrupted_run_leaves_a_checkpoint_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(), stop_after=3)
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (3, True)
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert (progress.step, progress.epoch, progress.position) == (3, 1, 1)
    w = 1.0
    for feeds in sessions.opened[0].fed:
        w -= 0.5 * 2 * float(np.mean(np.square(feeds["x"], dtype=np.float64))) * (w - 2)
    assert tensors["w"].bits == pytest.approx([w], rel=1e-6)
    assert folder.weights.exists()


class Agreeing(ReferenceSession):
    """A session of one of several processes, which are asked whether a run should end."""

    asked: list[int]
    until: int

    def agree(self, *, wish: bool) -> bool:
        assert wish
        self.asked.append(self.step_now())
        return len(self.asked) == self.until

    step_now: Callable[[], int]


@pytest.mark.parametrize(
    ("every", "asked"),
    [(0, [2, 4, 5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [2, 3, 4, 5])],
)
@pytest.mark.parametrize("until", [1, 2, 9])
def test_several_processes_end_after_the_same_step(
    every: int, asked: list[int], until: int, tmp_path: Path
) -> None:
    """They agree where a step is logged, at the end of an epoch of two steps, and of the run."""
    events: list[Event] = []

    def made() -> int:
        return sum(isinstance(event, Stepped) for event in events)

    def opened(graph: Graph) -> Agreeing:
        session = Agreeing(graph)
        session.asked, session.until, session.step_now = [], until, made
        sessions.append(session)
        return session

    sessions: list[Agreeing] = []
    options = RunOptions(hosts=Hosts(2, 0))
    wanted = job(steps=5, epochs=3, log_every=every)
    with new_folder(tmp_path, "fit") as folder:
        finished = train(wanted, folder, opened, events.append, lambda: True, options)
    assert sessions[0].asked == asked[:until]
    assert finished.steps == [*asked, 5][min(until, len(asked)) - 1]
    assert finished.interrupted == (until < 9)


@pytest.mark.parametrize("save_every", [1, 2, 5])
def test_a_run_that_ends_early_saves_all_there(tmp_path: Path, save_every: int) -> None:
    """Whenever it is saved otherwise: the third evaluation is the second that is no better."""
    wanted = job(epochs=9, save_every=save_every, stop_after=2, best="lowest size")
    events, folder, _ = run(tmp_path, wanted)
    (early,) = [event for event in events if isinstance(event, StoppedEarly)]
    assert (early.step, early.epoch, early.evaluations, early.metric) == (6, 2, 2, "size")
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position, progress.stale) == (6, 3, 0, 2)
    saved = [event.path for event in events[events.index(early) :] if isinstance(event, Saved)]
    assert saved == [folder.checkpoint, folder.weights]
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert (finished.steps, finished.interrupted) == (6, False)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with np.errstate(all="ignore"), pytest.raises(ProblemError) as caught:
        run(tmp_path, job(optimizer={"kind": "sgd", "lr": 1e30}, epochs=10))
    assert isinstance(caught.value.problem, LossNotFinite)
    caught.value.problem.report()
    last = metrics(RunFolder(tmp_path / "fit-1"))[-1]
    assert last["loss"] is None


def test_settings_that_do_not_fit_the_program_are_refused_before_a_run(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ProblemsError, match="E05") as caught:
        workspace.job('optimizer["fc9.*"]=sgd(lr=0.1)')
    assert "fc9" in str(caught.value.problems[0].report())
    text = PROGRAM.replace("  run:", "  metric gradient_norm = mean(h)\n  run:")
    workspace.write(text)
    assert workspace.job().steps == 20
    with pytest.raises(ProblemsError) as caught:
        workspace.job("gradient_norm=true")
    (problem,) = caught.value.problems
    assert isinstance(problem, MetricTaken)
    assert problem.name == "gradient_norm"


def test_run_folders_are_numbered(tmp_path: Path) -> None:
    paths: list[str] = []
    for _ in range(3):
        with new_folder(tmp_path / "runs", "fit") as folder:
            paths.append(folder.path.name)
    assert paths == ["fit-1", "fit-2", "fit-3"]


def test_a_named_folder_must_be_empty(tmp_path: Path) -> None:
    with named_folder(tmp_path / "new" / "run") as folder:
        folder.write_settings(job().settings)
    with pytest.raises(ProblemError, match="E0534"), named_folder(folder.path):
        pass


def test_a_folder_in_the_way_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="E0534"), new_folder(tmp_path / "file", "fit"):
        pass
    with pytest.raises(ProblemError, match="E0534"), named_folder(tmp_path / "file"):
        pass


def test_numbers_that_are_not_finite_are_null_in_the_metrics(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.add_metrics({"kind": "step", "loss": math.nan})
    assert metrics(folder) == [{"kind": "step", "loss": None}]


def test_settings_say_how_the_step_is_built() -> None:
    clipped = job(clip_norm=1.0).settings
    assert training_settings(clipped).clip_norm == 1.0
    adamw = job(optimizer={"kind": "adamw"}).settings
    assert training_settings(adamw).optimizer == AdamW(weight_decay=0.01)
    assert Sgd(lr=0.5) == job().settings.optimizer


def test_a_line_of_the_metrics_speaks_of_a_step_or_is_left_out() -> None:
    lines = (b'{"step": 2}', b'{"step": 3}', b"[" * 200_000, b'{"step": "2"}', b"{", b"[2]", b"")
    assert [run_folder._is_by(2, line) for line in lines] == [True, *[False] * 6]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hosts_train_together_on_so_many_devices_as_is_said(count: int, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    job = prepare(pipeline.load(str(workspace.folder / "fit.mgn")), "fit", workspace.folder)
    device = cast("OpenDevice", SimpleNamespace(hosts=SimpleNamespace(count=count)))
    if count == 1:
        assert job.spec.spread_over(device) is device
    else:
        with pytest.raises(DeviceError, match=f"{count} hosts train together"):
            job.spec.spread_over(device)


@pytest.mark.usefixtures("own_garbage")
def test_what_a_run_held_is_freed_at_its_end(tmp_path: Path) -> None:
    """Its session too, and all that is on the device, without a search for garbage."""
    gc.disable()
    try:
        run(tmp_path, job())
        held = [each for each in gc.get_objects() if isinstance(each, TrainingLoop | Feeder)]
    finally:
        gc.enable()
    assert not held
