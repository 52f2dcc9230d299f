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
from time import sleep

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.backends.base import OpenSession, Outputs, Session, Uploaded
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.device.device import Device, explained
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.checkpoint import origins, read_checkpoint
from meganeura_runtime.io.data.data_problems import ForeignData
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import EpochEnded, Evaluated, Stepped
from meganeura_runtime.train.job import prepare
from meganeura_runtime.train.loop import train
from meganeura_runtime.train.recipe import Start
from meganeura_runtime.train.resume import RunOptions
from meganeura_runtime.train.run_folder import RunFolder, named_folder
from meganeura_runtime.train.training_problems import CannotResume, DataChanged
from tests.effort import effort
from tests.runtime.runs import PROGRAM, Workspace, contents
from tests.shared_entries import cache_of_processes


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that nothing interrupts."""
    return Workspace(tmp_path_factory.mktemp("whole")).start("whole")


def steps_logged(folder: RunFolder) -> list[tuple[str, int]]:
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [(record["kind"], record["step"]) for record in records]


def epochs_told(folder: RunFolder) -> list[float]:
    """The mean loss of each epoch."""
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "epoch"]


def assert_same_run(folder: RunFolder, whole: RunFolder) -> None:
    """Every file of both runs says the same."""
    assert epochs_told(folder) == epochs_told(whole)
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name
    assert read_checkpoint(folder.checkpoint)[1] == read_checkpoint(whole.checkpoint)[1]
    assert steps_logged(folder) == steps_logged(whole)


# --- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 5, 7, 19])
def test_resumed_is_uninterrupted(workspace: Workspace, whole: RunFolder, steps: int) -> None:
    workspace.start("parts", steps=steps)
    assert_same_run(workspace.resume("parts"), whole)


@pytest.mark.parametrize("paths", ["", '["fc2.*"]'])
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
    for steps in (5, 6, 10, 13):
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
    declared = {each.name for each in job.parameters}
    given = {name: each.bits for name, each in tensors.items() if name in declared}
    cold = workspace.run_folder("cold")
    train(replace(job, given=given), cold, ReferenceSession, workspace.events.append, lambda: False)
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


# --- damaged -------------------------------------------------------------------------------------


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


def told(workspace: Workspace) -> str:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    return render(caught.value.problem.report(), colour=False)


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


# --- the log --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [b'{"kind": "step", "step": 3, "lo', b"\xff\xfe\n", b"[3]\n", b'{"step": "3"}\n', b"[" * 9999],
)
def test_lines_of_metrics_that_are_no_records_are_dropped(
    workspace: Workspace, whole: RunFolder, line: bytes
) -> None:
    folder = workspace.start("run", steps=7)
    content = folder.metrics.read_bytes()
    folder.metrics.write_bytes(line + content if line.endswith(b"\n") else content + line)
    assert_same_run(workspace.resume("run"), whole)


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


# --- the data ------------------------------------------------------------------------------------


def points(workspace: Workspace) -> dict[str, Array]:
    return {**load_file(workspace.folder / "points.safetensors")}


def rewritten(workspace: Workspace, **changes: Array | None) -> None:
    """Replace tensors of the data; two underscores stand for a dot."""
    named = {name.replace("__", "."): each for name, each in changes.items()}
    kept = {**points(workspace), **named}
    save_file(
        {name: each for name, each in kept.items() if each is not None},
        workspace.folder / "points.safetensors",
    )


def data_changed(workspace: Workspace) -> DataChanged:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    assert isinstance(caught.value.problem, DataChanged)
    caught.value.problem.report()
    return caught.value.problem


def test_one_other_number_is_other_data(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    x = points(workspace)["train.x"]
    x[-1, -1] += 1
    rewritten(workspace, train__x=x)
    [(name, then, now)] = data_changed(workspace).changed
    assert name == "train.x"
    assert then[:-12] == now[:-12] == "f32[22, 6], 22 examples, "
    assert then != now
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_more_examples_are_other_data(workspace: Workspace) -> None:
    """An epoch would have more steps than the checkpoint counted."""
    workspace.start("run", "epochs=1")
    more = points(workspace)
    x, y = (np.concatenate([more[f"train.{name}"]] * 3) for name in ("x", "y"))
    rewritten(workspace, train__x=x, train__y=y)
    told = data_changed(workspace).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y"]
    assert "66 examples" in told[0][2]


def test_held_out_examples_are_data_too(workspace: Workspace) -> None:
    workspace.start("run", steps=7)
    rewritten(workspace, test__x=None, test__y=None)
    assert [(name, now) for name, _, now in data_changed(workspace).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_examples_held_out_that_were_not_there_are_other_data(workspace: Workspace) -> None:
    held_out = {f"test__{name}": points(workspace)[f"test.{name}"] for name in ("x", "y")}
    rewritten(workspace, test__x=None, test__y=None)
    workspace.start("run", steps=7)
    rewritten(workspace, **held_out)
    assert [(name, then) for name, then, _ in data_changed(workspace).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_a_type_is_part_of_the_data(workspace: Workspace) -> None:
    workspace.start("run", steps=7)
    rewritten(workspace, train__y=points(workspace)["train.y"].astype(np.int64))
    [(_, then, now)] = data_changed(workspace).changed
    assert (then[:3], now[:3]) == ("i32", "i64")


def test_data_may_be_elsewhere_and_in_another_format(workspace: Workspace) -> None:
    whole = workspace.start("whole", f"data={workspace.folder / 'points.safetensors'}")
    workspace.start("run", steps=7)
    moved = workspace.folder / "moved.npz"
    arrays = {name: np.asfortranarray(each) for name, each in points(workspace).items()}
    np.savez(moved, allow_pickle=False, **arrays)
    (workspace.folder / "points.safetensors").unlink()
    with pytest.raises(ProblemError, match="E0520"):
        workspace.resume("run")
    folder = workspace.resume("run", f"data={moved}")
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


def test_a_tensor_longer_than_a_chunk_is_seen_whole(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = workspace.job().fingerprints
    monkeypatch.setattr("meganeura_runtime.io.tensors.stored_tensor.CHUNK_BYTES", 50)
    assert workspace.job().fingerprints == told


@pytest.mark.parametrize("change", [{"data": ()}, {"position": 4}, {"epoch": 3}, {"step": 2}])
def test_a_checkpoint_that_contradicts_itself_is_refused(
    workspace: Workspace, change: dict[str, object]
) -> None:
    folder = workspace.start("run", steps=7)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    wrong = progress.model_copy(update=change)
    write_tensors(folder.checkpoint, arrays, {"meganeura": wrong.model_dump_json()})
    refused(workspace)


def test_files_are_as_the_umask_says(workspace: Workspace) -> None:
    before = os.umask(0o027)
    try:
        folder = workspace.start("run", "epochs=1")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert len(modes) == 7
    assert set(modes.values()) == {0o640}


# --- refused -------------------------------------------------------------------------------------


def refused(workspace: Workspace, *overrides: str) -> CannotResume:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run", *overrides)
    assert isinstance(caught.value.problem, CannotResume)
    caught.value.problem.report()
    return caught.value.problem


def test_what_a_step_depends_on_was_decided_when_the_run_began(workspace: Workspace) -> None:
    workspace.start("run", steps=3)
    problem = refused(workspace, "batch=2")
    assert "`batch`" in problem.reason
    assert "epochs" in problem.changeable


def test_the_settings_of_the_command_line_stay(workspace: Workspace) -> None:
    whole = workspace.start("whole", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3")
    workspace.start("run", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3", steps=6)
    assert_same_run(workspace.resume("run"), whole)


def test_data_of_the_command_line_is_found_again(workspace: Workspace) -> None:
    data = f"data={workspace.folder / 'points.safetensors'}"
    whole = workspace.start("whole", data)
    workspace.start("run", data, steps=6)
    assert_same_run(workspace.resume("run"), whole)


def elsewhere(workspace: Workspace) -> Path:
    """The data, outside of the program's folder and of all runs."""
    path = workspace.folder.parent / f"{workspace.folder.name}.safetensors"
    path.write_bytes((workspace.folder / "points.safetensors").read_bytes())
    return path


def test_a_checkpoint_names_no_data_elsewhere_unless_the_command_line_does(
    workspace: Workspace,
) -> None:
    data = elsewhere(workspace)
    whole = workspace.start("whole", f"data={data}")
    workspace.start("run", f"data={data}", steps=6)
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    assert isinstance(caught.value.problem, ForeignData)
    assert str(data) in str(caught.value.problem.report())
    assert_same_run(workspace.resume("run", f"data={data}"), whole)


def test_data_of_another_length_is_another_run(workspace: Workspace) -> None:
    workspace.start("run", steps=6)
    x, y = np.zeros((9, 6), np.float32), np.zeros(9, np.int32)
    save_file({"train.x": x, "train.y": y}, workspace.folder / "points.safetensors")
    told = data_changed(workspace).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y", "test.x", "test.y"]
    assert ["9 examples" in now for _, _, now in told] == [True, True, False, False]


def test_names_of_tensors_are_kept(workspace: Workspace) -> None:
    tensors = load_file(workspace.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, workspace.folder / "renamed.safetensors")
    data = f'data=file("{workspace.folder / "renamed.safetensors"}", x="points")'
    whole = workspace.start("whole", data)
    assert whole.settings.read_text().count('"x": "points"') == 1
    workspace.start("run", data, steps=6)
    workspace.start("moved", data, steps=6)
    assert_same_run(workspace.resume("run"), whole)
    moved = (workspace.folder / "renamed.safetensors").rename(
        workspace.folder / "elsewhere.safetensors"
    )
    folder = workspace.resume("moved", f"data={moved}")
    assert contents(folder.weights) == contents(whole.weights)


def test_data_that_was_moved_may_have_other_names(workspace: Workspace, whole: RunFolder) -> None:
    workspace.start("run", steps=6)
    tensors = load_file(workspace.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, workspace.folder / "renamed.safetensors")
    data = f'data=file("{workspace.folder / "renamed.safetensors"}", x="points")'
    folder = workspace.resume("run", data)
    for name in ("weights", "best"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


@pytest.mark.parametrize(
    ("old", "new"), [("gelu", "relu"), ("dropout(0.25)", "dropout(0.3)"), ("fc2", "fc3")]
)
def test_another_program_is_another_run(workspace: Workspace, old: str, new: str) -> None:
    workspace.start("run", steps=3)
    workspace.write((workspace.folder / "fit.mgn").read_text().replace(old, new))
    assert "has changed" in refused(workspace).reason


def test_a_folder_without_a_checkpoint_is_told(workspace: Workspace) -> None:
    workspace.run_folder("run")
    assert "no checkpoint" in refused(workspace).reason


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_a_checkpoint_of_other_tensors_is_refused(workspace: Workspace, change: str) -> None:
    folder = workspace.start("run", steps=3)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    if change == "missing":
        del arrays["fc1.bias"]
    else:
        arrays["fc1.bias"] = arrays["fc1.bias"][:3]
    write_tensors(folder.checkpoint, arrays, {"meganeura": progress.model_dump_json()})
    refused(workspace)


# --- killed, full, forbidden ---------------------------------------------------------------------


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


@pytest.mark.parametrize("steps", [6, 7])
def test_one_that_was_stopped_before_its_end_is_evaluated_there(
    workspace: Workspace, steps: int
) -> None:
    workspace.start("run", "steps=7", steps=steps)
    workspace.events.clear()
    workspace.resume("run")
    assert [event.step for event in workspace.events if isinstance(event, Evaluated)] == [7]
