"""Matches the tensors of a file with the inputs of a program, before anything runs.

The first axis of an input counts examples: `[batch, d]` takes one row of its tensor for each, and
`[4 * batch, d]` four. An input marked `whole` is fed as it is at every step. Where no size is free,
one example is whatever the first axis of each input takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.example_axis import counting_size
from meganeura_dsl.elaborate.declarations.ragged_axes import NONE, Ragged
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Dim, dim, evaluate
from meganeura_runtime.io.data.data_problems import (
    DataShape,
    DataType,
    ExamplesNotFirst,
    MissingTensor,
    NothingHeldOut,
    TwoTensors,
    UnequalExamples,
)
from meganeura_runtime.io.data.ragged_problems import RaggedData
from meganeura_runtime.io.data.ragged_split import RaggedSplit, ragged_split
from meganeura_runtime.io.data.shape_cures import class_rows, shape_cure
from meganeura_runtime.io.data.splits import Feed, Split, StoredSplit
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation
from meganeura_runtime.io.tensors.joined_array import Joined
from meganeura_runtime.io.tensors.shape_mismatch import transposed
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, verify

READ_FIRST = 1 << 30
"""Bytes of a split up to which all of it is checked before a run; else each batch is."""


@dataclass(frozen=True)
class InputSpec:
    """The requirements of a program on its data."""

    inputs: Mapping[str, TensorType]
    """Types with the free sizes still free."""
    sizes: Mapping[str, int]
    """The free sizes and their values."""
    whole: frozenset[str] = frozenset()
    """The inputs that are the same at every step."""
    tensors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of tensors, for inputs whose tensors have other names."""
    ragged: Ragged = NONE
    """The sizes that each example has for itself."""

    @property
    def counter(self) -> str | None:
        """The free size that counts examples: the one that occurs in the first axes."""
        return self.ragged.counter or counting_size(self.inputs, self.whole)

    @property
    def batch(self) -> int:
        """Examples a step takes."""
        return 1 if self.counter is None else self.sizes[self.counter]

    @property
    def rows(self) -> dict[str, int]:
        """The rows of one example, for inputs whose first axis counts examples."""
        counter = self.counter
        if counter is None:
            return {}
        one = {**self.sizes, counter: 1}
        firsts = {
            name: each.shape[0]
            for name, each in self.inputs.items()
            if name not in self.whole and name not in self.ragged.sizes
        }
        return {name: evaluate(size, one) for name, size in firsts.items() if isinstance(size, Dim)}


@dataclass(frozen=True, eq=False)
class Dataset:
    """The examples to train on and, if the data has any, those held out."""

    path: Path
    train: Split
    test: Split | None
    preparation: Preparation = NOTHING
    """The preparation of files for inputs, and the names of the classes of folders by number."""
    tokenizer: Path | None = None
    """The tokenizer.json that texts are read by."""

    @property
    def empty_files(self) -> frozenset[Path]:
        """The files of a split, if several, that have no example."""
        splits = [each for each in (self.train, self.test) if isinstance(each, StoredSplit)]
        return frozenset(file for each in splits for file in each.empty_files)


def match_data(
    tensors: Mapping[str, StoredTensor], input_spec: InputSpec, path: Path, span: Span | None = None
) -> Dataset:
    """The data as the program's inputs want it; raises `ProblemError` at the first mismatch."""
    match = _Matcher(tensors, input_spec, path, span)
    names = [input_spec.tensors.get(name, name) for name in input_spec.inputs]
    has_splits = any(f"train.{name}" in tensors for name in names)
    held_out = any(f"test.{name}" in tensors for name in names)
    for name, tensor in zip(input_spec.inputs, names, strict=True):
        if name not in input_spec.whole and {tensor, f"train.{tensor}"} <= tensors.keys():
            raise ProblemError(TwoTensors(span, path, tensor, name))
    train = match.split("train." if has_splits else "")
    test = match.split("test.") if held_out else None
    if test is not None and test.examples == 0:
        raise ProblemError(NothingHeldOut(span, path))
    return Dataset(path, train, test)


def match_held_out(
    tensors: Mapping[str, StoredTensor], input_spec: InputSpec, path: Path, span: Span | None = None
) -> StoredSplit:
    """Data that is held out as a whole; of data with splits only that of `test.`."""
    match = _Matcher(tensors, input_spec, path, span)
    names = [input_spec.tensors.get(name, name) for name in input_spec.inputs]
    has_splits = any(f"test.{name}" in tensors for name in names)
    test = match.split("test." if has_splits else "")
    if test.examples == 0:
        raise ProblemError(NothingHeldOut(span, path))
    return test


def match_batch(
    tensors: Mapping[str, StoredTensor], input_spec: InputSpec, path: Path
) -> StoredSplit:
    """One batch, of any number of examples; raises `ProblemError` where it does not fit."""
    return _Matcher(tensors, input_spec, path, None).split("")


@dataclass(frozen=True)
class _Matcher:
    tensors: Mapping[str, StoredTensor]
    input_spec: InputSpec
    path: Path
    span: Span | None

    def split(self, prefix: str) -> StoredSplit:
        """One split: shapes and types of all inputs first, then every value."""
        if self.input_spec.ragged.names:
            return self.ragged_split(prefix)
        feeds = {
            name: self.feed(self.stored(prefix, name), name, wanted)
            for name, wanted in self.input_spec.inputs.items()
        }
        examples = self.count({feed.tensor.name: feed for feed in feeds.values() if feed.rows})
        return StoredSplit(_verified(feeds), examples)

    def ragged_split(self, prefix: str) -> RaggedSplit:
        """One split of ragged examples, whose counts have the names of sizes."""
        ragged, inputs = self.input_spec.ragged, self.input_spec.inputs
        assert ragged.counter is not None
        counted = TensorType(DType.I32, (dim(ragged.counter),))
        own = {size: self.feed(prefix + size, size, counted) for size in ragged.names}
        others = {
            name: self.feed(self.stored(prefix, name), name, wanted)
            for name, wanted in inputs.items()
        }
        feeds = {**own, **others}
        for feed in feeds.values():
            if isinstance(feed.tensor.content, Joined):
                cure = "store the examples in one file"
                headline = "ragged examples are not read from several files"
                raise ProblemError(RaggedData(self.span, self.path, headline, (), cure))
        by_example = {
            feed.tensor.name: feed
            for name, feed in feeds.items()
            if feed.rows and name not in ragged.sizes
        }
        examples = self.count(by_example)
        return ragged_split(_verified(feeds), ragged, examples, self.path, self.span)

    def stored(self, prefix: str, name: str) -> str:
        """The tensor of an input; a whole one serves both splits, unless each has its own."""
        tensor = self.input_spec.tensors.get(name, name)
        splits = (f"train.{tensor}", f"test.{tensor}")
        shared = name in self.input_spec.whole and not all(each in self.tensors for each in splits)
        return tensor if shared else prefix + tensor

    def feed(self, name: str, shown: str, wanted: TensorType) -> Feed:
        """The tensor of a name, whose type and shape feed an input."""
        tensor = self.tensors.get(name)
        if tensor is None:
            present, feeds = tuple(self.tensors), self.feeds(name, shown)
            raise ProblemError(MissingTensor(self.span, self.path, name, present, shown, feeds))
        if tensor.is_float and not wanted.dtype.is_float:
            cure = class_rows(shown, tensor, wanted)
            kinds = tensor.stored, wanted.dtype.value
            raise ProblemError(DataType(self.span, self.path, name, *kinds, cure))
        is_ragged = shown in self.input_spec.ragged.sizes
        rows = 0 if is_ragged else self.rows_of_an_example(shown, wanted)
        sizes = dict(self.input_spec.sizes)
        if is_ragged:
            sizes[self.input_spec.ragged.sizes[shown]] = tensor.shape[0] if tensor.shape else 0
        shape = tuple(evaluate(size, sizes) for size in wanted.shape)
        fits = tensor.shape[1:] == shape[1:] and len(tensor.shape) == len(shape)
        if not fits or (tensor.shape[0] % rows if rows else tensor.shape != shape):
            raise ProblemError(self.mismatch(shown, tensor, wanted, shape))
        return Feed(tensor, wanted.dtype, rows, span=self.span)

    def feeds(self, missing: str, shown: str) -> tuple[tuple[str, str], ...]:
        """The tensors that feed the inputs of other names, if there is one for each.

        `missing` is the tensor of one of the inputs, `shown`, with the split that it is of.
        """
        prefix = missing.removesuffix(self.input_spec.tensors.get(shown, shown))
        if not prefix and any(each.startswith("train.") for each in self.tensors):
            prefix = "train."
        inputs = self.input_spec.inputs
        named = {name: self.input_spec.tensors.get(name, name) for name in inputs}
        feeds = {
            name: tensor
            for name, tensor in named.items()
            if self.stored(prefix, name) in self.tensors
        }
        for name in [each for each in inputs if each not in feeds]:
            fitting = [
                each.removeprefix(prefix)
                for each in self.tensors
                if each.startswith(prefix) and self.fits(each, name, inputs[name])
            ]
            left = [each for each in fitting if each not in feeds.values()]
            if len(left) != 1:
                return ()
            feeds[name] = left[0]
        return tuple((name, feeds[name]) for name in inputs)

    def fits(self, name: str, shown: str, wanted: TensorType) -> bool:
        """True if a tensor of the data can feed an input."""
        try:
            self.feed(name, shown, wanted)
        except ProblemError:
            return False
        return True

    def rows_of_an_example(self, name: str, wanted: TensorType) -> int:
        """Returns the number of an input's rows in one example, 0 if it is fed whole."""
        if name in self.input_spec.whole:
            return 0
        counter = self.input_spec.counter
        if counter is None:
            return evaluate(wanted.shape[0], self.input_spec.sizes)
        mentions = [isinstance(size, Dim) and counter in size.variables() for size in wanted.shape]
        one, two, three = (
            evaluate(wanted.shape[0], {**self.input_spec.sizes, counter: count})
            for count in (1, 2, 3)
        )
        if any(mentions[1:]) or (two, three) != (2 * one, 3 * one):
            raise ProblemError(ExamplesNotFirst(self.span, self.path, name, str(wanted), counter))
        return one

    def count(self, feeds: Mapping[str, Feed]) -> int:
        """The number of examples, on which all tensors must agree."""
        self.require_equal({name: feed.examples for name, feed in feeds.items()}, self.path)
        shards = {
            name: (feed.tensor.content, feed.rows)
            for name, feed in feeds.items()
            if isinstance(feed.tensor.content, Joined)
        }
        for number, path in enumerate(next((each.files for each, _ in shards.values()), ())):
            counts = {name: each.lengths[number] // rows for name, (each, rows) in shards.items()}
            self.require_equal(counts, path)
        return next((feed.examples for feed in feeds.values()), 1)

    def require_equal(self, counts: Mapping[str, int], path: Path) -> None:
        """Raise `ProblemError` unless all tensors hold as many examples."""
        if len(set(counts.values())) > 1:
            raise ProblemError(UnequalExamples(self.span, path, tuple(counts.items())))

    def examples_of_others(self, name: str) -> frozenset[int]:
        """The numbers of examples of the tensors that have the shape of other inputs."""
        found: set[int] = set()
        for other, wanted in self.input_spec.inputs.items():
            tensor = self.tensors.get(self.input_spec.tensors.get(other, other))
            example = tuple(evaluate(size, self.input_spec.sizes) for size in wanted.shape[1:])
            if other != name and tensor is not None and tensor.shape[1:] == example:
                found.update(tensor.shape[:1])
        return frozenset(found)

    def mismatch(
        self, name: str, tensor: StoredTensor, wanted: TensorType, shape: Sequence[int]
    ) -> DataShape:
        """The problem of a tensor that does not have the shape of the input of a name."""
        cure = None
        if wanted.rank and name not in self.input_spec.whole:
            cure = shape_cure(name, tensor, wanted, shape, self.examples_of_others(name))
        hint = transposed(tensor.shape[1:], shape[1:], offset=1)
        if cure is None and hint:
            cure = Help(hint)
        return DataShape(self.span, self.path, tensor.name, str(tensor), str(wanted), cure)


def _verified(feeds: Mapping[str, Feed]) -> dict[str, Feed]:
    """The feeds, with all values checked that are few enough and quickly read."""
    contents = [feed.tensor.content for feed in feeds.values()]
    size = sum(each.itemsize * prod(each.shape) for each in contents)
    found: dict[str, Feed] = {}
    for name, feed in feeds.items():
        content = feed.tensor.content
        at_once = isinstance(content, np.ndarray) or (
            content.is_read_at_once and size <= READ_FIRST
        )
        if at_once:
            verify(feed.tensor, feed.dtype)
        is_checked = not isinstance(content, np.ndarray) and content.is_checked
        found[name] = replace(feed, is_verified=at_once or is_checked)
    return found
