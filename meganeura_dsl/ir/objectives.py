"""The objectives of a training step: losses that are minimized one after the other.

A forward graph of several objectives, or of one that moves some parameters only, has an output for
each, an `Objective`, which has the parameters that its optimizer steps move. What comes after an
objective reads `Moved` leaves for the parameters that it moved.
"""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Floor, Parameter, Round, StopGradient
from meganeura_dsl.ir.outputs import Objective


@dataclass(frozen=True)
class Moved(Leaf):
    """A parameter as an objective leaves it.

    It stands in a forward graph that is to become a training step, which puts the value in its
    place; no other graph holds one.
    """

    is_persistent = False
    parameter: str
    objective: int

    @staticmethod
    def by(objective: int, parameter: Parameter) -> "Moved":
        """The parameter after the objective of this number, counted from 0."""
        name = f"{parameter.name} after objective {objective}"
        return Moved(name, parameter.dtype, parameter.shape, parameter.name, objective)


@dataclass(frozen=True)
class Entering(Leaf):
    """A parameter before the first iteration of the `repeat` that moves it.

    It stands, as `Moved` does, in a forward graph that is to become a training step. The loop that
    it enters carries the parameter, and the optimizer's states beside it.
    """

    is_persistent = False
    parameter: str

    @staticmethod
    def of(parameter: Parameter) -> "Entering":
        """The parameter as the iterations find it."""
        name = f"{parameter.name} before its iterations"
        return Entering(name, parameter.dtype, parameter.shape, parameter.name)


def objectives(graph: Graph) -> tuple[Objective, ...]:
    """The objectives of a forward graph, in order; none if one loss moves all parameters."""
    found = [name for name in graph.outputs if isinstance(name, Objective)]
    return tuple(sorted(found, key=lambda each: each.number))


def reached(loss: Value) -> frozenset[str]:
    """The names of the parameters that the gradient of a loss reaches."""
    return frozenset(
        op.name if isinstance(op, Parameter) else op.parameter
        for value in reached_values(loss)
        if isinstance(op := value.op, Parameter | Entering)
    )


def used(loss: Value) -> frozenset[str]:
    """The names of the parameters that the gradient would reach had no objective moved any."""
    found, seen, stack = set[str](), set[int](), [loss]
    while stack:
        value = stack.pop()
        if value.id in seen or not value.type.dtype.is_float:
            continue
        seen.add(value.id)
        match value.op:
            case Moved(parameter=name) | Entering(parameter=name):
                found.add(name)
            case Parameter(kind="param", name=name):
                found.add(name)
            case StopGradient() | Floor() | Round():
                pass
            case _:
                stack.extend(value.operands)
    return frozenset(found)


_ENDS = (StopGradient, Floor, Round, Moved)
"""Ops that no gradient goes through."""


def reached_values(loss: Value, ends: frozenset[int] = frozenset()) -> tuple[Value, ...]:
    """The parameters that the gradient of a loss reaches.

    The walk stops at values whose ids are in `ends`; those that it meets are in the result too.
    """
    found: list[Value] = []
    seen: set[int] = set()
    stack = [loss]
    while stack:
        value = stack.pop()
        if value.id in seen or not value.type.dtype.is_float:
            continue
        seen.add(value.id)
        op = value.op
        is_trained = isinstance(op, Parameter) and op.kind == "param"
        if value.id in ends or is_trained or isinstance(op, Entering):
            found.append(value)
        elif not isinstance(op, _ENDS):
            stack.extend(value.operands)
    return tuple(found)
