"""Scans whose bodies are being elaborated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.values import NamedTensors, Tensor
    from meganeura_dsl.ir.ops.primitive.loop_region import Region
    from meganeura_dsl.symbolic.size import Dim, Size
    from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Written:
    """A value that each iteration writes to its slice; `backward` if the last is written first."""

    value: Tensor
    axis: int
    backward: bool
    statement: ast.Part


@dataclass(eq=False)
class OpenScan:
    """A scan whose body is being elaborated; `index` is the symbol of its index."""

    frame: object
    """The frame of the statement, which is compared and not read."""
    region: Region
    index: Dim
    start: Size
    stop: Size
    number: int
    """No two scans of an elaboration have the same."""
    carried: dict[str, Tensor]
    """The value of a name at the start of an iteration, if it was bound outside."""
    before: dict[str, Tensor]
    """The values of these names outside."""
    parts: frozenset[str]
    """The names of which an iteration writes parts."""
    named_once: frozenset[str]
    """The names that stand once in the statements of an iteration, and in none of its loops."""
    bound: dict[str, ast.Bind]
    """The statements of an iteration that bind names, by these."""
    is_certain: bool = True
    """True if there is an iteration for all sizes."""
    read: set[str] = field(default_factory=set[str])
    """The names of which an iteration reads what it finds, or leaves another value to the next."""
    written: dict[str, Written] = field(default_factory=dict[str, "Written"])
    grouped: dict[str, NamedTensors] = field(default_factory=dict[str, "NamedTensors"])
    """The weights and results that iterations carry in parts, by name, as they are outside."""
    states: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The value, at the start of an iteration, of a state that iterations update."""
    going: Tensor | None = None
    """True at the start of an iteration if the `while` of the scan has held so far."""
    goes_on: Tensor | None = None
    """True if this iteration counts."""
    safe: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The value of a carried name in the body of a scan with `while`."""
    known: frozenset[str] = frozenset()
    """The parameters and states that were declared before the scan."""
    losses: list[Tensor] = field(default_factory=list["Tensor"])
    """The losses that an iteration of a `repeat` minimizes."""
    moved: set[str] = field(default_factory=set[str])
    """The parameters that these losses move."""
    key: Tensor | None = None
    """The counter of the iteration's random draws, u32[2], if it draws."""

    def is_at_start(self, name: str, value: object) -> bool:
        """True if a value is what a carried name is at the start of an iteration."""
        return value is not None and (
            self.carried.get(name) is value or self.safe.get(name) is value
        )

    @property
    def iterations(self) -> Size:
        """The number of iterations."""
        return self.stop - self.start

    @property
    def is_empty(self) -> bool:
        """True if there is no iteration: values in it do not exist, and nobody reads them."""
        start, stop = self.start, self.stop
        return isinstance(start, int) and isinstance(stop, int) and start >= stop
