"""Checkpoints hold all that a run needs to go on, and nothing else is taken for one."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.optimizers.schedules import Constant
from meganeura_runtime.io.checkpoint import (
    KEY,
    Progress,
    origins,
    read_checkpoint,
    write_checkpoint,
)
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.safetensors_file import write_tensors

PROGRESS = Progress(
    program="abc",
    step=120,
    epoch=3,
    position=7,
    settings=RunSettings(
        data="digits", sizes={"batch": 64}, optimizer=Adam(lr=0.1), schedule=Constant()
    ),
)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    kept = {
        "fc.weight": np.array([[1.5]], np.float32),
        "optimizer.fc.weight.exp_avg": np.array([[0.1]], np.float32),
        "optimizer.step": np.array(120, np.int32),
    }
    write_checkpoint(path, kept, PROGRESS)
    tensors, progress = read_checkpoint(path)
    assert progress == PROGRESS
    assert {name: each.bits.tolist() for name, each in tensors.items()} == {
        name: each.tolist() for name, each in kept.items()
    }


@pytest.mark.parametrize(
    "change",
    [{"step": -1}, {"version": 2}, {"more": 1}, {"settings": {}}, {"program": None}],
)
def test_progress_that_cannot_be_true_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "checkpoint.safetensors"
    content = {**json.loads(PROGRESS.model_dump_json()), **change}
    write_tensors(path, {}, {KEY: json.dumps(content)})
    with pytest.raises(ProblemError) as caught:
        read_checkpoint(path)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert next(iter(change)) in caught.value.problem.reason


def test_plain_weights_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_tensors(path, {"x": np.ones(1, np.float32)}, {})
    with pytest.raises(ProblemError, match="E0530"):
        read_checkpoint(path)


def test_weights_are_noted_where_they_lie_and_by_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("b", b"two"), ("a", b"one")):
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    expected = [(str(tmp_path / name), sha256(each).hexdigest())
                for name, each in (("a", b"one"), ("b", b"two"))]  # fmt: skip
    for given in (["b", "a", "b"], [tmp_path / "b", tmp_path / "a"]):
        found = origins(map(Path, given))
        assert [(each.file, each.sha256) for each in found] == expected
