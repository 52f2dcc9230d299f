"""Steps whose outputs are read later, once the device has computed them."""

import math
from dataclasses import dataclass

from meganeura_dsl.transforms.training_step import BESIDE_METRICS, LOSS
from meganeura_runtime.backends.base import Outputs
from meganeura_runtime.train.loop.speed import Speed


@dataclass(frozen=True)
class StepRecord:
    """The outputs of a step, to be read and reported; the step is counted from 1."""

    step: int
    epoch: int
    examples: int
    rates: tuple[float, ...]
    outputs: Outputs
    lasted: tuple[float, float]
    """The times at which the loop began it and submitted it, by the host's clock."""
    speed: Speed | None = None
    """The speed at that time, if the step is to be logged."""

    @property
    def loss(self) -> float:
        """The loss; the first time, this waits for the step."""
        return float(self.outputs[LOSS])

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the program."""
        return {
            name: float(value) for name, value in self.outputs.items() if name not in BESIDE_METRICS
        }

    def due(self, behind: int) -> int:
        """The step after which it is read without waiting, on a device so many steps behind.

        The outputs of a step that is logged were requested; others come with the step after it.
        """
        return self.step + (behind if self.speed is not None or behind == 0 else behind + 1)


class Losses:
    """The losses of an epoch so far, summed in the order of its steps."""

    def __init__(self, already: float = 0.0, examples: int = 0) -> None:
        self.sum = already
        self.examples = examples
        self._since: float | None = None

    @property
    def mean(self) -> float:
        """The mean over all examples; not a number where no loss was finite."""
        return self.sum / self.examples if self.examples else math.nan

    def add(self, reading: StepRecord, loss: float) -> None:
        """Count the loss of a step as often as it has examples."""
        if self._since is None:
            self._since = reading.lasted[0]
        self.sum += loss * reading.examples
        self.examples += reading.examples

    def seconds(self, last: StepRecord) -> float:
        """Returns the seconds from the beginning of the first step added to the end of the last."""
        return last.lasted[1] - (last.lasted[0] if self._since is None else self._since)
