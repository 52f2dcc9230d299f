"""Predictions of many files: a table with a row for each, computed in batches."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import all_of, leaf_bounds
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import OpenSession, Session
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.infer.feeds import feeds
from meganeura_runtime.infer.input_files import Given, Reader
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.preprocess import audio, images
from meganeura_runtime.io.preprocess.input_transforms import Choices

BEGIN = "file,"
"""The beginning of a table of predictions."""
READ = (*images.SUFFIXES, *audio.SUFFIXES)
"""Suffixes of the files of a folder that are read."""


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Returns files as they are given, and the images and sounds below folders by name.

    Raises `ProblemError` for a path that is not there, another file, and a folder without any.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ProblemError(NoSuchFile(path))
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in READ)
            if not inside:
                raise ProblemError(UnreadableFile(path, "it has no image and no sound"))
            found += inside
        elif path.suffix.lower() not in READ:
            reason = "it is no image and no sound: `meganeura run` takes tensors"
            raise ProblemError(UnreadableFile(path, reason))
        else:
            found.append(path)
    return found


@dataclass(frozen=True)
class Predictor:
    """A model on a device that takes files in batches, of which the last may be smaller."""

    elaborate: Callable[[Mapping[str, int]], Elaboration]
    values: dict[str, Array]
    open_session: OpenSession
    rewriting: RewriteOptions
    choices: Choices
    batch: int

    def __call__(self, files: Sequence[Path]) -> Iterator[tuple[Path, Mapping[str, Array]]]:
        """Returns what the model gives for each file; raises `ProblemError`."""
        declared = self.elaborate({}).inputs
        known: dict[tuple[tuple[str, int], ...], tuple[Elaboration, Session]] = {}
        with ExitStack() as held:
            for begin in range(0, len(files), self.batch):
                part = files[begin : begin + self.batch]
                reader = Reader(declared, self.choices, lambda _: None)
                tensors = reader.read([Given(None, each) for each in part])
                sizes = bind_sizes(declared, {name: each.shape for name, each in tensors.items()})
                key = tuple(sorted(sizes.items()))
                if key not in known:
                    concrete = self.elaborate(sizes)
                    known[key] = concrete, held.enter_context(self._session(concrete))
                concrete, session = known[key]
                bounds = all_of(leaf_bounds(concrete.graph), concrete.stated_bounds({}))
                outputs = dict(session.step(feeds(bounds, concrete.inputs, tensors)))
                for at, file in enumerate(part):
                    yield file, {name: np.asarray(each)[at] for name, each in outputs.items()}

    def _session(self, concrete: Elaboration) -> Session:
        session = open_inference(concrete.graph, self.open_session, self.rewriting)
        session.load(self.values)
        return session


def write_table(
    rows: Iterable[tuple[Path, Mapping[str, Array]]],
    classes: Sequence[str],
    stream: TextIO,
    labels: Path | None = None,
) -> int:
    """Write a table, and return its number of rows.

    Of one output f32[classes], from 2, it has the likeliest class, its name where it is known, and
    the probability of each class, a softmax; of others all numbers. `labels` is the file that
    `classes` are of; raises `ProblemError` if there are not as many classes.
    """
    written = 0
    table = csv.writer(stream, lineterminator="\n")
    for file, outputs in rows:
        if not written:
            if labels is not None:
                _require_fitting(labels, classes, outputs)
            table.writerow(_head(outputs, classes))
        table.writerow([str(file), *_cells(outputs, classes)])
        written += 1
    return written


def _require_fitting(labels: Path, classes: Sequence[str], outputs: Mapping[str, Array]) -> None:
    found = next(iter(outputs.values())).size if _is_classes(outputs) else 0
    if len(classes) != found:
        reason = f"it has {len(classes):,} names, and the model gives {found:,} classes"
        raise ProblemError(UnreadableFile(labels, reason))


def _is_classes(outputs: Mapping[str, Array]) -> bool:
    values = [*outputs.values()]
    one = values[0]
    is_float = np.issubdtype(one.dtype, np.floating)
    return len(values) == 1 and one.ndim == 1 and one.size >= 2 and bool(is_float)


def _head(outputs: Mapping[str, Array], classes: Sequence[str]) -> list[str]:
    if not _is_classes(outputs):
        parts = ((name, np.ndindex(each.shape)) for name, each in outputs.items())
        return ["file", *(".".join([name, *map(str, at)]) for name, all_ in parts for at in all_)]
    (logits,) = outputs.values()
    known = [*classes] if len(classes) == logits.size else [*map(str, range(logits.size))]
    return ["file", "class", *(["name"] if len(classes) == logits.size else []), *known]


def _cells(outputs: Mapping[str, Array], classes: Sequence[str]) -> Iterator[str]:
    if not _is_classes(outputs):
        for each in outputs.values():
            yield from (f"{value:.9g}" for value in each.reshape(-1).tolist())
        return
    (output,) = outputs.values()
    logits = output.astype(np.float64)
    powers = np.exp(logits - logits.max())
    best = int(logits.argmax())
    yield str(best)
    if len(classes) == logits.size:
        yield classes[best]
    yield from (f"{share:.6f}" for share in (powers / powers.sum()).tolist())
