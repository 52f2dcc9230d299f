"""Facts about values of the graph beyond their types, by the ids of the values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meganeura_dsl.diagnostics.source import Span
    from meganeura_dsl.elaborate.values import ElabValue, Tensor
    from meganeura_dsl.symbolic.assumptions import Condition
    from meganeura_dsl.symbolic.size import Dim, Size


@dataclass(frozen=True)
class Applied:
    """The inputs of a layer of whose result only the type is known."""

    value: Tensor
    operands: tuple[Tensor, ...]
    span: Span
    """The application, in the text of the user."""
    block: str = ""
    """The name of the layer's block."""
    config: Mapping[str, ElabValue] = field(default_factory=dict[str, "ElabValue"])
    is_library: bool = False
    results: tuple[Tensor, ...] = ()
    """All results, in their order, where a signature alone is known."""

    @property
    def layer(self) -> str:
        """The name of the block, if it is one of the library; else empty."""
        return self.block if self.is_library else ""


@dataclass
class ValueFacts:
    """Knowledge about single values that is kept as long as the elaboration."""

    fill_values: dict[int, float | Dim] = field(default_factory=dict[int, "float | Dim"])
    """The numbers that fill optional tensors which were not given."""
    symbolic_ints: dict[int, Size] = field(default_factory=dict[int, "Size"])
    """The sizes that whole numbers of the graph are."""
    derived_ints: dict[int, tuple[tuple[Condition, ...], Size]] = field(
        default_factory=dict[int, "tuple[tuple[Condition, ...], Size]"]
    )
    """The facts by which others were found to be a size, and the size."""
    symbol_ranges: dict[str, tuple[Condition, ...]] = field(
        default_factory=dict[str, "tuple[Condition, ...]"]
    )
    """The conditions on symbols that stand for computed whole numbers, which are 0 or more."""
    unconstrained_indices: set[int] = field(default_factory=set[int])
    """Inputs that are used as they are fed: the feeder has checked them against their bound."""
    applied: dict[int, Applied] = field(default_factory=dict[int, Applied])
    """The origins of values of which only the type is known; ids of undone attempts are reused."""
    made: dict[int, Applied] = field(default_factory=dict[int, Applied])
    """The layers of the library that were run in a proof, by their results."""
    inside: set[int] = field(default_factory=set[int])
    """The values that such layers made, their results among them."""
    lasting_symbols: set[str] = field(default_factory=set[str])
    """Symbols that were made up and that messages and facts name until the end."""

    def source_of(self, value: Tensor) -> Applied | None:
        """Returns the origin of a value of which only the type is known, if a layer made it."""
        found = self.applied.get(value.id)
        return found if found is not None and found.value is value else None

    def layer_at(self, span: Span) -> Applied | None:
        """Returns the application at a place in the text, if there is one."""
        found = (*self.applied.values(), *self.made.values())
        return next((each for each in found if each.span == span), None)

    def layer_of(self, value: Tensor) -> Applied | None:
        """Returns the application that gave a value, of a layer whose body was run as well."""
        found = self.source_of(value) or self.made.get(value.id)
        return found if found is not None and found.value is value else None
