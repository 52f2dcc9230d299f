"""Sizes drawn by solving the facts, so that few draws are rejected."""

from collections.abc import Callable, Iterable, Sequence

from hypothesis import reject
from hypothesis import strategies as st

from meganeura_dsl.symbolic.assumptions import Facts

MOST = 4
"""The largest size that is drawn where the facts allow smaller ones."""

Choose = Callable[[Sequence[int]], int]
"""Picks one of several numbers, the first being the simplest: Hypothesis, or a random generator."""


class DeadEndError(Exception):
    """The sizes chosen so far leave none for another."""


def choose_sizes(
    choose: Choose,
    facts: Facts,
    names: Iterable[str] = (),
    flags: Iterable[str] = (),
    most: int = MOST,
) -> dict[str, int]:
    """Numbers for `names` and for all sizes in the facts; a flag is 0 or 1.

    Divisibilities and equalities hold by construction; bounds and parities choose among the values
    left. Raises `DeadEndError` where earlier sizes leave no value for a later one.
    """
    domain = facts.domain(names, flags)
    chosen: dict[str, int] = {}
    for name in domain.unknowns:
        choices = domain.choices(name, chosen, most)
        if not choices:
            raise DeadEndError(name)
        chosen[name] = choose(choices)
    return domain.complete(chosen)


@st.composite
def sizes(
    draw: st.DrawFn,
    facts: Facts,
    names: Iterable[str] = (),
    flags: Iterable[str] = (),
    most: int = MOST,
) -> dict[str, int]:
    """`choose_sizes` as Hypothesis chooses; dead ends are rejected."""
    try:
        return choose_sizes(chooser(draw), facts, names, flags, most)
    except DeadEndError:
        reject()


def chooser(draw: st.DrawFn) -> Choose:
    """Choices made by Hypothesis."""
    return lambda options: draw(st.sampled_from(options))
