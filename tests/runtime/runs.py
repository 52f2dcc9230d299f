"""A small run that keeps all there is to keep: moments, dropout, statistics, a schedule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_runtime.backends.base import OpenSession
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Event, Stepped
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.resume import FROM_THE_START, RunOptions, resume_job
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import TrainJob, prepare

PROGRAM = """\
train fit(x: [batch, 6], y: i32[batch]):
  h = x |> fc1: linear(8) |> norm: batch_norm |> gelu |> dropout(0.25)
  minimize cross_entropy(h |> fc2: linear(3), y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 4
    optimizer = adam(lr=0.01)
    schedule  = cosine(warmup=3)
    clip_norm = 1.0
    log_every = 2
"""
FAILING = """\
train fit(x: [batch, 6]):
  h = x |> fc1: linear(4)
  small = mean(h * h)
  minimize mean(log(0.5 - small))
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 6
    optimizer = sgd(lr=0.5)
    log_every = 4
"""
"""A run whose loss is soon not finite."""
STEPS = 20
"""Steps of the whole run, five in each epoch."""
_PROGRAMS: dict[str, pipeline.Program] = {}


@dataclass
class Workspace:
    """A program with its data, and runs of it."""

    folder: Path
    events: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        generator = np.random.default_rng(0)
        points = generator.normal(size=(22, 6)).astype(np.float32)
        labels = generator.integers(0, 3, 22).astype(np.int32)
        save_file(
            {"train.x": points, "train.y": labels, "test.x": points[:5], "test.y": labels[:5]},
            self.folder / "points.safetensors",
        )
        self.write(PROGRAM)

    def write(self, text: str) -> None:
        """Replace the program."""
        (self.folder / "fit.mgn").write_text(text)

    @property
    def program(self) -> pipeline.Program:
        """The program as it is now; each text is read once, for all workspaces."""
        path = self.folder / "fit.mgn"
        text = path.read_text()
        if text not in _PROGRAMS:
            _PROGRAMS[text] = pipeline.load(str(path))
        return _PROGRAMS[text]

    def job(self, *overrides: str) -> TrainJob:
        """The run as the program says."""
        return prepare(self.program, "fit", self.folder, overrides)

    def run_folder(self, name: str) -> RunFolder:
        """A folder for a run."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return RunFolder(path)

    def start(
        self,
        name: str,
        *overrides: str,
        steps: int | None = None,
        open_session: OpenSession = ReferenceSession,
        options: RunOptions = FROM_THE_START,
    ) -> RunFolder:
        """A run from the start, stopped after so many steps."""
        folder = self.run_folder(name)
        train(
            self.job(*overrides),
            folder,
            open_session,
            self.events.append,
            stopper(self, steps),
            options,
        )
        return folder

    def resume(
        self,
        name: str,
        *overrides: str,
        steps: int | None = None,
        open_session: OpenSession = ReferenceSession,
    ) -> RunFolder:
        """A run that goes on, stopped after so many more steps."""
        folder = RunFolder(self.folder / name)
        request = RunRequest(self.program, "fit", self.folder, overrides)
        job, resumed = resume_job(request, folder)
        stop = stopper(self, steps)
        train(job, folder, open_session, self.events.append, stop, RunOptions(resumed))
        return folder


def stopper(workspace: Workspace, steps: int | None) -> Callable[[], bool]:
    """Stops a run after so many steps."""
    before = sum(isinstance(event, Stepped) for event in workspace.events)

    def stop() -> bool:
        made = sum(isinstance(event, Stepped) for event in workspace.events) - before
        return steps is not None and made >= steps

    return stop


def contents(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The tensors of a file, bit for bit."""
    tensors: dict[str, Array] = load_file(path)
    return {name: (str(x.dtype), x.shape, x.tobytes()) for name, x in tensors.items()}
