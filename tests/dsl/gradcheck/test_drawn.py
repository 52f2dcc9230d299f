"""The cases that are drawn for a check are those of `drawn.txt`; verdicts say what was found."""

import pytest

from meganeura_dsl.gradcheck.finite_differences import Slope
from meganeura_dsl.gradcheck.locate_fault import FaultyValue
from meganeura_dsl.gradcheck.verdict_text import describe, describe_fault
from meganeura_dsl.gradcheck.verdicts import (
    Deviation,
    Passed,
    Skipped,
    Verdict,
    WrongGradient,
    WrongOnDevice,
)
from meganeura_dsl.ir.graph import Builder, Origin
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from tests.dsl.gradcheck.drawn import FILE, described

SLOPE = Slope("x", reverse=1.5, differences=1.0, scale=2.0, allowed=1e-6)


def test_what_is_drawn_is_what_was() -> None:
    assert list(described()) == FILE.read_text().splitlines()


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Passed("A", 7, 0, 0.0), "A: fine, 7 examples"),
        (Passed("A", 7, 3, 2e-8), "A: fine, 7 examples, 3 slopes, off by at most 2e-08"),
        (Passed("A", 0, 0, 0.0), "A: fine, 0 examples"),
        (Passed("A", 7, 3, 0.0), "A: fine, 7 examples, 3 slopes, known to a thousandth"),
        (
            Passed("A", 7, 3, 2e-8, special=5, kinks=2, left_out=4),
            (
                "A: fine, 7 examples, 3 slopes, off by at most 2e-08, 5 at special points (2 at "
                "kinks), 4 cases left out: an index was out of range"
            ),
        ),
        (
            Passed("A", 7, 3, 2e-8, device=Deviation("y[1]", 2.0**-22, 2.0**-13, 2.0)),
            (
                "A: fine, 7 examples, 3 slopes, off by at most 2e-08, on the device off by at most "
                "2.4e-07 (`y[1]`: 1 roundings of float32, allowed 5.1e+02)"
            ),
        ),
        (Skipped("A", "no reason"), "A: not checked: no reason"),
    ],
)
def test_a_verdict_says_what_was_found(verdict: Verdict, text: str) -> None:
    assert describe(verdict) == text


def test_a_fault_says_by_how_much() -> None:
    assert describe_fault(WrongOnDevice("y", 0.25, 0.125)) == (
        "on the device, `y` is off by 0.25, allowed is 0.125"
    )
    assert describe_fault(WrongGradient(SLOPE, None)).startswith(
        "the gradient along x is 1; reverse mode says 1.5\n"
    )


@pytest.mark.parametrize(("allowed", "error"), [(1e-6, 0.25), (1.0, 0.0)])
def test_an_error_is_relative_to_the_terms(allowed: float, error: float) -> None:
    slope = Slope("x", reverse=1.5, differences=1.0, scale=2.0, allowed=allowed)
    assert slope.error == pytest.approx(error)


@pytest.mark.parametrize(("path", "shown"), [("", ""), ("head.fc", ", layer `head.fc`")])
def test_a_fault_says_where_it_is(path: str, shown: str) -> None:
    build = Builder()
    with build.at(Origin(path=path)):
        value = build.add(Input("x", DType.F32, (2,)))
    words = describe_fault(WrongGradient(SLOPE, FaultyValue(value, SLOPE))).splitlines()
    assert words[1:] == [
        f"  first wrong: `Input`, which gives f32[2]{shown}",
        "    along x is 1; reverse mode says 1.5",
    ]
