"""Numbers for the leaves of a graph: away from kinks, or deliberately on them.

A tensor is determined by a seed, its name and its shape: the seed in a report reproduces it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import prod
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Value, dependencies
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.interval_analysis import Range, ranges_of
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.deferred_dataclass import dataclass

KINKS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Numbers that repeat, so that maxima are tied and rectifiers are at zero."""
POSITION = TensorType(DType.I32, ())
HIGHEST_LABEL = 4
"""Whole numbers that index nothing are below this."""


class InputDistribution(Enum):
    """The distribution of floats."""

    SMOOTH = "smooth"
    """Of either sign, at least 1/2 from zero, no two equal."""
    POSITIVE = "positive"
    """The same, all positive: for roots and logarithms of inputs."""
    KINKS = "kinks"
    """From a handful of numbers, zero among them."""


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
        fed = {
            leaf.name: self._leaf(leaf, value.type, indices.bounds.get(leaf.name, HIGHEST_LABEL))
            for value in graph.values
            if isinstance(leaf := value.op, Leaf)
        }
        for name, allowed in indices.positions.items():
            fed[name] = np.asarray(allowed[int(fed[name]) % len(allowed)], np.int32)
        return fed

    def _leaf(self, leaf: Leaf, of: TensorType, below: int) -> Array:
        numbers = self.tensor(leaf.name, of, below)
        if not isinstance(leaf, Parameter) or not of.dtype.is_float:
            return numbers
        if leaf.kind in ("state", "cache"):
            return np.abs(numbers) + (numbers == 0)  # a running variance is positive
        fan_in = prod(numbers.shape[1:])
        return (
            numbers / fan_in**0.5 if self.distribution is not InputDistribution.KINKS else numbers
        )

    def _floats(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        match self.distribution:
            case InputDistribution.SMOOTH:
                signs = generator.choice((-1.0, 1.0), shape)
                return np.asarray(signs * generator.uniform(0.5, 2, shape))
            case InputDistribution.POSITIVE:
                return np.asarray(generator.uniform(0.5, 2, shape))
            case InputDistribution.KINKS:
                return np.asarray(generator.choice(KINKS, shape))


@dataclass(frozen=True)
class Indices:
    """What the whole numbers that a graph reads may be."""

    bounds: Mapping[str, int]
    """`index_bounds` of its values."""
    positions: Mapping[str, Sequence[int]]
    """`positions_allowed`, for each input `i32[]` that has any."""


def indices_of(graph: Graph) -> Indices:
    """What the whole numbers that a graph reads may be."""
    positions = {
        value.op.name: positions_allowed(graph, value)
        for value in graph.values
        if isinstance(value.op, Input) and value.type == POSITION
    }
    return Indices(
        index_bounds(graph.values), {name: each for name, each in positions.items() if each}
    )


def index_bounds(values: Iterable[Value]) -> Mapping[str, int]:
    """For each input that reaches an index of an op, how many things it chooses from."""
    bounds: dict[str, int] = {}
    for value in values:
        for operand_index, count in value.op.picks(*(operand.type for operand in value.operands)):
            for source in dependencies((value.operands[operand_index],)):
                if isinstance(source.op, Input) and source.type.dtype.is_integer:
                    name = source.op.name
                    bounds[name] = min(concrete(count), bounds.get(name, concrete(count)))
    return bounds


def positions_allowed(graph: Graph, position: Value) -> list[int]:
    """The numbers of an input `i32[]` for which all indices computed from it alone are in range."""
    leaf = position.op
    assert isinstance(leaf, Input)
    uses: list[tuple[Graph, Value, int]] = []
    for value in graph.values:
        for operand_index, count in value.op.picks(*(operand.type for operand in value.operands)):
            ids = value.operands[operand_index]
            needed = dependencies((ids,))
            if {each.id for each in needed if isinstance(each.op, Leaf)} == {position.id}:
                uses.append((Graph(needed, {"ids": ids}), ids, concrete(count)))

    def is_allowed(number: int) -> bool:
        given = {leaf.name: Range(number, number)}
        found = ((ranges_of(part, given).get(ids.id), count) for part, ids, count in uses)
        return all(range_ is None or range_.within(0, count - 1) for range_, count in found)

    return [
        number for number in range(max((n for _, _, n in uses), default=0)) if is_allowed(number)
    ]
