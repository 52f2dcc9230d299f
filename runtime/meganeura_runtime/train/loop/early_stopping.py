"""Early stopping: the best evaluation of a run, and its end where no other was better since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.backends.base import Session
from meganeura_runtime.io.checkpoint import Progress
from meganeura_runtime.train.events import StoppedEarly
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.resume import compares_anew


@dataclass
class EarlyStopping:
    """The best evaluation so far, by the setting `best`, and the number of evaluations since."""

    settings: RunSettings
    best: float | None = None
    """The value of the metric in the best evaluation."""
    stale: int = 0
    """The number of evaluations since then that were no better."""

    @classmethod
    def resumed(
        cls, progress: Progress, settings: RunSettings, folder: RunFolder | None, session: Session
    ) -> EarlyStopping:
        """Returns the state at a checkpoint; without a best one if values are compared anew.

        The folder gets a record of that. All processes of a run do the same.
        """
        if not session.agree(wish=compares_anew(progress, settings, folder)):
            return cls(settings, progress.best_value, progress.stale)
        if folder is not None:
            folder.compare_anew(progress.step, progress.epoch, settings.best)
        return cls(settings)

    def is_best(self, metrics: Mapping[str, float], missing: Collection[str]) -> bool:
        """Take in an evaluation; returns True if none so far was better.

        An evaluation whose metric is among the `missing`, which had no example, does not count.
        """
        chosen = self.settings.best_metric
        if chosen.name in missing:
            return False
        is_better = chosen.is_better(metrics[chosen.name], self.best)
        self.stale = 0 if is_better else self.stale + 1
        if is_better:
            self.best = metrics[chosen.name]
        return is_better

    @property
    def is_due(self) -> bool:
        """True if `stop_after` evaluations in a row were no better."""
        most = self.settings.stop_after
        return most is not None and self.stale >= most

    def event(self, step: int, epoch: int) -> StoppedEarly:
        """Returns the event of a run that ends after a step because of this."""
        return StoppedEarly(step, epoch, self.stale, self.settings.best_metric.name, self.best)
