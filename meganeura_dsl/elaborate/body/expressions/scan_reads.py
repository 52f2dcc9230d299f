"""Reads inside an iteration of a scan: of names, numbers, and parts of tensors."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.tensor_parts import require_within
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted, number
from meganeura_dsl.elaborate.typecheck.tensor_values import broadcast
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_condition, is_size, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast


def note_read(frame: Frame, name: str, value: ElabValue) -> None:
    """Remember that an iteration reads what a name was at its start."""
    for scan in frame.state.scans.values():
        if scan.is_at_start(name, value):
            scan.read.add(name)


def lifted_operand(frame: Frame, node: ast.Binary, side: ElabValue, other: ElabValue) -> ElabValue:
    """A side of an operator; as a tensor if it is a number of an iteration and no size results."""
    if not frame.state.differs_by_iteration(side) or is_tensor(other):
        return side
    if is_size(side) and is_size(other) and node.operator not in ("/", "**"):
        return side
    if is_condition(side) and is_condition(other):
        return side
    return lifted(frame, node.span, side)


def speaks_of_iteration(entry: ast.Entry, frame: Frame) -> bool:
    """True if a subscript differs from iteration to iteration."""
    return innermost_of(entry, frame) > 0


def innermost_of(entry: ast.Entry, frame: Frame) -> int:
    """Returns the number, from 1, of the innermost open scan that a subscript uses; 0 for none."""
    match entry:
        case ast.EllipsisEntry():
            ends = ()
        case ast.Range(start=start, stop=stop):
            ends = (start, stop)
        case _:
            ends = (entry,)
    values = [frame.evaluate(end) for end in ends if end is not None]
    sizes = {name for each in values if isinstance(each, Dim) for name in each.variables()}
    return max((at for at, name in enumerate(frame.state.scans, 1) if name in sizes), default=0)


def iteration_part(base: Tensor, axis: int, entry: ast.AxisEntry, frame: Frame) -> Tensor:
    """The entry of an axis, or the entries, at a place that differs from iteration to iteration."""
    along = base.type.shape[axis]
    if not isinstance(entry, ast.Range):
        at = evaluate_size(entry, frame)
        require_within(frame, entry.span, axis, base.type.shape, (at, at + 1), is_entry=True)
        return _entry(base, axis, at, frame, entry.span)
    start = 0 if entry.start is None else evaluate_size(entry.start, frame)
    stop = along if entry.stop is None else evaluate_size(entry.stop, frame)
    if frame.state.differs_by_iteration(stop - start):
        what = f"the size `{show(stop - start)}` of this part"
        raise ProblemError(DiffersByIteration(frame.location(entry.span), what))
    require_within(frame, entry.span, axis, base.type.shape, (start, stop))
    count = frame.add(entry.span, ops.Iota(stop - start))
    first = broadcast(frame, entry.span, number(frame, entry.span, start), count.type.shape, ())
    ids = frame.add(entry.span, ops.Add(), first, count)
    return frame.add(entry.span, ops.Gather(axis), base, ids)


def _entry(base: Tensor, axis: int, at: Size, frame: Frame, span: Span) -> Tensor:
    """One entry: the iteration's slice if each reads its own, in order or in reverse."""
    scan = _scan_alone(frame, at)
    scans = list(frame.state.scans.values())
    if scan is None or any(each.region.depends(base) for each in scans[scans.index(scan) :]):
        return frame.add(span, ops.Gather(axis), base, number(frame, span, at))
    assert isinstance(at, Dim)
    share, rest = at.split(str(scan.index))
    if share not in (1, -1) or scan.is_empty:
        return frame.add(span, ops.Gather(axis), base, number(frame, span, at))
    last = scan.stop - 1
    low = rest + scan.start if share == 1 else rest - last
    shape = base.type.shape
    starts = tuple(low if each == axis else 0 for each in range(len(shape)))
    stops = tuple(low + scan.iterations if each == axis else n for each, n in enumerate(shape))
    if low != 0 or stops[axis] != shape[axis]:
        base = frame.add(span, ops.Slice(starts, stops, (1,) * len(shape)), base)
    return scan.region.slice(base, axis, backward=share == -1)


def _scan_alone(frame: Frame, at: Size) -> OpenScan | None:
    """The scan whose index, and no other, a place speaks of outside of quotients."""
    if not isinstance(at, Dim) or any(
        frame.state.differs_by_iteration(part)
        for floor in at.floors()
        for part in (floor.numerator, floor.denominator)
    ):
        return None
    known = [scan for name, scan in frame.state.scans.items() if name in at.variables()]
    return known[0] if len(known) == 1 else None
