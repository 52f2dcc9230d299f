"""Sizes chosen one after the other satisfy all facts, and hardly ever lead nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.conditions import Compare, Condition, Flag, Not, Or, holds
from meganeura_dsl.symbolic.size import dim

C, D, G, H, K, N, P, S, T = map(dim, "cdghknpst")

CONV: tuple[Condition, ...] = (
    Compare("==", C % G, 0),
    Compare("==", D % G, 0),
    Compare(">=", H + 2 * P, S * (K - 1) + 1),
    Compare("==", K % 2, 1),
)


def assumed(*conditions: Condition) -> Facts:
    facts = Facts()
    for condition in conditions:
        facts = facts.assume(condition)
    return facts


@given(st.data())
def test_what_is_chosen_satisfies_the_facts(data: st.DataObject) -> None:
    facts = assumed(*CONV).with_lower_bound("p", 0)
    domain = facts.domain("gcdkpsh")
    chosen: dict[str, int] = {}
    for name in domain.unknowns:
        chosen[name] = data.draw(st.sampled_from(domain.choices(name, chosen, 4)))
    sizes = domain.complete(chosen)
    assert set(sizes) == set("gcdkphs")
    assert all(holds(condition, sizes) for condition in CONV)
    assert all(sizes[name] >= 1 for name in "gcdkhs")


def test_a_quotient_is_chosen_instead_of_a_multiple() -> None:
    domain = assumed(Compare("==", D % N, 0)).domain("nd")
    assert domain.unknowns[0] == "n"
    assert "d" not in domain.unknowns
    assert domain.complete({"n": 3, domain.unknowns[1]: 4}) == {"n": 3, "d": 12}


def test_a_size_the_facts_fix_is_not_chosen() -> None:
    domain = assumed(Compare("==", T, 2 * N), Compare("==", N, 1500)).domain("t")
    assert domain.unknowns == ()
    assert domain.complete({})["t"] == 3000


@pytest.mark.parametrize("least", [0, 1, 3])
def test_a_size_that_follows_is_no_less_than_its_bound(least: int) -> None:
    facts = Facts().with_lower_bound("h", least).assume(Compare("==", H + T, 5))
    domain = facts.domain("ht")
    (name,) = domain.unknowns
    complete = [domain.complete({name: value}) for value in domain.choices(name, {}, 9)]
    assert {(found["h"], found["t"]) for found in complete} == {(h, 5 - h) for h in range(least, 5)}


def test_values_beyond_the_most_are_found_where_none_below_will_do() -> None:
    domain = assumed(Compare(">=", H, 100)).domain("h")
    assert domain.choices("h", {}, 5) == [100, 101, 102]


def test_a_dead_end_has_no_choices() -> None:
    domain = assumed(Compare("<=", T, N - 1)).domain("nt")
    assert domain.choices("t", {"n": 1}, 5) == []
    assert domain.choices("t", {"n": 3}, 5) == [1, 2]


def test_flags_are_chosen_first_and_bind_sizes() -> None:
    causal = Flag("causal")
    domain = assumed(Or((Not(causal), Compare("==", S, T)))).domain("st", ("causal",))
    assert domain.unknowns == ("causal", "s", "t")
    assert domain.choices("causal", {}, 3) == [0, 1]
    assert domain.choices("t", {"causal": 1, "s": 2}, 3) == [2]
    assert domain.choices("t", {"causal": 0, "s": 2}, 3) == [1, 2, 3]


def test_a_flag_that_is_known_has_one_choice() -> None:
    assert assumed(Flag("bias")).domain("", ("bias",)).choices("bias", {}, 3) == [1]
