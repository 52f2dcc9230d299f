"""A block value and the file that its declaration stands in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.values import BlockValue

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.scope.linker import LinkedModule


@dataclass(frozen=True, repr=False)
class BoundBlock(BlockValue):
    """A block value and the file that its declaration stands in.

    A layer in scope is one with a path: applied again, it has the same weights.
    """

    module: LinkedModule = field(kw_only=True, compare=False)
    declared: Location | None = field(default=None, kw_only=True, compare=False)
    """The `layer` statement that declared it, if one did."""
