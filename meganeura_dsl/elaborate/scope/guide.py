"""An elaboration in symbols that follows one application, and what it assumes on its way.

Where a choice depends on what symbols stand for, it goes the way that the sizes of the application
go, and the condition is kept: what is found holds for all sizes of which it is true. This is
concolic execution (Godefroid, Klarlund and Sen, *DART: directed automated random testing*, 2005).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from meganeura_dsl.startup.deferred_dataclass import dataclass
from meganeura_dsl.symbolic.assumptions import (
    Compare,
    Proved,
    Unknown,
    negate,
)
from meganeura_dsl.symbolic.conditions import with_sizes
from meganeura_dsl.symbolic.size import substitute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meganeura_dsl.ir.graph import Builder
    from meganeura_dsl.symbolic.assumptions import Condition, Facts, Verdict
    from meganeura_dsl.symbolic.size import Size


class Choice(NamedTuple):
    """A condition on symbols that was assumed, or the opposite of which was."""

    condition: Condition
    way: bool


class Followed(Protocol):
    """An elaboration, of which it is known what follows from its facts."""

    build: Builder
    guide: Guide | None


@dataclass
class Guide:
    """The application that an elaboration in symbols follows."""

    sizes: Mapping[str, Size]
    """What the symbols are there."""
    around: Followed
    """The elaboration that it is in, which may be in symbols too."""
    choices: list[Choice] = field(default_factory=list["Choice"])
    """What was assumed so far."""
    is_lost: bool = False
    """Whether something was asked that is not known of the application either."""


def truth(state: Followed, condition: Condition) -> bool | None:
    """Whether a condition holds in the application that is followed; None if it is not known."""
    found = state.build.facts.truth(condition)
    if found is None and state.guide is not None:
        return truth(state.guide.around, with_sizes(condition, state.guide.sizes))
    return found


def decided(state: Followed, condition: Condition) -> bool | None:
    """The same; what follows from no fact so far is assumed from here on."""
    found = state.build.facts.truth(condition)
    if found is None and state.guide is not None:
        found = truth(state.guide.around, with_sizes(condition, state.guide.sizes))
        if found is None:
            state.guide.is_lost = True
        else:
            state.guide.choices.append(Choice(condition, found))
            assumed = condition if found else negate(condition)
            state.build.facts = state.build.facts.assume(assumed)
    return found


def verdict(state: Followed, condition: Condition, facts: Facts) -> Verdict:
    """Whether a condition holds by some facts; where an application is followed, not why not."""
    if state.guide is None:
        return facts.decide(condition)
    return Proved() if facts.proves(condition) or decided(state, condition) else Unknown()


def number(state: Followed, size: Size) -> Size:
    """A size, or the number that it is where an application is followed, which is assumed."""
    found = _there(state, size)
    if found is size or not isinstance(found, int):
        return size
    decided(state, Compare("==", size, found))
    return found


def _there(state: Followed, size: Size) -> Size:
    """What a size is in the application that is followed."""
    if state.guide is None or isinstance(size, int):
        return size
    return _there(state.guide.around, substitute(size, state.guide.sizes))
