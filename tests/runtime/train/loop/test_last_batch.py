"""A last batch that is not full: trained on as a loop by hand would, on each device."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_dsl.transforms.training_step import training_step
from meganeura_runtime.backends.base import OpenSession, Session, SessionError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.sized_session import SizedSession
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.batches import order_of_epoch
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import EpochEnded, Logged, Started, Stepped
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.spec.session_inputs import feeds
from meganeura_runtime.train.spec.step_graphs import training_settings
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.effort import effort
from tests.runtime.runs import FAILING, Workspace, contents

KEEP = "drop_last=false"
SETTINGS = (KEEP, "epochs=2", "optimizer=sgd(lr=0.1, momentum=0.9)")
"""A gradient that is 0 but for rounding stays about 0 under this optimizer, unlike under Adam."""
STEPS = 6
"""Steps of an epoch of 22 examples: five of four, and one of two."""


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("place"))


@pytest.fixture
def on_adapter(device: Device) -> OpenSession:
    def opened(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    return opened


def by_hand(workspace: Workspace, job: TrainJob) -> tuple[dict[str, Array], list[float]]:
    """Returns the reference's results for each batch, with a graph for each size of one."""
    settings = job.settings
    program = pipeline.load(str(workspace.folder / "fit.mgn"))
    points = load_file(workspace.folder / "points.safetensors")
    kept: Mapping[str, Array] = job.spec.initial_values()
    losses: list[float] = []
    for step in range(settings.epochs * STEPS):
        epoch, position = divmod(step, STEPS)
        chosen = order_of_epoch(settings.seed, epoch, 22, shuffle=True)[position * 4 :][:4]
        forward = pipeline.elaborate_train(
            program, "fit", sizes={"batch": len(chosen)}, training=True
        )
        graph = training_step(forward.graph, training_settings(settings))
        data = {"x": points["train.x"][chosen], "y": points["train.y"][chosen]}
        rate = settings.learning_rate(step, RunLength(settings.epochs * STEPS, STEPS))
        results = Interpreter(graph).run({**kept, **feeds(graph, data, settings.seed, step, rate)})
        kept = {**kept, **results.updates}
        losses.append(float(results.outputs["loss"]))
    return dict(kept), losses


@pytest.mark.parametrize("optimize", effort(["true"], ["true", "false"]))
def test_it_is_trained_on_as_by_hand(workspace: Workspace, optimize: str) -> None:
    folder = workspace.start("run", *SETTINGS, f"optimize={optimize}", "log_every=1")
    kept, losses = by_hand(workspace, workspace.job(*SETTINGS))
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert (progress.step, progress.epoch, progress.position) == (12, 2, 0)
    for name, values in kept.items():
        near = pytest.approx(np.asarray(values, np.float64), rel=2e-5, abs=1e-6)
        assert np.asarray(tensors[name].bits, np.float64) == near, name
    logged = [event for event in workspace.events if isinstance(event, Logged)]
    assert [event.epoch for event in logged] == [0] * 6 + [1] * 6
    assert [event.loss for event in logged] == pytest.approx(losses, rel=1e-5)


@pytest.mark.adapter
def test_it_is_trained_on_as_by_hand_on_an_adapter(
    workspace: Workspace, on_adapter: OpenSession
) -> None:
    folder = workspace.start("run", *SETTINGS, open_session=on_adapter)
    kept, losses = by_hand(workspace, workspace.job(*SETTINGS))
    tensors, _ = read_checkpoint(folder.checkpoint)
    for name, values in kept.items():
        near = pytest.approx(np.asarray(values, np.float64), rel=1e-3, abs=1e-5)
        assert np.asarray(tensors[name].bits, np.float64) == near, name
    means = [event.loss for event in workspace.events if isinstance(event, EpochEnded)]
    rows = [4, 4, 4, 4, 4, 2]
    expected = [np.average(losses[first : first + STEPS], weights=rows) for first in (0, STEPS)]
    assert means == pytest.approx(expected, rel=1e-4)


def test_a_resumed_run_meets_the_same_batches(workspace: Workspace) -> None:
    whole = workspace.start("whole", KEEP)
    for steps in effort((5, 8), (5, 6, 8, 23)):
        parts = workspace.start(f"parts-{steps}", KEEP, steps=steps)
        assert read_checkpoint(parts.checkpoint)[1].step == steps
        workspace.resume(f"parts-{steps}")
        for name in ("weights", "best", "checkpoint"):
            assert contents(getattr(parts, name)) == contents(getattr(whole, name))
        assert read_checkpoint(parts.checkpoint)[1] == read_checkpoint(whole.checkpoint)[1]


@pytest.mark.adapter
def test_a_resumed_run_meets_the_same_batches_on_an_adapter(
    workspace: Workspace, on_adapter: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.train.loop.prefetcher.WORTH_A_THREAD", 1)
    whole = workspace.start("whole", KEEP, "epochs=2", open_session=on_adapter)
    workspace.start("parts", KEEP, "epochs=2", steps=6, open_session=on_adapter)
    parts = workspace.resume("parts", open_session=on_adapter)
    assert contents(parts.checkpoint) == contents(whole.checkpoint)


def test_progress_counts_it(workspace: Workspace) -> None:
    workspace.start("run", KEEP, "epochs=2")
    started = workspace.events[0]
    assert isinstance(started, Started)
    assert (started.steps_per_epoch, started.left_out, started.last_batch) == (STEPS, 0, 2)
    assert sum(isinstance(event, Stepped) for event in workspace.events) == 2 * STEPS
    ended = [event for event in workspace.events if isinstance(event, EpochEnded)]
    assert [(event.step, event.epoch, event.steps) for event in ended] == [(6, 0, 6), (12, 1, 6)]
    workspace.events.clear()
    workspace.start("dropped", "epochs=1")
    started = workspace.events[0]
    assert isinstance(started, Started)
    assert (started.steps_per_epoch, started.left_out, started.last_batch) == (5, 2, 0)


def test_it_may_be_the_only_batch(workspace: Workspace) -> None:
    folder = workspace.start("run", KEEP, "batch=30", "epochs=2")
    assert read_checkpoint(folder.checkpoint)[1].step == 2
    with pytest.raises(ProblemError, match="E0526"):
        workspace.job("batch=30")


def test_without_a_remainder_there_is_no_second_graph(workspace: Workspace) -> None:
    assert workspace.job(KEEP, "batch=11").last is None
    assert workspace.job("batch=4").last is None


def test_it_was_decided_when_the_run_began(workspace: Workspace) -> None:
    workspace.start("run", steps=3)
    with pytest.raises(ProblemError, match="E0553"):
        workspace.resume("run", KEEP)


def test_each_step_can_be_looked_at(workspace: Workspace) -> None:
    watched = workspace.start("watched", KEEP, "epochs=1", options=RunOptions(detect_anomaly=True))
    plain = workspace.start("plain", KEEP, "epochs=1")
    assert contents(watched.checkpoint) == contents(plain.checkpoint)


def test_what_is_not_finite_is_found_in_it(workspace: Workspace) -> None:
    """Repeated steps have batches of the sizes they had."""
    workspace.write(FAILING.replace("0.5 - small", "3.0 - small"))
    with pytest.raises(ProblemError) as caught:
        workspace.start("run", KEEP)
    problem = caught.value.problem
    assert isinstance(problem, LossNotFinite)
    assert problem.first.startswith("`Log`")


def test_sessions_of_two_sizes_keep_one_set_of_values(workspace: Workspace) -> None:
    job = workspace.job(KEEP)
    assert job.last is not None
    session = SizedSession(ReferenceSession(job.spec.compiled), unknown)
    session.add(ReferenceSession(job.last.optimized))
    with pytest.raises(SessionError, match="no value was written"):
        session.step({})
    session.load(job.spec.initial_values())
    seen = [session.persistent()]
    for examples in (4, 2, 2, 4):
        data = job.dataset.train.take(slice(0, examples))
        session.step(feeds(job.spec.compiled, data, 0, 0, 0.1))
        seen.append(session.persistent())
    assert all(before["fc1.weight"].any() for before in seen)
    for before, after in pairwise(seen):
        assert (before["fc1.weight"] != after["fc1.weight"]).any()
    assert int(seen[-1]["optimizer.step"]) == 4
    session.step(feeds(job.spec.compiled, job.dataset.train.take(slice(0, 2)), 0, 0, 0.1))
    session.load(seen[0])
    again = session.persistent()
    assert all((again[name] == seen[0][name]).all() for name in session.names)
    session.close()


def unknown(shapes: Mapping[str, tuple[int, ...]]) -> ReferenceSession:
    raise AssertionError(shapes)


def test_a_whole_input_does_not_tell_the_sizes_apart(workspace: Workspace) -> None:
    """`table` comes first and is fed whole; the examples of `x` tell."""
    points = load_file(workspace.folder / "points.safetensors")
    save_file(
        {"table": np.ones((6,), np.float32), "x": points["train.x"]},
        workspace.folder / "points.safetensors",
    )
    workspace.write(
        "train fit(table: whole [6], x: [batch, 6]):\n"
        "  minimize mean((x * expand(table, [d] -> [batch, d]) |> fc: linear(1)) ** 2)\n"
        '  run:\n    data = "points.safetensors"\n    batch = 4\n    epochs = 2\n'
    )
    assert isinstance(workspace.start("run", KEEP), RunFolder)
    assert sum(isinstance(event, Stepped) for event in workspace.events) == 2 * STEPS
    assert replace(workspace.job(KEEP), last=None).steps_per_epoch == STEPS


def test_a_norm_over_one_example_is_refused_before_the_first_step(workspace: Workspace) -> None:
    with pytest.raises(ProblemError, match="E0314"):
        workspace.job(KEEP, "batch=7")
    assert workspace.job("batch=7").steps_per_epoch == 3


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_feed_each_batch_in_parts_that_make_it_up(
    workspace: Workspace, processes: int
) -> None:
    """Also the last one, of two examples."""
    job = workspace.job(*SETTINGS)

    def part(number: int) -> Feeder:
        def own(count: int) -> range:
            return range(count * number // processes, count * (number + 1) // processes)

        return Feeder(job, own)

    parts = [part(number) for number in range(processes)]
    for step in range(2 * STEPS):
        whole = Feeder(job).feeds(step)
        fed = [each.feeds(step) for each in parts]
        for name in job.spec.input_spec.rows:
            assert {len(each[name]) for each in fed} == {len(whole[name]) // processes}
            np.testing.assert_array_equal(np.concatenate([each[name] for each in fed]), whole[name])
