"""Parts of tensors: read where they stand, or replaced; they may begin at numbers of the graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.part_cures import iterations_cure
from meganeura_dsl.elaborate.problems.proof_failures import example_of, helpful_fact
from meganeura_dsl.elaborate.problems.shape_cures import other_axis_cure
from meganeura_dsl.elaborate.problems.shape_problems import PartOfNoSize, PartOutside
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.iteration_numbers import number
from meganeura_dsl.elaborate.typecheck.positions import facts_about, position_of, symbols
from meganeura_dsl.elaborate.values import Tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.assumptions import Compare, Proved, show_condition
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast


def entries_of_axes(
    frame: Frame, span: Span, entries: Sequence[ast.Entry], rank: int
) -> tuple[ast.AxisEntry, ...]:
    """The entries of a subscript, each for an axis from the first: `...` is as many `:` as fit."""
    found: list[ast.AxisEntry] = []
    others = sum(not isinstance(entry, ast.EllipsisEntry) for entry in entries)
    if len(entries) - others > 1:
        problem = WrongKind(
            frame.location(span), "at most one `...`", f"{len(entries) - others} of them"
        )
        raise ProblemError(problem)
    for entry in entries:
        if isinstance(entry, ast.EllipsisEntry):
            found += [ast.Range(entry.span, None, None)] * (rank - others)
        else:
            found.append(entry)
    return tuple(found)


@dataclass(frozen=True)
class Part:
    """The begin and end of a part along each axis of a tensor.

    `computed_starts` are those that the graph computes; `dropped` are axes that an entry takes.
    """

    shape: Shape
    starts: tuple[Size, ...] = ()
    stops: tuple[Size, ...] = ()
    computed_starts: tuple[tuple[int, Tensor], ...] = ()
    dropped: frozenset[int] = field(default=frozenset())

    def entry(self, frame: Frame, span: Span, axis: int, at: Size | Tensor) -> "Part":
        """The part with one entry of the next axis, which it removes."""
        start = _known(frame, span, axis, self.shape[axis], at)
        part = self._with(frame, span, axis, (start, start + 1), at)
        return replace(part, dropped=self.dropped | {axis})

    def between(
        self, frame: Frame, span: Span, axis: int, start: Size | Tensor, stop: Size | Tensor
    ) -> "Part":
        """The part that has the entries of the next axis from one to another."""
        first, last = (_known(frame, span, axis, self.shape[axis], at) for at in (start, stop))
        length = last - first
        if isinstance(length, Dim) and length.variables() & symbols(frame):
            raise ProblemError(PartOfNoSize(frame.location(span), f"`{show(length)}`"))
        return self._with(frame, span, axis, (first, last), start)

    def _with(
        self, frame: Frame, span: Span, axis: int, ends: tuple[Size, Size], at: Size | Tensor
    ) -> "Part":
        start, stop = ends
        computed_starts = self.computed_starts
        if is_tensor(at):
            require_within(frame, span, axis, self.shape, ends)
            computed_starts = (*computed_starts, (axis, at))
        return replace(
            self,
            starts=(*self.starts, start),
            stops=(*self.stops, stop),
            computed_starts=computed_starts,
        )

    @property
    def whole(self) -> "Part":
        """The part with the axes behind the last subscript."""
        return replace(
            self,
            starts=(*self.starts, *(0 for _ in self.shape[len(self.starts) :])),
            stops=(*self.stops, *self.shape[len(self.stops) :]),
        )

    @property
    def sizes(self) -> Shape:
        """The size of the part along each axis, those that an entry removes included."""
        return tuple(stop - start for start, stop in zip(self.starts, self.stops, strict=True))

    def kept(self, shape: Shape) -> Shape:
        """The sizes of the axes that no entry takes."""
        return tuple(size for axis, size in enumerate(shape) if axis not in self.dropped)


def take_part(frame: Frame, span: Span, base: Tensor, part: Part) -> Tensor:
    """The part of a tensor."""
    part = part.whole
    result = base
    computed = {axis for axis, _ in part.computed_starts}
    starts = tuple(0 if axis in computed else at for axis, at in enumerate(part.starts))
    axes = zip(part.stops, part.shape, strict=True)
    stops = tuple(n if axis in computed else stop for axis, (stop, n) in enumerate(axes))
    if any(starts) or stops != base.type.shape:
        result = frame.add(span, ops.Slice(starts, stops, (1,) * base.type.rank), base)
    if part.computed_starts:
        at = _starts(frame, span, dict(part.computed_starts), base.type.rank)
        sizes = tuple(
            size if axis in computed else result.type.shape[axis]
            for axis, size in enumerate(part.sizes)
        )
        result = frame.add(span, ops.DynamicSlice(sizes), result, *at)
    if part.dropped:
        result = frame.add(span, ops.Reshape(part.kept(result.type.shape)), result)
    return result


def replace_part(frame: Frame, span: Span, base: Tensor, part: Part, value: Tensor) -> Tensor:
    """The tensor with a part of it replaced by a value, which has the shape of the part."""
    part = part.whole
    computed_starts = dict(part.computed_starts)
    for axis, ends in enumerate(zip(part.starts, part.stops, strict=True)):
        if axis not in computed_starts and ends != (0, part.shape[axis]):
            is_entry = axis in part.dropped
            require_within(frame, span, axis, part.shape, ends, is_entry=is_entry)
    if part.dropped:
        value = frame.add(span, ops.Reshape(part.sizes), value)
    for axis, start in enumerate(part.starts):
        if axis not in computed_starts and start != 0:
            computed_starts[axis] = number(frame, span, start)
    at = _starts(frame, span, computed_starts, base.type.rank)
    return frame.add(span, ops.DynamicUpdate(), base, value, *at)


def _starts(
    frame: Frame, span: Span, computed_starts: dict[int, Tensor], rank: int
) -> list[Tensor]:
    zero = frame.add(span, ops.Constant(0, DType.I32))
    return [computed_starts.get(axis, zero) for axis in range(rank)]


def _known(frame: Frame, span: Span, axis: int, size: Size, at: Size | Tensor) -> Size:
    """The number that an end of a part is; refused if nothing is known of it."""
    if isinstance(at, int | Dim):
        return at
    found = position_of(frame, at)
    if found is None:
        what = f"nothing is known of where it is, and axis {axis} has {show(size)}"
        given = at.op.name if isinstance(at.op, ops.Input) else ""
        fact = f"0 <= {given}" if given.isidentifier() else ""
        raise ProblemError(PartOutside(frame.location(span), what, None, fact))
    return found


def require_within(
    frame: Frame,
    span: Span,
    axis: int,
    shape: Shape,
    ends: tuple[Size, Size],
    *,
    is_entry: bool = False,
) -> None:
    """Refuse a part that may begin before an axis or end behind it."""
    start, stop = ends
    size = shape[axis]
    place = f"is entry {show(start)}" if is_entry else f"is from {show(start)} to {show(stop)}"
    for condition in (Compare(">=", start, 0), Compare("<=", stop, size)):
        facts = facts_about(frame, condition)
        verdict = facts.decide(condition)
        if isinstance(verdict, Proved):
            continue
        fact = helpful_fact(facts, condition)
        unstated = {*frame.state.values.symbol_ranges, *frame.state.scans}
        is_stated = fact is not None and sizes_in(fact).isdisjoint(unstated)
        fact_text = show_condition(fact) if fact is not None and is_stated else ""
        words = f"{place}, and axis {axis} has {show(size)}"
        shown = [("the part is", (start, stop)), ("of an axis of", (size,))]
        example = example_of(verdict, shown)
        rather = other_axis_of(frame, span, axis, shape, ends)
        for scan in () if rather or fact_text else frame.state.scans.values():
            rather = rather or iterations_cure(scan.index, (scan.start, scan.stop), ends, size)
        raise ProblemError(PartOutside(frame.location(span), words, example, fact_text, rather))


def other_axis_of(
    frame: Frame, span: Span, axis: int, shape: Shape, ends: tuple[Size, Size]
) -> Help | None:
    """Advice for a part that is not within its axis, and is within one other for every size."""
    start, stop = ends
    if not any(isinstance(end, Dim) for end in ends):
        return None

    def fits(size: Size) -> bool:
        conditions = (Compare(">=", start, 0), Compare("<=", stop, size))
        return all(isinstance(facts_about(frame, each).decide(each), Proved) for each in conditions)

    fitting = [at for at, size in enumerate(shape) if at != axis and fits(size)]
    return other_axis_cure(span.text, [show(size) for size in shape], fitting)
