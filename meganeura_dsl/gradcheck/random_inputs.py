"""Numbers for the leaves of a graph: away from kinks, or deliberately on them.

A tensor is determined by a seed, its name and its shape: the seed in a report reproduces it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Value, dependencies
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.interval_analysis import Range, ranges_of
from meganeura_dsl.ir.ops import Constant, Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import DType, TensorType

KINKS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Numbers that repeat, so that maxima are tied and rectifiers are at zero."""
SPECIAL = (0.0, 0.0, 0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 20.0, -20.0)
"""Points where functions have kinks, are even or odd, or are nearly constant."""
HIGHEST_KNOT = 64
"""The largest constant of a program at which it may have its own kink, as `x > 0.7` has."""
FARTHEST = 64
"""The distance below 0, or above the size of a table, of the search for allowed numbers."""
COEFFICIENT = "coefficient."
"""The prefix of the inputs that a probe multiplies outputs by."""
HIGHEST_LABEL = 4
"""Whole numbers that index nothing are below this."""


class InputDistribution(Enum):
    """The distribution of floats."""

    SMOOTH = "smooth"
    """Numbers of either sign, at least 1/2 from zero, no two equal."""
    POSITIVE = "positive"
    """The same, all positive: for roots and logarithms of inputs."""
    KINKS = "kinks"
    """Numbers from a handful, zero among them."""
    SPECIAL = "special"
    """Inputs at 0, at knots, or far out; parameters as usual."""
    SPECIAL_POSITIVE = "special positive"
    """The same, without 0 and what is below."""
    ZEROS = "zeros"
    """Parameters at 0, as a head may begin; inputs as usual."""


@dataclass(frozen=True)
class RandomInputs:
    """Draws the numbers of tensors from a seed."""

    seed: int
    distribution: InputDistribution = InputDistribution.SMOOTH

    def tensor(self, name: str, of: TensorType, below: int = HIGHEST_LABEL) -> Array:
        """The numbers of one tensor, whole ones in [0, below), floats as float64."""
        generator = np.random.default_rng((self.seed, crc32(name.encode())))
        shape = concrete_shape(of.shape)
        match of.dtype:
            case DType.F32 | DType.F16:
                return self._floats(generator, shape)
            case DType.I32 | DType.U32:
                return generator.integers(0, below, shape).astype(storage_type(of.dtype))
            case DType.BOOL:
                return np.asarray(generator.integers(0, 2, shape), np.bool_)

    def feeds(self, graph: Graph, indices: "Indices | None" = None) -> dict[str, Array]:
        """Numbers for every leaf; indices are within what they index.

        `indices` is `indices_of(graph)`, for who draws many feeds of one graph.
        """
        indices = indices_of(graph) if indices is None else indices
        knots = knots_of(graph) if self.distribution in SPECIAL_INPUTS else ()
        fed = {
            leaf.name: self._leaf(
                leaf, value.type, len(indices.allowed.get(leaf.name, range(HIGHEST_LABEL))), knots
            )
            for value in graph.values
            if isinstance(leaf := value.op, Leaf)
        }
        for name, allowed in indices.allowed.items():
            fed[name] = np.asarray(allowed, fed[name].dtype)[fed[name]]
        return fed

    def _leaf(self, leaf: Leaf, of: TensorType, below: int, knots: Sequence[float] = ()) -> Array:
        numbers = self.tensor(leaf.name, of, below)
        if not of.dtype.is_float:
            return numbers
        if not isinstance(leaf, Parameter):
            is_moved = not leaf.name.startswith(COEFFICIENT)
            return self._special(leaf.name, numbers.shape, knots) if knots and is_moved else numbers
        if leaf.kind in ("state", "cache"):
            return np.abs(numbers) + (numbers == 0)  # a running variance is positive
        if self.distribution is InputDistribution.ZEROS:
            return np.zeros_like(numbers)
        fan_in = prod(numbers.shape[1:])
        return (
            numbers / fan_in**0.5 if self.distribution is not InputDistribution.KINKS else numbers
        )

    def _special(self, name: str, shape: tuple[int, ...], knots: Sequence[float]) -> Array:
        if self.distribution is InputDistribution.SPECIAL_POSITIVE:
            knots = [each for each in knots if each > 0]
        generator = np.random.default_rng((self.seed, crc32(name.encode()), 1))
        return np.asarray(generator.choice(knots, shape))

    def _floats(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        match self.distribution:
            case (
                InputDistribution.SMOOTH
                | InputDistribution.SPECIAL
                | InputDistribution.SPECIAL_POSITIVE
                | InputDistribution.ZEROS
            ):
                signs = generator.choice((-1.0, 1.0), shape)
                return np.asarray(signs * generator.uniform(0.5, 2, shape))
            case InputDistribution.POSITIVE:
                return np.asarray(generator.uniform(0.5, 2, shape))
            case InputDistribution.KINKS:
                return np.asarray(generator.choice(KINKS, shape))


SPECIAL_INPUTS = (InputDistribution.SPECIAL, InputDistribution.SPECIAL_POSITIVE)


def knots_of(graph: Graph) -> tuple[float, ...]:
    """Numbers at which functions often have kinks, and the constants of a graph."""
    numbers = [
        float(value.op.evaluate())
        for value in graph.values
        if isinstance(value.op, Constant) and value.type.dtype.is_float
    ]
    constants = {
        sign * each for each in numbers if abs(each) <= HIGHEST_KNOT for sign in (1.0, -1.0)
    }
    return (*SPECIAL, *sorted(constants - {*SPECIAL}))


@dataclass(frozen=True)
class Use:
    """An index of an op, and how many things it chooses from; `graph` computes it."""

    graph: Graph
    ids: Value
    count: int

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of whole numbers that the index depends on."""
        names = (_whole_input(each) for each in self.graph.values)
        return tuple(name for name in names if name is not None)

    def holds(self, known: Mapping[str, Range]) -> bool:
        """True if the index is in range for such inputs, or nothing is known of it."""
        range_ = ranges_of(self.graph, known).get(self.ids.id)
        return range_ is None or range_.within(0, self.count - 1)


Stated = Mapping[str, Callable[[int], bool]]
"""Tests of the numbers that inputs may have, for inputs of whole numbers that a `where` uses."""


@dataclass(frozen=True)
class Indices:
    """The ranges of the whole numbers that a graph reads."""

    allowed: Mapping[str, Sequence[int]]
    """The numbers allowed for each input of whole numbers that is an index, or has facts."""


def indices_of(*graphs: Graph, stated: Stated | None = None) -> Indices:
    """Returns the ranges of the whole numbers that graphs read: as stated, and within indices.

    What reaches an index is drawn so that the index is in range, by interval analysis of all that
    is computed on the way.
    """
    stated = stated or {}
    uses = [use for graph in graphs for use in _uses_of(graph)]
    names = dict.fromkeys(
        name for graph in graphs for value in graph.values if (name := _whole_input(value))
    )
    allowed: dict[str, list[int]] = {}
    for name in names:
        counts = [use.count for use in uses if name in use.inputs]
        if not counts and name not in stated:
            continue
        below = max((*counts, HIGHEST_LABEL)) if name in stated else min(counts)
        permitted = stated.get(name, lambda number: number >= 0)
        numbers = [each for each in range(-min(below, FARTHEST), below) if permitted(each)]
        allowed[name] = numbers or [
            each for each in range(below, below + FARTHEST) if permitted(each)
        ]
        alone = [use for use in uses if use.inputs == (name,)]
        allowed[name] = _in_range(name, allowed[name], alone)
        if not allowed[name] and name not in stated:
            allowed[name] = _in_range(name, list(range(-min(below, FARTHEST), 0)), alone)
    _narrow(allowed, [use for use in uses if len(use.inputs) > 1])
    return Indices({name: numbers for name, numbers in allowed.items() if numbers})


def _whole_input(value: Value) -> str | None:
    """The name of an input of whole numbers; None for any other value."""
    if isinstance(value.op, Input) and value.type.dtype.is_integer:
        return value.op.name
    return None


def _uses_of(graph: Graph) -> list[Use]:
    """The indices of a graph that depend on an input of whole numbers."""
    found: dict[tuple[int, int], Use] = {}
    for value in graph.values:
        for operand_index, count in value.op.index_operands(
            *(operand.type for operand in value.operands)
        ):
            ids = value.operands[operand_index]
            key = ids.id, concrete(count)
            if key not in found:
                found[key] = Use(Graph(dependencies((ids,)), {"ids": ids}), ids, concrete(count))
    return [use for use in found.values() if use.inputs]


def _in_range(name: str, numbers: Sequence[int], uses: Sequence[Use]) -> list[int]:
    """The candidates for which every index that reads only this input is in range."""
    failing = list(uses)
    if numbers:
        known = {name: Range(min(numbers), max(numbers))}
        failing = [use for use in uses if not use.holds(known)]
    return [
        each for each in numbers if all(use.holds({name: Range(each, each)}) for use in failing)
    ]


def _narrow(allowed: dict[str, list[int]], uses: Sequence[Use]) -> None:
    """Leave out the largest numbers, until indices of several inputs are in range too."""
    while failing := [use for use in uses if not use.holds(_ranges(allowed))]:
        longest = max(
            (name for use in failing for name in use.inputs),
            key=lambda name: len(allowed.get(name, ())),
        )
        if len(allowed.get(longest, ())) < 2:
            return  # the cases are left out and reported
        allowed[longest] = allowed[longest][: len(allowed[longest]) // 2]


def _ranges(allowed: Mapping[str, Sequence[int]]) -> dict[str, Range]:
    return {name: Range(min(each), max(each)) for name, each in allowed.items() if each}
