"""Measures examples: all of them, each once, the last batch as small as it is."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Leaf, Value
from meganeura_dsl.ir.outputs import Shown
from meganeura_runtime.backends.base import OpenSession, Outputs, Session
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.io.data.batches import even_batch, runs
from meganeura_runtime.io.data.index_problems import IndexOutside
from meganeura_runtime.io.data.ragged_split import RaggedSplit
from meganeura_runtime.io.data.splits import Split
from meganeura_runtime.io.preprocess.preparation import ImagePreparation
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.loop.confusion import LABELS, LOGITS, with_confusion
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.spec.joined_metrics import MeasuredGraph, Totals
from meganeura_runtime.train.spec.session_inputs import feeds
from meganeura_runtime.train.spec.step_graphs import rewriting_of
from meganeura_runtime.train.spec.train_spec import TrainSpec

MOST = 4
"""Sessions that are open at a time."""


@dataclass(frozen=True)
class HeldBatch:
    """Some examples to measure."""

    examples: int
    sizes: Mapping[str, int]
    """The sizes of the batch that are others than those of the settings."""
    take: Callable[[range], Mapping[str, Array]]
    """Returns the inputs of some of its examples, by their numbers from 0."""
    is_cut: bool = False
    """True for a part of more examples, which may be smaller than the batch of a step."""


def held_batches(spec: TrainSpec, split: Split) -> Iterator[HeldBatch]:
    """Examples in their own order, in batches that leave no remainder where that can be.

    Ragged examples are one batch: what is a mean over rows is one over all of them.
    """
    if isinstance(split, RaggedSplit):
        every = slice(0, split.examples)
        sizes = {str(split.ragged.counter): split.examples, **split.sizes_of(every)}
        yield HeldBatch(split.examples, sizes, partial(split.take_own, every))
        return
    batch, counter = spec.batch, spec.input_spec.counter
    if not split.is_ordered:
        batch = even_batch(split.examples, batch, spec.settings.devices)
    for run in runs(split.examples, batch):
        count = run.stop - run.start
        sizes = {} if counter is None else {counter: count}
        yield HeldBatch(count, sizes, partial(split.take_own, run), is_cut=True)


Sizes = tuple[tuple[str, int], ...]


class Evaluator:
    """Sessions that measure batches, one for each size that occurs; opened when first needed."""

    def __init__(self, spec: TrainSpec, open_session: OpenSession) -> None:
        self.spec = spec
        self.open_session = open_session
        self.opened: dict[Sizes, tuple[MeasuredGraph, Session]] = {}
        self.without_value: frozenset[str] = frozenset()
        """The metrics of the last measurement that have no value, as of no chosen element."""

    def measure(
        self,
        batches: Iterable[HeldBatch],
        persistent: Mapping[str, Array],
        shown: VisualLog | None = None,
    ) -> dict[str, float]:
        """The loss and metrics of all examples, with these parameters and states.

        Those that are functions of sums over the examples are these functions of the sums over all
        batches; others are the mean over the batches, weighted by their examples. Empty where there
        are no examples. `shown` takes what the program shows of them.
        """
        shown = VisualLog() if shown is None else shown
        totals, images = Totals(self.spec.joining), self.spec.preparation.image
        unread: deque[_Unread] = deque()
        written: set[Sizes] = set()
        for batch in batches:
            key = tuple(sorted(batch.sizes.items()))
            if key not in self.opened and len(self.opened) >= MOST:
                _add_all(totals, shown, images, unread)
                written.discard(self._close_oldest())
            graph, session = self._session(key)
            if key not in written:
                session.load({name: persistent[name] for name in session.names})
                written.add(key)
            data = batch.take(session.own(batch.examples))
            with self._explained(batch):
                outputs = session.step(feeds(graph.graph, data, self.spec.settings.seed, 0, 0.0))
            outputs.request()
            pictures = None
            if session.own(batch.examples) == range(batch.examples):
                pictures = pictures_in(data, images)
            unread.append(_Unread(graph, batch.examples, outputs, pictures))
            _add_all(totals, shown, images, unread, session.ahead)
        _add_all(totals, shown, images, unread)
        self.without_value = totals.without_value()
        return totals.results()

    def close(self) -> None:
        """Give the memory of all sessions back."""
        for _, session in self.opened.values():
            session.close()
        self.opened.clear()

    def _session(self, key: Sizes) -> tuple[MeasuredGraph, Session]:
        if key not in self.opened:
            joining, graph = self.spec.joining, self.spec.graphs.evaluation(dict(key))
            measured = MeasuredGraph(graph, None) if joining is None else joining.with_parts(graph)
            graph = with_confusion(measured.graph)
            measured = replace(measured, graph=graph)
            rewriting = rewriting_of(self.spec.settings, self.spec.device)
            bounds = self.spec.graphs.bounds(dict(key))
            session = open_inference(graph, self.open_session, rewriting, bounds)
            self.opened[key] = measured, session
        return self.opened[key]

    @contextmanager
    def _explained(self, batch: HeldBatch) -> Generator[None]:
        """Explains an index out of range by the batch, if larger batches have the row."""
        try:
            yield
        except ProblemError as error:
            problem, whole = error.problem, self.spec.batch
            if not isinstance(problem, IndexOutside) or not batch.is_cut:
                raise
            full = self.spec.graphs.bounds({}).get(problem.name)
            if full is None or not problem.bound.count <= problem.value < full.count:
                raise
            raise ProblemError(replace(problem, cut=(batch.examples, whole))) from error

    def _close_oldest(self) -> Sizes:
        oldest = next(iter(self.opened))
        self.opened.pop(oldest)[1].close()
        return oldest


@dataclass(frozen=True)
class _Unread:
    """Outputs of an evaluation of some examples, which may not be computed yet."""

    graph: MeasuredGraph
    examples: int
    outputs: Outputs
    pictures: Array | None
    """The images of the examples as they are drawn, where there are some in this process."""


def _add_all(
    totals: Totals,
    shown: VisualLog,
    images: ImagePreparation | None,
    unread: deque[_Unread],
    behind: int = 0,
) -> None:
    """Read all but the last few, and add what was measured."""
    while len(unread) > behind:
        one = unread.popleft()
        outputs, named = one.outputs, one.graph.graph.outputs
        for name, value in named.items():
            if isinstance(name, Shown):
                shown.add(name.name, one.examples, as_drawn(value, outputs[name], images))
        if LOGITS in named:
            shown.mistakes.add(outputs[LABELS], outputs[LOGITS], one.pictures)
        totals.add(one.graph, one.examples, outputs)


def as_drawn(shown: Value, value: Array, images: ImagePreparation | None) -> Array:
    """Returns images of an input as they were before they were normalised; others as they are.

    `images` says how the images of the run were prepared: `value` is one of them where the program
    shows an input f32[n, colors, height, width] itself.
    """
    return value if not isinstance(shown.op, Leaf) else _before_normalisation(value, images)


def pictures_in(data: Mapping[str, Array], images: ImagePreparation | None) -> Array | None:
    """Returns the images of some examples, from 0 to 1; None where no input is of images.

    Images are f32[n, colors, height, width] with 1 or 3 colors. Those that were not prepared from
    files, and lie beyond 0 and 1, are stretched from their least value to their largest.
    """
    found = next((x for x in data.values() if x.ndim == 4 and x.shape[1] in (1, 3)), None)
    if found is None:
        return None
    drawn = _before_normalisation(found, images)
    if drawn is not found:
        return drawn
    values = found.astype(np.float32)
    low, high = float(values.min(initial=0.0)), float(values.max(initial=1.0))
    return found if (low, high) == (0.0, 1.0) else (values - low) / np.float32(high - low)


def _before_normalisation(value: Array, images: ImagePreparation | None) -> Array:
    """Returns images as they were before `images` normalised them; others as they are."""
    if images is None or value.shape[1:] != (images.colors, images.height, images.width):
        return value
    mean, std = (np.array(each, np.float32).reshape(-1, 1, 1) for each in (images.mean, images.std))
    return (value.astype(np.float32) * std + mean) / np.float32(255 * images.scale)
