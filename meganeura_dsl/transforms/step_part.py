"""The graphs that a training step may be divided into.

All of them keep the same parameters and states, so that sessions of them share one set.
"""

from enum import Enum


class StepPart(Enum):
    """The part of a training step that a graph computes."""

    WHOLE = "whole"
    """The forward pass, the gradients and the update."""
    SUM = "sum"
    """The forward pass and the gradients, which are added to their sums. Moves no parameter."""
    GRADIENTS = "gradients"
    """The forward pass and the gradients, which are outputs. Moves no parameter."""
    UPDATE = "update"
    """The update alone, by gradients that are inputs."""

    @property
    def moves(self) -> bool:
        """True if it moves parameters."""
        return self in (StepPart.WHOLE, StepPart.UPDATE)
