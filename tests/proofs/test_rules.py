"""Every rewrite rule is proved over the reals for all sizes; spoilt ones are not."""

from dataclasses import replace

import numpy as np
import pytest
import z3

from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS, matrices
from meganeura_dsl.transforms.egraph.rules.rule import Rewrite, Rule
from tests.effort import effort
from tests.proofs.extents import every_rule, small_extent, whole_extent
from tests.proofs.opinions import agrees_with_floats, asked_of_z3, places, some_sizes
from tests.proofs.rule_faults import RULE_FAULTS
from tests.proofs.rules import NotProvedError, prove_rule
from tests.proofs.table import FILE, row, table_of
from tests.proofs.winograd import exact_matrices, lemma_holds

RULES = every_rule()
EVERY = effort(False, True)
BY_NIGHT = {
    *(name for name in RULES if name.startswith("winograd-")),
    *("group-norm-4", "scaled-group-norm-3", "scaled-group-norm-4"),
    *("shared-heads-4", "masked-shared-heads-3", "masked-shared-heads-4"),
    *("grow-kernel-2", "affine-as-convolution-2", "identity-as-convolution-2"),
    *("conv-activation", "conv-residual-activation", "matmul-residual-activation"),
    *("transpose-twice-4", "transpose-twice-5", "asks-Attention_mask", "div-in-groups"),
    *(f"copies-{name}" for name in ("Abs", "Log", "Log1p", "Expm1", "Sqrt", "Sin", "Cos", "Tanh")),
    *(f"copies-{name}" for name in ("Erf", "Floor", "Round", "Logistic", "Maximum", "Sub", "Mul")),
}
"""Rules for which others of their kind stand by day."""
DAILY = [each for each in RULE_FAULTS if each[0] not in BY_NIGHT | {"winograd"}]
FAULTS = effort(DAILY[::2], RULE_FAULTS)
TRIED = effort([name for name in RULES if name not in BY_NIGHT], [*RULES])


@pytest.mark.parametrize("name", TRIED)
def test_a_rule_holds_for_all_sizes_and_z3_finds_nothing_against_it(name: str) -> None:
    extent = whole_extent(name) if EVERY else small_extent(name)
    most = None if EVERY else 1
    of, rule = RULES[name]
    claims = prove_rule(rule, extent, most)
    assert not EVERY or row(name, of, rule, claims) in table_of(FILE.read_text("utf-8"))
    for seed, claim in enumerate(claims):
        sizes = some_sizes(claim, seed)
        assert sizes is not None
        for place in places(claim, sizes, 1, seed):
            assert agrees_with_floats(claim, sizes, place)
            assert asked_of_z3(claim, sizes, place) == z3.unsat


@pytest.mark.parametrize(("name", "part", "fault"), FAULTS)
def test_a_spoilt_rule_is_not_proved(name: str, part: str, fault: str) -> None:
    spoilt = _spoilt(RULES[name][1], part, fault)
    with pytest.raises(NotProvedError):
        prove_rule(spoilt, small_extent(name))


def _spoilt(rule: Rule, part: str, fault: str) -> Rule:
    when = rule.when.replace(part, fault)
    if isinstance(rule, Rewrite):
        spoilt = replace(rule, when=when, becomes=rule.becomes.replace(part, fault))
    else:
        spoilt = replace(rule, when=when, then=rule.then.replace(part, fault))
    assert spoilt != rule
    return spoilt


@pytest.mark.parametrize("outputs", POINTS)
def test_the_lemma_of_winograd_holds_for_the_matrices_in_use(outputs: int) -> None:
    exact = exact_matrices(outputs)
    assert lemma_holds(outputs, exact)
    used = matrices(outputs)
    for name, matrix in exact.items():
        np.testing.assert_allclose(getattr(used, name), np.array(matrix, float), rtol=1e-15)


def test_the_lemma_of_winograd_fails_for_other_matrices() -> None:
    spoilt = exact_matrices(2)
    spoilt["kernel"][1][2] += 1
    assert not lemma_holds(2, spoilt)


def test_the_table_in_the_documents_has_every_rule() -> None:
    assert [row.split(" | ")[:3] for row in table_of(FILE.read_text("utf-8"))] == [
        [f"| `{name}`", of, type(rule).__name__.lower()] for name, (of, rule) in RULES.items()
    ]
