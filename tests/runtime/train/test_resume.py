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
from tests.runtime.runs import PROGRAM, Place, contents
from tests.shared_entries import cache_of_processes


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that nothing interrupts."""
    return Place(tmp_path_factory.mktemp("whole")).start("whole")


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
def test_resumed_is_uninterrupted(place: Place, whole: RunFolder, steps: int) -> None:
    place.start("parts", steps=steps)
    assert_same_run(place.resume("parts"), whole)


@pytest.mark.parametrize("paths", ["", '["fc2.*"]'])
def test_a_plateau_is_remembered(place: Place, paths: str) -> None:
    """Its best value, how long it lasted and the rate it led to: of the run that goes on too."""
    plateau = "plateau(threshold=0.5, factor=0.5, patience=0, cooldown=1, warmup=2)"
    before = "    schedule  = cosine(warmup=3)\n"
    place.write(
        PROGRAM.replace(before, f"{before if paths else ''}    schedule{paths} = {plateau}\n")
    )
    whole = place.start("whole")
    progress = read_checkpoint(whole.checkpoint)[1]
    assert (progress.reductions["fc2.*"] if paths else progress.reduction).scale < 1
    assert not paths or progress.reduction == Reduction()
    for steps in (5, 6, 10, 13):
        place.start(f"parts-{steps}", steps=steps)
        assert_same_run(place.resume(f"parts-{steps}"), whole)


def test_a_run_knows_its_data(place: Place) -> None:
    """Also where the program names none, and the run was told when it began."""
    place.write(PROGRAM.replace('    data      = "points.safetensors"\n', ""))
    named = f"data={place.folder / 'points.safetensors'}"
    whole = place.start("whole", named)
    place.start("parts", named, steps=7)
    assert_same_run(place.resume("parts"), whole)
    with pytest.raises(ProblemsError, match="E0511"):
        place.start("other")


def test_several_interruptions(place: Place, whole: RunFolder) -> None:
    place.start("parts", steps=3)
    for _ in range(4):
        place.resume("parts", steps=4)
    assert_same_run(place.resume("parts"), whole)


@pytest.mark.adapter
def test_resumed_is_uninterrupted_on_an_adapter(place: Place, device: Device) -> None:
    def on_adapter(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    opened: OpenSession = on_adapter
    whole = place.start("whole", open_session=opened)
    place.start("parts", steps=7, open_session=opened)
    assert_same_run(place.resume("parts", open_session=opened), whole)


@pytest.mark.adapter
def test_a_run_goes_on_with_other_backends(place: Place, whole: RunFolder, device: Device) -> None:
    """Dropout, the order of examples, moments and statistics are those of one run on the CPU."""

    def on_adapter(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    place.start("parts", steps=7, open_session=on_adapter)
    place.resume("parts", steps=6, open_session=choose_device("xla:cpu").open)
    folder = place.resume("parts")
    assert steps_logged(folder) == steps_logged(whole)
    assert epochs_told(folder) == pytest.approx(epochs_told(whole), rel=1e-5)
    found, expected = load_file(folder.weights), load_file(whole.weights)
    # Batch norm takes the bias away: its gradient is rounding, and Adam makes steps of that.
    for name in expected.keys() - {"fc1.bias", "norm.running_mean"}:
        np.testing.assert_allclose(found[name], expected[name], 1e-4, 1e-5, err_msg=name)


def test_a_cold_restart_is_another_run(place: Place, whole: RunFolder) -> None:
    """The weights alone do not go on: moments, the step and the order of examples matter."""
    place.start("parts", steps=7)
    job = place.job("epochs=3")
    tensors, _ = read_checkpoint(RunFolder(place.folder / "parts").checkpoint)
    declared = {each.name for each in job.parameters}
    given = {name: each.bits for name, each in tensors.items() if name in declared}
    cold = place.run_folder("cold")
    train(replace(job, given=given), cold, ReferenceSession, place.told.append, lambda: False)
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
    settings = read_checkpoint(folder.checkpoint)[1].settings
    assert (settings.epochs, settings.log_every) == (5, 1)


def test_epochs_take_the_place_of_the_steps_a_run_began_with(place: Place) -> None:
    place.start("run", "steps=2")
    folder = place.resume("run", "epochs=1")
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.settings.epochs, progress.settings.steps) == (1, None)
    assert [event.step for event in place.told if isinstance(event, Stepped)][-1] == 5


def test_what_was_measured_after_the_checkpoint_is_forgotten(
    place: Place, whole: RunFolder
) -> None:
    folder = place.start("run", steps=7)
    with folder.metrics.open("a") as file:
        file.write('{"kind": "step", "step": 8, "epoch": 1, "loss": 1.0}\n{"kind": "st')
    (folder.path / ".checkpoint.safetensors.1.partial").write_bytes(b"half")
    assert_same_run(place.resume("run"), whole)
    assert not list(folder.path.glob(".*"))


def test_equal_runs_are_equal_to_the_byte(place: Place) -> None:
    one, two = place.start("one"), place.start("two")
    for name in ("weights", "best", "checkpoint", "settings"):
        assert getattr(one, name).read_bytes() == getattr(two, name).read_bytes(), name


# --- damaged -------------------------------------------------------------------------------------


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


def told(place: Place) -> str:
    with pytest.raises(ProblemError) as caught:
        place.resume("run")
    return render(caught.value.problem.report(), colour=False)


def test_a_damaged_checkpoint_is_named_and_what_there_is_instead(place: Place) -> None:
    folder = place.start("run", steps=7)
    damage(folder.checkpoint, -1)
    message = told(place)
    assert "E0542" in message
    assert f"--weights {folder.weights}" in message
    damage(folder.weights, -1)
    assert f"--weights {folder.best}" in told(place)
    folder.best.unlink()
    assert "--weights" not in told(place)


def test_a_checkpoint_that_was_cut_short_is_named_too(place: Place) -> None:
    folder = place.start("run", steps=7)
    os.truncate(folder.checkpoint, 100)
    assert f"--weights {folder.weights}" in told(place)


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
    place: Place, whole: RunFolder, line: bytes
) -> None:
    folder = place.start("run", steps=7)
    content = folder.metrics.read_bytes()
    folder.metrics.write_bytes(line + content if line.endswith(b"\n") else content + line)
    assert_same_run(place.resume("run"), whole)


def test_metrics_that_cannot_be_read_are_told(place: Place) -> None:
    folder = place.start("run", steps=7)
    folder.metrics.unlink()
    folder.metrics.mkdir()
    with pytest.raises(ProblemError):
        place.resume("run")


def test_a_resumed_run_remembers_the_weights_it_began_from(place: Place) -> None:
    first = place.start("first", steps=3)
    program = pipeline.load(str(place.folder / "fit.mgn"))
    job = prepare(program, "fit", place.folder, start=Start((first.weights,)))
    folder = place.run_folder("run")
    train(job, folder, ReferenceSession, place.told.append, lambda: True)
    before = read_checkpoint(folder.checkpoint)[1].weights
    assert before == origins([first.weights])
    assert read_checkpoint(place.resume("run").checkpoint)[1].weights == before
    assert json.loads(folder.settings.read_text())["weights"] == [dict(each) for each in before]


# --- the data ------------------------------------------------------------------------------------


def points(place: Place) -> dict[str, Array]:
    return {**load_file(place.folder / "points.safetensors")}


def rewritten(place: Place, **changes: Array | None) -> None:
    """Replace tensors of the data; two underscores stand for a dot."""
    named = {name.replace("__", "."): each for name, each in changes.items()}
    kept = {**points(place), **named}
    save_file(
        {name: each for name, each in kept.items() if each is not None},
        place.folder / "points.safetensors",
    )


def data_changed(place: Place) -> DataChanged:
    with pytest.raises(ProblemError) as caught:
        place.resume("run")
    assert isinstance(caught.value.problem, DataChanged)
    caught.value.problem.report()
    return caught.value.problem


def test_one_other_number_is_other_data(place: Place) -> None:
    folder = place.start("run", steps=7)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    x = points(place)["train.x"]
    x[-1, -1] += 1
    rewritten(place, train__x=x)
    [(name, then, now)] = data_changed(place).changed
    assert name == "train.x"
    assert then[:-12] == now[:-12] == "f32[22, 6], 22 examples, "
    assert then != now
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_more_examples_are_other_data(place: Place) -> None:
    """An epoch would have more steps than the checkpoint counted."""
    place.start("run", "epochs=1")
    more = points(place)
    x, y = (np.concatenate([more[f"train.{name}"]] * 3) for name in ("x", "y"))
    rewritten(place, train__x=x, train__y=y)
    told = data_changed(place).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y"]
    assert "66 examples" in told[0][2]


def test_held_out_examples_are_data_too(place: Place) -> None:
    place.start("run", steps=7)
    rewritten(place, test__x=None, test__y=None)
    assert [(name, now) for name, _, now in data_changed(place).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_examples_held_out_that_were_not_there_are_other_data(place: Place) -> None:
    held_out = {f"test__{name}": points(place)[f"test.{name}"] for name in ("x", "y")}
    rewritten(place, test__x=None, test__y=None)
    place.start("run", steps=7)
    rewritten(place, **held_out)
    assert [(name, then) for name, then, _ in data_changed(place).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_a_type_is_part_of_the_data(place: Place) -> None:
    place.start("run", steps=7)
    rewritten(place, train__y=points(place)["train.y"].astype(np.int64))
    [(_, then, now)] = data_changed(place).changed
    assert (then[:3], now[:3]) == ("i32", "i64")


def test_data_may_be_elsewhere_and_in_another_format(place: Place) -> None:
    whole = place.start("whole", f"data={place.folder / 'points.safetensors'}")
    place.start("run", steps=7)
    moved = place.folder / "moved.npz"
    arrays = {name: np.asfortranarray(each) for name, each in points(place).items()}
    np.savez(moved, allow_pickle=False, **arrays)
    (place.folder / "points.safetensors").unlink()
    with pytest.raises(ProblemError, match="E0520"):
        place.resume("run")
    folder = place.resume("run", f"data={moved}")
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


def test_a_tensor_longer_than_a_chunk_is_seen_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = place.job().fingerprints
    monkeypatch.setattr("meganeura_runtime.io.tensors.stored_tensor.CHUNK_BYTES", 50)
    assert place.job().fingerprints == told


@pytest.mark.parametrize("change", [{"data": ()}, {"position": 4}, {"epoch": 3}, {"step": 2}])
def test_a_checkpoint_that_contradicts_itself_is_refused(
    place: Place, change: dict[str, object]
) -> None:
    folder = place.start("run", steps=7)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    wrong = progress.model_copy(update=change)
    write_tensors(folder.checkpoint, arrays, {"meganeura": wrong.model_dump_json()})
    refused(place)


def test_files_are_as_the_umask_says(place: Place) -> None:
    before = os.umask(0o027)
    try:
        folder = place.start("run", "epochs=1")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert len(modes) == 7
    assert set(modes.values()) == {0o640}


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
    told = data_changed(place).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y", "test.x", "test.y"]
    assert ["9 examples" in now for _, _, now in told] == [True, True, False, False]


def test_names_of_tensors_are_kept(place: Place) -> None:
    tensors = load_file(place.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, place.folder / "renamed.safetensors")
    data = f'data=file("{place.folder / "renamed.safetensors"}", x="points")'
    whole = place.start("whole", data)
    assert whole.settings.read_text().count('"x": "points"') == 1
    place.start("run", data, steps=6)
    place.start("moved", data, steps=6)
    assert_same_run(place.resume("run"), whole)
    moved = (place.folder / "renamed.safetensors").rename(place.folder / "elsewhere.safetensors")
    folder = place.resume("moved", f"data={moved}")
    assert contents(folder.weights) == contents(whole.weights)


def test_data_that_was_moved_may_have_other_names(place: Place, whole: RunFolder) -> None:
    place.start("run", steps=6)
    tensors = load_file(place.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, place.folder / "renamed.safetensors")
    data = f'data=file("{place.folder / "renamed.safetensors"}", x="points")'
    folder = place.resume("run", data)
    for name in ("weights", "best"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


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
def test_a_killed_run_goes_on_where_its_checkpoint_is(
    place: Place, whole: RunFolder, seed: int
) -> None:
    """SIGKILL at random moments: never a damaged folder, never more than an epoch lost.

    In a process of its own, since one that has used a GPU cannot be forked.
    """
    command = (sys.executable, "-m", "tests.runtime.killing", str(place.folder), str(seed))
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "MEGANEURA_CACHE": cache_of_processes(),
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


def test_a_full_disk_keeps_the_last_good_checkpoint(place: Place, whole: RunFolder) -> None:
    folder = place.start("run", steps=7)
    before = folder.checkpoint.read_bytes()
    with largest_file(1000), pytest.raises(ProblemError) as caught:
        place.resume("run")
    assert isinstance(caught.value.problem, CannotWrite)
    assert folder.checkpoint.read_bytes() == before
    assert not list(folder.path.glob(".*.partial"))
    assert_same_run(place.resume("run"), whole)


class Vanishing(ReferenceSession):
    """A device that is lost at its twelfth step."""

    steps = 0

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        self.steps += 1
        if self.steps == 12:
            with explained("waiting for a step"):
                raise RuntimeError("Parent device is lost")
        return super().step(feeds)


def test_a_run_whose_device_was_lost_is_told_so_and_goes_on(place: Place, whole: RunFolder) -> None:
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
    with pytest.raises(ProblemError, match="E0534"), named_folder(Path("/proc/meganeura")):
        pass
    vanished = place.run_folder("gone")
    vanished.path.rmdir()
    with pytest.raises(ProblemError, match="E0534"):
        train(
            place.job(), vanished, ReferenceSession, place.told.append, lambda: False, RunOptions()
        )
    assert not any(isinstance(event, Stepped) for event in place.told)


def test_nothing_is_offered_where_nothing_may_be_given_anew() -> None:
    assert CannotResume("its checkpoint contradicts itself").report().help is None
    assert CannotResume("`batch` was decided when it began", ("device",)).report().help is not None


STEADY = "schedule=constant()"
"""A schedule that does not depend on the length of the run."""


def test_a_run_may_end_in_the_middle_of_an_epoch(place: Place) -> None:
    """It is evaluated there once, and with more steps it is the longer run."""
    short = place.start("short", "steps=7", STEADY)
    ends = [event for event in place.told if isinstance(event, EpochEnded | Evaluated)]
    assert [event.step for event in ends] == [5, 5, 7, 7]
    assert [event.steps for event in ends if isinstance(event, EpochEnded)] == [5, 2]
    place.told.clear()
    place.resume("short")
    assert not [event for event in place.told if isinstance(event, Stepped | Evaluated)]
    place.resume("short", "steps=9")
    whole = place.start("whole", "steps=9", STEADY)
    assert contents(short.checkpoint) == contents(whole.checkpoint)
    assert contents(short.weights) == contents(whole.weights)


@pytest.mark.parametrize("steps", [6, 7])
def test_one_that_was_stopped_before_its_end_is_evaluated_there(place: Place, steps: int) -> None:
    place.start("run", "steps=7", steps=steps)
    place.told.clear()
    place.resume("run")
    assert [event.step for event in place.told if isinstance(event, Evaluated)] == [7]
