"""Results of resumed runs, by their settings."""

import json

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.training_problems import CannotResume
from tests.runtime.runs import Workspace, contents


def steps_logged(folder: RunFolder) -> list[tuple[str, int]]:
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [(record["kind"], record["step"]) for record in records]


def epochs_told(folder: RunFolder) -> list[float]:
    """The mean loss of each epoch."""
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "epoch"]


def assert_same_run(folder: RunFolder, whole: RunFolder) -> None:
    """Every file of both runs says the same."""
    assert epochs_told(folder) == epochs_told(whole)
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name
    assert read_checkpoint(folder.checkpoint)[1] == read_checkpoint(whole.checkpoint)[1]
    assert steps_logged(folder) == steps_logged(whole)


def told(workspace: Workspace) -> str:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    return render(caught.value.problem.report(), colour=False)


def refused(workspace: Workspace, *overrides: str) -> CannotResume:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run", *overrides)
    assert isinstance(caught.value.problem, CannotResume)
    caught.value.problem.report()
    return caught.value.problem
