"""Verdicts as text."""

from typing import assert_never

from meganeura_dsl.gradcheck.cases import Case
from meganeura_dsl.gradcheck.finite_differences import Slope
from meganeura_dsl.gradcheck.locate_fault import FaultyValue
from meganeura_dsl.gradcheck.verdicts import (
    Failed,
    Fault,
    NotFinite,
    Passed,
    RefusedAfterProof,
    Skipped,
    Verdict,
    WrongGradient,
    WrongOnDevice,
)

INDENT = "  "


def describe(verdict: Verdict) -> str:
    """A verdict as text: one line, or several with all that reproduces a fault."""
    match verdict:
        case Passed(name, examples, slopes, worst):
            if not slopes:
                return f"{name}: fine, {examples} examples"
            return f"{name}: fine, {examples} examples, {slopes} slopes, off by at most {worst:.0e}"
        case Skipped(name, reason):
            return f"{name}: not checked: {reason}"
        case Failed(name, case, fault):
            lines = [f"{name}: WRONG: {describe_fault(fault)}", *_reproducer(case)]
            return f"\n{INDENT}".join(lines)
        case _:
            assert_never(verdict)


def describe_fault(fault: Fault) -> str:
    """What is wrong, and with which value first."""
    return f"\n{INDENT}".join([_fault(fault), *_culprit(fault)])


def _fault(fault: Fault) -> str:
    match fault:
        case WrongGradient(slope=slope):
            return f"the gradient along {_slope(slope)}"
        case WrongOnDevice(name, difference, allowed):
            return f"on the device, `{name}` is off by {difference:.3g}, allowed is {allowed:.3g}"
        case NotFinite(name=name):
            return f"the gradient of `{name}` is not finite, and the loss is"
        case RefusedAfterProof(report):
            return f"it is proved for all sizes, and refused for these: {report.headline}"
        case _:
            assert_never(fault)


def _slope(slope: Slope) -> str:
    return f"{slope.where} is {slope.differences:.6g}; reverse mode says {slope.reverse:.6g}"


def _culprit(fault: Fault) -> list[str]:
    match fault:
        case WrongGradient(culprit=culprit) | NotFinite(culprit=culprit):
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
