"""What a device cannot do, and the words for it."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Help, Label, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.memory_estimate import MemoryExceededError, gigabytes


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


@dataclass(frozen=True)
class TooLittleMemory(Problem):
    """A step takes more memory than the device has.

    Nothing has run yet. The largest values of the fullest moment of a step are shown, each with the
    line that makes it. All but parameters and moments grows with the batch; how large a batch fits
    is known where the device says how much memory it has, as the CPU does and GPUs do not.
    """

    code = "E0554"
    topic: ClassVar[str] = "device"

    needed: str
    available: str
    """What the device has; empty if it does not say."""
    largest: tuple[str, ...]
    cure: str
    change: str | None = None

    @staticmethod
    def of(error: MemoryExceededError, batch: tuple[str, int] | None) -> "TooLittleMemory":
        """The problem, and the batch that would fit if that is known."""
        need, available = error.need, error.available
        cure, change = "a smaller batch takes less", None
        if available is None:
            half = gigabytes((need.bytes + need.kept) // 2)
            cure = f"half the batch would take about {half}"
        elif (share := need.share(available)) == 0:
            cure = "even without a batch, its parameters would not fit"
        elif batch is not None and (fitting := int(share * batch[1])) > 0:
            cure, change = "about so large a batch would fit", f"--set {batch[0]}={fitting}"
        shown = "" if available is None else gigabytes(available)
        return TooLittleMemory(gigabytes(need.bytes), shown, need.largest, cure, change)

    def report(self) -> Report:
        there = f", and {self.available} are free" if self.available else ", which is not there"
        headline = f"a step takes {self.needed} of memory{there}"
        remarks = tuple(Remark("" if i else "largest", x) for i, x in enumerate(self.largest))
        cure = Help(self.cure, self.change)
        return Report(self.code, self.severity, headline, self.topic, None, remarks, cure)


@dataclass(frozen=True)
class UnsupportedOp(Problem):
    """The program needs an op that the backend of the device does not have.

    The devices `cpu` and `wgpu` run every op. Backends that were added may run fewer; each says
    which in its table of ops.
    """

    code = "E0558"
    topic: ClassVar[str] = "device"

    span: Span | None
    path: str
    op: str
    backend: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"the backend `{self.backend}` does not support the op `{self.op}`",
            self.topic,
            None if self.span is None else Label(self.span, "it is needed here"),
            (),
            Help("run it on another device, such as --device cpu"),
            self.path,
        )


@dataclass(frozen=True)
class UnsupportedPrecision(Problem):
    """The device computes in other floats than `precision` asks for.

    `f32` is there on every device. `tf32` and `bf16` are for the matrix units of GPUs, which the
    devices `xla:gpu` reach; `xla:cpu` computes in `bf16` too, slowly, so that it can be tried.
    """

    code = "E0559"
    topic: ClassVar[str] = "device"

    device: str
    precision: ComputePrecision
    reason: str
    others: tuple[ComputePrecision, ...]

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"`{self.device}` does not compute in {self.precision}",
            self.topic,
            None,
            (Remark("because", self.reason),),
            Help(f"choose {' or '.join(self.others)}, or --device xla:gpu, which has all"),
        )


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


PROBLEMS: tuple[type[Problem], ...] = (
    DeviceFailure,
    BeyondLimits,
    TooLittleMemory,
    UnsupportedOp,
    UnsupportedPrecision,
    NoClock,
)
"""Every kind of problem that a device can have."""
