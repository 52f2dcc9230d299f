"""A run that ended: its program, settings and weights, by its folder alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.program import Program
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.settings.declared_optimizers import DeclaredOptimizers, declared_optimizers
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.settings_context import SettingsContext
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report.report_problems import DamagedRun, NotARun, ProgramGone
from meganeura_runtime.train.report.run_description import LARGEST, read_description


@dataclass(frozen=True)
class EarlierRun:
    """The parts of a run that a measurement of its weights needs."""

    folder: Path
    target: str
    """The program and its `train` block: `net.mgn:fit`."""
    text: str
    """The text of the program when the run began."""

    @staticmethod
    def of(folder: Path) -> "EarlierRun":
        """Returns the run of a folder; raises `ProblemError`, also where its program is gone."""
        files = RunFolder(folder)
        description = read_description(files.description)
        if description is None:
            raise ProblemError(NotARun(folder, files.description.name))
        texts = description.origin.texts
        if not texts:
            raise ProblemError(ProgramGone(folder, "", description.train))
        name, train = texts[0].name, description.train
        if Path(name).is_file():
            target = f"{name}:{train}"
        elif name.removesuffix(".mgn") in standard_model_names():
            target = f"{name.removesuffix('.mgn')}:{train}"
        else:
            raise ProblemError(ProgramGone(folder, name, train))
        return EarlierRun(folder, target, texts[0].text)

    def settings(self, program: Program) -> RunSettings:
        """Returns all settings of the run; raises `ProblemError`."""
        return _settings(RunFolder(self.folder).settings, declared_optimizers(program.module))

    @property
    def weights(self) -> Path:
        """The weights of the best evaluation; where there was none, those of the end."""
        files = RunFolder(self.folder)
        return files.best if files.best.is_file() else files.weights


def _settings(path: Path, declared: DeclaredOptimizers) -> RunSettings:
    try:
        content = cast("object", json.loads(read_bytes(path, LARGEST)))
        if isinstance(content, dict):
            cast("dict[str, object]", content).pop("weights", None)
        context = SettingsContext(declared)
        return RunSettings.model_validate_json(json.dumps(content), context=context)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
    except (TooLongError, ValueError, RecursionError) as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    raise ProblemError(DamagedRun(path, 0, reason))
