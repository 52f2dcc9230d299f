"""Notes of what the prover answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from meganeura_dsl.symbolic.conditions import Condition

_Arguments = TypeVar("_Arguments")


@dataclass(frozen=True)
class Answer:
    """A condition that was proved, or refuted by an example, and where the program asks it."""

    least: Mapping[str, int]
    """The lower bounds of sizes that are not 1."""
    stated: tuple[Condition, ...]
    """The facts, in order."""
    condition: Condition
    example: Mapping[str, int] | None
    """Sizes and flags for which the condition is false; None where it is proved."""
    place: str
    """The statement that was run: `resnet.mgn:12`."""


@dataclass
class Recorder:
    """Keeps each answer once. Facts that have one note theirs in it, as do those made of them."""

    place: str = ""
    """The present place in the program."""
    answers: list[Answer] = field(default_factory=list[Answer])
    _known: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]], repr=False)

    def note(
        self,
        least: Mapping[str, int],
        stated: tuple[Condition, ...],
        condition: Condition,
        example: Mapping[str, int] | None = None,
    ) -> None:
        """Keep an answer, unless it is known."""
        key = (tuple(sorted(least.items())), stated, condition, example is None)
        if key not in self._known:
            self._known.add(key)
            self.answers.append(Answer(least, stated, condition, example, self.place))

    def at(self, place: str, action: Callable[[], _Arguments]) -> _Arguments:
        """The result of what the program does at a place."""
        before, self.place = self.place, place
        try:
            return action()
        finally:
            self.place = before
