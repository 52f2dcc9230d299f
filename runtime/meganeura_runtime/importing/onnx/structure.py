"""Runs of statements that repeat, as a block applied in a loop.

A run repeats if its iterations differ in one index of the paths of their parameters and in what
they are given by the iteration before, and in nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meganeura_runtime.importing.onnx.code import (
    Code,
    Declared,
    LabelPath,
    Piece,
    Ref,
    Statement,
    Tensor,
    Words,
    with_operands,
)

MOST_STATEMENTS = 6000
"""The most statements of a program in which repetitions are looked for."""
FEWEST = 3
"""Statements of an iteration that is worth a block."""


@dataclass(frozen=True)
class Repeat:
    """A block that is applied once for each index, to what the one before it gave."""

    prefix: Words
    """The path of all, before the index."""
    first: int
    count: int
    starts: tuple[int, ...]
    """The carried values, before the first iteration."""
    results: tuple[Tensor, ...]
    """The carried values, after the last iteration."""
    shared: tuple[int, ...]
    """The values that all iterations read."""
    body: "Body"
    """One iteration, with index `first + 1`."""
    inputs: tuple[Tensor, ...]
    """The inputs of the block: the carried values, then the shared ones."""
    size: int
    """The statements of an iteration."""

    @property
    def cost(self) -> tuple[int, int, int]:
        """The cost of this choice among several that begin at different statements."""
        return -self.count, len(self.starts), len(self.shared)

    @property
    def path(self) -> Words:
        """The path of the iteration that is the body."""
        return (*self.prefix, self.first + 1)


@dataclass(frozen=True)
class Body:
    """Statements and repetitions in order, and what they return."""

    steps: Sequence[Statement | Repeat]
    results: tuple[int, ...]


def straight(statements: Sequence[Statement], results: Sequence[int]) -> Body:
    """The statements that results need, in order."""
    needed = set(results)
    kept: list[Statement] = []
    for each in reversed(statements):
        if any(result.id in needed for result in each.results):
            needed.update(each.operands)
            kept.append(each)
    return Body(kept[::-1], tuple(results))


def folded_loops(body: Body, inputs: Sequence[Tensor]) -> Body:
    """The body with its repetitions as loops, those within iterations included."""
    first, rest = _hoisted([each for each in body.steps if isinstance(each, Statement)])
    if len(first) + len(rest) > MOST_STATEMENTS:
        return body
    statements, results = _merged(first, rest, body.results)
    tensors = {each.id: each for each in inputs}
    tensors.update((each.id, each) for one in statements for each in one.results)
    steps: list[Statement | Repeat] = []
    at = 0
    repeats = _repeats(statements, results, tensors)
    if not repeats:
        return body
    for start, repeat in repeats:
        steps += [*statements[at:start], repeat]
        at = start + repeat.size * repeat.count
    return Body([*steps, *statements[at:]], results)


def _hoisted(statements: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Splits off statements that depend on no weights, such as a mask that iterations share."""
    reads = Counter(value for each in statements for value in each.operands)
    after: set[int] = set()
    first: list[Statement] = []
    rest: list[Statement] = []
    for each in statements:
        is_constant = _is_shared(each, reads)
        has_weights = any(True for _ in _paths(each)) and not is_constant
        is_free = not has_weights and after.isdisjoint(each.operands)
        (first if is_free else rest).append(each)
        if not is_free:
            after.update(result.id for result in each.results)
    return first, rest


def _merged(
    first: Sequence[Statement], rest: Sequence[Statement], results: Sequence[int]
) -> tuple[list[Statement], tuple[int, ...]]:
    """Merges statements that depend on no weights and are equal in each iteration."""
    known: dict[object, Statement] = {}
    others: dict[int, int] = {}
    merged: list[Statement] = []
    for each in first:
        code = with_operands(each.code, others)
        of = tuple((result.dtype, result.shape) for result in each.results)
        same = known.get((code, of))
        is_fixed = isinstance(code, Code) and code.is_named
        if same is None or is_fixed:
            merged.append(replace(each, code=code))
            known[code, of] = merged[-1]
        else:
            pairs = zip(each.results, same.results, strict=True)
            others.update((one.id, other.id) for one, other in pairs)
    if others:
        merged += [replace(each, code=with_operands(each.code, others)) for each in rest]
        return merged, tuple(others.get(each, each) for each in results)
    return [*merged, *rest], tuple(results)


def _is_shared(statement: Statement, reads: Counter[int]) -> bool:
    """True if a parameter belongs to no iteration: it has no index, or is read several times."""
    code = statement.code
    if not isinstance(code, Declared) or code.kind == "param":
        return False
    is_one = not any(isinstance(word, int) for word in code.words)
    return is_one or any(reads[each.id] > 1 for each in statement.results)


def _repeats(
    statements: Sequence[Statement], results: Sequence[int], tensors: dict[int, Tensor]
) -> list[tuple[int, Repeat]]:
    """Repetitions that do not overlap, the longest first, in the order they stand in."""
    found: list[tuple[int, Repeat]] = []
    taken = np.zeros(len(statements), bool)
    for start, period, length in _candidates(statements):
        rotations: list[tuple[int, Repeat]] = []
        for first in range(start, start + min(period, length - 2 * period + 1)):
            most = (start + length - first) // period
            for rounds in range(most, max(most - 2, 1), -1):
                if taken[first : first + period * rounds].any():
                    continue
                repeat = _verified(statements, first, period, rounds, results, tensors)
                if repeat is not None:
                    rotations.append((first, repeat))
                    break
        if rotations:
            first, best = min(rotations, key=lambda each: each[1].cost)
            taken[first : first + best.size * best.count] = True
            found.append((first, best))
    return sorted(found, key=lambda each: each[0])


def _candidates(statements: Sequence[Statement]) -> list[tuple[int, int, int]]:
    """Returns start, period and length of possible runs, the most promising first."""
    numbers: dict[object, int] = {}
    keys = np.array([numbers.setdefault(_form(each), len(numbers)) for each in statements])
    found: list[tuple[int, int, int]] = []
    for period in range(FEWEST, len(keys) // 2 + 1):
        same = np.concatenate([[False], keys[:-period] == keys[period:], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - start >= period:
                found.append((start, period, end - start + period))
    return sorted(found, key=lambda each: (each[1] - each[2], each[1], each[0]))[:200]


def _form(statement: Statement) -> object:
    """Returns a key that is equal for statements that differ in values and indices alone."""

    def form(piece: Piece) -> object:
        match piece:
            case Ref(_, level):
                return level
            case LabelPath(words):
                return tuple("#" if isinstance(word, int) else word for word in words)
            case _:
                return piece

    kind = type(statement.code).__name__
    types = tuple((each.dtype, each.shape) for each in statement.results)
    return kind, types, tuple(map(form, statement.pieces))


class _DiffersError(Exception):
    """Iterations differ in more than their index."""


def _verified(
    statements: Sequence[Statement], first: int, period: int, count: int,
    results: Sequence[int], tensors: dict[int, Tensor],
) -> Repeat | None:  # fmt: skip
    end = first + period * count
    where = {
        value.id: (index - first, at)
        for index in range(first, end)
        for at, value in enumerate(statements[index].results)
    }
    try:
        starts, shared = _flow(statements, first, period, count, where)
        prefix, base = _index(statements, first, period, count)
    except _DiffersError:
        return None
    carried = list(starts)

    def value(round_: int, position: tuple[int, int]) -> Tensor:
        return statements[first + round_ * period + position[0]].results[position[1]]

    leaving = [*results, *(each for one in statements[end:] for each in one.operands)]
    last = {value(count - 1, position).id for position in carried}
    if any(each in where and each not in last for each in leaving) or not carried:
        return None
    given = [tensors.get(starts[position]) for position in carried]
    known = [tensors.get(each) for each in shared]
    if None in given or None in known:
        return None
    if any(
        each is None or each.type != value(0, position).type
        for each, position in zip(given, carried, strict=True)
    ):
        return None
    body = statements[first + period : first + 2 * period]
    inputs = (*(value(0, position) for position in carried), *(each for each in known if each))
    inner = straight(body, [value(1, position).id for position in carried])
    return Repeat(
        prefix, base, count, tuple(starts[position] for position in carried),
        tuple(value(count - 1, position) for position in carried), tuple(shared),
        folded_loops(inner, inputs), inputs, period,
    )  # fmt: skip


def _flow(
    statements: Sequence[Statement], first: int, period: int, count: int,
    where: dict[int, tuple[int, int]],
) -> tuple[dict[tuple[int, int], int], list[int]]:  # fmt: skip
    """Returns each carried value before the first iteration, and the values that all read."""
    starts: dict[tuple[int, int], int] = {}
    shared: dict[int, None] = {}
    for offset in range(period):
        rounds = [list(statements[first + r * period + offset].operands) for r in range(count)]
        for operands in zip(*rounds, strict=True):
            kinds = [_kind(each, r, period, where) for r, each in enumerate(operands)]
            if any(kind != kinds[1] for kind in kinds[2:]):
                raise _DiffersError
            if kinds[1][0] == "carried":
                if kinds[0][0] != "outside":
                    raise _DiffersError
                position = kinds[1][1], kinds[1][2]
                if starts.setdefault(position, operands[0]) != operands[0]:
                    raise _DiffersError
            elif kinds[0] != kinds[1]:
                raise _DiffersError
            elif kinds[1][0] == "outside":
                shared[operands[0]] = None
    return starts, list(shared)


def _kind(
    value: int, round_: int, period: int, where: dict[int, tuple[int, int]]
) -> tuple[str, int, int]:
    """Returns the source of an iteration's operand."""
    if value not in where:
        return "outside", value, 0
    index, at = where[value]
    built, offset = divmod(index, period)
    if built == round_:
        return "own", offset, at
    if built == round_ - 1:
        return "carried", offset, at
    raise _DiffersError


def _index(
    statements: Sequence[Statement], first: int, period: int, count: int
) -> tuple[Words, int]:
    """The path before the one index in which all iterations differ, and the first index."""
    found: set[tuple[Words, int]] = set()
    for offset in range(period):
        rounds = [list(_paths(statements[first + r * period + offset])) for r in range(count)]
        for paths in zip(*rounds, strict=True):
            found.add(_step(paths))
    if len(found) != 1:
        raise _DiffersError
    return found.pop()


def _step(paths: Sequence[Words]) -> tuple[Words, int]:
    """Returns the position where paths count up, iteration by iteration, and the first number."""
    for at, word in enumerate(paths[0]):
        if not isinstance(word, int) or paths[1][at] == word:
            continue
        expected = [(*paths[0][:at], word + r, *paths[0][at + 1 :]) for r in range(len(paths))]
        if list(paths) != expected:
            raise _DiffersError
        return paths[0][:at], word
    raise _DiffersError


def _paths(statement: Statement) -> Iterator[Words]:
    yield from (piece.words for piece in statement.pieces if isinstance(piece, LabelPath))
