"""The forward graph inside a training step, copied as far as the updates before allow."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value
from meganeura_dsl.ir.objectives import Entering, Moved
from meganeura_dsl.ir.ops import StopGradient
from meganeura_dsl.ir.outputs import LossPart, Objective


class ForwardCopy:
    """A forward graph in a builder, each value as soon as what it reads is known.

    What depends on a `Moved` leaf waits for its objective, and the loop of a `repeat` for the one
    that it becomes.
    """

    def __init__(self, forward: Graph) -> None:
        self.build = Builder()
        self._rebuilt: dict[int, Value] = {}
        self._waiting = copied(self.build, forward.values, self._rebuilt)
        self.leaves = {
            value.op.name: value for value in self.build.values if isinstance(value.op, Leaf)
        }

    def of(self, value: Value) -> Value:
        """The copy of a value that no objective to come is needed for."""
        return self._rebuilt[value.id]

    def known(self, value: Value) -> Value | None:
        """The copy of a value, if there is one by now."""
        return self._rebuilt.get(value.id)

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
        self._waiting = copied(self.build, self._waiting, self._rebuilt)

    def follow(self, loop: Value, results: Sequence[Value]) -> None:
        """Copy what follows a loop, of which `loop` is a result, by what became its results."""
        for value in self._waiting:
            if value.op is loop.op and value.operands == loop.operands:
                self._rebuilt[value.id] = results[value.index]
        self._waiting = copied(self.build, self._waiting, self._rebuilt)


def copied(build: Builder, values: Sequence[Value], rebuilt: dict[int, Value]) -> list[Value]:
    """Copy what can be copied of values into a builder; the values that wait.

    `rebuilt` has the copies by the ids of what they are copies of.
    """
    waiting: list[Value] = []
    for value in values:
        if value.id in rebuilt:
            continue
        operands = [rebuilt.get(operand.id) for operand in value.operands]
        known = [operand for operand in operands if operand is not None]
        if isinstance(value.op, Moved | Entering) or len(known) < len(operands):
            waiting.append(value)
            continue
        with build.at(value.origin):
            rebuilt[value.id] = build.reapply(value, *known)
    return waiting
