"""The parts of the state of an elaboration that know no frame."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.symbolic.assumptions import Condition, Facts

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.problem import Problem
    from meganeura_dsl.elaborate.scope.linker import LinkedModule
    from meganeura_dsl.elaborate.scope.summary import Summaries
    from meganeura_dsl.elaborate.scope.template import Template
    from meganeura_dsl.elaborate.values import ElabValue, StaticValue, Tensor
    from meganeura_dsl.ir.graph import Builder
    from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class ElaboratedObjective:
    """An objective that was elaborated: its loss, what it moves, and the statement."""

    number: int
    loss: Tensor
    moves: frozenset[str]
    """The names of the parameters that have other values from here on; none in evaluation."""
    location: Location
    is_limited: bool
    """True if it says what it moves."""


@dataclass
class Train:
    """Outputs and objectives of a `train` block so far; empty in a model."""

    outputs: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The loss, metrics and tensors to show, by name."""
    objectives: list[ElaboratedObjective] = field(default_factory=list["ElaboratedObjective"])
    """The objectives, in order."""
    unprojected: dict[str, Location] = field(default_factory=dict[str, "Location"])
    """The parameters below the path of a `project` that stood above their objective."""
    shown: set[str] = field(default_factory=set[str])
    """The names of what is shown."""
    counter: str | None = None
    """The size that counts examples."""
    derived: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The inputs that say which rows are of which example, by the calls that give them."""

    def copy(self) -> Train:
        """Returns a copy to go back to, when an iteration is elaborated again."""
        return replace(
            self, outputs=dict(self.outputs), objectives=list(self.objectives),
            unprojected=dict(self.unprojected), shown=set(self.shown),
        )  # fmt: skip


@dataclass(frozen=True)
class Repeated:
    """The problem of a second iteration of a loop, by its index, and the facts there."""

    index: str
    problem: Problem
    facts: Facts


@dataclass
class SymbolicLoops:
    """Loops whose number of iterations is a symbol: one iteration stands for all of them."""

    indices: set[str] = field(default_factory=set[str])
    """Names of the symbolic indices."""
    open: tuple[str, ...] = ()
    """The open loops whose next iteration would declare the same again."""
    repeated: tuple[Repeated, ...] = ()
    """The problems of a second iteration of these loops."""


@dataclass
class Uncertain:
    """Scans that may have no iteration for some sizes."""

    has_iterations: dict[Condition, None] = field(default_factory=dict["Condition", None])
    """The conditions under which they have one, each once."""
    is_any_empty: bool = False
    """True if one of them has none for the sizes of this elaboration."""

    @contextmanager
    def with_iterations(self, build: Builder) -> Generator[None]:
        """Takes all loops to have iterations; results of one that has none are never computed."""
        before = build.facts
        for condition in self.has_iterations:
            build.facts = build.facts.assume(condition)
        try:
            yield
        finally:
            build.facts = before


@dataclass(frozen=True, eq=False)
class GivenWeights:
    """Values that replace the parameters of a layer, by their full names."""

    tensors: Mapping[str, Tensor]


Mode = tuple[tuple[str, "StaticValue"], ...]
"""`training` and `frozen`, as far as they are given."""


@dataclass(frozen=True)
class Context:
    """The mode that a part is elaborated in; what is applied inside of it inherits the mode."""

    training: StaticValue = False
    """The value of the name `training`."""
    frozen: bool = False
    """True if parameters are read as constants."""
    shared: bool = False
    """True if a layer is being applied again, so that its parameters already exist."""
    again: Location | None = None
    """The place where it is applied again."""
    open_models: int = 0
    """The number of models around this part."""
    summaries: Summaries | None = None
    """The summaries of a check, for applications that are not elaborated again."""
    is_proved: Callable[[LinkedModule, ast.Block], bool] | None = None
    """Returns whether a block holds for all sizes; None where that is not asked."""
    weights: GivenWeights | None = None
    """Values for the parameters of a layer that is applied with changed weights."""
    kept_mode: Mode = ()
    """The mode that the labels and models around this part hold for all applications."""


class ContextChanges(TypedDict, total=False):
    """The fields of a context that change on the way down."""

    training: StaticValue
    frozen: bool
    shared: bool
    again: Location | None
    open_models: int
    weights: GivenWeights | None
    kept_mode: Mode


@dataclass
class Memo:
    """Results that are computed once in an elaboration."""

    def_results: dict[tuple[object, ...], ElabValue] = field(
        default_factory=dict[tuple[object, ...], "ElabValue"]
    )
    """The value of each `def` for each of its arguments."""
    templates: dict[Hashable, Template] | None = field(default_factory=dict["Hashable", "Template"])
    """Recorded applications of library layers, to be repeated; None to run each application."""
    fitting_blocks: set[Hashable] = field(default_factory=set["Hashable"])
    """The block arguments that were found to fit."""
