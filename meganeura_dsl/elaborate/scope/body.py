"""The effects of an elaboration other than its graph, left by the blocks so far."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from meganeura_dsl.elaborate.scope.binding import Binding, NamedValue
from meganeura_dsl.elaborate.scope.summary import Applied

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.problem import ProblemError
    from meganeura_dsl.elaborate.problems.location import Location
    from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
    from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
    from meganeura_dsl.elaborate.values import StaticValue, Tensor
    from meganeura_dsl.syntax import ast

Config = tuple[tuple["StaticValue", ...], tuple[tuple[str, "StaticValue"], ...]]
"""Configuration as it was given, by position and by name."""
DECLARATIONS = (
    "parameters", "leaves", "updates", "claimed", "models", "declared_layers", "unapplied_layers",
    "layers",
)  # fmt: skip
"""The fields that another path through a block begins without."""
ATTEMPT = (*DECLARATIONS, "bindings", "notes", "named")
"""The fields that an attempt which fails leaves as they were."""
UNDONE = (*ATTEMPT, "streams", "own", "iterations")
"""All fields that can be undone; the others grow until the elaboration ends."""


@dataclass
class Body:
    """Effects of blocks: declarations, updates, random draws, and findings for the user."""

    parameters: dict[str, ParameterInfo] = field(default_factory=dict[str, "ParameterInfo"])
    """Parameters, states and caches by their full names."""
    leaves: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The value of each at the start of a step."""
    updates: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """The values of those that have another one by now."""
    own: list[str] = field(default_factory=list[str])
    """Names of what was declared outside of every model."""
    claimed: dict[str, Location] = field(default_factory=dict[str, "Location"])
    """The paths of weights in layers whose signatures were assumed."""
    models: dict[tuple[ast.Model, str], Config] = field(
        default_factory=dict[tuple["ast.Model", str], "Config"]
    )
    """The models applied without a label, by path; a second application shares the weights."""
    weights: dict[ast.Model, list[str]] = field(default_factory=dict["ast.Model", list[str]])
    """The parameters and states that a model brought with it, by name."""
    declared_layers: dict[str, int] = field(default_factory=dict[str, int])
    """The paths of declared layers, and how many parameters were declared before each."""
    unapplied_layers: set[str] = field(default_factory=set[str])
    """The paths of declared layers that were not applied so far, and have no weights yet."""
    layers: dict[str, BoundBlock] = field(default_factory=dict[str, "BoundBlock"])
    """The labelled layers by their full paths, with the mode of all their applications."""
    model_layers: dict[ast.Model, set[str]] = field(default_factory=dict["ast.Model", set[str]])
    """The paths of the labelled layers that a model brought with it."""
    copies: dict[str, tuple[str, Location]] = field(
        default_factory=dict[str, "tuple[str, Location]"]
    )
    """The copied layer and the statement, by the path of the layer that begins as its copy."""
    averaged: dict[str, Location] = field(default_factory=dict[str, "Location"])
    """The parameters and states that an update of their layer changes, and the statement."""
    streams: dict[str, int] = field(default_factory=dict[str, int])
    """The number of random draws, by the path of the block that draws."""
    counter: Tensor | None = None
    """The input that random numbers are drawn from, once there is one."""
    bindings: list[Binding] = field(default_factory=list[Binding])
    """Names that were bound, with their types, for editors and `check`."""
    named: list[NamedValue] | None = None
    """Values by their names, where they are asked for."""
    notes: list[ProblemError] = field(default_factory=list["ProblemError"])
    """Remarks on what is allowed."""
    applied: Applied = field(default_factory=Applied)
    """The applications so far."""
    iterations: int = 0
    """Iterations of loops that were unrolled."""

    def savepoint(self) -> Body:
        """Returns a copy that `undo` can go back to."""
        return replace(self, **{name: copy(getattr(self, name)) for name in UNDONE})

    def undo(self, saved: Body, names: Iterable[str]) -> None:
        """Sets the fields of these names to what they were when `saved` was made."""
        for name in names:
            setattr(self, name, copy(getattr(saved, name)))
