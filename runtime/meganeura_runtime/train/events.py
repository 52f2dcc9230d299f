"""The events of a run, as its observers receive them: a progress bar, a log, a test.

A run tells, in this order: `Started`; `Compiling` and `Compiled`, where there are kernels to
compile; for each step `Stepped`, and behind it `Logged` if the step is logged and `Evaluated` if
`eval_every_steps` asks for it; after each epoch `EpochEnded`, `Evaluated` if it is evaluated, and
`Saved` for each file; and `Finished`. `Sampled` comes where an evaluation is due. Steps are counted
from 1, epochs from 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Group:
    """Parameters with an optimizer of their own."""

    setting: str
    """The text of the setting: `optimizer["*.bias"] = sgd(lr=0.1)`."""
    parameters: int
    weights: int
    """Numbers in all of them together."""


@dataclass(frozen=True)
class Warmup:
    """A warmup that is longer than the run: the learning rate never reaches its full value."""

    setting: str
    """The text of the setting: `schedule = cosine(warmup=1000)`."""
    updates: int
    """The number of updates of the whole run."""
    share: float
    """The highest learning rate of the run as a share of the optimizer's."""


@dataclass(frozen=True)
class Started:
    """The first step is about to be made."""

    name: str
    epochs: int
    steps_per_epoch: int
    steps: int
    """The number of steps of the whole run, which may end in the middle of an epoch."""
    examples: int
    held_out: int
    parameters: int
    weights: int
    """Numbers in all trained parameters together."""
    untouched: tuple[str, ...] = ()
    """Parameters to train that no gradient reaches."""
    batch: int = 0
    """Examples of a full batch."""
    left_out: int = 0
    """Examples of each epoch that fill no batch and are left out."""
    last_batch: int = 0
    """Examples of the last batch of each epoch where it is smaller than the others, else 0."""
    groups: tuple[Group, ...] = ()
    """The parameters by their optimizers, where there are several."""
    warmups: tuple[Warmup, ...] = ()
    """The warmups that the run ends within."""
    empty_files: int = 0
    """Files of the data that have no example, as a text shorter than a sequence."""


@dataclass(frozen=True)
class Compiling:
    """Kernels are being compiled, which the first step has to wait for."""

    kernels: int


@dataclass(frozen=True)
class Compiled:
    """The kernels are compiled."""

    kernels: int
    seconds: float
    """The seconds since the first of them was begun; other work ran meanwhile."""
    memory: Mapping[str, int] | None = None
    """The bytes of a step by role, where the compiler says them."""


@dataclass(frozen=True)
class Stepped:
    """A step was submitted. Nothing was read back."""

    step: int
    epoch: int


@dataclass(frozen=True)
class Logged:
    """The loss and the metrics of one step were read."""

    step: int
    epoch: int
    loss: float
    metrics: Mapping[str, float]
    learning_rate: float
    steps_per_second: float
    examples_per_second: float
    """The examples per second of all devices together."""


@dataclass(frozen=True)
class EpochEnded:
    """The losses of all steps of an epoch were read.

    Steps of the next epoch may have been handed to the device before that.
    """

    step: int
    """The last of the epoch, counted from 1 since the start of the run."""
    epoch: int
    steps: int
    loss: float
    """The mean training loss over the examples of the epoch, each with the parameters it met."""
    seconds: float
    """The time of its steps, in this process if the run was resumed in the middle of it."""


@dataclass(frozen=True)
class Evaluated:
    """The held-out examples were evaluated once."""

    step: int
    epoch: int
    loss: float
    metrics: Mapping[str, float]
    best: bool
    """True if it is the best so far, by the loss or the metric that `best` names."""
    learning_rate: float | None = None
    """The rate from here on, where a schedule that follows evaluations changed it."""
    without_value: tuple[str, ...] = ()
    """Metrics without a value, such as a mean over chosen examples of which there are none."""
    is_within_epoch: bool = False
    """True if steps of the epoch are left, as `eval_every_steps` asks for."""


@dataclass(frozen=True)
class Sampled:
    """A language model wrote a text, as `sample_prompt` asks for."""

    step: int
    epoch: int
    prompt: str
    text: str
    """The text after the prompt."""


@dataclass(frozen=True)
class NotFinite:
    """A loss or gradient of a step was not finite, and the run goes on, as `not_finite` says.

    With `accumulate` the gradients of earlier batches of the same update are counted in.
    """

    step: int
    epoch: int
    loss: float
    is_skipped: bool
    """True if the update was left out."""


@dataclass(frozen=True)
class LossScaled:
    """Gradients overflowed: the update was left out, and the next loss has another scale.

    Steps in f16 multiply their loss, so that its gradients do not vanish.
    """

    step: int
    epoch: int
    before: float
    after: float


@dataclass(frozen=True)
class StoppedEarly:
    """So many evaluations gave nothing better, as `stop_after` says: the run ends."""

    step: int
    epoch: int
    evaluations: int
    metric: str
    """The metric that the best is chosen by."""
    best: float | None
    """The best value so far."""


@dataclass(frozen=True)
class Saved:
    """A file of the run folder was written."""

    path: Path


@dataclass(frozen=True)
class DeviceUsage:
    """Shares of the time of the steps; evaluations and checkpoints are left out."""

    busy: float
    inputs: float
    """The share of time in which devices waited for inputs."""

    @property
    def between(self) -> float:
        """The share of time in which devices waited for the host's other work."""
        return max(0.0, 1.0 - self.busy - self.inputs)


@dataclass(frozen=True)
class Finished:
    """The run is over: all epochs are done, or it was asked to stop."""

    steps: int
    seconds: float
    interrupted: bool
    usage: DeviceUsage | None = None
    """The utilization of the devices of this process; `None` where no step was made."""


Event = (
    Started
    | Compiling
    | Compiled
    | Stepped
    | Logged
    | NotFinite
    | LossScaled
    | EpochEnded
    | Evaluated
    | Sampled
    | StoppedEarly
    | Saved
    | Finished
)


class StopTraining(Exception):
    """Raised by an observer of events, it ends the run after the current step, and leaves it whole.

    The checkpoint and the weights are saved, as after an interruption.
    """


Watch = Callable[[Event], None]
