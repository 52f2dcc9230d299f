"""What stands in the way of measuring, and the words for it."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


@dataclass(frozen=True)
class NoClock(Problem):
    """Kernels are to be timed, and the adapter has no clock that a program may read.

    `profile`, `tune` and `--profile` time kernels by timestamp queries, which WebGPU leaves
    optional (the feature `timestamp-query`). `meganeura devices` lists the other devices there are;
    the device `cpu` times its ops by the host's clock.
    """

    code = "E0590"
    topic: ClassVar[str] = "device"

    device: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"{self.device} has no clock: it lacks `timestamp-query`",
            self.topic,
            None,
            (),
            Help("update its driver, choose another device, or time the ops of --device cpu"),
        )


PROBLEMS: tuple[type[Problem], ...] = (NoClock,)
"""Every kind of problem that only measuring can have."""
