"""What an elaboration finds when it begins something that it may have to begin again."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.elaborate.scope.scope import BoundBlock, DeclaredPath, Frame
from meganeura_dsl.elaborate.values import Evaluated
from meganeura_dsl.ir.types import TensorType


@dataclass(frozen=True)
class Found:
    """The state of an elaboration at one place."""

    names: Mapping[str, Evaluated]
    layers: Mapping[str, BoundBlock]
    own: frozenset[str]
    gone: frozenset[str]
    declared: DeclaredPath
    streams: Mapping[str, int]
    counts: tuple[int, int, int, int]
    choices: tuple[int, int]

    @staticmethod
    def by(frame: Frame) -> "Found":
        """What there is now."""
        state = frame.state
        return Found(
            dict(frame.names),
            dict(frame.layers),
            frozenset(frame.own),
            frozenset(frame.gone),
            state.snapshot(),
            dict(state.streams),
            (len(state.bindings), len(state.notes), len(state.own), state.rounds),
            (frame.choices.next, len(frame.choices.words)),
        )

    def restore(self, frame: Frame) -> None:
        """Forget what was done since."""
        state = frame.state
        frame.names, frame.layers = dict(self.names), dict(self.layers)
        frame.own, frame.gone = set(self.own), set(self.gone)
        state.restore(self.declared)
        state.streams = dict(self.streams)
        bindings, notes, own, state.rounds = self.counts
        del state.bindings[bindings:], state.notes[notes:], state.own[own:]
        frame.choices.next, words = self.choices
        del frame.choices.words[words:]

    def updated(self, frame: Frame) -> dict[str, TensorType]:
        """The types of the states that were updated since, by name."""
        before = self.declared.updates
        return {
            name: value.type
            for name, value in frame.state.updates.items()
            if before.get(name) is not value
        }
