"""The response of a run to a loss or a gradient that is infinite or NaN."""

from enum import StrEnum


class NotFinitePolicy(StrEnum):
    """The values of `not_finite`."""

    STOP = "stop"
    """The run ends with the step and the first tensor that is not finite."""
    SKIP = "skip"
    """The update is left out: parameters, states and moments stay as they were."""
    IGNORE = "ignore"
    """The run goes on."""
