"""Predictions of many files, computed in batches, and their table with a row for each."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import all_of, leaf_bounds
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import OpenSession, Session
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.infer.feeds import feeds
from meganeura_runtime.infer.inference_problems import NoRows, UnfitNames
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


def preparations(choices: Choices, symbolic: Elaboration, files: Iterable[Path]) -> Iterator[str]:
    """Yields the steps that images and sounds among `files` take, and who says so, as lines."""
    wanted = next(of for name, of in symbolic.inputs.items() if name != COUNTER)
    suffixes = {file.suffix.lower() for file in files}
    image, sound = choices.image_steps(wanted), choices.sound_form(wanted)
    if image is not None and suffixes & {*images.SUFFIXES}:
        yield f"images: {choices.image_source(image.colors)}: {image.steps}"
    if sound is not None and suffixes & {*audio.SUFFIXES}:
        source = choices.sound_source or "taken as usual"
        yield f"sounds: {source}: log-mel {sound.mels} x {sound.frames:,}"


@dataclass(frozen=True)
class ClassNames:
    """The names of classes by number, and who gives them."""

    names: tuple[str, ...] = ()
    given_by: str = ""
    """The file or the argument that gives them, which then have to fit; empty for weights."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The outputs of a model for a file."""

    file: Path
    outputs: Mapping[str, Array]
    """The outputs by name, without the axis of the batch."""
    classes: tuple[str, ...] = ()
    """The names of the classes by number, where they are known."""

    @property
    def probabilities(self) -> Array | None:
        """The probability of each class, f64[classes], a softmax; `None` of no classifier.

        A classifier gives one output f32[classes], from two.
        """
        values = [*self.outputs.values()]
        if len(values) != 1 or values[0].ndim != 1 or values[0].size < 2:
            return None
        if not np.issubdtype(values[0].dtype, np.floating):
            return None
        logits = values[0].astype(np.float64)
        powers = np.exp(logits - logits.max())
        return powers / powers.sum()

    @property
    def label(self) -> int | None:
        """The number of the likeliest class; `None` of no classifier."""
        shares = self.probabilities
        return None if shares is None else int(next(iter(self.outputs.values())).argmax())

    @property
    def name(self) -> str | None:
        """The name of the likeliest class; `None` where it is not known."""
        number = self.label
        return self.classes[number] if number is not None and self.classes else None

    def __repr__(self) -> str:
        """`<Prediction of cat.png: cat, 98.2 %>`."""
        shares, number = self.probabilities, self.label
        if shares is None or number is None:
            said = ", ".join(f"{name} {list(each.shape)}" for name, each in self.outputs.items())
        else:
            said = f"{self.name or number}, {shares[number]:.1%}".replace("%", " %")
        return f"<Prediction of {self.file}: {said}>"


@dataclass(frozen=True)
class Predictor:
    """A model on a device that takes files in batches, of which the last may be smaller."""

    name: str
    elaborate: Callable[[Mapping[str, int]], Elaboration]
    values: dict[str, Array]
    open_session: OpenSession
    rewriting: RewriteOptions
    choices: Choices
    batch: int
    classes: ClassNames = ClassNames()

    def __call__(self, files: Sequence[Path]) -> Iterator[Prediction]:
        """Returns what the model gives for each file; raises `ProblemError`."""
        symbolic = self.elaborate({})
        require_rows(self.name, symbolic)
        declared = symbolic.inputs
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
                    yield self._named(
                        Prediction(
                            file, {name: np.asarray(each)[at] for name, each in outputs.items()}
                        )
                    )

    def _named(self, found: Prediction) -> Prediction:
        """Returns a prediction with the names of its classes; raises `ProblemError`."""
        shares, names = found.probabilities, self.classes.names
        classes = 0 if shares is None else shares.size
        if len(names) == classes:
            return replace(found, classes=names)
        if self.classes.given_by:
            raise ProblemError(UnfitNames(self.classes.given_by, len(names), classes))
        return found

    def _session(self, concrete: Elaboration) -> Session:
        session = open_inference(concrete.graph, self.open_session, self.rewriting)
        session.load(self.values)
        return session


def require_rows(name: str, symbolic: Elaboration) -> None:
    """Raise `ProblemError` unless a model has one input, and a row for each example of it."""
    inputs = {each: str(of) for each, of in symbolic.inputs.items() if each != COUNTER}
    if len(inputs) != 1:
        raise ProblemError(NoRows(name, tuple(inputs.items())))
    taken = symbolic.inputs[next(iter(inputs))]
    for each, value in symbolic.graph.outputs.items():
        if not taken.shape or value.type.shape[:1] != taken.shape[:1]:
            raise ProblemError(NoRows(name, tuple(inputs.items()), (each, str(value.type))))


def write_table(rows: Iterable[Prediction], stream: TextIO) -> int:
    """Write a table, and return its number of rows.

    Of a classifier it has the likeliest class, its name where it is known, and the probability of
    each class; of other models all numbers.
    """
    written = 0
    table = csv.writer(stream, lineterminator="\n")
    for each in rows:
        if not written:
            table.writerow(_head(each))
        table.writerow([str(each.file), *_cells(each)])
        written += 1
    return written


def _head(found: Prediction) -> list[str]:
    shares = found.probabilities
    if shares is None:
        parts = ((name, np.ndindex(each.shape)) for name, each in found.outputs.items())
        return ["file", *(".".join([name, *map(str, at)]) for name, all_ in parts for at in all_)]
    if found.classes:
        return ["file", "class", "name", *found.classes]
    return ["file", "class", *map(str, range(shares.size))]


def _cells(found: Prediction) -> Iterator[str]:
    shares = found.probabilities
    if shares is None:
        for each in found.outputs.values():
            yield from (f"{value:.9g}" for value in each.reshape(-1).tolist())
        return
    yield str(found.label)
    if found.name is not None:
        yield found.name
    yield from (f"{share:.6f}" for share in shares.tolist())
