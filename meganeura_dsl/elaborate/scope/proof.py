"""The state that only a proof of a block for all sizes and configurations has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from meganeura_dsl.elaborate.scope.deferred import DeferredNumber, Scope

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.source import Span
    from meganeura_dsl.elaborate.scope.linker import LinkedModule
    from meganeura_dsl.elaborate.values import ElabValue
    from meganeura_dsl.ir.types import Shape
    from meganeura_dsl.symbolic.assumptions import Condition
    from meganeura_dsl.syntax import ast


@dataclass
class ProofPath:
    """The decisions on one path through a block whose conditions depend on its configuration."""

    decided: list[bool] = field(default_factory=list[bool])
    next: int = 0
    words: list[str] = field(default_factory=list[str])
    assumed: list[Condition] = field(default_factory=list["Condition"])
    """The decisions, in order."""
    case: tuple[str, ...] = ()
    """Words that distinguish the values that the proof assumes for the configuration."""
    given: tuple[str, ...] = ()
    """Decisions from before this path began; its words start with them."""
    is_joined: bool = False
    """True if what is found on each path is joined to one condition, so that none is left out."""

    def begin(self) -> None:
        """Be at the beginning of the path again."""
        self.next = 0
        self.words[:] = self.given
        self.assumed.clear()

    def advance(self) -> bool:
        """Go on to the next path, if one is left."""
        while self.decided and not self.decided[-1]:
            self.decided.pop()
        if self.decided:
            self.decided[-1] = False
        return bool(self.decided)


@dataclass
class Proof(Generic[Scope]):
    """The state that only a proof of a block for all sizes and configurations has."""

    flags_if_proved: Callable[[LinkedModule, ast.Block], frozenset[str] | None] | None = None
    """Returns the flags of a block whose signature may be assumed; None if it may not."""
    opened: frozenset[str] = frozenset()
    """The paths of layers whose bodies are elaborated, as some weight of them is read."""
    whole_numbers: set[str] = field(default_factory=set[str])
    """The names of configuration that may be any whole number."""
    inferred_flags: dict[str, Span] = field(default_factory=dict[str, "Span"])
    """The configuration without a kind that was used as a condition, and where."""
    assumed: dict[tuple[str, ast.Block], tuple[Scope, dict[str, ElabValue]]] = field(
        default_factory=dict["tuple[str, ast.Block]", "tuple[Scope, dict[str, ElabValue]]"]
    )
    """The frame and the signature of each layer whose body was not elaborated.

    It is known by its path and its block, as the label `.` puts several on one path.
    """
    contracts: set[str] = field(default_factory=set[str])
    """The paths of layers of which only a header is known."""

    def assumed_around(self, name: str) -> str | None:
        """Returns the path of the layer a weight is in, if it was not looked into."""
        paths = (path for path, _ in self.assumed if not path or name.startswith(f"{path}."))
        return max(paths, key=len, default=None)


@dataclass
class Abstraction(Generic[Scope]):
    """Sizes that a summary of a check leaves open, so that it holds for other numbers."""

    symbols: frozenset[str] = frozenset()
    """The symbols that stand for these sizes."""
    numbers: frozenset[str] = frozenset()
    """The symbols that stand for numbers, each for another one."""
    deferred: list[DeferredNumber[Scope]] = field(default_factory=list["DeferredNumber[Scope]"])
    """Numbers that depend on what the symbols stand for."""
    requirements: list[Condition] = field(default_factory=list["Condition"])
    """Extra constraints on the symbols, to be proved by the caller."""
    shapes: set[Shape] = field(default_factory=set["Shape"])
    """The shapes of values that only summaries know of."""
