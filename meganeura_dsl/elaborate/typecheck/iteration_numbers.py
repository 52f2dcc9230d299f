"""Integers and conditions that differ by iteration of a scan, as tensors of no axes.

The index of a scan is a symbol that the prover knows, and in the graph an i32.
"""

from functools import reduce
from typing import assert_never

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_condition
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.ops.primitive.elementwise import Relation
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Flag, Not, Or
from meganeura_dsl.symbolic.polynomial import Atom, as_size, terms_of
from meganeura_dsl.symbolic.size import Dim, Size

_KINDS: dict[str, Relation] = {
    "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip


def lifted(frame: Frame, span: Span, value: ElabValue) -> ElabValue:
    """A number or condition of an iteration as a tensor; anything else as it is."""
    if not frame.state.differs_by_iteration(value):
        return value
    if isinstance(value, Dim):
        return number(frame, span, value)
    assert is_condition(value)
    return _truth(frame, span, value)


def number(frame: Frame, span: Span, size: Size) -> Tensor:
    """A whole number as an i32[]."""
    fixed: Size = 0
    terms: list[Tensor] = []
    for monomial, coefficient in terms_of(size).items():
        factor: Size = coefficient
        indices: list[OpenScan] = []
        for atom in monomial:
            scan = _scan_of(frame, span, atom)
            if scan is None:
                factor = factor * as_size(atom)
            else:
                indices.append(scan)
        if not indices:
            fixed = fixed + factor
            continue
        factors = [_index(frame, span, scan) for scan in indices]
        if factor != 1:
            factors.append(_constant(frame, span, factor))
        terms.append(reduce(lambda a, b: frame.add(span, ops.Mul(), a, b), factors))
    if fixed != 0 or not terms:
        terms.append(_constant(frame, span, fixed))
    return reduce(lambda a, b: frame.add(span, ops.Add(), a, b), terms)


def _scan_of(frame: Frame, span: Span, atom: Atom) -> OpenScan | None:
    """The scan whose index a factor is."""
    scans = frame.state.scans
    if isinstance(atom, str):
        return scans.get(atom)
    if not atom.variables().isdisjoint(scans):
        cure = "divide as real numbers: `floor(f32(t) / 2)`"
        raise ProblemError(DiffersByIteration(frame.location(span), f"the quotient `{atom}`", cure))
    return None


def _index(frame: Frame, span: Span, scan: OpenScan) -> Tensor:
    time = scan.region.time
    if scan.start == 0:
        return time
    return frame.add(span, ops.Add(), time, number(frame, span, scan.start))


def _constant(frame: Frame, span: Span, size: Size) -> Tensor:
    return frame.add(span, ops.Constant(size, DType.I32))


def _truth(frame: Frame, span: Span, condition: Condition) -> Tensor:
    match condition:
        case bool() | Flag():
            return frame.add(span, ops.Constant(condition is not False, DType.BOOL))
        case Compare(operator=operator, left=left, right=right):
            sides = number(frame, span, left), number(frame, span, right)
            return frame.add(span, ops.Compare(_KINDS[operator]), *sides)
        case Not(part=part):
            return frame.add(
                span, ops.Where(), _truth(frame, span, part), *_both(frame, span)[::-1]
            )
        case And(parts=parts):
            yes, no = _both(frame, span)
            return reduce(
                lambda a, b: frame.add(span, ops.Where(), a, b, no),
                [_truth(frame, span, part) for part in parts] or [yes],
            )
        case Or(parts=parts):
            yes, no = _both(frame, span)
            return reduce(
                lambda a, b: frame.add(span, ops.Where(), a, yes, b),
                [_truth(frame, span, part) for part in parts] or [no],
            )
        case _:
            assert_never(condition)


def _both(frame: Frame, span: Span) -> tuple[Tensor, Tensor]:
    yes, no = (frame.add(span, ops.Constant(value, DType.BOOL)) for value in (True, False))
    return yes, no
