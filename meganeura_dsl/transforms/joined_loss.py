"""The loss of several batches as that of one, for the update that they make together.

Where a loss is a function f of sums over the examples S1, S2, ..., as a mean over chosen elements
is, the gradient of f of the sums of all batches is the sum of df/dSi times the gradient of Si,
which is added up over the batches. The sums of the batches before are states, which the loss reads.
"""

from enum import Enum

from meganeura_dsl.ir.batch_statistics import (
    Meeting,
    Statistics,
    is_plain_mean,
    matching,
    statistics,
)
from meganeura_dsl.ir.graph import Builder, Graph, Value, continued
from meganeura_dsl.ir.objectives import Moved, objectives, reached
from meganeura_dsl.ir.ops import Add, Constant, Mul, Parameter
from meganeura_dsl.ir.outputs import LossPart, Objective
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.polynomial import Dim, terms_of, variables_of

LOSS = "loss"
EARLIER = f"{STATES}earlier_batches."
"""The prefix of the names of states that are sums over the batches before."""
EXAMPLES = f"{EARLIER}examples"


class Joins(Enum):
    """The way a loss of several batches follows from those of each."""

    MEAN = "mean"
    """It is their mean, where the batches are of one size."""
    SUMS = "sums"
    """It is a function of sums over the examples."""
    NOT = "not"
    """The losses do not join: examples of a batch meet otherwise."""


def joins_of(symbolic: Graph, counter: str | None) -> tuple[Joins, Statistics | None]:
    """Returns the way a graph's loss joins over batches, and its parts; sizes are symbols."""
    if counter is None:
        return Joins.MEAN, None
    if len(objectives(symbolic)) > 1 or any(isinstance(v.op, Moved) for v in symbolic.values):
        return Joins.NOT, None
    loss = symbolic.outputs[LOSS]
    parts = statistics(symbolic, counter, [loss])
    if parts is None:
        return Joins.NOT, None
    if is_plain_mean(parts, symbolic, counter, loss):
        return Joins.MEAN, parts
    for number, kind in parts.joined.items():
        value = symbolic.values[number]
        is_learned = value.type.rank > 0 and bool(reached(value)) and kind is Meeting.SUM
        if kind is Meeting.MAX or is_learned:
            return Joins.NOT, None
    counts = (symbolic.values[number] for number in parts.computed)
    is_linear = all(_is_linear(value, counter) for value in counts)
    return (Joins.SUMS, parts) if is_linear else (Joins.NOT, None)


def _is_linear(value: Value, counter: str) -> bool:
    """True if a constant that depends on the number of examples is a multiple of it."""
    if not isinstance(value.op, Constant) or not isinstance(value.op.value, Dim):
        return True
    size = value.op.value
    if counter not in variables_of(size):
        return True
    each = [monomial.count(counter) == 1 for monomial in terms_of(size)]
    return all(each) and not size.floors() and value.type.dtype is DType.F32


def with_joined_loss(forward: Graph, symbolic: Graph, counter: str, examples: int) -> Graph:
    """A forward graph whose objective is the loss of its batch and of those before together.

    It is that of a loss that `joins_of` says joins by sums.
    """
    kind, parts = joins_of(symbolic, counter)
    assert kind is Joins.SUMS
    assert parts is not None
    found = matching(parts, symbolic, symbolic.outputs[LOSS], forward.outputs[LOSS])
    assert found is not None, "the same program of another size"
    build, copy = continued(forward)
    copies = dict(zip((each.id for each in forward.values), copy.values, strict=True))
    known: dict[int, Value] = {}
    updates, outputs = dict(copy.updates), dict(copy.outputs)
    for number in sorted(parts.joined):
        known[number] = own = copies[found[number].id]
        if parts.joined[number] is Meeting.SUM:
            known[number] = updates[f"{EARLIER}{number}"] = _total(build, f"{EARLIER}{number}", own)
            if reached(own):
                outputs[LossPart(number)] = own
    numbers = {value.id: number for number, value in enumerate(symbolic.values)}
    for number in parts.computed:
        general, value = symbolic.values[number], found[number]
        size = general.op.value if isinstance(general.op, Constant) else None
        if isinstance(size, Dim) and counter in variables_of(size):
            assert isinstance(value.op, Constant)
            here = build.add(Constant(float(examples), DType.F32))
            count = updates[EXAMPLES] = _total(build, EXAMPLES, here)
            share = build.add(Constant(float(value.op.evaluate()) / examples, DType.F32))
            known[number] = build.add(Mul(), count, share)
        else:
            operands = [known[numbers[each.id]] for each in general.operands]
            with build.at(value.origin):
                known[number] = build.reapply(value, *operands)
    loss = known[numbers[symbolic.outputs[LOSS].id]]
    own = objectives(forward)
    moves = own[0].moves if own else tuple(_trained(forward))
    outputs = {name: each for name, each in outputs.items() if not isinstance(name, Objective)}
    return build.graph({**outputs, Objective(0, moves): loss}, updates)


def _total(build: Builder, name: str, own: Value) -> Value:
    earlier = build.add(Parameter(name, own.type.dtype, own.type.shape, "state"))
    return build.add(Add(), earlier, own)


def _trained(graph: Graph) -> list[str]:
    ops = (value.op for value in graph.values)
    return [op.name for op in ops if isinstance(op, Parameter) and op.kind == "param"]
