"""Slices that the iterations of a `scan` write, each its own, of a tensor that all of them make."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.expressions.scan_reads import speaks_of_iteration
from meganeura_dsl.elaborate.body.expressions.subscripts import value_of_part
from meganeura_dsl.elaborate.body.expressions.tensor_parts import entries_of_axes
from meganeura_dsl.elaborate.body.statements.scan_names import chosen
from meganeura_dsl.elaborate.problems.scan_problems import (
    WronglyCollected,
)
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.gradient_names import bound_value
from meganeura_dsl.elaborate.scope.named_values import note_value
from meganeura_dsl.elaborate.scope.open_scan import OpenScan, Written
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size, evaluate_tensor
from meganeura_dsl.elaborate.typecheck.tensor_values import broadcast, equal, scalar
from meganeura_dsl.elaborate.values import (
    Tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Proved
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast


def collects(statement: ast.Part, frame: Frame) -> bool:
    """Returns True if a part is collected: the slice of one iteration in a tensor that all write.

    It does if the name is not bound, and if the iterations write a tensor from before the scan
    whole and do nothing else with it. Otherwise the part is replaced in what the iteration finds.
    """
    scan, name = next(reversed(frame.state.scans.values()), None), statement.target.text
    if scan is None or scan.frame is not frame:
        return False
    return name not in frame.names or _is_rewritten(statement, frame, scan)


def _is_rewritten(statement: ast.Part, frame: Frame, scan: OpenScan) -> bool:
    """Returns whether the iterations write each slice of what they find once, and never read it."""
    name = statement.target.text
    if not scan.is_certain or name not in scan.named_once:
        return False
    if not scan.is_at_start(name, frame.names[name]):
        return False
    if not any(speaks_of_iteration(each, frame) for each in statement.entries):
        return False
    shape = scan.before[name].type.shape
    found = _slice_entry(frame, statement, len(shape))
    if found is None or not isinstance(equal(frame, shape[found[0]], scan.iterations), Proved):
        return False
    return _direction(frame, scan, evaluate_size(found[1], frame)) is not None


def write_part(statement: ast.Part, frame: Frame) -> None:
    """Collect the value of an iteration, as its slice of the collected value."""
    scan, name = next(reversed(frame.state.scans.values())), statement.target.text
    location = frame.location(statement.span)
    if name in scan.written:
        fault = f"an iteration writes `{name}` twice"
        raise ProblemError(WronglyCollected(location, fault, "the second time", begin_cure(name)))
    value = _slice_value(statement, frame, scan)
    found = _slice_entry(frame, statement, value.type.rank + 1)
    if found is None:
        fault = f"an iteration writes one slice of `{name}`"
        raise ProblemError(
            WronglyCollected(
                location, fault, "one entry is the slice, the others `:`", begin_cure(name)
            )
        )
    axis, entry = found
    if len(statement.entries) > value.type.rank + 1:
        wrong = f"{len(statement.entries)} entries for the slices of {value.type}"
        raise ProblemError(WronglyCollected(location, f"`{name}` has fewer axes", wrong))
    at = evaluate_size(entry, frame)
    backward = _direction(frame, scan, at)
    if backward is None:
        raise _not_in_order(statement, entry, frame, scan, at)
    scan.written[name] = Written(value, axis, backward, statement)
    frame.names.pop(name, None)


def begin_cure(name: str) -> Help:
    """Returns advice for iterations that do more with a tensor than to collect it."""
    words = "iterations replace any part of a tensor that is bound before the scan"
    return Help(words, f"{name} = zeros([...])")


def _slice_value(statement: ast.Part, frame: Frame, scan: OpenScan) -> Tensor:
    """Returns the slice of an iteration; one of a tensor from before the scan has its type."""
    name = statement.target.text
    if name not in frame.names:
        return evaluate_tensor(statement.value, frame)
    before = scan.before[name].type
    found = _slice_entry(frame, statement, before.rank)
    assert found is not None
    shape = (*before.shape[: found[0]], *before.shape[found[0] + 1 :])
    return value_of_part(statement.value, name, TensorType(before.dtype, shape), frame)


def _slice_entry(frame: Frame, statement: ast.Part, rank: int) -> tuple[int, ast.Expression] | None:
    """Returns the axis and the entry of the only slice that is written; None if it is not one."""
    entries = entries_of_axes(frame, statement.span, statement.entries, rank)
    at = [axis for axis, each in enumerate(entries) if not _is_all(each)]
    entry = entries[at[0]] if len(at) == 1 else None
    return None if entry is None or isinstance(entry, ast.Range) else (at[0], entry)


def _is_all(entry: ast.AxisEntry) -> bool:
    return isinstance(entry, ast.Range) and entry.start is None and entry.stop is None


def _direction(frame: Frame, scan: OpenScan, at: Size) -> bool | None:
    """Returns whether the slices are written from the last to the first; None if in no order."""
    if isinstance(equal(frame, at, scan.index - scan.start), Proved):
        return False
    return True if isinstance(equal(frame, at, scan.stop - 1 - scan.index), Proved) else None


def _not_in_order(
    statement: ast.Part, entry: ast.Expression, frame: Frame, scan: OpenScan, at: Size
) -> ProblemError:
    name, t = statement.target.text, scan.index
    first, last = t - scan.start, scan.stop - 1 - t
    cure = f"write slice {show(first)}, or {show(last)} to begin with the last"
    fault = f"not every slice of `{name}` is written once"
    share, rest = at.split(str(t)) if isinstance(at, Dim) else (0, at)
    if share == 1 and frame.facts.proves(Compare(">", rest + scan.start, 0)):
        fault = f"slice 0 of `{name}` is never written"
    found = f"{show(t)} runs from {show(scan.start)} to {show(scan.stop - 1)}"
    return ProblemError(WronglyCollected(frame.location(entry.span), fault, found, Help(cure)))


def bind_written(
    statement: ast.Scan, frame: Frame, scan: OpenScan, collected: tuple[Sequence[Tensor], bool]
) -> None:
    """Bind what was collected, in the order in which it was written."""
    given, backward = collected
    for (name, each), built in zip(scan.written.items(), given, strict=False):
        turned = each.backward is not backward
        result = _in_order(statement, frame, built, each.axis, turned=turned)
        if scan.goes_on is not None and name in scan.before:
            wrote = _in_order(statement, frame, given[-1], 0, turned=turned)
            whole = broadcast(frame, statement.span, wrote, result.type.shape, (each.axis,))
            result = frame.add(statement.span, ops.Where(), whole, result, scan.before[name])
        frame.names[name] = bound_value(frame, each.statement.target.span, name, result)
        note_value(frame, name, frame.names[name])
        if not frame.module.is_library:
            span = each.statement.target.span
            frame.state.body.bindings.append(Binding(span, name, frame.path, result.type))


def _in_order(
    statement: ast.Scan, frame: Frame, stack: Tensor, axis: int, *, turned: bool
) -> Tensor:
    """Returns the collected slices, reversed if the last was written first."""
    return frame.add(statement.span, ops.Reverse((axis,)), stack) if turned else stack


def collected_slice(frame: Frame, scan: OpenScan, written: Written) -> Tensor:
    """A slice that an iteration writes; 0 of an iteration that `while` left out."""
    if scan.goes_on is None:
        return written.value
    of, span = written.value.type, written.statement.span
    value = False if of.dtype is DType.BOOL else 0
    return chosen(frame, span, scan, written.value, scalar(frame, span, value, of.dtype, of.shape))
