"""Measurements over several batches as those of one batch of all examples.

A metric that is a function of sums over the examples, such as a mean over chosen elements, is that
function of the sums over all batches; the mean of the ratios of the batches would depend on how
the examples are divided. What is no such function is the mean over the batches, each weighted by
its examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meganeura_dsl.ir.batch_statistics import (
    Meeting,
    Statistics,
    is_plain_mean,
    matching,
    statistics,
)
from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Cast, Constant
from meganeura_dsl.ir.outputs import Judged, MetricPart, Shown
from meganeura_dsl.symbolic.polynomial import Dim
from meganeura_dsl.symbolic.size import evaluate
from meganeura_runtime.io.tensors.stored_tensor import Array


@dataclass(frozen=True, eq=False)
class Joining:
    """The way to join metrics over batches, found in a graph with sizes as symbols."""

    symbolic: Graph
    counter: str
    sizes: Mapping[str, int]
    """The sizes other than `counter`."""

    @cached_property
    def metrics(self) -> dict[str, Statistics]:
        """The statistics of each metric that needs more than a mean of means."""
        found: dict[str, Statistics] = {}
        for name, value in self.symbolic.outputs.items():
            if isinstance(name, Shown) or value.type.rank:
                continue
            parts = statistics(self.symbolic, self.counter, [value])
            if parts and not is_plain_mean(parts, self.symbolic, self.counter, value):
                found[name] = parts
        return found

    @cached_property
    def kinds(self) -> dict[int, Meeting]:
        """The way to join each part, by the number of its value."""
        return {
            number: kind for each in self.metrics.values() for number, kind in each.joined.items()
        }

    def with_parts(self, graph: Graph) -> "MeasuredGraph":
        """The graph of an evaluation of some size, whose outputs are the parts too."""
        same: dict[int, Value] = {}
        for name, parts in self.metrics.items():
            wanted, value = self.symbolic.outputs[name], graph.outputs[name]
            found = matching(parts, self.symbolic, wanted, value)
            if found is None:
                return MeasuredGraph(graph, None)
            same |= found
        outputs = {MetricPart(number): same[number] for number in self.kinds}
        return MeasuredGraph(Graph(graph.values, {**graph.outputs, **outputs}, graph.updates), same)

    def value(
        self, name: str, parts: Mapping[int, Array], same: Mapping[int, Value], examples: int
    ) -> float:
        """A metric of so many examples, from its parts over all of them."""
        sizes = {**self.sizes, self.counter: examples}
        numbers = {value.id: number for number, value in enumerate(self.symbolic.values)}
        known: dict[int, Array] = {number: np.asarray(each) for number, each in parts.items()}
        for number in self.metrics[name].computed:
            general = self.symbolic.values[number]
            operands = [known[numbers[each.id]] for each in general.operands]
            with np.errstate(all="ignore"):
                known[number] = _evaluated(general, same[number], operands, sizes)
        return float(known[numbers[self.symbolic.outputs[name].id]])


@dataclass(frozen=True, eq=False)
class MeasuredGraph:
    """The graph of an evaluation."""

    graph: Graph
    same: Mapping[int, Value] | None
    """Its values, by the numbers of those that they are of the graph with symbols; `None` where
    it is built otherwise and has no parts."""


def _evaluated(
    general: Value, value: Value, operands: list[Array], sizes: Mapping[str, int]
) -> Array:
    """Evaluates an op in double precision."""
    is_float = value.type.dtype.is_float
    match general.op:
        case Constant(size) if isinstance(size, Dim):
            return np.asarray(evaluate(size, sizes), np.float64 if is_float else np.int64)
        case Constant():
            found = np.asarray(value.op.evaluate())
        case Cast() if is_float:
            found = operands[0]
        case _:
            found = np.asarray(value.op.evaluate(*operands))
    return found.astype(np.float64) if is_float else found


class Totals:
    """Sums of measurements of some batches, and the results over all of them."""

    def __init__(self, joining: Joining | None) -> None:
        self._joining = joining
        self._means: dict[str, float] = {}
        self._parts: dict[int, Array] = {}
        self._same: Mapping[int, Value] | None = {}
        self._examples = 0

    def add(self, graph: MeasuredGraph, examples: int, outputs: Mapping[str, Array]) -> None:
        """Count a batch: its metrics as often as it has examples, and its parts."""
        self._examples += examples
        self._same = graph.same if self._same is not None else None
        for name in graph.graph.outputs:
            if isinstance(name, MetricPart):
                self._join(name.number, outputs[name])
            elif not isinstance(name, Shown | Judged):
                mean = float(outputs[name]) * examples
                self._means[name] = self._means.get(name, 0.0) + mean

    def _join(self, number: int, value: Array) -> None:
        assert self._joining is not None
        new = np.asarray(value)
        new = new.astype(np.float64) if new.dtype.kind == "f" else new
        kind, old = self._joining.kinds[number], self._parts.get(number)
        if old is None or kind is Meeting.NOT:
            self._parts[number] = new
        else:
            self._parts[number] = (np.add if kind is Meeting.SUM else np.maximum)(old, new)

    def results(self) -> "dict[str, float]":
        """The metrics of all examples; empty where there are none."""
        joining, same = self._joining, self._same
        found = {name: total / self._examples for name, total in self._means.items()}
        if joining is not None and same and self._examples:
            for name in joining.metrics:
                found[name] = joining.value(name, self._parts, same, self._examples)
        return found

    def without_value(self) -> frozenset[str]:
        """The metrics of finite sums that are no number, as of no chosen element at all."""
        joining, results = self._joining, self.results()
        if joining is None or not self._same:
            return frozenset()
        return frozenset(
            name
            for name, parts in joining.metrics.items()
            if not np.isfinite(results[name])
            and all(np.isfinite(self._parts[number]).all() for number in parts.joined)
        )
