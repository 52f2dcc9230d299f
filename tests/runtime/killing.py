"""Kills a run again and again: `python -m tests.runtime.killing FOLDER SEED`.

Each attempt is a child process that is killed once it has told of some events, wherever it is by
then. What it leaves behind is checked before the next one goes on from there.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from random import Random
from typing import NoReturn

from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.train.events import Event, Stepped
from meganeura_runtime.train.records.run_folder import RunFolder
from tests.effort import effort
from tests.runtime.runs import STEPS, Workspace, contents

KILLS = effort(2, 20)
NAME = "killed"
EPOCH = STEPS // 4


def main() -> None:
    """Kill, check, go on; at last finish the run."""
    workspace, random = Workspace(Path(sys.argv[1])), Random(int(sys.argv[2]))
    folder = RunFolder(workspace.folder / NAME)
    reached = 0
    for _ in range(KILLS):
        begun = folder.checkpoint.is_file()
        made = killed_after(workspace, random.randint(1, 14), begun=begun)
        reached = check(folder, reached, made)
        if reached == STEPS:
            shutil.rmtree(folder.path)
            reached = 0
    if folder.checkpoint.is_file():
        workspace.resume(NAME)
    else:
        workspace.start(NAME)


def check(folder: RunFolder, reached: int, made: int) -> int:
    """Returns the progress of the run, after checks of all that the killed process left behind."""
    if not folder.checkpoint.is_file():
        assert made == 0, "steps were made before there was a checkpoint"
        return 0
    _, progress = read_checkpoint(folder.checkpoint)
    assert progress.step >= reached, "the run fell back"
    assert reached + made - progress.step <= EPOCH + 1, "more than an epoch was lost"
    for path in (folder.best, folder.weights):
        assert not path.is_file() or contents(path)
    return progress.step


def killed_after(workspace: Workspace, events: int, *, begun: bool) -> int:
    """The steps told by a child process that was killed after so many events."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_and_tell(workspace, writer, begun=begun)
    os.close(writer)
    told = b""
    while len(told) < events and (byte := os.read(reader, 1)):
        told += byte
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reader, 1 << 16):
        told += more
    os.close(reader)
    return told.count(b"s")


def run_and_tell(workspace: Workspace, writer: int, *, begun: bool) -> NoReturn:
    """The run, as the only thing a process does."""

    class Telling(list[Event]):
        def append(self, event: Event, /) -> None:
            os.write(writer, b"s" if isinstance(event, Stepped) else b".")

    try:
        workspace.events = Telling()
        _ = workspace.resume(NAME) if begun else workspace.start(NAME)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
