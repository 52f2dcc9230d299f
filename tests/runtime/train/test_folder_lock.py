"""A run folder in the hands of one process at a time, with real processes that race for it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.train import folder_lock
from meganeura_runtime.train.folder_lock import LOCK, is_locked, locked
from meganeura_runtime.train.run_folder import named_folder, new_folder, resumed_folder
from meganeura_runtime.train.training_problems import FolderInUse

PROCESSES = 3
TRIES = 100

RACE = """
import os, sys
from pathlib import Path
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.train.run_folder import named_folder, new_folder, resumed_folder

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
    """What happened to each try of processes that began at the same moment."""
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
from meganeura_runtime.train.run_folder import resumed_folder
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
        with pytest.raises(ProblemError) as caught, locked(tmp_path):
            pass
        assert isinstance(caught.value.problem, FolderInUse)


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
