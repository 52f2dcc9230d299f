"""Runs that go on: exact to the bit, whenever and however they were interrupted."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.backends.base import OpenSession, Outputs, Session, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.checkpoint import origins, read_checkpoint
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import EpochEnded, Evaluated, Logged, Stepped
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report.run_summary import summary_of
from meganeura_runtime.train.spec.resume import other_rates, resume_job
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import prepare
from meganeura_runtime.train.spec.train_spec import Start
from tests.effort import effort
from tests.runtime.runs import PROGRAM, Workspace, contents
from tests.runtime.train.resumed import assert_same_run, epochs_told, steps_logged


@pytest.mark.parametrize("steps", effort([7], [1, 5, 7, 19]))
def test_resumed_is_uninterrupted(workspace: Workspace, whole: RunFolder, steps: int) -> None:
    workspace.start("parts", steps=steps)
    assert_same_run(workspace.resume("parts"), whole)


@pytest.mark.parametrize("paths", effort(['["fc2.*"]'], ["", '["fc2.*"]']))
def test_a_plateau_is_remembered(workspace: Workspace, paths: str) -> None:
    """Its best value, how long it lasted and the rate it led to: of the run that goes on too."""
    plateau = "plateau(threshold=0.5, factor=0.5, patience=0, cooldown=1, warmup=2)"
    before = "    schedule  = cosine(warmup=3)\n"
    workspace.write(
        PROGRAM.replace(before, f"{before if paths else ''}    schedule{paths} = {plateau}\n")
    )
    whole = workspace.start("whole")
    progress = read_checkpoint(whole.checkpoint)[1]
    assert (progress.reductions["fc2.*"] if paths else progress.reduction).scale < 1
    assert not paths or progress.reduction == Reduction()
    for steps in effort((5, 6), (5, 6, 10, 13)):
        workspace.start(f"parts-{steps}", steps=steps)
        assert_same_run(workspace.resume(f"parts-{steps}"), whole)


def test_a_run_knows_its_data(workspace: Workspace) -> None:
    """Also where the program names none, and the run was told when it began."""
    workspace.write(PROGRAM.replace('    data      = "points.safetensors"\n', ""))
    named = f"data={workspace.folder / 'points.safetensors'}"
    whole = workspace.start("whole", named)
    workspace.start("parts", named, steps=7)
    assert_same_run(workspace.resume("parts"), whole)
    with pytest.raises(ProblemsError, match="E0511"):
        workspace.start("other")


def test_the_speed_of_a_run_is_that_of_the_steps_it_makes_itself(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second for each four examples; evaluations and what came before are left out."""
    now = [100.0]
    for place in ("training_loop", "speed"):
        monkeypatch.setattr(f"meganeura_runtime.train.loop.{place}.perf_counter", lambda: now[0])

    class Timed(ReferenceSession):
        def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
            now[0] += 0.5
            return super().step(feeds)

    workspace.start("run", steps=7, open_session=Timed)
    now[0] += 1000
    workspace.resume("run", open_session=Timed)
    logged = [event for event in workspace.events if isinstance(event, Logged)]
    assert [event.step for event in logged] == [1, *range(2, 22, 2)]
    speeds = {(event.steps_per_second, event.examples_per_second) for event in logged}
    assert speeds == {(2.0, 8.0)}


def test_several_interruptions(workspace: Workspace, whole: RunFolder) -> None:
    workspace.start("parts", steps=3)
    for _ in range(4):
        workspace.resume("parts", steps=4)
    assert_same_run(workspace.resume("parts"), whole)


@pytest.mark.adapter
def test_resumed_is_uninterrupted_on_an_adapter(workspace: Workspace, device: Device) -> None:
    def on_adapter(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    opened: OpenSession = on_adapter
    whole = workspace.start("whole", open_session=opened)
    workspace.start("parts", steps=7, open_session=opened)
    assert_same_run(workspace.resume("parts", open_session=opened), whole)


@pytest.mark.adapter
def test_a_run_goes_on_with_other_backends(
    workspace: Workspace, whole: RunFolder, device: Device
) -> None:
    """Dropout, the order of examples, moments and statistics are those of one run on the CPU."""

    def on_adapter(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    workspace.start("parts", steps=7, open_session=on_adapter)
    workspace.resume("parts", steps=6, open_session=choose_device("xla:cpu").open)
    folder = workspace.resume("parts")
    assert steps_logged(folder) == steps_logged(whole)
    assert epochs_told(folder) == pytest.approx(epochs_told(whole), rel=1e-5)
    found, expected = load_file(folder.weights), load_file(whole.weights)
    # Batch norm takes the bias away: its gradient is rounding, and Adam makes steps of that.
    for name in expected.keys() - {"fc1.bias", "norm.running_mean"}:
        np.testing.assert_allclose(found[name], expected[name], 1e-4, 1e-5, err_msg=name)


def test_a_cold_restart_is_another_run(workspace: Workspace, whole: RunFolder) -> None:
    """The weights alone do not go on: moments, the step and the order of examples matter."""
    workspace.start("parts", steps=7)
    job = workspace.job("epochs=3")
    tensors, _ = read_checkpoint(RunFolder(workspace.folder / "parts").checkpoint)
    declared = {each.name for each in job.spec.parameters}
    given = {name: each.bits for name, each in tensors.items() if name in declared}
    cold = workspace.run_folder("cold")
    spoilt = replace(job, spec=replace(job.spec, given=given))
    train(spoilt, cold, ReferenceSession, workspace.events.append, lambda: False)
    assert contents(cold.weights) != contents(whole.weights)


def test_a_run_that_is_over_stays_as_it_is(workspace: Workspace) -> None:
    whole = contents(workspace.start("whole").weights)
    (workspace.folder / "whole" / "weights.safetensors").unlink()
    assert contents(workspace.resume("whole").weights) == whole


def test_more_epochs_may_be_asked_for(workspace: Workspace) -> None:
    workspace.start("run")
    before = len(workspace.events)
    folder = workspace.resume("run", "epochs=5", "log_every=1")
    made = [event for event in workspace.events[before:] if isinstance(event, Stepped)]
    assert [event.step for event in made] == [21, 22, 23, 24, 25]
    settings = read_checkpoint(folder.checkpoint)[1].settings
    assert (settings.epochs, settings.log_every) == (5, 1)


def test_epochs_take_the_place_of_the_steps_a_run_began_with(workspace: Workspace) -> None:
    workspace.start("run", "steps=2")
    folder = workspace.resume("run", "epochs=1")
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.settings.epochs, progress.settings.steps) == (1, None)
    assert [event.step for event in workspace.events if isinstance(event, Stepped)][-1] == 5


def test_what_was_measured_after_the_checkpoint_is_forgotten(
    workspace: Workspace, whole: RunFolder
) -> None:
    folder = workspace.start("run", steps=7)
    with folder.metrics.open("a") as file:
        file.write('{"kind": "step", "step": 8, "epoch": 1, "loss": 1.0}\n{"kind": "st')
    (folder.path / ".checkpoint.safetensors.1.partial").write_bytes(b"half")
    assert_same_run(workspace.resume("run"), whole)
    assert not list(folder.path.glob(".*"))


def test_equal_runs_are_equal_to_the_byte(workspace: Workspace) -> None:
    one, two = workspace.start("one"), workspace.start("two")
    for name in ("weights", "best", "checkpoint", "settings"):
        assert getattr(one, name).read_bytes() == getattr(two, name).read_bytes(), name


def test_lines_of_metrics_that_are_no_records_are_dropped(
    workspace: Workspace, whole: RunFolder
) -> None:
    """Those that are whole stand before the records, those that were cut short behind them."""
    folder = workspace.start("run", steps=7)
    content = folder.metrics.read_bytes()
    before = b'\xff\xfe\n[3]\n{"step": "3"}\n'
    for after in (b'{"kind": "step", "step": 3, "lo', b"[" * 9999):
        name = f"run-{len(after)}"
        shutil.copytree(folder.path, workspace.folder / name)
        (workspace.folder / name / folder.metrics.name).write_bytes(before + content + after)
        assert_same_run(workspace.resume(name), whole)


def test_metrics_that_cannot_be_read_are_told(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    folder.metrics.unlink()
    folder.metrics.mkdir()
    with pytest.raises(ProblemError):
        workspace.resume("run")


def test_a_resumed_run_remembers_the_weights_it_began_from(workspace: Workspace) -> None:
    first = workspace.start("first", steps=3)
    program = pipeline.load(str(workspace.folder / "fit.mgn"))
    job = prepare(program, "fit", workspace.folder, start=Start((first.weights,)))
    folder = workspace.run_folder("run")
    train(job, folder, ReferenceSession, workspace.events.append, lambda: True)
    before = read_checkpoint(folder.checkpoint)[1].weights
    assert before == origins([first.weights])
    assert read_checkpoint(workspace.resume("run").checkpoint)[1].weights == before
    assert json.loads(folder.settings.read_text())["weights"] == [dict(each) for each in before]


STEADY = "schedule=constant()"
"""A schedule that does not depend on the length of the run."""


def test_a_run_may_end_in_the_middle_of_an_epoch(workspace: Workspace) -> None:
    """It is evaluated there once, and with more steps it is the longer run."""
    short = workspace.start("short", "steps=7", STEADY)
    ends = [event for event in workspace.events if isinstance(event, EpochEnded | Evaluated)]
    assert [event.step for event in ends] == [5, 5, 7, 7]
    assert [event.steps for event in ends if isinstance(event, EpochEnded)] == [5, 2]
    workspace.events.clear()
    workspace.resume("short")
    assert not [event for event in workspace.events if isinstance(event, Stepped | Evaluated)]
    workspace.resume("short", "steps=9")
    whole = workspace.start("whole", "steps=9", STEADY)
    assert contents(short.checkpoint) == contents(whole.checkpoint)
    assert contents(short.weights) == contents(whole.weights)


OF_ITS_OWN = "schedule=cosine(warmup=3, steps=20)"
"""A schedule with its own length, that of the whole run."""


def rates_said(workspace: Workspace, *overrides: str) -> list[str]:
    """Returns the messages about the learning rate when `run` resumes with these settings."""
    program = pipeline.load(str(workspace.folder / "fit.mgn"))
    folder = workspace.run_folder("run")
    job, resumption = resume_job(RunRequest(program, "fit", workspace.folder, overrides), folder)
    return [str(each) for each in other_rates(job, resumption.progress)]


def test_a_schedule_with_a_length_of_its_own_does_not_see_where_a_run_was_to_end(
    workspace: Workspace,
) -> None:
    short = workspace.start("run", "epochs=2", OF_ITS_OWN)
    assert rates_said(workspace, "epochs=4") == []
    workspace.resume("run", "epochs=4")
    whole = workspace.start("whole", "epochs=4", OF_ITS_OWN)
    assert contents(short.checkpoint) == contents(whole.checkpoint)
    assert contents(short.weights) == contents(whole.weights)


def test_a_rate_that_jumps_is_told_and_can_be_kept_as_it_was(workspace: Workspace) -> None:
    """The rates after it was told are those that were told; kept, they are those from before."""
    folder = workspace.start("run", "epochs=2", "log_every=1")
    assert rates_said(workspace) == rates_said(workspace, "epochs=2", "schedule=linear()") == []
    [said] = rates_said(workspace, "epochs=3")
    assert said == (
        "learning rate: 0.0004952 in step 10, 0.003706 in the next, as cosine(warmup=3) spreads "
        "over 15 updates, and no longer over 10; cosine(warmup=3, steps=10) does that still"
    )
    [kept] = rates_said(workspace, "epochs=3", "schedule=cosine(warmup=3, steps=10)")
    assert kept == (
        "learning rate: 0.0004952 in step 10, 0 in the next, as the schedule is "
        "cosine(warmup=3, steps=10) and was cosine(warmup=3)"
    )
    workspace.resume("run", "epochs=3")
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    rates = {each["step"]: each["learning_rate"] for each in records if each["kind"] == "step"}
    assert (f"{rates[10]:.4g}", f"{rates[11]:.4g}") == ("0.0004952", "0.003706")


def test_nothing_is_said_of_rates_that_are_given_by_hand_or_that_no_step_follows(
    workspace: Workspace,
) -> None:
    workspace.start("run", "epochs=2")
    program = pipeline.load(str(workspace.folder / "fit.mgn"))
    request = RunRequest(program, "fit", workspace.folder, ("epochs=3",))
    job, resumption = resume_job(request, workspace.run_folder("run"))
    progress = resumption.progress
    assert len(other_rates(job, progress)) == 1
    assert other_rates(job, progress.model_copy(update={"is_by_hand": True})) == ()
    assert other_rates(job, progress.model_copy(update={"step": job.steps})) == ()


def test_updates_of_several_batches_are_what_a_schedule_counts(workspace: Workspace) -> None:
    workspace.start("run", "epochs=2", "accumulate=2")
    [said] = rates_said(workspace, "epochs=4")
    assert "over 10 updates, and no longer over 5; cosine(warmup=3, steps=5) does" in said


def test_a_run_that_follows_another_measurement_begins_with_the_whole_rate(
    workspace: Workspace,
) -> None:
    workspace.start("run", "schedule=plateau(factor=0.1, patience=0, threshold=1e9)", "epochs=3")
    assert read_checkpoint(workspace.run_folder("run").checkpoint)[1].reduction.scale < 1
    [said] = rates_said(workspace, "epochs=4", "schedule=constant()")
    assert "0.01 in the next, as the schedule is constant() and was plateau(" in said
    [said] = rates_said(workspace, "epochs=4", "schedule=plateau(patience=3)")
    assert "0.01 in the next" not in said


def test_a_run_with_fewer_steps_than_were_made_is_over(workspace: Workspace) -> None:
    """Nothing is evaluated twice, and the weights of the end are there."""
    folder = workspace.start("run", "steps=9", STEADY)
    before = contents(folder.weights), folder.metrics.read_text(), contents(folder.checkpoint)
    for fewer in ("steps=8", "steps=6", "steps=2", "epochs=1"):
        folder.weights.unlink()
        workspace.events.clear()
        workspace.resume("run", fewer)
        assert not [event for event in workspace.events if isinstance(event, Stepped | Evaluated)]
        after = contents(folder.weights), folder.metrics.read_text(), contents(folder.checkpoint)
        assert after == before, fewer


@pytest.mark.parametrize("steps", [6, 7])
def test_one_that_was_stopped_before_its_end_is_evaluated_there(
    workspace: Workspace, steps: int
) -> None:
    workspace.start("run", "steps=7", steps=steps)
    workspace.events.clear()
    workspace.resume("run")
    assert [event.step for event in workspace.events if isinstance(event, Evaluated)] == [7]


def test_another_metric_is_compared_anew(workspace: Workspace) -> None:
    """A loss says nothing of an accuracy: neither the best value counts, nor what came after it."""
    metric = "  metric far = 2 + mean(argmax(h |> fc2, 1) == y)\n  run:\n"
    workspace.write(PROGRAM.replace("  run:\n", metric))
    folder = workspace.start("run", "stop_after=2", "optimizer=sgd(lr=1e-12)", "epochs=9")
    before = read_checkpoint(folder.checkpoint)[1]
    assert before.stale == 2
    workspace.events.clear()
    workspace.resume("run", "best=lowest far")
    values = [event.metrics["far"] for event in workspace.events if isinstance(event, Evaluated)]
    assert values[0] > (before.best_value or 0)
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.best_value, progress.stale) == (min(values), 2)
    found = summary_of(folder.path).best_step
    assert found is not None
    assert found > before.step
    workspace.resume("run", "best=lowest  far", "stop_after=3")
    assert read_checkpoint(folder.checkpoint)[1].best_value == min(values)


def test_a_run_without_its_best_weights_compares_anew(workspace: Workspace) -> None:
    folder = workspace.start("run", "epochs=1")
    before = read_checkpoint(folder.checkpoint)[1]
    folder.best.unlink()
    workspace.resume("run", "epochs=2")
    progress = read_checkpoint(folder.checkpoint)[1]
    assert progress.best_value is not None
    assert before.best_value is not None
    assert progress.best_value > before.best_value
    assert contents(folder.best) == contents(folder.weights)
    assert summary_of(folder.path).best_step == progress.step


def test_the_other_direction_is_compared_anew(workspace: Workspace) -> None:
    folder = workspace.start("run", "epochs=1", "best=highest loss")
    workspace.resume("run", "epochs=2", "best=lowest loss")
    progress = read_checkpoint(folder.checkpoint)[1]
    (*_, last) = [event for event in workspace.events if isinstance(event, Evaluated)]
    assert last.best
    assert progress.best_value == last.loss
