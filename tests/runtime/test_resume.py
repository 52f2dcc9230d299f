"""Runs that go on: exact to the bit, whenever and however they were interrupted."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Graph
from meganeura_runtime.checkpoint import read_checkpoint
from meganeura_runtime.data.problems import ForeignData
from meganeura_runtime.device import Device, explained
from meganeura_runtime.plan.schedule import plan_graph
from meganeura_runtime.session import (
    CpuSession,
    GpuSession,
    OpenSession,
    Outputs,
    Session,
    Uploaded,
)
from meganeura_runtime.tensors.problems import CannotWrite
from meganeura_runtime.tensors.safetensors_file import write_tensors
from meganeura_runtime.tensors.stored import Array
from meganeura_runtime.train.events import Stepped
from meganeura_runtime.train.failures import explained_failures
from meganeura_runtime.train.folder import RunFolder, named_folder
from meganeura_runtime.train.loop import train
from meganeura_runtime.train.problems import CannotResume
from meganeura_runtime.train.resume import Manner
from tests.effort import effort
from tests.runtime.runs import Place, contents


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def steps_logged(folder: RunFolder) -> list[tuple[str, int]]:
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [(record["kind"], record["step"]) for record in records]


def assert_same_run(folder: RunFolder, whole: RunFolder) -> None:
    """Every file of both runs says the same."""
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name
    assert read_checkpoint(folder.checkpoint)[1] == read_checkpoint(whole.checkpoint)[1]
    assert steps_logged(folder) == steps_logged(whole)


# --- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 5, 7, 19])
def test_resumed_is_uninterrupted(place: Place, steps: int) -> None:
    whole = place.start("whole")
    place.start("parts", steps=steps)
    assert_same_run(place.resume("parts"), whole)


def test_several_interruptions(place: Place) -> None:
    whole = place.start("whole")
    place.start("parts", steps=3)
    for _ in range(4):
        place.resume("parts", steps=4)
    assert_same_run(place.resume("parts"), whole)


@pytest.mark.adapter
def test_resumed_is_uninterrupted_on_an_adapter(place: Place, device: Device) -> None:
    def on_adapter(graph: Graph) -> Session:
        return GpuSession(plan_graph(graph, device.limits, device.style), device)

    opened: OpenSession = on_adapter
    whole = place.start("whole", open_session=opened)
    place.start("parts", steps=7, open_session=opened)
    assert_same_run(place.resume("parts", open_session=opened), whole)


def test_a_cold_restart_is_another_run(place: Place) -> None:
    """The weights alone do not go on: moments, the step and the order of examples matter."""
    whole = place.start("whole")
    place.start("parts", steps=7)
    job = place.job("epochs=3")
    tensors, _ = read_checkpoint(RunFolder(place.folder / "parts").checkpoint)
    declared = {each.name for each in job.parameters}
    given = {name: each.bits for name, each in tensors.items() if name in declared}
    cold = place.run_folder("cold")
    train(replace(job, given=given), cold, CpuSession, place.told.append, lambda: False)
    assert contents(cold.weights) != contents(whole.weights)


def test_a_run_that_is_over_stays_as_it_is(place: Place) -> None:
    whole = contents(place.start("whole").weights)
    (place.folder / "whole" / "weights.safetensors").unlink()
    assert contents(place.resume("whole").weights) == whole


def test_more_epochs_may_be_asked_for(place: Place) -> None:
    place.start("run")
    before = len(place.told)
    folder = place.resume("run", "epochs=5", "log_every=1")
    made = [event for event in place.told[before:] if isinstance(event, Stepped)]
    assert [event.step for event in made] == [21, 22, 23, 24, 25]
    assert read_checkpoint(folder.checkpoint)[1].settings.epochs == 5


def test_what_was_measured_after_the_checkpoint_is_forgotten(place: Place) -> None:
    folder = place.start("run", steps=7)
    with folder.metrics.open("a") as file:
        file.write('{"kind": "step", "step": 8, "epoch": 1, "loss": 1.0}\n{"kind": "st')
    (folder.path / ".checkpoint.safetensors.1.partial").write_bytes(b"half")
    assert_same_run(place.resume("run"), place.start("whole"))
    assert not list(folder.path.glob(".*"))


# --- refused -------------------------------------------------------------------------------------


def refused(place: Place, *overrides: str) -> CannotResume:
    with pytest.raises(ProblemError) as caught:
        place.resume("run", *overrides)
    assert isinstance(caught.value.problem, CannotResume)
    caught.value.problem.report()
    return caught.value.problem


def test_what_a_step_depends_on_was_decided_when_the_run_began(place: Place) -> None:
    place.start("run", steps=3)
    problem = refused(place, "batch=2")
    assert "`batch`" in problem.reason
    assert "epochs" in problem.changeable


def test_the_settings_of_the_command_line_stay(place: Place) -> None:
    whole = place.start("whole", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3")
    place.start("run", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3", steps=6)
    assert_same_run(place.resume("run"), whole)


def test_data_of_the_command_line_is_found_again(place: Place) -> None:
    data = f"data={place.folder / 'points.safetensors'}"
    whole = place.start("whole", data)
    place.start("run", data, steps=6)
    assert_same_run(place.resume("run"), whole)


def elsewhere(place: Place) -> Path:
    """The data, outside of the program's folder and of all runs."""
    path = place.folder.parent / f"{place.folder.name}.safetensors"
    path.write_bytes((place.folder / "points.safetensors").read_bytes())
    return path


def test_a_checkpoint_names_no_data_elsewhere_unless_the_command_line_does(place: Place) -> None:
    data = elsewhere(place)
    whole = place.start("whole", f"data={data}")
    place.start("run", f"data={data}", steps=6)
    with pytest.raises(ProblemError) as caught:
        place.resume("run")
    assert isinstance(caught.value.problem, ForeignData)
    assert str(data) in str(caught.value.problem.report())
    assert_same_run(place.resume("run", f"data={data}"), whole)


def test_data_of_another_length_is_another_run(place: Place) -> None:
    place.start("run", steps=6)
    x, y = np.zeros((9, 6), np.float32), np.zeros(9, np.int32)
    save_file({"train.x": x, "train.y": y}, place.folder / "points.safetensors")
    assert "number of examples" in refused(place).reason


def test_names_of_tensors_are_kept(place: Place) -> None:
    tensors = load_file(place.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, place.folder / "renamed.safetensors")
    data = f'data=file("{place.folder / "renamed.safetensors"}", x="points")'
    whole = place.start("whole", data)
    assert whole.settings.read_text().count('"x": "points"') == 1
    place.start("run", data, steps=6)
    assert_same_run(place.resume("run"), whole)


@pytest.mark.parametrize(
    ("old", "new"), [("gelu", "relu"), ("dropout(0.25)", "dropout(0.3)"), ("fc2", "fc3")]
)
def test_another_program_is_another_run(place: Place, old: str, new: str) -> None:
    place.start("run", steps=3)
    place.write((place.folder / "fit.mgn").read_text().replace(old, new))
    assert "has changed" in refused(place).reason


def test_a_folder_without_a_checkpoint_is_told(place: Place) -> None:
    place.run_folder("run")
    assert "no checkpoint" in refused(place).reason


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_a_checkpoint_of_other_tensors_is_refused(place: Place, change: str) -> None:
    folder = place.start("run", steps=3)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    if change == "missing":
        del arrays["fc1.bias"]
    else:
        arrays["fc1.bias"] = arrays["fc1.bias"][:3]
    write_tensors(folder.checkpoint, arrays, {"meganeura": progress.model_dump_json()})
    refused(place)


# --- killed, full, forbidden ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(effort(1, 10)))
def test_a_killed_run_goes_on_where_its_checkpoint_is(place: Place, seed: int) -> None:
    """SIGKILL at twenty random moments: never a damaged folder, never more than an epoch lost.

    In a process of its own, since one that has used a GPU cannot be forked.
    """
    whole = place.start("whole")
    command = (sys.executable, "-m", "tests.runtime.killing", str(place.folder), str(seed))
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    subprocess.run(command, check=True, timeout=300, env=environment)
    assert_same_run(RunFolder(place.folder / "killed"), whole)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files cannot grow further, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_good_checkpoint(place: Place) -> None:
    whole = place.start("whole")
    folder = place.start("run", steps=7)
    before = folder.checkpoint.read_bytes()
    with largest_file(1000), pytest.raises(ProblemError) as caught:
        place.resume("run")
    assert isinstance(caught.value.problem, CannotWrite)
    assert folder.checkpoint.read_bytes() == before
    assert not list(folder.path.glob(".*.partial"))
    assert_same_run(place.resume("run"), whole)


class Vanishing(CpuSession):
    """A device that is lost at its twelfth step."""

    steps = 0

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        self.steps += 1
        if self.steps == 12:
            with explained("waiting for a step"):
                raise RuntimeError("Parent device is lost")
        return super().step(feeds)


def test_a_run_whose_device_was_lost_is_told_so_and_goes_on(place: Place) -> None:
    whole = place.start("whole")
    with pytest.raises(ProblemError, match="E0551") as caught, explained_failures():
        place.start("run", open_session=Vanishing)
    headline = caught.value.problem.report().headline
    assert headline.startswith("the device was lost while waiting for a step; ")
    folder = RunFolder(place.folder / "run")
    assert read_checkpoint(folder.checkpoint)[1].step == 10
    assert_same_run(place.resume("run"), whole)


def test_a_disk_that_became_read_only_keeps_the_last_good_checkpoint(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.start("run", steps=7)
    before = folder.checkpoint.read_bytes()

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", refused)  # the optimizer's tables, too
        patched.setattr(Path, "unlink", refused)
        with pytest.raises(ProblemError, match="E0534") as caught:
            place.resume("run")
    assert isinstance(caught.value.problem, CannotWrite)
    assert caught.value.problem.reason == "Read-only file system"
    assert folder.checkpoint.read_bytes() == before


def test_a_folder_that_may_not_be_written_to_is_told_before_the_first_step(place: Place) -> None:
    with pytest.raises(ProblemError, match="E0534"):
        named_folder(Path("/proc/meganeura"))
    vanished = place.run_folder("gone")
    vanished.path.rmdir()
    with pytest.raises(ProblemError, match="E0534"):
        train(place.job(), vanished, CpuSession, place.told.append, lambda: False, Manner())
    assert not any(isinstance(event, Stepped) for event in place.told)
