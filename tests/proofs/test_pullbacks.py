"""Pullbacks are the adjoints of derivatives, for all sizes; spoilt ones are not."""

from collections.abc import Sequence

import pytest

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Mul, Neg
from tests.effort import effort
from tests.proofs.pullback_cases import Case, cases
from tests.proofs.pullbacks import Spoil, rests

CASES = tuple(cases())
WITHOUT_GRADIENT = ("Floor", "Round")
"""Ops whose derivative is 0 wherever there is one: no fault spoils that."""
Gradients = Sequence[Value | None]


def _negated(build: Builder, gradients: Gradients, operands: Sequence[Value]) -> Gradients:
    return [each and build.add(Neg(), each) for each in gradients]


def _doubled(build: Builder, gradients: Gradients, operands: Sequence[Value]) -> Gradients:
    return [each and build.add(Add(), each, each) for each in gradients]


def _dropped(build: Builder, gradients: Gradients, operands: Sequence[Value]) -> Gradients:
    return [None for _ in gradients]


def _times_the_operand(
    build: Builder, gradients: Gradients, operands: Sequence[Value]
) -> Gradients:
    pairs = zip(gradients, operands, strict=True)
    return [each and build.add(Mul(), each, operand) for each, operand in pairs]


SPOILS: Sequence[Spoil] = (_negated, _doubled, _dropped, _times_the_operand)
OF_EACH = effort(usual=1, nightly=len(SPOILS))
"""Faults planted in a pullback; by day that of the next case is another."""
FAULTS = [
    (case, SPOILS[(place + more) % len(SPOILS)])
    for place, case in enumerate(CASES)
    for more in range(OF_EACH)
]


def _name(of: Case | Spoil) -> str:
    return of.name if isinstance(of, Case) else str(getattr(of, "__name__", of))


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_pullback_is_the_adjoint_of_the_derivative(case: Case) -> None:
    assert [rest.text for rest in rests(case.op, case.types, case.facts) if rest.terms] == []


@pytest.mark.parametrize(("case", "spoil"), FAULTS, ids=_name)
def test_a_spoilt_pullback_is_not(case: Case, spoil: Spoil) -> None:
    is_right = not any(rest.terms for rest in rests(case.op, case.types, case.facts, spoil))
    assert is_right == (case.name in WITHOUT_GRADIENT)
