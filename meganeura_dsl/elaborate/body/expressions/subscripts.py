"""Subscripts: items of lists, and parts of tensors such as `x[1:]`."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.scan_reads import innermost_of, iteration_part
from meganeura_dsl.elaborate.body.expressions.tensor_parts import Part, entries_of_axes, take_part
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.part_cures import longer_part
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.problems.shape_problems import RankMismatch
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.expected_kinds import wrong_kind
from meganeura_dsl.elaborate.typecheck.positions import POSITION
from meganeura_dsl.elaborate.typecheck.tensor_values import require_fit, scalar
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    Tensor,
    TensorList,
    describe,
    is_number,
    is_size,
    is_tensor,
)
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_dsl.syntax import ast


def evaluate_subscript(node: ast.Subscript, frame: Frame) -> ElabValue:
    """The value of `x[i]`: an item of a list, or a part of a tensor."""
    base = frame.evaluate(node.base)
    if is_tensor(base):
        return _part(node, base, frame)
    if isinstance(base, Dim) and isinstance(frame.declaration, ast.Block):
        raise UndecidableError(f"`{node.base.span.text}` is a list the configuration gives")
    if not isinstance(base, list | Axes | TensorList):
        raise wrong_kind(frame, node.base.span, "a list or a tensor", base)
    items = base.items if isinstance(base, TensorList) else base
    if len(node.entries) != 1:
        raise ProblemError(
            WrongKind(frame.location(node.span), "one index", f"{len(node.entries)} of them")
        )
    entry = node.entries[0]
    if isinstance(entry, ast.EllipsisEntry):
        raise ProblemError(WrongKind(frame.location(entry.span), "an index", "all axes"))
    if isinstance(entry, ast.Range):
        start = 0 if entry.start is None else _index(entry.start, frame)
        stop = len(items) if entry.stop is None else _index(entry.stop, frame)
        spend(len(items))
        if isinstance(base, TensorList):
            return TensorList(base.items[start:stop])
        return list(base)[start:stop]
    index = _index(entry, frame)
    if not -len(items) <= index < len(items):
        what, cure = f"an index of a list of {len(items)}", _within(node, entry, len(items))
        raise ProblemError(WrongKind(frame.location(entry.span), what, f"{index}", cure))
    return items[index]


def _within(node: ast.Subscript, entry: ast.Expression, count: int) -> Help:
    """The loop over as many iterations as a list has entries, if its index is that of a loop."""
    name, written = " ".join(node.base.span.text.split()), entry.span.text
    if not count:
        return Help(f"`{name}` is empty")
    there = f"`{name}` has {count} entries, of the indices 0 to {count - 1}"
    if habits.loop_around(entry.span) != written:
        return Help(there)
    return Help(f"{there}: let the loop end with it", f"for {written} in 0..len({name}):")


def _index(node: ast.Expression, frame: Frame) -> int:
    value = frame.evaluate(node)
    if frame.state.differs_by_iteration(value):
        raise ProblemError(DiffersByIteration(frame.location(node.span), "which item this is"))
    if isinstance(value, Dim):
        raise UndecidableError(f"`{node.span.text}` is an index the configuration gives")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProblemError(WrongKind(frame.location(node.span), "an index", describe(value)))
    return value


def _part(node: ast.Subscript, base: Tensor, frame: Frame) -> Tensor:
    """A part of a tensor: first along the axes where it is the same in all iterations of a scan."""
    of_axes = entries_of_axes(frame, node.span, node.entries, base.type.rank)
    of_iteration = {
        axis: innermost
        for axis, entry in enumerate(of_axes)
        if frame.state.scans and (innermost := innermost_of(entry, frame))
    }
    entries = list(of_axes)
    for axis in of_iteration:
        entries[axis] = ast.Range(entries[axis].span, None, None)
    result = take_part(frame, node.span, base, part_of(node.span, entries, base, frame))
    for axis in sorted(
        of_iteration, key=of_iteration.__getitem__
    ):  # a scan slices what is around it
        at = sum(isinstance(each, ast.Range) for each in entries[:axis])
        result = iteration_part(result, at, of_axes[axis], frame)
        entries[axis] = of_axes[axis]
    return result


def part_of(span: Span, subscripts: Sequence[ast.Entry], base: Tensor, frame: Frame) -> Part:
    """Returns the start and the size of a part of a tensor, from its subscripts."""
    rank = base.type.rank
    entries = entries_of_axes(frame, span, subscripts, rank)
    if len(entries) > rank:
        found = f"{len(entries)} subscripts"
        wanted = f"at most {rank} subscripts"
        raise ProblemError(RankMismatch(frame.location(span), f"{base.type}", wanted, found))
    part = Part(base.type.shape)
    for axis, entry in enumerate(entries):
        size = base.type.shape[axis]
        if isinstance(entry, ast.Range):
            start = 0 if entry.start is None else _bound(entry.start, size, frame)
            stop = size if entry.stop is None else _bound(entry.stop, size, frame)
            part = part.between(frame, entry.span, axis, start, stop)
        else:
            part = part.entry(frame, entry.span, axis, _bound(entry, size, frame, (span, base)))
    return part


def value_of_part(
    node: ast.Expression,
    name: str,
    written: TensorType,
    frame: Frame,
    entries: Sequence[ast.Entry] = (),
) -> Tensor:
    """Returns the tensor that replaces a part of this type of `name`; a number fills the part.

    `entries` are the subscripts of the part, for messages.
    """
    given = frame.evaluate(node)
    if is_number(given) and not is_tensor(given):
        return scalar(frame, node.span, given, written.dtype, written.shape)
    if not is_tensor(given):
        location = frame.location(node.span)
        raise ProblemError(WrongKind(location, "a tensor or a number", describe(given)))
    texts = [each.span.text for each in entries]
    cure = longer_part(name, texts, written, given.type)
    require_fit(frame, node.span, f"{name}[...]", written, given, cure)
    return given


def _bound(
    node: ast.Expression, size: Size, frame: Frame, of: tuple[Span, Tensor] | None = None
) -> Size | Tensor:
    """Returns the start or end of a part; `of` is the part and its tensor, for messages."""
    bound = frame.evaluate(node)
    if is_tensor(bound) and bound.type == POSITION:
        return bound
    if not is_size(bound):
        found = describe(bound)
        cure = habits.of_subscript(of[0], node.span.text, bound, of[1]) if of else None
        raise ProblemError(WrongKind(frame.location(node.span), "a size", found, cure or ""))
    return size + bound if _is_negative(bound, frame) else bound


def _is_negative(bound: Size, frame: Frame) -> bool:
    """True if a position counts from the end: a number below 0, or configuration that is one."""
    if isinstance(bound, int):
        return bound < 0
    proof = frame.state.proof
    if proof is None or proof.whole_numbers.isdisjoint(bound.variables()):
        return False
    return frame.facts.proves(Compare("<", bound, 0))
