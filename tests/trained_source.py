"""A training of a program, and what `meganeura export` writes of it, step by step."""

import runpy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_runtime.export.source.write import written_training
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import read
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import TrainJob

TOLERANCE = 1e-5
"""Of a loss, in double precision; the learning rates of the program are in single precision."""
STEPS = 8
PROGRAM = """\
train fit(x: [batch, 3], pair: [2 * batch, 3], table: whole [5, 4], y: i32[batch]):
  hidden = x |> fc1: linear(8) |> tanh
  logits = hidden |> fc2: linear(4)
  loss = cross_entropy(logits + table[0], y)
  minimize loss + 0.1 * mean((pair |> side: linear(2)) ** 2)
  metric loss_2 = loss
  metric logits = mean(logits)
  run:
    batch = 4
    epochs = 2
    device = "cpu"
"""
_GENERATOR = np.random.default_rng(0)
DATA: Mapping[str, Array] = {
    "x": _GENERATOR.normal(size=(19, 3)).astype(np.float32),
    "pair": _GENERATOR.normal(size=(38, 3)).astype(np.float32),
    "table": _GENERATOR.normal(size=(5, 4)).astype(np.float32),
    "y": _GENERATOR.integers(0, 4, 19).astype(np.int32),
}
IDS: Mapping[str, Array] = {"ids": _GENERATOR.integers(0, 60, (200, 65)).astype(np.int32)}
SETTINGS: Mapping[str, Sequence[str]] = {
    "accumulated and clipped": (
        "optimizer=sgd(lr=0.1, momentum=0.9)", "clip_norm=0.1", "accumulate=2",
        "schedule=restarts(period=0.7, multiplier=1.5, final=0.1)",
    ),
    "a share held out": (
        "optimizer=adam()", 'optimizer["fc1.*"]=frozen', "validation=0.2", "clip_value=0.01",
        "schedule=linear(final=0.1, steps=5)",
    ),
    "in order": ("optimizer=rmsprop(centered=true, momentum=0.5)", "shuffle=false"),
    "in order, a share held out": ("optimizer=adagrad(lr_decay=0.1)", "shuffle=false",
        "validation=0.2", "schedule=one_cycle(three_phase=true)"),
    "a smaller last batch": (
        'optimizer=lion(weight_decay=0.1, decay="matrices")', "drop_last=false",
        "schedule=piecewise(milestones=[0.5, 1], factors=[0.5, 0.1])",
    ),
    "steps of an epoch": (
        "optimizer=lamb(weight_decay=0.1)", "steps_per_epoch=3",
        "schedule=step(every=0.5, gamma=0.5, warmup=2)",
    ),
    "adafactor": ("optimizer=adafactor()", "schedule=polynomial(power=2.0, warmup=3)"),
    "two optimizers": (
        'optimizer=muon(adjust_lr_fn="match_rms_adamw")',
        'optimizer["*.bias"]=adamw(amsgrad=true, decay="matrices", beta1=0.8)',
    ),
}  # fmt: skip
"""Settings of the program, by what they try."""
STANDARD = (
    "digits_cnn", "digits_mlp", "convnext", "clip", "gpt2", "lm", "lora", "mixtral", "recurrent",
    "s4d", "sage", "t5", "vit",
)  # fmt: skip
"""Trainings of the library that are quick, and draw no random numbers with `WITHOUT_DRAWS`."""
WITHOUT_DRAWS: Mapping[str, tuple[str, str]] = {
    "convnext": ("drop_path: real = 0.1", "drop_path: real = 0")
}
"""Text of some of them that draws, and what is in its place."""
GIVEN: Mapping[str, Mapping[str, Array]] = dict.fromkeys(
    ("gpt2", "lm", "lora", "mixtral", "recurrent", "t5"), IDS
)
"""Data of those whose settings name a file."""


QUICK = ("accumulated and clipped", "a share held out", "two optimizers")
"""The settings that every run of the suite tries."""


def of_program(overrides: Sequence[str]) -> RunRequest:
    """A run of the program, with some settings."""
    program = pipeline.load_text(Source("fit.mgn", PROGRAM))
    return RunRequest(program, "fit", Path(), overrides, PythonData(DATA))


def run_of(name: str) -> RunRequest:
    """A run of the program with settings of that name, or of a training of the library."""
    return of_program(SETTINGS[name]) if name in SETTINGS else of_library(name)


def of_library(name: str) -> RunRequest:
    """A run of a training of the library, which draws no random numbers."""
    program = pipeline.load(name)
    if name in WITHOUT_DRAWS:
        text, path = program.source.text, program.source.name
        drawing, other = WITHOUT_DRAWS[name]
        assert drawing in text
        program = pipeline.load_text(Source(path, text.replace(drawing, other)))
    data = PythonData(GIVEN.get(name))
    return RunRequest(program, program.train(), Path(), ("device=cpu",), data)


def source_names(wanted: RunRequest, to: str) -> dict[str, Any]:
    """The functions of the source of a training, executed. Raises `ProblemError`."""
    places = {key: each.span for key, each in wanted.written.items()}
    text = written_training(wanted.program, wanted.train, wanted.settings, places, to)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training.py"
        path.write_text(text)
        return runpy.run_path(str(path))


def assert_same_losses(job: TrainJob, theirs: Callable[[int], Sequence[float]]) -> None:
    """The first steps have the losses that `theirs` gives for so many, in double precision.

    They draw nothing: other random numbers hide behind the tolerance where little depends on them.
    """
    ours = _losses(job, STEPS)
    found = theirs(STEPS)
    assert len(found) == len(ours)
    np.testing.assert_allclose(found, ours, rtol=TOLERANCE)


def _losses(job: TrainJob, steps: int) -> list[float]:
    values, feeder = job.spec.initial_values(), Feeder(job)
    found: list[float] = []
    for step in range(min(steps, job.steps)):
        run = Interpreter(job.step_at(step, feeder.feeds(step)), Precision.DOUBLE)
        assert COUNTER not in run.leaves
        fed = {**values, **feeder.whole(step)}
        results = run.run({name: each for name, each in fed.items() if name in run.leaves})
        values.update(results.updates)
        found.append(float(results.outputs["loss"]))
    return found


def whole_data(job: TrainJob) -> dict[str, Array]:
    """All that the data holds to train on, held out or not."""
    split = job.dataset.train
    assert isinstance(split, StoredSplit)
    return {name: read(feed.tensor, feed.dtype) for name, feed in split.feeds.items()}
