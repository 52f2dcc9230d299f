"""The folder of a run whose steps are made one by one: its records, its logs and its page."""

from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite

from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.transforms.training_step import BESIDE_METRICS, LOSS
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import Outputs
from meganeura_runtime.train.events import Evaluated, Event, Logged, Watch
from meganeura_runtime.train.loop.speed import Clock, Speed
from meganeura_runtime.train.loop.training_session import TrainingSession
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.records.run_logs import LogStart, logged
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.report.report_writer import manual_report
from meganeura_runtime.train.spec.session_inputs import named_rates
from meganeura_runtime.train.spec.train_spec import TrainSpec


@dataclass(frozen=True)
class _Unread:
    """A step that is to be logged, and may still be under way."""

    step: int
    rates: tuple[float, ...]
    speed: Speed
    outputs: Outputs


class StepLog:
    """Records steps and evaluations in the folder of a run."""

    def __init__(
        self, spec: TrainSpec, folder: RunFolder, watch: Watch, refresh: Callable[[], None]
    ) -> None:
        """`watch` takes events in for other logs, and `refresh` writes the page when it is due."""
        self.folder = folder
        self._settings = spec.settings
        self._gradients = frozenset(Gradient(each.name) for each in spec.parameters)
        self._watch = watch
        self._refresh = refresh
        self._clock = Clock()
        self._unread: deque[_Unread] = deque()

    def start(self, step: int) -> None:
        """Measure the speed from here on."""
        self._clock.start(step)

    def leave_out(self, seconds: float) -> None:
        """Count no time that was taken by something other than steps."""
        self._clock.leave_out(seconds)

    def stepped(
        self, step: int, examples: int, rates: tuple[float, ...], outputs: Outputs, ahead: int
    ) -> None:
        """Note a step, counted from 1, and record those that the device is done with."""
        every = self._settings.log_every
        self._clock.examples += examples
        if every > 0 and (step % every == 0 or step in (1, self._settings.steps)):
            outputs.request()
            self._unread.append(_Unread(step, rates, self._clock.speed(step), outputs))
        self.read(step - ahead)

    def read(self, until: int) -> None:
        """Record the steps up to this one, which waits for them."""
        if not self._unread or self._unread[0].step > until:
            return
        while self._unread and self._unread[0].step <= until:
            self._record(self._unread.popleft())
        self._refresh()

    def evaluated(
        self, step: int, found: Mapping[str, float], shown: VisualLog, *, best: bool
    ) -> None:
        """Record an evaluation after a step, and what the program shows of it."""
        self.read(step)
        record = {"step": step, "epoch": 0}
        self.folder.add_metrics({"kind": "held_out", **record, **found})
        self.folder.add_shown(shown, step, epoch=0)
        others = {name: value for name, value in found.items() if name != LOSS}
        self._watch(Evaluated(step, 0, found[LOSS], others, best))
        self._refresh()

    def _record(self, one: _Unread) -> None:
        metrics = {
            name: float(value)
            for name, value in one.outputs.items()
            if name not in BESIDE_METRICS and name not in self._gradients
        }
        loss = float(one.outputs[LOSS])
        named = named_rates(self._settings, one.rates)
        rates = {**named, "steps_per_second": one.speed.steps}
        record = {"kind": "step", "step": one.step, "epoch": 0}
        self.folder.add_metrics({**record, LOSS: loss, **metrics, **rates})
        if isfinite(loss):
            speeds = one.speed.steps, one.speed.examples
            self._watch(Logged(one.step, 0, loss, metrics, one.rates[0], *speeds))


@contextmanager
def manual_step_log(
    spec: TrainSpec, folder: RunFolder, device: OpenDevice, trained: TrainingSession
) -> Generator[StepLog]:
    """Keep the folder of a run that is trained by hand, until the block ends.

    Its settings are there already. Raises `ProblemError` for a file that cannot be written and a
    log that is refused.
    """
    with (
        logged(LogStart(folder, spec.settings, trained.steps), _nobody) as watch,
        manual_report(spec, folder, device, trained.session.memory) as refresh,
    ):
        log = StepLog(spec, folder, watch, refresh)
        log.start(trained.steps)
        yield log
        log.read(1 << 62)


def _nobody(event: Event) -> None:
    del event
