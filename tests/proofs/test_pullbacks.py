"""Pullbacks are the adjoints of derivatives; spoilt ones are not."""

from collections.abc import Sequence

import pytest

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import OPS, Add, Mul, Neg
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from tests.effort import effort
from tests.proofs.gradient_table import FILE, NOTHING_FLOWS, rows, table_of
from tests.proofs.pullback_cases import Case, cases
from tests.proofs.pullbacks import Gradients, Spoil
from tests.proofs.pullbacks_at_sizes import rests_of

CASES = tuple(cases())
LARGER = effort((), tuple(case for case in cases(compared=4) if case.orders))
"""The same with more elements that are compared."""
WITHOUT_GRADIENT = ("Floor", "Round")
"""Ops whose derivative is 0 wherever there is one: no fault spoils that."""


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
BY_NIGHT = ("Attention with a mask", "Attention causal with a mask", "FusedMatMul gelu")
"""Cases that take long, of which others of the op are spoilt by day."""
FAULTS = [
    (case, SPOILS[(place + more) % len(SPOILS)])
    for place, case in enumerate(CASES[:: effort(2, 1)])
    if case.name not in effort(BY_NIGHT, ())
    for more in range(OF_EACH)
]


def _name(of: Case | Spoil) -> str:
    return of.name if isinstance(of, Case) else str(getattr(of, "__name__", of))


@pytest.mark.parametrize("case", [*CASES, *LARGER], ids=_name)
def test_a_pullback_is_the_adjoint_of_the_derivative(case: Case) -> None:
    assert [rest.text for rest in rests_of(case) if rest.terms] == []


@pytest.mark.parametrize(("case", "spoil"), FAULTS, ids=_name)
def test_a_spoilt_pullback_is_not(case: Case, spoil: Spoil) -> None:
    is_right = not any(rest.terms for rest in rests_of(case, spoil))
    assert is_right == (case.name in WITHOUT_GRADIENT)


def test_every_op_with_a_pullback_has_a_case() -> None:
    """A new op gets one in `pullback_cases`, or a reason in `gradient_table`."""
    wanted = {op.__name__ for op in (*OPS, *FUSED_OPS) if op.pullback is not Op.pullback}
    proved = {type(case.op).__name__ for case in CASES}
    assert proved | NOTHING_FLOWS.keys() == wanted
    assert proved.isdisjoint(NOTHING_FLOWS)


def test_the_table_in_the_documents_says_how_each_op_is_proved() -> None:
    assert table_of(FILE.read_text("utf-8")) == rows(CASES), "python -m tests.proofs gradients"
