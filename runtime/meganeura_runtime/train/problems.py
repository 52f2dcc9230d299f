"""What can go wrong during a run, and the words for it."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Problem, Remark, Report


@dataclass(frozen=True)
class LossNotFinite(Problem):
    """The loss became infinite or NaN, and every parameter with it or soon after.

    The run is stopped, and its last checkpoint, from before, is kept. Common causes: a learning
    rate that is too large, data that is not scaled, a division or a logarithm that reached 0.
    """

    code = "E0550"
    topic: ClassVar[str] = "training"

    step: int
    loss: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"the loss is {self.loss} at step {self.step:,}",
            self.topic,
            None,
            (Remark("", "the last checkpoint, from before, is kept"),),
            Help("try a smaller learning rate, or clip the gradients", "--set clip_norm=1.0"),
        )


PROBLEMS: tuple[type[Problem], ...] = (LossNotFinite,)
"""Every kind of problem that only a run can have."""
