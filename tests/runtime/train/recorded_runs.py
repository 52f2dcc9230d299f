"""Events and files of runs of one small program, by their settings.

`recorded_runs.txt` has of each run the events, the lines of its metrics, its settings, how far its
checkpoint says it is, what its page draws, and the sums of its weights. Times and speeds are left
out, and numbers have five digits. Whatever changes the order of examples,
a rate, a mean, a record or a file is seen there, whether or not it was meant.

`python -m tests.runtime.train.recorded_runs` writes the file anew; read the difference before you
keep it.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np
from safetensors.numpy import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.train.events import Event, Saved, Stepped
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report.page_data import CurveData, run_data
from meganeura_runtime.train.report.run_summary import summary_of
from meganeura_runtime.train.spec.resume import RunOptions, resume_job
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import prepare

FILE = Path(__file__).with_suffix(".txt")
PROGRAM = """\
train fit(x: [batch, 1, 4, 4], y: i32[batch]):
  h = x |> rearrange([n, 1, a, b] -> [n, a * b]) |> fc1: linear(6) |> norm: batch_norm |> tanh
  logits = h |> dropout(0.25) |> fc2: linear(3)
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  show picture = sigmoid(x)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 2
    optimizer = adam(lr=0.01)
    log_every = 2
"""
SETTINGS: dict[str, tuple[str, ...]] = {
    "as written": (),
    "part of a batch": ("drop_last=false", "schedule=cosine(warmup=3)", "clip_norm=0.5"),
    "several batches to an update": (
        "accumulate=2",
        "clip_value=0.01",
        "schedule=linear(warmup=1)",
    ),
    "by the best accuracy": ("best=highest accuracy", "epochs=4", "stop_after=1", "eval_every=2"),
    "saved now and then": ("epochs=3", "save_every=2", "best=highest accuracy"),
    "a share held out": ("validation=0.3", "shuffle=false", "ema=0.9", "save_every=2"),
    "so many steps": ("steps=7", "log_every=0", "seed=3", "schedule=step(every=1, gamma=0.5)"),
    "groups": ('optimizer["*.bias"]=sgd(lr=0.1)', 'optimizer["fc2.*"]=none', "gradient_norm=true"),
    "a group": ('optimizer["*.bias"]=none', "accumulate=4", "drop_last=false", "epochs=3"),
    "classes in balance": ("balance=y", "log_every=3", "optimize=false"),
}
EVERY = slice(None)
ON_THE_PAGE = ("step", "parameters", "measures", "best_step", "curves")
DIGITS = 5
UNTIMED = re.compile(r"second|usage|picture")
"""Names of times, and of pictures, whose compressed bytes depend on zlib."""


def described(which: slice = EVERY) -> Iterator[str]:
    """The lines of the file, or of some of its runs."""
    for name, overrides in [*SETTINGS.items()][which]:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            yield f"# {name}: {' '.join(overrides)}".rstrip(": ")
            for line in _run(place, overrides):
                yield line.replace(folder, "")
            yield ""


def _program(place: Path, overrides: tuple[str, ...]) -> pipeline.Program:
    """The program in a folder, beside its data."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(22, 1, 4, 4)), generator.integers(0, 3, 22)
    tensors = {"train.x": x.astype(np.float32), "train.y": y.astype(np.int32)}
    if not any(each.startswith("validation") for each in overrides):
        tensors |= {name.replace("train", "test"): each[:6] for name, each in tensors.items()}
    save_file(tensors, place / "points.safetensors")
    (place / "fit.mgn").write_text(PROGRAM)
    return pipeline.load(str(place / "fit.mgn"))


def events(place: Path, folder: RunFolder) -> Iterator[str]:
    """Yields the events of a short run."""
    overrides, told = ("epochs=1", "log_every=1"), list[Event]()
    program = _program(place, overrides)
    folder.path.mkdir(exist_ok=True)
    job = prepare(program, "fit", place, overrides)
    train(job, folder, ReferenceSession, told.append, lambda: False)
    yield from (f"{type(each).__name__} {shown(_told(each))}" for each in told)


def _run(place: Path, overrides: tuple[str, ...]) -> Iterator[str]:
    """A run that is stopped after its third step, and goes on to its end."""
    program = _program(place, overrides)
    (place / "run").mkdir()
    folder, told = RunFolder(place / "run"), list[Event]()

    def three() -> bool:
        return sum(isinstance(each, Stepped) for each in told) >= 3

    job = prepare(program, "fit", place, overrides)
    train(job, folder, ReferenceSession, told.append, three)
    job, resumed = resume_job(RunRequest(program, "fit", place, ()), folder)
    train(job, folder, ReferenceSession, told.append, lambda: False, RunOptions(resumed))
    for event in told:
        if not isinstance(event, Stepped):
            yield f"{type(event).__name__} {shown(_told(event))}"
    yield from written(folder)


def written(folder: RunFolder) -> Iterator[str]:
    """Yields the content of a run's folder."""
    for line in (folder.path / "metrics.jsonl").read_text().splitlines():
        yield f"metrics {shown(json.loads(line))}"
    progress = read_checkpoint(folder.checkpoint)[1]
    yield f"settings {shown(progress.settings.model_dump(mode='json', exclude_defaults=True))}"
    yield f"checkpoint {shown(progress.model_dump(mode='json', exclude={'program', 'settings'}))}"
    page = run_data(summary_of(folder.path))
    curves = cast("list[CurveData]", page["curves"])
    page["curves"] = [each for each in curves if not UNTIMED.search(each["name"])]
    yield from (f"page {name}: {shown(page[name])}" for name in ON_THE_PAGE)
    for path in sorted(each for each in folder.path.rglob("*") if each.is_file()):
        yield f"file {path.relative_to(folder.path)} {content(path)}".rstrip()


def _told(event: Event) -> object:
    return event.path.name if isinstance(event, Saved) else asdict(event)


def content(path: Path) -> str:
    """Returns the content of a matrix; the sum and the sum of squares of each tensor."""
    if path.parent.name == "shown" and path.suffix == ".json":
        return shown(json.loads(path.read_text()))
    if path.suffix != ".safetensors":
        return ""
    tensors = load_file(path)
    sums = {name: (float(each.sum()), float((each * each).sum())) for name, each in tensors.items()}
    return shown(dict(sorted(sums.items())))


def shown(value: object) -> str:
    """A value as a line, with few digits and without times."""
    return json.dumps(_plain(value), sort_keys=False)


def _plain(value: object) -> object:
    """Returns the parts that are equal in every run, with few digits."""
    match value:
        case dict():
            return {str(k): _plain(v) for k, v in value.items() if not UNTIMED.search(str(k))}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float():
            return float(f"{value:.{DIGITS}g}")
        case bool() | int() | str() | None:
            return value
        case _:
            return str(value)


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
