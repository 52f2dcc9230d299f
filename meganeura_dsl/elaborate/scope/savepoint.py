"""A point of an elaboration that it goes back to: an attempt failed, or an iteration is redone."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.elaborate.scope.body import ATTEMPT, UNDONE, Body
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.state import Train
from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Condition, Facts


@dataclass(frozen=True)
class Savepoint:
    """The names of a frame and the effects of the elaboration, as they were."""

    names: Mapping[str, ElabValue]
    layers: Mapping[str, BoundBlock]
    own: set[str]
    scan_locals: dict[str, str]
    facts: Facts
    body: Body
    train: Train
    choices: tuple[int, int, int]
    """The numbers of decisions made, of words about them and of conditions assumed."""

    @staticmethod
    def of(frame: Frame) -> "Savepoint":
        """Returns the present state of a frame."""
        choices = frame.choices
        return Savepoint(
            dict(frame.names), dict(frame.layers), set(frame.own),
            dict(frame.scan_locals), frame.facts, frame.state.body.savepoint(),
            frame.state.train.copy(),
            (choices.next, len(choices.words), len(choices.assumed)),
        )  # fmt: skip

    def undo_attempt(self, frame: Frame) -> None:
        """Undo what a failed attempt did, except its choices: a path goes on as it was begun."""
        self._undo_names(frame)
        frame.state.body.undo(self.body, ATTEMPT)
        facts = self.facts
        for chosen in self.chosen(frame):
            facts = facts.assume(chosen)
        frame.build.facts = facts

    def chosen(self, frame: Frame) -> tuple[Condition, ...]:
        """Returns what the choices made since then assume."""
        return tuple(frame.choices.assumed[self.choices[2] :])

    def undo_iteration(self, frame: Frame) -> None:
        """Undo what an iteration did that is elaborated again, with its choices."""
        self._undo_names(frame)
        frame.state.body.undo(self.body, UNDONE)
        frame.state.train = self.train.copy()
        frame.choices.next, words, _ = self.choices
        del frame.choices.words[words:]

    def _undo_names(self, frame: Frame) -> None:
        frame.names, frame.layers = dict(self.names), dict(self.layers)
        frame.own, frame.scan_locals = set(self.own), dict(self.scan_locals)

    def updated(self, frame: Frame) -> dict[str, TensorType]:
        """Returns the types of the states that were updated since, by name."""
        before = self.body.updates
        return {
            name: value.type
            for name, value in frame.state.body.updates.items()
            if before.get(name) is not value
        }
