"""Two graphs that compute the same elements, wherever these are moved on the way.

Each element of a value has a number of 64 bits that is a hash of its expression: of the op and of
the numbers of the elements that it is computed from. A move gives elements their numbers as they
are, so that `x[None] + y` and `(x + y)[None]` are the same; constants are computed, and are the
same up to rounding. Leaves are the same if their names are, and constants of a file by what they
hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Value
from meganeura_dsl.ir.ops import Concat, Iota, MatMul, ReduceMax, Scan, Sum
from meganeura_dsl.ir.ops import Constant as Number
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType

Hashes = NDArray[np.uint64]
MOVES = (Trait.VIEW, Trait.MOVEMENT)
RELATIVE, ABSOLUTE = 1e-6, 1e-7
"""Differences of two ways of computing a constant in single precision; of tables the second too."""
ROUNDS = 4
"""Iterations of a loop that tell its carries apart."""
HOLDS: Mapping[DType, str] = {
    DType.F32: "f4", DType.F16: "f2", DType.I32: "i4", DType.U32: "u4", DType.BOOL: "?"
}  # fmt: skip


def same_computation(one: Graph, other: Graph, held: Mapping[str, Array]) -> bool:
    """Returns whether outputs are the same, in order; `held` has constants of either by name."""
    expressions = _Expressions(held)
    found = [expressions.outputs(graph) for graph in (one, other)]
    return len(found[0]) == len(found[1]) and all(
        np.array_equal(mine, its) for mine, its in zip(*found, strict=True)
    )


class _Expressions:
    """The expressions of the values of graphs."""

    def __init__(self, held: Mapping[str, Array]) -> None:
        self.held = held
        self._reals = np.zeros(1)
        """The constants so far, in order."""

    def outputs(self, graph: Graph) -> list[Hashes]:
        known = self.all_of(graph, {})
        return [known[each.id] for each in graph.outputs.values()]

    def all_of(self, graph: Graph, leaves: Mapping[str, Hashes]) -> dict[int, Hashes]:
        """The numbers of all elements, by the ids of values, where leaves are given."""
        known: dict[int, Hashes] = {}
        numbers: dict[int, Array] = {}
        loops: dict[object, list[Hashes]] = {}
        for value in graph.values:
            if isinstance(value.op, Leaf) and value.op.name in leaves:
                known[value.id] = leaves[value.op.name]
                continue
            constant = self._constant(value, numbers)
            if constant is not None:
                numbers[value.id] = self._known(constant)
                known[value.id] = _of_numbers(numbers[value.id])
                continue
            operands = [known[each.id] for each in value.operands]
            if isinstance(value.op, Scan):
                if value.application not in loops:
                    loops[value.application] = self._loop(value.op, operands)
                known[value.id] = loops[value.application][value.index]
            else:
                known[value.id] = _of_op(value, operands)
        return known

    def _known(self, array: Array) -> Array:
        """The numbers that these are up to rounding, of those that were seen before."""
        if array.dtype.kind != "f":
            return array
        found = np.asarray(array, np.float64)
        after = np.searchsorted(self._reals, found)
        pairs = [self._reals[np.clip(at, 0, len(self._reals) - 1)] for at in (after - 1, after)]
        with np.errstate(invalid="ignore"):
            first, second = (np.abs(each - found) for each in pairs)
            nearest = np.where(first <= second, *pairs)
            allowed = RELATIVE * np.abs(found) + (ABSOLUTE if found.size > 1 else 0)
            settled = np.where(np.abs(nearest - found) <= allowed, nearest, found)
        self._reals = np.union1d(self._reals, settled[np.isfinite(settled)])
        return settled.astype(array.dtype)

    def _constant(self, value: Value, numbers: Mapping[int, Array]) -> Array | None:
        """The numbers of a value, where no data and no weight that is trained is behind it."""
        op = value.op
        if isinstance(op, Leaf):
            return self.held.get(op.name)
        if isinstance(op, Number):
            return np.asarray(op.value, HOLDS[op.dtype])
        if isinstance(op, Iota):
            return op.evaluate()
        is_known = bool(value.operands) and all(each.id in numbers for each in value.operands)
        if not is_known or op.bodies or op.multiple_results:
            return None
        return np.asarray(op.evaluate(*(numbers[each.id] for each in value.operands)))

    def _loop(self, op: Scan, operands: list[Hashes]) -> list[Hashes]:
        """Its results; a carry is what it starts from and becomes, whatever its place."""
        first, second = op.carried, op.carried + len(op.sliced)
        starts, sources, rest = operands[:first], operands[first:second], operands[second:]
        slices = [
            _mix("slice", *np.moveaxis(each, axis, 0))
            for each, axis in zip(sources, op.sliced, strict=True)
        ]
        about = _number(f"{op.iterations} {op.backward} {op.stops}")
        carries = [_mix("carry", each, about) for each in starts]
        iteration = _number("iteration")
        known: dict[int, Hashes] = {}
        for _ in range(ROUNDS):
            given = dict(zip(op.names, [*carries, *slices, *rest], strict=True))
            known = self.all_of(op.body.graph, {**given, "iteration": iteration})
            carries = [
                _mix("carry", start, known[each.id], about)
                for start, each in zip(starts, op.next, strict=True)
            ]
        stacks: list[Hashes] = []
        for each, axis in zip(op.given, op.collected, strict=True):
            row = known[each.id]
            count = int(str(op.iterations))
            places = [_mix("collected", row, _number(str(place))) for place in range(count)]
            stacks.append(np.stack(places, axis))
        return [*(_mix("last", each) for each in carries), *stacks]


def _of_op(value: Value, operands: list[Hashes]) -> Hashes:
    op, shape = value.op, cast("tuple[int, ...]", value.type.shape)
    if isinstance(op, Leaf):
        return _places(_number(f"{op.name}"), shape)
    if isinstance(op, Concat) or op.traits & {Trait.VIEW}:
        return np.ascontiguousarray(op.evaluate(*operands))
    if Trait.MOVEMENT in op.traits:  # zeros are put between
        zero = _of_numbers(np.zeros((), HOLDS[value.type.dtype]))
        return op.evaluate(*(each ^ zero for each in operands)) ^ zero
    if Trait.ELEMENTWISE in op.traits:
        return _mix(_said(value), *operands)
    if isinstance(op, Sum | ReduceMax):
        (x,) = operands
        last = np.moveaxis(x, op.axes, range(-len(op.axes), 0)).reshape(*shape, -1)
        return _mix(type(op).__name__, *np.moveaxis(last, -1, 0))
    if isinstance(op, MatMul):
        a, b = operands
        a = np.swapaxes(a, -1, -2) if op.transpose_left else a
        b = np.swapaxes(b, -1, -2) if op.transpose_right else b
        rows = _mix("row", *np.moveaxis(a, -1, 0))
        columns = _mix("column", *np.moveaxis(b, -2, 0))
        return _mix("MatMul", rows[..., None], columns[..., None, :])
    whole = [
        _mix("whole", *map(np.asarray, each.reshape(-1)), _number(str(each.shape)))
        for each in operands
    ]
    return _places(_mix(_said(value), *whole, _number(str(value.index))), shape)


def _said(value: Value) -> str:
    """The op and its settings, in words."""
    op = value.op
    settings = [f"{each.name}={getattr(op, each.name)}" for each in fields(op)]  # pyright: ignore[reportArgumentType]
    return f"{type(op).__name__} {settings} {value.type.dtype}"


def _number(text: str) -> Hashes:
    digest = blake2b(text.encode(), digest_size=8).digest()
    return np.frombuffer(digest, np.uint64).reshape(())


def _of_numbers(array: Array) -> Hashes:
    """Numbers count by their values."""
    if array.dtype.kind == "f":
        return _mix("real number", array.astype("f4").astype("f8").view(np.uint64))
    return _mix(f"number {array.dtype}", array.astype(np.int64).astype(np.uint64))


def _places(base: Hashes, shape: tuple[int, ...]) -> Hashes:
    count = int(np.prod(shape))
    return _mix("at", base, np.arange(count, dtype=np.uint64).reshape(shape))


def _mix(word: str, *parts: Hashes) -> Hashes:
    """One number for each element of the parts, which depends on all of them in order."""
    return _folded(_number(word), parts)


def _folded(start: Hashes, parts: Iterable[Hashes]) -> Hashes:
    total = start
    with np.errstate(over="ignore"):
        for part in parts:
            total = (total ^ part) * np.uint64(0x9E3779B97F4A7C15)
            total = (total ^ (total >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            total = total ^ (total >> np.uint64(32))
    return np.asarray(total)
