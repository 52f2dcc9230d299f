"""Notes on values that depend on more or on less than is meant: examples, a cache, a graph."""

import re
from collections.abc import Iterator

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.meaning_notes import (
    BackToItself,
    CacheFromStart,
    ComparedWithItself,
    MeaningNote,
    OtherExamples,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.typecheck import value_origins as origins
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.ops.primitive.elementwise import Binary, Unary
from meganeura_dsl.symbolic.size import show

_MOST = 200
"""Values that are followed back."""
_MOVES = (ops.Reshape, ops.Transpose, ops.Broadcast, ops.Slice, ops.Cast)
_POSITION = re.compile(r"update [^=]*?\b(\w+):\1 \+")
"""The position of an update `ks[:, :, position:position + s]`."""


def of_quotient(frame: Frame, value: Tensor, examples: str) -> Iterator[MeaningNote]:
    """The note on a value that is divided by a sum over the examples of a batch.

    The sum counts a mask, or is of the squares of the value itself.
    """
    left, right = value.operands
    if not examples or not left.type.rank or show(left.type.shape[0]) != examples:
        return
    summed = _sum_beneath(right)
    span = None if summed is None else summed.origin.span
    if summed is None or span is None or 0 not in _axes(summed):
        return
    (source,) = summed.operands
    if show(source.type.shape[0]) != examples:
        return
    rank, call = source.type.rank, " ".join(span.text.split())
    others = ", ".join(map(str, range(1, rank)))
    if len(_axes(summed)) == rank > 1 and origins.is_mask(source):
        counted = re.fullmatch(r"sum\((.+)\)", call)
        yield OtherExamples(
            frame.location(span),
            f"this counts over the whole batch, and divides a value of each of `{examples}`",
            f"of [{', '.join(origins.shown(source))}] no axis is left",
            Help(
                "count for each example, and repeat the counts along the other axes",
                f"sum({counted[1]}, {others})" if counted else None,
            ),
        )
    elif _axes(summed) == (0,) and rank > 1 and _is_norm(source, left):
        along = re.sub(r", *(?:axis=)?0\)$", f", {rank - 1})", call)
        yield OtherExamples(
            frame.location(span),
            f"this norm is over `{examples}`, which counts examples",
            f"of [{', '.join(origins.shown(source))}] axis 0 is reduced",
            Help("over the numbers of each example", along if along != call else None),
        )


def of_attention(frame: Frame, applied: Applied, block: str) -> Iterator[MeaningNote]:
    """The note on queries that are not told their position among the entries of a cache."""
    keys = applied.operands[1] if len(applied.operands) > 1 else None
    call = " ".join(applied.span.text.split())
    if keys is None or len(applied.operands) < 3 or re.search(r"\b(?:offset|mask|bias)\s*=", call):
        return
    queries = applied.operands[0]
    if _update_beneath(keys) is None or queries.type.shape[2] == keys.type.shape[2]:
        return
    position = _POSITION.search(block)
    name = position[1] if position is not None else "position"
    is_causal = applied.config.get("causal") is True
    yield CacheFromStart(
        frame.location(applied.span),
        "these queries see the first entries of the cache, not those up to their own position"
        if is_causal
        else "these queries see all entries of the cache, written or not",
        f"the cache is written at `{name}`, and of {show(keys.type.shape[2])} entries",
        Help(
            "say where the queries begin",
            f"{_open(call)}, {'' if 'causal' in call else 'causal=true, '}offset={name})",
        ),
    )


def of_scatter(frame: Frame, value: Tensor, block: str) -> Iterator[MeaningNote]:
    """The note on messages that are added up by the ids by which they were gathered.

    None unless the block is given other ids of their type: an edge has two ends.
    """
    ids, updates = value.operands[:2]
    gathered = list(_gathers(updates))
    span = value.origin.span
    if span is None or not gathered or any(each.operands[1] is not ids for each in gathered):
        return
    if not isinstance(ids.op, ops.Input):
        return
    name, inputs = ids.op.name, re.findall(r"\b(\w+): (i32\[[^\]]*\])", block)
    types = dict[str, str](inputs)
    other = next((each for each in types if each != name and types[each] == types.get(name)), "")
    if not other:
        return
    call = " ".join(span.text.split())
    yield BackToItself(
        frame.location(span),
        f"what was gathered by `{name}` is added up by `{name}` again",
        "each row gets its own values back, as often as its id stands there",
        Help(
            "gather by the ids where an edge begins, and add up by those where it ends",
            re.sub(rf"\b{name}\b", other, call, count=1),
        ),
    )


def of_comparison(frame: Frame, value: Tensor) -> Iterator[MeaningNote]:
    """The note on a comparison of a value with itself.

    None for `x == x` and `x != x` of floats, which tell what is NaN.
    """
    assert isinstance(value.op, ops.Compare)
    left, right = value.operands
    kind, span = value.op.kind, value.origin.span
    is_of_nan = left.type.dtype.is_float and kind in ("eq", "ne")
    if span is None or is_of_nan or not _is_same(left, right, _DEEP):
        return
    always = "true" if kind in ("eq", "le", "ge") else "false"
    inserted = re.fullmatch(r"insert_axis\((.*), (\d+), ([^,]*)\)", _written(left))
    code = None
    if inserted is not None:
        place = int(inserted[2])
        other = place + 1 if place + 1 < left.type.rank else place - 1
        code = f"insert_axis({inserted[1]}, {other}, {inserted[3]})"
    yield ComparedWithItself(
        frame.location(span),
        f"both sides of `{span.text}` are the same, so it is {always} everywhere",
        f"each is {_written(left)}"
        if _written(left)[:1].isalpha()
        else "both are computed in the same way",
        Help("to compare all pairs, one side has its axis at another place", code)
        if code is not None
        else Help("compare it with another value"),
    )


_DEEP = 8
"""Operations that are followed to see that two values are computed in the same way."""


def _is_same(one: Tensor, other: Tensor, deep: int) -> bool:
    """True if two values are one, or are computed by the same operations from the same values."""
    if one is other:
        return True
    is_made = bool(one.operands) or isinstance(one.op, ops.Iota)
    if not deep or not is_made or one.op != other.op or len(one.operands) != len(other.operands):
        return False
    if isinstance(one.op, ops.RandomBits):
        return False
    pairs = zip(one.operands, other.operands, strict=True)
    return all(_is_same(*pair, deep - 1) for pair in pairs)


def _written(value: Tensor) -> str:
    """A value in one line, as it is written."""
    return "" if value.origin.span is None else " ".join(value.origin.span.text.split())


def _open(call: str) -> str:
    """A call without its last bracket."""
    return call.removesuffix(")")


def _axes(summed: Tensor) -> tuple[int, ...]:
    assert isinstance(summed.op, ops.Sum)
    return summed.op.axes


def _sum_beneath(value: Tensor) -> Tensor | None:
    """The sum that a divisor is: its root, bounded, shifted by a number, repeated."""
    for _ in range(_MOST):
        if isinstance(value.op, ops.Sum):
            return value
        if not isinstance(value.op, (Unary, Binary, *_MOVES)):
            return None
        rest = [each for each in value.operands if not _is_constant(each)]
        if len(rest) != 1:
            return None
        value = rest[0]
    return None


def _is_constant(value: Tensor) -> bool:
    while isinstance(value.op, _MOVES):
        value = value.operands[0]
    return isinstance(value.op, ops.Constant)


def _is_norm(value: Tensor, of: Tensor) -> bool:
    """True if a value is the square of another one, which is not centered along its first axis."""
    is_square = isinstance(value.op, ops.Mul) and all(each is of for each in value.operands)
    return is_square and not any(
        isinstance(each.op, ops.Sum) and 0 in each.op.axes for each in _made_of(of)
    )


def _update_beneath(value: Tensor) -> Tensor | None:
    """The cache that a value is, after it was written at a position; None for others."""
    while isinstance(value.op, _MOVES):
        value = value.operands[0]
    if not isinstance(value.op, ops.DynamicUpdate):
        return None
    cache = value.operands[0]
    is_cache = isinstance(cache.op, ops.Parameter) and cache.op.kind == "cache"
    return value if is_cache else None


def _gathers(value: Tensor) -> Iterator[Tensor]:
    return (each for each in _made_of(value) if isinstance(each.op, ops.Gather))


def _made_of(value: Tensor) -> Iterator[Tensor]:
    """A value and what it was computed from, within the ops that are followed."""
    rest, seen = [value], set[int]()
    while rest and len(seen) < _MOST:
        value = rest.pop()
        if value.id not in seen:
            seen.add(value.id)
            rest.extend(value.operands)
            yield value
