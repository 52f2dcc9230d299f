"""The settings that a program, a command line and Python ask for, resolved once for a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.declared_optimizers import declared_optimizers
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, with_overrides
from meganeura_runtime.train.data.run_data import FROM_FILES, PythonData
from meganeura_runtime.train.spec.train_spec import settings_of


@dataclass(frozen=True, eq=False)
class RunRequest:
    """A `train` block to run, with overrides of its settings and data from Python.

    Each property raises `ProblemError` or `ProblemsError` for settings that are wrong.
    """

    program: Program
    train: str
    folder: Path
    """The folder that relative paths of the program start at."""
    overrides: Sequence[str] = ()
    """Texts `NAME=VALUE`, as after `--set`."""
    data: PythonData = FROM_FILES

    @cached_property
    def settings(self) -> RunSettings:
        """The settings, in which `data` may be missing."""
        return settings_of(self.program, self.train, self._all_overrides)

    @cached_property
    def settings_with_data(self) -> RunSettings:
        """The settings; a missing `data` is a problem."""
        return settings_of(self.program, self.train, self._all_overrides, needs_data=True)

    @cached_property
    def written(self) -> RawSettings:
        """The settings as they are written, with the place of each."""
        raw = pipeline.train_settings(self.program, self.train)
        return with_overrides(raw, self._all_overrides, declared_optimizers(self.program.module))

    @property
    def _all_overrides(self) -> Sequence[str]:
        return [*self.overrides, *self.data.overrides]
