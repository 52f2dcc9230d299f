"""Verdicts as text."""

from collections.abc import Iterator
from math import isfinite
from typing import assert_never

import numpy as np

from meganeura_dsl.gradcheck.cases import Case
from meganeura_dsl.gradcheck.finite_differences import SidedSlope, Slope
from meganeura_dsl.gradcheck.locate_fault import FaultyValue
from meganeura_dsl.gradcheck.verdicts import (
    Deviation,
    DividesByZero,
    Failed,
    Fault,
    NotFinite,
    Passed,
    RefusedAfterProof,
    Skipped,
    Verdict,
    WrongAtPoint,
    WrongGradient,
    WrongOnDevice,
)

INDENT = "  "
COARSE = "known to a thousandth"
"""Said of slopes where rounding is too large for more: none of them says how far it is off."""


def describe(verdict: Verdict) -> str:
    """A verdict as text: one line, or several with all that reproduces a fault."""
    match verdict:
        case Passed(name=name, examples=examples):
            return ", ".join([f"{name}: fine", f"{examples} examples", *_measured(verdict)])
        case Skipped(name=name, reason=reason):
            return f"{name}: not checked: {reason}"
        case Failed(name, case, fault):
            lines = [f"{name}: WRONG: {describe_fault(fault)}", *_reproducer(case)]
            return f"\n{INDENT}".join(lines)
        case _:
            assert_never(verdict)


def _measured(passed: Passed) -> Iterator[str]:
    if passed.slopes:
        yield f"{passed.slopes} slopes"
        yield f"off by at most {passed.worst:.0e}" if passed.worst else COARSE
    if passed.special:
        kinks = f" ({passed.kinks} at kinks)" if passed.kinks else ""
        yield f"{passed.special} at special points{kinks}"
    if passed.left_out:
        yield f"{passed.left_out} cases left out: an index was out of range"
    if passed.device is not None:
        yield _deviation(passed.device)


def _deviation(found: Deviation) -> str:
    if not found.largest or not found.difference:
        return f"on the device off by at most {found.difference:.1e} (`{found.name}`)"
    unit = found.largest * float(np.finfo(np.float32).eps)
    return (
        f"on the device off by at most {found.difference:.1e} (`{found.name}`: "
        f"{found.difference / unit:.2g} roundings of float32, allowed {found.allowed / unit:.2g})"
    )


def describe_fault(fault: Fault) -> str:
    """Returns the description of a fault, and the first value that is wrong."""
    return f"\n{INDENT}".join([_fault(fault), *_culprit(fault)])


def _fault(fault: Fault) -> str:
    match fault:
        case WrongGradient(slope=slope):
            return f"the gradient along {_slope(slope)}"
        case WrongAtPoint(slope=slope):
            return f"the gradient along {_sided(slope)}"
        case DividesByZero(report, fact):
            cure = f": state `where {fact}`, or let it return before" if fact else ""
            return f"the program divides by 0 for these sizes, which no proof is about{cure}"
        case WrongOnDevice(name, difference, allowed):
            return f"on the device, `{name}` is off by {difference:.3g}, allowed is {allowed:.3g}"
        case NotFinite(name=name):
            return f"the gradient of `{name}` is not finite, and the loss is"
        case RefusedAfterProof(report):
            return f"it is proved for all sizes, and refused for these: {report.headline}"
        case _:
            assert_never(fault)


def _sided(slope: SidedSlope) -> str:
    if slope.is_kink:
        low, high = sorted((slope.left, slope.right))
        sides = f"between {low:.6g} and {high:.6g}, the slopes on its two sides"
    else:
        sides = f"{(slope.left + slope.right) / 2:.6g} from both sides"
    return f"{slope.where} is {sides}; reverse mode says {slope.reverse:.6g}"


def _slope(slope: Slope | SidedSlope) -> str:
    if isinstance(slope, SidedSlope):
        return _sided(slope)
    return f"{slope.where} is {slope.differences:.6g}; reverse mode says {slope.reverse:.6g}"


def _culprit(fault: Fault) -> list[str]:
    match fault:
        case WrongAtPoint(slope=slope, culprit=None) if not isfinite(slope.reverse):
            return [
                "a slope that is infinite is multiplied by 0 there: keep what it is the slope of",
                "away from that point, as in `sqrt(x * x + 1e-12)`",
            ]
        case WrongAtPoint(culprit=None):
            return [
                "each op is right by itself: several have kinks here, and reverse mode adds up a",
                "slope that each of them chose; write it as one formula that is smooth, or as one",
                "`where` (`softplus`, `elu` and `leaky_relu` of the library are such)",
            ]
        case DividesByZero(report):
            span = None if report.label is None else report.label.span
            return (
                []
                if span is None
                else [f"{span.source.name}:{span.line}: {span.source.line(span.line).strip()}"]
            )
        case (
            WrongGradient(culprit=culprit)
            | NotFinite(culprit=culprit)
            | WrongAtPoint(culprit=culprit)
        ):
            if culprit is None:
                return ["each op is right by itself: their gradients are added up wrongly"]
            return [f"first wrong: {_location(culprit)}", f"{INDENT}along {_slope(culprit.slope)}"]
        case _:
            return []


def _location(culprit: FaultyValue) -> str:
    value = culprit.value
    span = value.origin.span
    layer = f", layer `{value.origin.path}`" if value.origin.path else ""
    line = f" at {value.origin.location}{layer}: {span.text}" if span else layer
    return f"`{type(value.op).__name__}`, which gives {value.type}{line}"


def _reproducer(case: Case) -> list[str]:
    inputs = ", ".join(f"{name}: {each}" for name, each in case.inputs)
    mode = "training" if case.training else "evaluating"
    return [case.snippet, f"given {inputs}; {mode}; seed {case.seed}"]
