"""Runs whose files were damaged, that were killed, or whose disk, device or data went away."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends.base import Outputs, Uploaded
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.device.device import explained
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Stepped
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder, named_folder
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.training_problems import CannotResume
from tests.effort import effort
from tests.runtime.runs import Workspace
from tests.runtime.train.resumed import assert_same_run, told
from tests.shared_entries import cache_of_processes


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_what_there_is_instead(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    damage(folder.checkpoint, -1)
    message = told(workspace)
    assert "E0542" in message
    assert f"--weights {folder.weights}" in message
    damage(folder.weights, -1)
    assert f"--weights {folder.best}" in told(workspace)
    folder.best.unlink()
    assert "--weights" not in told(workspace)


def test_a_checkpoint_that_was_cut_short_is_named_too(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    os.truncate(folder.checkpoint, 100)
    assert f"--weights {folder.weights}" in told(workspace)


TRAIN = [sys.executable, "-m", "meganeura", "train"]


def test_data_that_is_cut_short_while_it_is_trained_on_ends_in_a_message(tmp_path: Path) -> None:
    """A mapped file would end the process with SIGBUS; this one has more than is kept in memory."""
    data = tmp_path / "points.npy"
    np.lib.format.open_memmap(data, "w+", np.float32, (300_000, 256)).flush()  # zeros, unwritten
    (tmp_path / "fit.mgn").write_text(
        "train fit(points: [batch, 256]):\n  minimize mean((points |> fc: linear(1)) ** 2)\n"
        '  run:\n    data = "points.npy"\n    batch = 64\n    epochs = 9\n    log_every = 1\n'
        "    shuffle = false\n    optimizer = sgd(lr=0.1)\n"
    )
    words = [*TRAIN, "fit.mgn", "--out", "run", "--device", "cpu"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while run.poll() is None and not (metrics.exists() and metrics.stat().st_size > 2000):
        sleep(0.01)
    os.truncate(data, 4096)
    shown, _ = run.communicate(timeout=60)
    assert run.returncode == 1, shown
    assert b"E0530" in shown
    assert b"and has 4,096 now" in shown


def test_files_are_as_the_umask_says(workspace: Workspace) -> None:
    before = os.umask(0o027)
    try:
        folder = workspace.start("run", "epochs=1")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert len(modes) == 7
    assert set(modes.values()) == {0o640}


@pytest.mark.parametrize("seed", range(effort(1, 10)))
def test_a_killed_run_goes_on_where_its_checkpoint_is(
    workspace: Workspace, whole: RunFolder, seed: int
) -> None:
    """SIGKILL at random moments: never a damaged folder, never more than an epoch lost.

    In a process of its own, since one that has used a GPU cannot be forked.
    """
    command = (sys.executable, "-m", "tests.runtime.killing", str(workspace.folder), str(seed))
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "MEGANEURA_CACHE": cache_of_processes(),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    subprocess.run(command, check=True, timeout=300, env=environment)
    assert_same_run(RunFolder(workspace.folder / "killed"), whole)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files cannot grow further, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_good_checkpoint(workspace: Workspace, whole: RunFolder) -> None:
    folder = workspace.start("run", steps=7)
    before = folder.checkpoint.read_bytes()
    with largest_file(1000), pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    assert isinstance(caught.value.problem, CannotWrite)
    assert folder.checkpoint.read_bytes() == before
    assert not list(folder.path.glob(".*.partial"))
    assert_same_run(workspace.resume("run"), whole)


class Vanishing(ReferenceSession):
    """A device that is lost at its twelfth step."""

    steps = 0

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        self.steps += 1
        if self.steps == 12:
            with explained("waiting for a step"):
                raise RuntimeError("Parent device is lost")
        return super().step(feeds)


def test_a_run_whose_device_was_lost_is_told_so_and_goes_on(
    workspace: Workspace, whole: RunFolder
) -> None:
    with pytest.raises(ProblemError, match="E0551") as caught, explained_failures():
        workspace.start("run", open_session=Vanishing)
    headline = caught.value.problem.report().headline
    assert headline.startswith("the device was lost while waiting for a step; ")
    folder = RunFolder(workspace.folder / "run")
    assert read_checkpoint(folder.checkpoint)[1].step == 10
    assert_same_run(workspace.resume("run"), whole)


def test_a_disk_that_became_read_only_keeps_the_last_good_checkpoint(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.start("run", steps=7)
    before = folder.checkpoint.read_bytes()

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", refused)  # the optimizer's tables, too
        patched.setattr(Path, "unlink", refused)
        with pytest.raises(ProblemError, match="E0534") as caught:
            workspace.resume("run")
    assert isinstance(caught.value.problem, CannotWrite)
    assert caught.value.problem.reason == "Read-only file system"
    assert folder.checkpoint.read_bytes() == before


def test_a_folder_that_may_not_be_written_to_is_told_before_the_first_step(
    workspace: Workspace,
) -> None:
    with pytest.raises(ProblemError, match="E0534"), named_folder(Path("/proc/meganeura")):
        pass
    vanished = workspace.run_folder("gone")
    vanished.path.rmdir()
    with pytest.raises(ProblemError, match="E0534"):
        train(
            workspace.job(),
            vanished,
            ReferenceSession,
            workspace.events.append,
            lambda: False,
            RunOptions(),
        )
    assert not any(isinstance(event, Stepped) for event in workspace.events)


def test_nothing_is_offered_where_nothing_may_be_given_anew() -> None:
    assert CannotResume("its checkpoint contradicts itself").report().help is None
    assert CannotResume("`batch` was decided when it began", ("device",)).report().help is not None
