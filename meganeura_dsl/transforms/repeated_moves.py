"""The iterations of a `repeat` in a training step: one loop that carries weights and optimizers.

A forward graph has a loop of which some carries begin with an `Entering`, a parameter that its
objectives move. An iteration of the training step differentiates each loss with respect to the
weights that it finds, and leaves the weights and the optimizer's states for the next one.
"""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.objectives import Entering
from meganeura_dsl.ir.ops import Constant, Input, Parameter, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.loop import CAPTURED, CARRY, ITERATION, SLICE, Loop
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.ops.primitive.scan import Scan
from meganeura_dsl.ir.outputs import Objective
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.forward_copy import ForwardCopy, copied
from meganeura_dsl.transforms.update_gate import Gate


def losses_of(forward: Graph, objective: Objective) -> Value | None:
    """The losses of all iterations, a result of a loop; None of what moves once in a step."""
    losses = forward.outputs.get(objective)
    if losses is None or not isinstance(losses.op, Loop):
        return None
    return losses if any(isinstance(each.op, Entering) for each in losses.operands) else None


@dataclass(frozen=True, eq=False)
class Repeated:
    """Values behind the last iteration."""

    states: dict[str, Value]
    """The states of optimizers, by name."""
    slopes: dict[str, Value]
    """The gradients of the last iteration, by parameter."""
    finite: Value | None
    """A bool scalar: the gradients of all iterations are finite; None where that is not asked."""


class RepeatedMoves:
    """An iteration, built as far as the objectives so far allow."""

    def __init__(self, copy: ForwardCopy, losses: Value, gate: Gate) -> None:
        """`losses` is a result of the loop; `gate` decides on the moves of the iteration."""
        op = losses.op
        assert isinstance(op, Loop)
        self._op, self._gate, self._copy = op, gate, copy
        self._results = losses
        self._region = Region(copy.build, op.iterations)
        self.found: dict[str, Value] = {}
        """The parameters that an iteration finds, by name."""
        self._moved: dict[str, Value] = {}
        """The parameters and the states of optimizers that it leaves, by name."""
        self._verdicts: dict[str, Value | None] = {}
        self._slopes: dict[str, Value] = {}
        self._made: dict[int, Value] = {}
        self._leaves: list[Value] = []
        self._waiting = [each for each in op.body.graph.values if not isinstance(each.op, Input)]
        self._open()
        self._go_on()

    @property
    def build(self) -> Builder:
        """The builder of the training step."""
        return self._copy.build

    def loss(self, losses: Value) -> Value:
        """The loss of an objective in this iteration, by the result that collects it."""
        return self._made[self._op.given[losses.index - self._op.carried].id]

    def go_on(
        self, objective: Objective, moved: dict[str, Value], slopes: dict[str, Value]
    ) -> None:
        """Build what follows an objective, which reads the weights that it `moved`.

        `moved` has the next states of optimizers too; `slopes` are the gradients to be shown.
        """
        self._moved |= moved
        self._slopes |= slopes
        self._verdicts |= dict.fromkeys(moved, self._gate.verdict)
        self._copy.go_on(objective, {**self.found, **moved})
        self._go_on()

    def close(self) -> Repeated:
        """Make the loop of all iterations, and copy what follows it."""
        op, build = self._op, self.build
        carries = [self._carry(number) for number in range(op.carried)]
        states = [name for name in self._moved if name not in self.found]
        for name in states:
            new = self._moved[name]
            held = build.add(Parameter(name, new.type.dtype, new.type.shape, "state"))
            self._region.cut(held.id)
            carries.append(Carry(held, held, new))
        carries += [
            Carry(self._region.leaf(slope.type), full(build, slope.type, 0.0), slope)
            for slope in self._slopes.values()
        ]
        if self._gate.verdict is not None:
            yes, no = (build.add(Constant(each, DType.BOOL)) for each in (True, False))
            so_far = self._region.leaf(TensorType(DType.BOOL, ()))
            still = build.add(Where(), so_far, self._gate.is_finite(), no)
            carries.append(Carry(so_far, yes, still))
        given = [
            Collected(self._made[value.id], axis)
            for value, axis in zip(op.given, op.collected, strict=True)
        ]
        attributes, operands = self._region.close(carries, given, backward=op.backward)
        results = build.results_of(build.add(Scan(*attributes), *operands))
        more = results[op.carried : len(carries)]
        self._copy.follow(self._results, (*results[: op.carried], *results[len(carries) :]))
        after = dict(zip((*states, *self._slopes), more, strict=False))
        return Repeated(
            {name: after[name] for name in states},
            {name: after[name] for name in self._slopes},
            more[-1] if self._gate.verdict is not None else None,
        )

    def _open(self) -> None:
        """Give the leaves of the body their values in this iteration."""
        inputs, region = self._op.body.inputs, self._region
        self._made[inputs[ITERATION].id] = region.iteration_index
        carries, slices, _ = self._op.parts(self._results.operands)
        for number, operand in enumerate(carries):
            leaf = region.leaf(operand.type)
            self._leaves.append(leaf)
            self._made[inputs[f"{CARRY}{number}"].id] = leaf
            if isinstance(operand.op, Entering):
                self.found[operand.op.parameter] = leaf
        for number, (operand, axis) in enumerate(zip(slices, self._op.sliced, strict=True)):
            leaf = region.slice(self._copy.of(operand), axis, backward=self._op.backward)
            self._made[inputs[f"{SLICE}{number}"].id] = leaf

    def _go_on(self) -> None:
        """Build what can be built of the iteration by now."""
        _, _, captured = self._op.parts(self._results.operands)
        for number, operand in enumerate(captured):
            known = self._copy.known(operand)
            if known is not None:
                self._made[self._op.body.inputs[f"{CAPTURED}{number}"].id] = known
        self._waiting = copied(self.build, self._waiting, self._made)

    def _carry(self, number: int) -> Carry:
        """A carry of the forward graph; a parameter that no gradient moves stays as it is."""
        leaf, operand = self._leaves[number], self._results.operands[number]
        new = self._made[self._op.next[number].id]
        if not isinstance(operand.op, Entering):
            return Carry(leaf, self._copy.of(operand), new)
        name = operand.op.parameter
        kept = self._gate.kept(self._verdicts[name], new, leaf) if name in self._moved else leaf
        return Carry(leaf, self._copy.leaves[name], kept)
