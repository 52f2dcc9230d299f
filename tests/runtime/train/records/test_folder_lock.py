"""A run folder in the hands of one process at a time, with real processes that race for it."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from threading import Timer

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.backends.backend import Hosts
from meganeura_runtime.io.checkpoint import Origin
from meganeura_runtime.io.files import folder_lock
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.io.files.folder_lock import (
    LOCK,
    HeldError,
    is_locked,
    locked,
    locked_in_turn,
)
from meganeura_runtime.train.records import run_folder
from meganeura_runtime.train.records.run_folder import (
    RunFolder,
    folder_of,
    named_folder,
    new_folder,
    resumed_folder,
    saved_folder,
)
from meganeura_runtime.train.training_problems import FolderInUse, UnnamedFolder
from tests.effort import effort

PROCESSES = 3
TRIES = effort(30, 100)

RACE = """
import os, sys
from pathlib import Path
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.train.records.run_folder import named_folder, new_folder, resumed_folder

base, tries = Path(sys.argv[1]), int(sys.argv[2])
ways = {
    "named": lambda number: named_folder(base / "named" / str(number)),
    "new": lambda _: new_folder(base / "new", "fit"),
    "resumed": lambda _: resumed_folder(base / "resumed"),
}
print("ready", flush=True)
sys.stdin.readline()
for kind, way in ways.items():
    for number in range(tries):
        try:
            with way(number) as folder:
                # Fails if anybody else is here.
                os.close(os.open(folder.path / "here", os.O_CREAT | os.O_EXCL))
                if kind == "resumed":
                    (folder.path / "here").unlink()
                print(kind, "won", folder.path.name)
        except ProblemError as error:
            print(kind, error.problem.code, number)
"""

Told = list[tuple[str, str]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("race")
    (folder / "resumed").mkdir()
    return folder


@pytest.fixture(scope="module")
def told(base: Path) -> dict[str, Told]:
    """Returns the outcome of each try of processes that began at the same moment."""
    command = [sys.executable, "-c", RACE, str(base), str(TRIES)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    racers = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(PROCESSES)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    outputs = [racer.communicate(timeout=60)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * PROCESSES
    found: dict[str, Told] = {}
    for line in "".join(outputs).splitlines():
        kind, what, which = line.split()
        found.setdefault(kind, []).append((what, which))
    assert [len(each) for each in found.values()] == [PROCESSES * TRIES] * 3
    return found


def test_exactly_one_of_several_processes_gets_a_named_folder(told: dict[str, Told]) -> None:
    won = Counter(which for what, which in told["named"] if what == "won")
    assert won == Counter(str(number) for number in range(TRIES))
    assert {what for what, _ in told["named"]} <= {"won", "E0555", "E0534"}


def test_numbered_folders_are_never_shared(told: dict[str, Told]) -> None:
    assert {what for what, _ in told["new"]} == {"won"}
    assert {which for _, which in told["new"]} == {
        f"fit-{number}" for number in range(1, PROCESSES * TRIES + 1)
    }


def test_a_folder_is_resumed_by_one_at_a_time(base: Path, told: dict[str, Told]) -> None:
    assert {what for what, _ in told["resumed"]} <= {"won", "E0555"}
    assert list((base / "resumed").iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from meganeura_runtime.train.records.run_folder import resumed_folder
with resumed_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_says_who_holds_it_and_ends_with_the_process(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for how in (resumed_folder, named_folder):
            with pytest.raises(ProblemError) as caught, how(tmp_path):
                pass
            assert caught.value.problem == FolderInUse(tmp_path, holder.pid)
        assert f"in use by process {holder.pid}" in caught.value.problem.report().headline
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert (tmp_path / LOCK).is_file()
    with named_folder(tmp_path) as folder:
        assert folder.path == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_the_same_process_is_another_run(tmp_path: Path) -> None:
    with resumed_folder(tmp_path):
        with pytest.raises(ProblemError) as caught, resumed_folder(tmp_path):
            pass
        assert caught.value.problem == FolderInUse(tmp_path, os.getpid())


def test_a_new_folder_leaves_those_before_it_alone(tmp_path: Path) -> None:
    empty = tmp_path / "fit-1"
    empty.mkdir()
    with new_folder(tmp_path, "fit") as first:
        (first.path / "weights").write_text("")
    assert first.path.name == "fit-2"
    with new_folder(tmp_path, "fit") as second, resumed_folder(first.path), named_folder(empty):
        assert second.path.name == "fit-3"
    assert {each.name for each in tmp_path.iterdir()} == {"fit-1", "fit-2", "fit-3"}


def test_a_numbered_folder_that_somebody_named_is_passed_over(tmp_path: Path) -> None:
    with named_folder(tmp_path / "fit-1"), new_folder(tmp_path, "fit") as folder:
        assert folder.path.name == "fit-2"


def test_of_several_processes_the_first_holds_the_folder_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second, run = Hosts(2, 0), Hosts(2, 1), tmp_path
    for hosts in (first, second):
        with pytest.raises(ProblemError) as caught:
            folder_of("fit", None, hosts)
        assert caught.value.problem == UnnamedFolder(2)
    for number, way in enumerate((partial(folder_of, "fit"), saved_folder)):
        run = tmp_path / str(number) / "run"
        with way(run, second) as other:
            assert not run.exists()
        with way(run, first) as one, way(run, second) as other:
            assert is_locked(run)
            assert (one.path, one.writes, other.path, other.writes) == (run, True, run, False)
    with resumed_folder(run, first) as one, resumed_folder(run, second) as other:
        assert is_locked(run)
        assert (one.writes, other.writes) == (True, False)
    with resumed_folder(run, second):
        assert not is_locked(run)
    with folder_of("fit", None) as alone:
        assert (alone.path, alone.writes) == (Path("runs/fit-1"), True)
    for hosts in (first, second):
        with pytest.raises(ProblemError, match="E0533"), resumed_folder(tmp_path / "none", hosts):
            pass


def test_who_does_not_write_leaves_a_folder_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".a.1.partial").write_text("half")
    (tmp_path / ".b.2.partial").write_text("half")
    (tmp_path / "metrics.jsonl").write_text('{"step": 9}\n')
    before = sorted(each.name for each in tmp_path.iterdir())
    silent, told = RunFolder(tmp_path, writes=False), RunFolder(tmp_path)
    kinds = {"optimizer": {"kind": "sgd", "lr": 0.1}, "schedule": {"kind": "constant"}}
    settings = RunSettings.model_validate({"data": "x", "sizes": {}, **kinds})
    silent.forget_after(3)
    silent.write_settings(settings)
    silent.add_metrics({"step": 10})
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert silent.metrics.read_text() == '{"step": 9}\n'
    told.forget_after(3)
    weights = [Origin(file=name, sha256=name) for name in ("a", "b")]
    told.write_settings(settings, weights)
    told.add_metrics({"step": 4, "loss": float("nan"), "kind": "step"})
    assert [each["file"] for each in json.loads(told.settings.read_text())["weights"]] == ["a", "b"]
    assert told.metrics.read_text() == '{"step": 4, "loss": null, "kind": "step"}\n'
    assert sorted(each.name for each in tmp_path.iterdir()) == ["metrics.jsonl", "settings.json"]


@pytest.mark.parametrize("step", [0, 1, 2, 3, 9])
def test_what_was_measured_after_a_step_is_forgotten(tmp_path: Path, step: int) -> None:
    """Records of the step itself stay; text that is no record, or no whole line, does not."""
    kept = {number: json.dumps({"kind": "step", "step": number}) for number in (1, 2, 3)}
    held_out = {2: '{"step": 2, "kind": "held_out", "loss": null}'}
    wrong = ["", "{", "[2]", '"step"', '{"step": "2"}', '{"step": 2.5}', '{"kind": "step"}', "null"]
    lines = [kept[1], *wrong, kept[2], held_out[2], kept[3]]
    folder = RunFolder(tmp_path)
    folder.metrics.write_text("\n".join(lines) + '\n{"step": 0}')
    (tmp_path / ".half.7.partial").write_text("half")
    (tmp_path / "whole.partial").write_text("another's")
    folder.forget_after(step)
    expected = [kept[1], kept[2], held_out[2], kept[3]][: (0, 1, 3, 4, 4)[min(step, 4)]]
    assert folder.metrics.read_text().splitlines() == expected
    assert sorted(each.name for each in tmp_path.iterdir()) == ["metrics.jsonl", "whole.partial"]


def test_a_run_without_metrics_has_none_to_forget(tmp_path: Path) -> None:
    RunFolder(tmp_path).forget_after(3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_faster", [True, False])
def test_a_number_that_another_process_took_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_faster: bool
) -> None:
    """Whatever else goes wrong with the lock is told."""
    system = run_folder.locked

    def taken(path: Path) -> AbstractContextManager[None]:
        if path.name != "fit-1":
            return system(path)
        raise HeldError(7) if is_faster else ProblemError(CannotWrite(path, "full"))

    monkeypatch.setattr(run_folder, "locked", taken)
    if is_faster:
        with new_folder(tmp_path, "fit") as folder:
            assert folder.path.name == "fit-2"
    else:
        with pytest.raises(ProblemError, match="E0534"), new_folder(tmp_path, "fit"):
            pass


def test_a_file_that_its_last_holder_just_removed_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = folder_lock._locked
    removed: list[int] = []

    def after_a_removal(descriptor: int) -> bool:
        if not removed:
            (tmp_path / LOCK).unlink()
        removed.append(descriptor)
        return system(descriptor)

    monkeypatch.setattr(folder_lock, "_locked", after_a_removal)
    with locked(tmp_path):
        assert len(removed) == 2
        with pytest.raises(HeldError), locked(tmp_path):
            pass


def test_a_folder_that_is_held_is_waited_for(tmp_path: Path) -> None:
    with ExitStack() as other:
        other.enter_context(locked(tmp_path))
        waited: list[int | None] = []

        def wait(process: int | None) -> None:
            waited.append(process)
            Timer(0.5, other.close).start()

        with locked_in_turn(tmp_path, wait):
            assert is_locked(tmp_path)
    assert waited == [os.getpid()]
    assert not is_locked(tmp_path)


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(ProblemError) as caught, locked(tmp_path):
        pass
    assert isinstance(caught.value.problem, CannotWrite)


def test_a_holder_that_has_not_said_who_it_is_holds_it_as_well(tmp_path: Path) -> None:
    with resumed_folder(tmp_path):
        (tmp_path / LOCK).write_text("")
        with pytest.raises(ProblemError) as caught, resumed_folder(tmp_path):
            pass
    assert caught.value.problem == FolderInUse(tmp_path, None)
    assert "another process" in caught.value.problem.report().headline


def test_a_lock_has_the_number_of_its_process_alone(tmp_path: Path) -> None:
    """Whatever an earlier process with a longer number has left there."""
    (tmp_path / LOCK).write_text("9" * 20)
    path = tmp_path / LOCK
    descriptor = folder_lock._acquired(path)
    try:
        assert path.read_text() == str(os.getpid())
    finally:
        os.close(descriptor)


def test_to_ask_leaves_no_file_open(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    (tmp_path / LOCK).touch()
    before = os.dup(0)
    os.close(before)
    assert not is_locked(tmp_path)
    after = os.dup(0)
    os.close(after)
    assert after == before
