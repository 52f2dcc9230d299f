"""A layer of the library without weights, as it is applied."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.elaborate.values import is_tensor
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.configuration import config
from meganeura_runtime.export.source.layers import Given
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.trace import Event


def _number_of(node: ast.Expression | None) -> int | float | bool | None:
    match node:
        case ast.Integer(value=value) | ast.Real(value=value) | ast.Boolean(value=value):
            return value
        case _:
            return None


@dataclass(frozen=True)
class Use:
    """A layer without weights, as it is applied."""

    writer: BlockWriter
    node: ast.Call
    events: Sequence[Event]
    given: Given

    def tensor(self, name: str) -> Code:
        """The text of an input."""
        return self.given[name]

    def config(self, name: str, default: str) -> Code:
        """The text of an argument."""
        return config(self.writer, self.node, self.events, name, "forward") or Code(default)

    def is_given(self, name: str) -> bool:
        """Returns True where an optional input is a tensor, or another number than its default."""
        item = next(each for each in self.events[0].child.block.inputs if each.name == name)
        default = _number_of(item.default)
        fills = [each.child.fill_of(each.child.signature[name]) for each in self.events]
        return default is None or any(each is None or each != default for each in fills)

    def rank(self, name: str = "x") -> int:
        """The rank of an input, 0 if it is not always the same."""
        ranks = {
            value.type.rank
            for each in self.events
            if is_tensor(value := each.child.signature[name])
        }
        return ranks.pop() if len(ranks) == 1 else 0

    def always(self, name: str) -> object:
        """The value of an argument, if it is always the same."""
        found = [each.child.signature[name] for each in self.events]
        return found[0] if all(each == found[0] for each in found) else None


Functions = Mapping[str, Callable[[Use], Code | None]]
"""The forms of layers of the library in a system, by name; None where it has no form."""


def function_for(
    functions: Functions,
    writer: BlockWriter,
    node: ast.Call,
    events: Sequence[Event],
    given: Given,
) -> Code | None:
    """A layer without weights as a function of a system; None if there is none."""
    first = events[0].child
    if not first.frame.module.is_library or first.owns:
        return None
    function = functions.get(first.block.name.text)
    return None if function is None else function(Use(writer, node, events, given))
