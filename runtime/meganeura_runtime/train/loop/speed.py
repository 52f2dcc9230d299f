"""The speed of a run."""

from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Speed:
    """Steps and examples per second, of all devices together."""

    steps: float
    examples: float


class Clock:
    """The speed between two log points, evaluations and checkpoints left out."""

    def __init__(self) -> None:
        self._since = perf_counter()
        self._step = 0
        self.examples = 0
        """The examples of the steps since then."""

    def start(self, step: int) -> None:
        """Count from this step and this moment."""
        self._since, self._step, self.examples = perf_counter(), step, 0

    def leave_out(self, seconds: float) -> None:
        """Do not count this time."""
        self._since += seconds

    def speed(self, step: int) -> Speed:
        """The speed since the last time this was asked."""
        seconds = max(perf_counter() - self._since, 1e-9)
        found = Speed((step - self._step) / seconds, self.examples / seconds)
        self.start(step)
        return found
