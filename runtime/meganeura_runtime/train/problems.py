"""What can go wrong during a run, on any device, and the words for it."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Label, Problem, Remark, Report
from meganeura_dsl.source import Span


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


@dataclass(frozen=True)
class DeviceFailure(Problem):
    """The device that was asked for is not there, or stopped working.

    `meganeura devices` lists what there is. `--device cpu` needs no driver and gives the same
    results; `--device auto`, the default, takes it where there is no GPU.
    """

    code = "E0551"
    topic: ClassVar[str] = "device"

    reason: str

    def report(self) -> Report:
        return Report(self.code, self.severity, self.reason, self.topic, None)


@dataclass(frozen=True)
class BeyondLimits(Problem):
    """A value of the program is larger than the adapter can hold or reach in one piece.

    Every GPU has limits on the bytes of a buffer and of a binding. A smaller batch makes most
    values smaller; `--device cpu` has no such limits.
    """

    code = "E0552"
    topic: ClassVar[str] = "device"

    span: Span | None
    path: str
    limit: str
    reason: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"a value exceeds the adapter's limit `{self.limit}`",
            self.topic,
            None if self.span is None else Label(self.span, "it is made here"),
            (Remark("because", self.reason),),
            Help("try a smaller batch, or --device cpu"),
            self.path,
        )


PROBLEMS: tuple[type[Problem], ...] = (LossNotFinite, DeviceFailure, BeyondLimits)
"""Every kind of problem that only a run can have."""
