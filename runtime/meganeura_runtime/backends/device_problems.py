"""Problems with what a device cannot do, and their words."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.memory_estimate import MemoryExceededError, gigabytes


class DeviceFailure(Problem, code="E0551", topic="device"):
    """The device that was asked for is not there, or stopped working."""

    reason: str

    def report(self) -> Report:
        cure = Help(
            "`meganeura devices` lists what there is, and every machine has", "--device cpu"
        )
        return self.message(self.reason, cure=cure)


class BeyondLimits(Problem, code="E0552", topic="device"):
    """A value of the program is larger than the adapter can hold or reach in one piece."""

    span: Span | None
    path: str
    limit: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"a value exceeds the adapter's limit `{self.limit}`",
            Remark("because", self.reason),
            span=self.span,
            label="it is made here",
            cure=Help("try a smaller batch, or --device cpu"),
            path=self.path,
        )


class TooLittleMemory(Problem, code="E0554", topic="device"):
    """A step takes more memory than the device has."""

    needed: str
    available: str
    """The features that the device has; empty if it does not say."""
    largest: tuple[str, ...]
    cure: str
    change: str | None = None
    is_stated: bool = False
    """True if it is the setting `memory` that says what there is."""

    @staticmethod
    def of(error: MemoryExceededError, batch: tuple[str, int] | None) -> "TooLittleMemory":
        """The problem, and the batch that would fit if that is known."""
        need, available = error.need, error.available
        cure, change = "a smaller batch takes less", None
        if available is None:
            half = gigabytes((need.bytes + need.persistent) // 2)
            cure = f"half the batch would take about {half}"
        elif (share := need.share(available)) == 0:
            cure = "even without a batch, its parameters would not fit"
        elif batch is not None and (fitting := int(share * batch[1])) > 0:
            cure, change = "about so large a batch would fit", f"--set {batch[0]}={fitting}"
        shown = "" if available is None else gigabytes(available)
        return TooLittleMemory(gigabytes(need.bytes), shown, need.largest, cure, change)

    @staticmethod
    def beyond(stated: int, needed: int) -> "TooLittleMemory":
        """The problem of a run that cannot be made to take as little as the setting says."""
        cure = "a smaller batch takes less; `meganeura fit` finds the largest that fits"
        return TooLittleMemory(gigabytes(needed), gigabytes(stated), (), cure, is_stated=True)

    def report(self) -> Report:
        there = f", and {self.available} are free" if self.available else ", which is not there"
        there = f", and `memory` is {self.available}" if self.is_stated else there
        what = "run" if self.is_stated else "step"
        headline = f"a {what} takes {self.needed} of memory{there}"
        remarks = tuple(Remark("" if i else "largest", x) for i, x in enumerate(self.largest))
        cure = Help(self.cure, self.change)
        return self.message(headline, *remarks, cure=cure)


class UnsupportedOp(Problem, code="E0558", topic="device"):
    """The program needs an op that the backend of the device does not have."""

    span: Span | None
    path: str
    op: str
    backend: str

    def report(self) -> Report:
        return self.message(
            f"the backend `{self.backend}` does not support the op `{self.op}`",
            span=self.span,
            label="it is needed here",
            cure=Help("run it on another device, such as --device cpu"),
            path=self.path,
        )


class UnsupportedPrecision(Problem, code="E0559", topic="device"):
    """The device computes in other floats than `precision` asks for."""

    device: str
    precision: ComputePrecision
    reason: str
    others: tuple[ComputePrecision, ...]

    def report(self) -> Report:
        is_half = self.precision is ComputePrecision.F16
        device = "dawn, on a GPU with matrix units" if is_half else "xla:gpu, which has it"
        return self.message(
            f"`{self.device}` does not compute in {self.precision}",
            Remark("because", self.reason),
            cure=Help(f"choose {' or '.join(self.others)}, or --device {device}"),
        )


class NoClock(Problem, code="E0590", topic="device"):
    """Kernels are to be timed, and the adapter has no clock that a program may read."""

    device: str

    def report(self) -> Report:
        return self.message(
            f"{self.device} has no clock: it lacks `timestamp-query`",
            cure=Help("update its driver, choose another device, or time the ops of --device cpu"),
        )
