"""The values of the nodes of a block, in all of its applications."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    NamedResults,
    Tensor,
    TensorList,
    is_tensor,
)
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.trace import Event, Instance

LONGEST = 40
"""Columns of a node that a message quotes."""


class Observed:
    """The values of the nodes of a block, of all instances that are written as one."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = instances

    def values(self, node: ast.Node) -> list[ElabValue]:
        """All that a node was, in all applications."""
        return [value for each in self.instances for value in each.values.get(node, ())]

    def tensors(self, node: ast.Node) -> list[Tensor]:
        """The tensors that a node was."""
        return [each for each in self.values(node) if is_tensor(each)]

    def is_data(self, node: ast.Node) -> bool:
        """Returns True for a node that is a tensor, several or a list of them."""
        return any(
            is_tensor(each)
            or isinstance(each, TensorList | NamedResults)
            or (isinstance(each, tuple) and not isinstance(each, Axes))
            for each in self.values(node)
        )

    def result_names(self, node: ast.Node) -> tuple[str, ...]:
        """The names of the results that a node was; none if it was anything else."""
        found = {each.names for each in self.values(node) if isinstance(each, NamedResults)}
        return found.pop() if len(found) == 1 else ()

    def type_of(self, node: ast.Node) -> TensorType:
        """The type of a tensor, of which the element type and the rank are always the same."""
        types = [each.type for each in self.tensors(node)]
        if not types:
            raise refuse(node, "it is no tensor")
        first = types[0]
        if any(each.dtype is not first.dtype or each.rank != first.rank for each in types):
            raise refuse(node, "it has another rank or element type each time")
        return first

    def same_shapes(self, left: ast.Node, right: ast.Node) -> bool:
        """Returns True for two tensors that always have one shape."""
        pairs = zip(self.tensors(left), self.tensors(right), strict=False)
        return len(self.tensors(left)) == len(self.tensors(right)) and all(
            a.type.shape == b.type.shape for a, b in pairs
        )

    def fill(self, node: ast.Node) -> Code | None:
        """The number that a tensor is everywhere, as it is an optional one that was not given."""
        found = [
            instance.fill_of(value)
            for instance in self.instances
            for value in instance.values.get(node, ())
            if is_tensor(value)
        ]
        if not found or any(each is None or each != found[0] for each in found):
            return None
        if not isinstance(found[0], bool | int | float):
            return None
        return literal(found[0])

    def choice(self, node: ast.If | ast.Conditional) -> bool | None:
        """Returns the side that a choice always takes; None if it does not always take one."""
        made = {way for each in self.instances for way in each.choices.get(node, ())}
        if not made:
            raise refuse(node, "it is never reached")
        return made.pop() if len(made) == 1 else None

    def events(self, node: ast.Call) -> list[Event]:
        """The blocks that a call applied."""
        return [event for each in self.instances for event in each.events.get(node, ())]


def refuse(node: ast.Node, reason: str) -> ProblemError:
    """The error that a node is not written."""
    return refusal(f"`{short(node)}`", reason, node.span)


def short(node: ast.Node) -> str:
    """The text of a node on one line, shortened."""
    text = " ".join(node.span.text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
