"""What can go wrong during a run, on any device, and the words for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Label, Problem, Remark, Report
from meganeura_dsl.source import Span
from meganeura_runtime.session.need import MemoryExceededError, gigabytes


@dataclass(frozen=True)
class LossNotFinite(Problem):
    """The loss became infinite or NaN, and every parameter with it or soon after.

    The run is stopped, and its last checkpoint, from before, is kept. The steps since then are made
    again to find the first value that is not finite; `--detect-anomaly` looks at each step as it is
    made, which is slower. Common causes: a learning rate that is too large, data that is not
    scaled, a division or a logarithm that reached 0.
    """

    code = "E0550"
    topic: ClassVar[str] = "training"

    step: int
    loss: str
    """What the loss is; empty if it is finite and what the step left behind is not."""
    first: str = ""
    """What the first value that is not finite is, and of which step; empty if it was not found."""
    span: Span | None = None
    path: str = ""

    def report(self) -> Report:
        found = (Remark("first", self.first),) if self.first else ()
        what = f"the loss is {self.loss}" if self.loss else "a parameter is no longer finite"
        return Report(
            self.code,
            self.severity,
            f"{what} at step {self.step:,}",
            self.topic,
            None if self.span is None else Label(self.span, "this is no longer finite"),
            (*found, Remark("", "the last checkpoint, from before, is kept")),
            Help("try a smaller learning rate, or clip the gradients", "--set clip_norm=1.0"),
            self.path,
        )


@dataclass(frozen=True)
class CannotResume(Problem):
    """A run cannot go on as if it had not been interrupted.

    `meganeura train PROGRAM --resume RUN` needs the program as it was when the run began, and the
    run's last checkpoint. Everything a step depends on is as it was then; only what it does not
    depend on may be given anew, such as `--set epochs=40`.
    """

    code = "E0553"
    topic: ClassVar[str] = "training"

    reason: str
    changeable: tuple[str, ...] = ()

    def report(self) -> Report:
        names = ", ".join(self.changeable)
        cure = Help(f"only these may be given anew: {names}") if names else None
        headline = f"the run cannot be resumed: {self.reason}"
        return Report(self.code, self.severity, headline, self.topic, None, (), cure)


@dataclass(frozen=True)
class FolderInUse(Problem):
    """Another process is writing to the folder of a run.

    Two runs in one folder would mix their metrics, and each replace the other's weights. The
    process that has the folder holds a lock on its file `.lock`, which the system takes back when
    that process ends, however it ends: a lock never has to be removed by hand.
    """

    code = "E0555"
    topic: ClassVar[str] = "training"

    folder: Path
    process: int | None
    """Who has it; `None` if it has not said so yet."""

    def report(self) -> Report:
        who = "another process" if self.process is None else f"process {self.process}"
        return Report(
            self.code,
            self.severity,
            f"the run folder `{self.folder}` is in use by {who}",
            self.topic,
            None,
            (),
            Help("wait until it is done, or give another folder", "--out FOLDER"),
        )


@dataclass(frozen=True)
class DataChanged(Problem):
    """A run cannot go on with other data than it was begun with.

    A checkpoint has a fingerprint of every tensor that the run is fed: its type, its shape, how
    many examples there are and a hash of all elements. With other examples the order of an epoch,
    the number of its steps and every loss would be those of another run. Where the data is does not
    matter: `--set data=FILE` names a file that was moved.
    """

    code = "E0557"
    topic: ClassVar[str] = "training"

    file: Path
    changed: tuple[tuple[str, str, str], ...]
    """Names of tensors, what they were and what they are; empty where there was or is none."""

    def report(self) -> Report:
        remarks = [
            Remark(label, what or "not there")
            for name, then, now in self.changed
            for label, what in ((f"{name} was", then), ("is now", now))
        ]
        return Report(
            self.code,
            self.severity,
            f"the run cannot be resumed: `{self.file}` is not the data it was begun with",
            self.topic,
            None,
            tuple(remarks),
            Help("name the data it was begun with, if it was moved", "--set data=FILE"),
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


PROBLEMS: tuple[type[Problem], ...] = (
    LossNotFinite,
    FolderInUse,
    DataChanged,
    DeviceFailure,
    BeyondLimits,
    CannotResume,
    TooLittleMemory,
)
"""Every kind of problem that only a run can have."""
