"""A module of PyTorch source as a program: exported in a separate process, read as ONNX here."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from threading import Event, Timer
from typing import Any, TextIO, cast

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.importing.source.source_text import PythonSource
from meganeura_runtime.importing.source.torch_source_problems import (
    FailedSource,
    FixedSize,
    UnusableSource,
)
from meganeura_runtime.io.files.file_problems import NoSuchFile
from meganeura_runtime.support.optional_imports import MissingExtra

WORKER = "meganeura_runtime.importing.source.source_worker"
QUESTION, MODEL, ANSWER = "question.json", "model.onnx", "answer.json"
"""The files of a worker's folder, as the worker knows them."""
LONGEST = 1800.0
"""Seconds after which a process ends, which may have weights to download."""
PROBLEMS: Mapping[str, type[Problem]] = {
    each.__name__: each for each in (FailedSource, FixedSize, MissingExtra, UnusableSource)
}
"""The problems that a worker finds, by name."""


def import_source(
    source: PythonSource,
    examples: Sequence[str],
    program: Path,
    sizes: Mapping[str, int],
    show: Callable[[str], object],
) -> Imported:
    """Export a module by `torch.export` and write it as a program, with its weights beside it.

    The file runs in a separate process; `show` is given what it prints, line by line. `examples`
    are the types of the inputs, such as `x: f32[n, 3]`, and `sizes` are numbers for their names.
    Raises `ProblemError` for what cannot be exported, and what `import_onnx` raises.
    """
    if not source.path.is_file():
        raise ProblemError(NoSuchFile(source.path))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = {"source": source.text, "examples": [*examples]}
        (folder / QUESTION).write_text(json.dumps(asked))
        _run(source, folder, show)
        found: dict[str, Any] = json.loads((folder / ANSWER).read_text())
        if "problem" in found:
            raise ProblemError(PROBLEMS[found["problem"]](**found["fields"]))
        stated = Stated(
            frozenset(found["trained"]),
            found["tracked"],
            found["sizes"],
            found["conditions"],
            Path(source.text),
        )
        return import_onnx(folder / MODEL, program, sizes, stated)


def _run(source: PythonSource, folder: Path, show: Callable[[str], object]) -> None:
    """Run the worker of a folder; raises `ProblemError` if it leaves no answer."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and a module of ours
        [sys.executable, "-P", "-m", WORKER, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONUNBUFFERED": "1",
        },
        start_new_session=True,  # it ends with what it started
    )
    late = Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = Timer(LONGEST, end)
    timer.daemon = True
    timer.start()
    printed = cast("TextIO", process.stdout)
    try:
        for line in printed:
            show(line)
        code = process.wait()
    finally:
        timer.cancel()
        _kill(process)
        printed.close()
    if not (folder / ANSWER).is_file():
        ended = f"its process ended with {code}"
        said = f"it took more than {LONGEST:g} seconds" if late.is_set() else ended
        raise ProblemError(FailedSource(source.text, "before it was exported", said))


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process and what it started; nothing if they ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, SIGKILL)
    process.wait()
