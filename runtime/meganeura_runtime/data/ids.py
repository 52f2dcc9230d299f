"""Integer inputs that pick something out of a number of things: classes, words, positions.

Where an input is an index, directly or after a change of its shape, every value of it has to be one
of 0 ... count - 1. A kernel cannot complain, so it is found out here, before anything runs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Graph, Op, Value
from meganeura_dsl.ops import (
    Broadcast,
    Cast,
    Compare,
    Constant,
    Gather,
    Input,
    Iota,
    Reshape,
    ScatterAdd,
    Slice,
    Transpose,
)
from meganeura_dsl.shapes.dim import Size
from meganeura_dsl.source import Span
from meganeura_runtime.data.dataset import Dataset
from meganeura_runtime.data.problems import PicksNothing
from meganeura_runtime.tensors.stored import StoredTensor, chunks

SAME_VALUES: tuple[type[Op], ...] = (Broadcast, Cast, Reshape, Slice, Transpose)
"""Ops whose result holds values of their operand and no others, if those are integers."""


@dataclass(frozen=True)
class Bound:
    """What an index may be: one of 0 ... count - 1, or a value the program compares it with.

    A loss that leaves out labels compares them with the number that stands for none, such as -100.
    """

    count: int
    exempt: frozenset[int] = frozenset()

    def narrowed(self, other: "Bound") -> "Bound":
        """What satisfies both."""
        return Bound(min(self.count, other.count), self.exempt & other.exempt)


def id_bounds(graph: Graph) -> dict[str, Bound]:
    """The bound of each integer input that is used as an index."""
    compared = _compared_with(graph)
    bounds: dict[str, Bound] = {}
    for value in graph.values:
        for ids, count in _uses(value):
            source = _source(ids).op
            if not isinstance(source, Input) or not isinstance(count, int):
                continue
            exempt = compared.get(source.name, []) if isinstance(value.op, Compare) else []
            bound = Bound(count, frozenset(exempt))
            bounds[source.name] = bound.narrowed(bounds.get(source.name, bound))
    return bounds


def check_dataset(dataset: Dataset, bounds: Mapping[str, Bound], place: Span | None) -> None:
    """Raise `ProblemError` at the first value of a data set that picks nothing."""
    for split in (dataset.train, dataset.test):
        for name, feed in () if split is None else split.feeds.items():
            if name in bounds:
                check_ids(feed.tensor, bounds[name], place)


def check_ids(tensor: StoredTensor, bound: Bound, place: Span | None = None) -> None:
    """Raise `ProblemError` at the first value that picks nothing."""
    for start, values in chunks(tensor.content):
        wrong = np.less(values, 0) | np.greater_equal(values, bound.count)
        if bound.exempt and wrong.any():
            wrong &= ~np.isin(values, list(bound.exempt))
        if not wrong.any():
            continue
        within = np.unravel_index(int(wrong.argmax()), values.shape)
        first, *rest = map(int, within)
        index = (first + start, *rest) if tensor.shape else ()
        value = int(values[within])
        raise ProblemError(PicksNothing(place, tensor.file, tensor.name, index, value, bound.count))


def _compared_with(graph: Graph) -> dict[str, list[int]]:
    """For each input, the whole numbers it is compared with."""
    compared: dict[str, list[int]] = {}
    for value in graph.values:
        if not isinstance(value.op, Compare):
            continue
        left, right = (_source(operand).op for operand in value.operands)
        for one, other in ((left, right), (right, left)):
            match one, other:
                case Input(name=name), Constant(value=int(number)):
                    compared.setdefault(name, []).append(number)
                case _:
                    pass
    return compared


def _uses(value: Value) -> Iterator[tuple[Value, Size]]:
    """The operands of a value that are indices, and how many things each chooses from."""
    match value.op:
        case Gather(axis=axis):
            table, ids = value.operands
            yield ids, table.type.shape[axis]
        case ScatterAdd(size=size):
            yield value.operands[0], size
        case Compare(kind="eq"):
            left, right = value.operands
            for one, other in ((left, right), (right, left)):
                counted = _source(other).op
                if isinstance(counted, Iota):
                    yield one, counted.size
        case _:
            pass


def _source(value: Value) -> Value:
    """Where the values of a value come from."""
    while isinstance(value.op, SAME_VALUES) and not value.operands[0].type.dtype.is_float:
        value = value.operands[0]
    return value
