"""Optimizers that a program declares: a class for each, whose rule is a graph."""

from abc import abstractmethod
from dataclasses import asdict, dataclass

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class DeclaredOptimizer(Optimizer):
    """An optimizer of a program, whose fields are the arguments of its header."""

    @abstractmethod
    def rule(self, of: TensorType) -> Graph:
        """Returns the graph of the rule for parameters of a type.

        Its inputs are the parameter, the gradient and the learning rate, in this order, its output
        the next parameter; states are its parameters. Raises `ProblemError` for a type or arguments
        that the header does not allow.
        """

    @property
    def arguments(self) -> dict[str, bool | int | float | str]:
        """The values of the arguments but the learning rate, by name."""
        return {name: value for name, value in asdict(self).items() if name != "lr"}

    def demand(self, of: TensorType) -> str:
        """Nothing, for a parameter that the header allows; raises `ProblemError` for others."""
        self.rule(of)
        return ""

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the ops of the rule."""
        graph = self.rule(p.type)
        inputs = [value for value in graph.values if isinstance(value.op, Input)]
        known = dict(zip((each.id for each in inputs), (p, g, rate), strict=True))
        for value in graph.values:
            if isinstance(value.op, Parameter):
                known[value.id] = update.state(value.op.name, value.type)
            elif value.id not in known:
                operands = (known[each.id] for each in value.operands)
                known[value.id] = update.build.reapply(value, *operands)
        for value in graph.values:
            if isinstance(value.op, Parameter):
                update.store(known[value.id], known[graph.updates[value.op.name].id])
        (result,) = graph.outputs.values()
        return known[result.id]
