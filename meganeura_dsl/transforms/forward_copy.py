"""The forward graph inside a training step, copied as far as the updates before allow."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value
from meganeura_dsl.ir.objectives import Moved
from meganeura_dsl.ir.ops import StopGradient
from meganeura_dsl.ir.outputs import LossPart, Objective


class ForwardCopy:
    """A forward graph in a builder, each value as soon as what it reads is known.

    What depends on a `Moved` leaf waits for its objective.
    """

    def __init__(self, forward: Graph) -> None:
        self.build = Builder()
        self._rebuilt: dict[int, Value] = {}
        self._waiting = self._copied(forward.values)
        self.leaves = {
            value.op.name: value for value in self.build.values if isinstance(value.op, Leaf)
        }

    def of(self, value: Value) -> Value:
        """The copy of a value that no objective to come is needed for."""
        return self._rebuilt[value.id]

    def results(self, forward: Graph) -> tuple[dict[str, Value], dict[str, Value]]:
        """The outputs of the forward graph that are no objectives, and its next states."""
        outputs = {
            name: self.of(value)
            for name, value in forward.outputs.items()
            if not isinstance(name, Objective | LossPart)
        }
        return outputs, {name: self.of(value) for name, value in forward.updates.items()}

    def go_on(self, objective: Objective, new: Mapping[str, Value]) -> None:
        """Copy what follows an objective, where the `new` values of parameters are constants."""
        for value in self._waiting:
            op = value.op
            if isinstance(op, Moved) and op.objective == objective.number:
                now = new.get(op.parameter, self.leaves[op.parameter])
                self._rebuilt[value.id] = self.build.add(StopGradient(), now)
        self._waiting = self._copied(self._waiting)

    def _copied(self, values: Sequence[Value]) -> list[Value]:
        """Copy what can be copied; the values that wait."""
        waiting: list[Value] = []
        for value in values:
            if value.id in self._rebuilt:
                continue
            operands = [self._rebuilt.get(operand.id) for operand in value.operands]
            known = [operand for operand in operands if operand is not None]
            if isinstance(value.op, Moved) or len(known) < len(operands):
                waiting.append(value)
                continue
            with self.build.at(value.origin):
                self._rebuilt[value.id] = self.build.reapply(value, *known)
        return waiting
