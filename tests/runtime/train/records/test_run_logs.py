"""Logs of other tools: what TensorBoard reads, and what Weights & Biases is called with."""

import json
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tensorboardX.proto import event_pb2

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.support.optional_imports import MissingExtra
from meganeura_runtime.train.events import EpochEnded, Evaluated, Logged
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.records.run_logs import LogStart, logged
from tests.runtime.runs import Workspace

Record: Any = vars(event_pb2)["Event"]
"""A record of an event file, of a class that is made when its module is loaded."""
TENSORBOARD = 'log=["tensorboard"]'
WANDB = 'log=["wandb"]'


def records(folder: Path) -> list[Any]:
    """Returns the event files of a folder: each record after its length and a checksum."""
    found: list[Any] = []
    for path in sorted(folder.glob("events.*"), key=lambda each: each.name):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            found.append(Record.FromString(content[at + 12 : at + 12 + length]))
            at += 12 + length + 4
    return found


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    return {
        (value.tag, record.step): value.simple_value
        for record in records(folder)
        for value in record.summary.value
        if value.WhichOneof("value") == "simple_value"
    }


def test_event_files_have_what_is_measured(workspace: Workspace) -> None:
    folder = workspace.start("run", TENSORBOARD, "epochs=2")
    found = scalars(folder.path / "tensorboard")
    told = {type(event): event for event in workspace.events}
    logged, epoch, held_out = told[Logged], told[EpochEnded], told[Evaluated]
    assert isinstance(logged, Logged)
    assert found["train/loss", 10] == pytest.approx(logged.loss)
    assert found["train/learning_rate", 10] == pytest.approx(logged.learning_rate)
    assert isinstance(epoch, EpochEnded)
    assert found["epoch/loss", 10] == pytest.approx(epoch.loss)
    assert isinstance(held_out, Evaluated)
    assert found["held_out/loss", 10] == pytest.approx(held_out.loss)
    tags = {
        value.tag
        for record in records(folder.path / "tensorboard")
        for value in record.summary.value
    }
    assert "settings/text_summary" in tags


def test_steps_by_hand_are_logged_too(workspace: Workspace) -> None:
    out = workspace.folder / "by-hand"
    settings = {"log": ["tensorboard"], "steps": 20, "log_every": 1}
    data = load_file(workspace.folder / "points.safetensors")
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    with program.trainer(device="cpu", settings=settings, out=out) as trainer:
        result = trainer.step({"x": data["train.x"][:4], "y": data["train.y"][:4]})
        measured = trainer.evaluate({"x": data["test.x"], "y": data["test.y"]})
    found = scalars(out / "tensorboard")
    assert found["train/loss", 1] == pytest.approx(result.loss)
    assert found["held_out/loss", 1] == pytest.approx(measured["loss"])


def test_of_several_processes_only_the_first_logs(workspace: Workspace, tmp_path: Path) -> None:
    settings = workspace.job(TENSORBOARD).settings
    for writes, logs in ((False, []), (True, ["tensorboard"])):
        folder = tmp_path / str(writes)
        folder.mkdir()
        with logged(LogStart(RunFolder(folder, writes=writes), settings, 0), print) as watch:
            assert callable(watch)
        assert [path.name for path in folder.iterdir()] == logs


def test_a_run_that_goes_on_voids_what_came_after_its_checkpoint(workspace: Workspace) -> None:
    workspace.start("run", TENSORBOARD, steps=7)
    folder = workspace.resume("run")
    found = records(folder.path / "tensorboard")
    starts = [each.step for each in found if each.HasField("session_log")]
    assert starts == [8]
    assert ("held_out/loss", 20) in scalars(folder.path / "tensorboard")


def test_a_missing_library_is_said_before_anything_runs(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    purposes = "write event files for TensorBoard", "log to Weights & Biases"
    missing = (
        MissingExtra("tensorboardX", purposes[0], install_command("tensorboard")),
        MissingExtra("wandb", purposes[1], install_command("wandb")),
    )
    for setting, problem in zip((TENSORBOARD, WANDB), missing, strict=True):
        monkeypatch.setitem(sys.modules, problem.module, None)
        with pytest.raises(ProblemError) as caught:
            workspace.job(setting)
        assert caught.value.problem == problem


def test_another_log_is_refused(workspace: Workspace) -> None:
    with pytest.raises(ProblemsError, match=r"E0513.*tensorboard or wandb"):
        workspace.job('log=["csv"]')


class RefusedError(Exception):
    """The error of the library."""


class Recorded:
    """Calls of wandb, recorded in its place: it needs an account."""

    Error = RefusedError

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.begin = begin
        self.options: dict[str, Any] = {}
        self.logged: dict[tuple[str, int], float] = {}
        self.codes: list[int] = []

    def init(self, **options: object) -> SimpleNamespace:
        self.begin()
        self.options = options
        return SimpleNamespace(log=self.log, finish=self.finish)

    def log(self, data: Mapping[str, float], step: int) -> None:
        self.logged |= {(name, step): value for name, value in data.items()}

    def finish(self, exit_code: int) -> None:
        self.codes.append(exit_code)


def test_weights_and_biases_is_told_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Recorded()
    monkeypatch.setitem(sys.modules, "wandb", library)
    folder = workspace.start("run", WANDB, "epochs=1")
    assert library.options["name"] == "run"
    assert library.options["dir"] == str(folder.path.resolve())
    written = json.loads(folder.settings.read_text())
    assert written.pop("weights") == []
    assert library.options["config"] == written
    assert {("train/loss", 4), ("epoch/loss", 5), ("held_out/loss", 5)} <= library.logged.keys()
    assert library.codes == [0]


def test_several_logs_are_kept_beside_each_other(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is asked for twice is kept once."""
    library = Recorded()
    monkeypatch.setitem(sys.modules, "wandb", library)
    both = 'log=["wandb", "tensorboard", "wandb"]'
    folder = workspace.start("run", both, "epochs=1")
    assert library.codes == [0]
    found = scalars(folder.path / "tensorboard")
    assert found == pytest.approx(library.logged, rel=1e-6)


def test_a_run_that_fails_is_failed_there_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Recorded()
    monkeypatch.setitem(sys.modules, "wandb", library)
    workspace.run_folder("run").report.mkdir()
    with pytest.raises(ProblemError, match=r"E0534"):
        workspace.start("run", WANDB)
    assert library.codes == [1]


def test_what_the_library_refuses_is_a_problem(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin() -> None:
        raise RefusedError("no key")

    monkeypatch.setitem(sys.modules, "wandb", Recorded(begin))
    with pytest.raises(ProblemError, match=r"E0622"):
        workspace.start("run", WANDB)
    assert not [*(workspace.folder / "run").iterdir()]


def test_a_log_of_steps_by_hand_says_where_it_goes_on(workspace: Workspace) -> None:
    """Later records are void, and a new file has the following ones."""
    out, program = workspace.folder / "run", meganeura.load(str(workspace.folder / "fit.mgn"))
    batch = {"x": np.ones((4, 6), np.float32), "y": np.zeros(4, np.int32)}
    settings = {"steps": 9, "log_every": 1, "log": ["tensorboard"]}
    with program.trainer(device="cpu", settings=settings, out=out) as trainer:
        for _ in range(2):
            trainer.step(batch)
        trainer.save()
        trainer.step(batch)
    with program.trainer(device="cpu", resume=out, out=out) as trainer:
        trainer.step(batch)
    found = records(out / "tensorboard")
    assert [each.step for each in found if each.session_log.status] == [3]
    assert {path.suffix for path in (out / "tensorboard").iterdir()} == {".from-0", ".from-2"}
