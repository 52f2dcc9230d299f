"""Sizes as Hypothesis draws them: from the facts themselves, so that hardly any draw is in vain."""

from collections.abc import Iterable

from hypothesis import reject
from hypothesis import strategies as st

from meganeura_dsl.shapes.solve import Facts

MOST = 4
"""The largest size that is drawn where the facts allow smaller ones."""


@st.composite
def sizes(
    draw: st.DrawFn,
    facts: Facts,
    names: Iterable[str] = (),
    flags: Iterable[str] = (),
    most: int = MOST,
) -> dict[str, int]:
    """Numbers for `names` and for all sizes the facts speak of; a flag is 0 or 1.

    Divisibilities and equalities hold by construction; bounds and parities choose among the values
    left. A draw is rejected only where earlier sizes leave no value for a later one.
    """
    domain = facts.domain(names, flags)
    chosen: dict[str, int] = {}
    for name in domain.unknowns:
        choices = domain.choices(name, chosen, most)
        if not choices:
            reject()
        chosen[name] = draw(st.sampled_from(choices))
    return domain.complete(chosen)
