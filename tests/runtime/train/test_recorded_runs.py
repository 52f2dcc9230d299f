"""Runs tell and write what they told and wrote."""

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import meganeura
from meganeura import program as programs
from meganeura_runtime.train.records.run_folder import RunFolder
from tests.effort import effort
from tests.runtime.train import recorded_by_hand, recorded_runs

WHICH = effort(slice(1, None, 3), recorded_runs.EVERY)
"""By day a third of the runs."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.mark.parametrize(
    ("file", "described"),
    [
        (recorded_runs.FILE, recorded_runs.described),
        (recorded_by_hand.FILE, recorded_by_hand.described),
    ],
    ids=["by the loop", "by hand"],
)
def test_runs_tell_and_write_what_they_did(
    file: Path, described: Callable[[slice], Iterator[str]]
) -> None:
    """Sums of another order may have other last digits."""
    runs = re.split(r"^(?=# )", file.read_text(), flags=re.MULTILINE)[1:]
    written, found = "".join(runs[WHICH]).splitlines(), list(described(WHICH))
    assert [NUMBER.sub("", line) for line in found] == [NUMBER.sub("", line) for line in written]
    for now, then in zip(found, written, strict=True):
        numbers = [float(each) for each in NUMBER.findall(then)]
        assert [float(each) for each in NUMBER.findall(now)] == pytest.approx(
            numbers, rel=1e-3, abs=1e-4
        ), then


def test_a_process_that_does_not_write_trains_as_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all hosts but the first do."""
    folder = RunFolder(tmp_path / "out", writes=False)
    folder.path.mkdir()
    told = list(recorded_runs.events(tmp_path, folder))
    assert told == list(recorded_runs.events(tmp_path, RunFolder(tmp_path / "other")))
    monkeypatch.setattr(programs, "folder_of", lambda *_: nullcontext(folder))
    (tmp_path / "hand.mgn").write_text(recorded_by_hand.PROGRAM)
    program = meganeura.load(str(tmp_path / "hand.mgn"))
    with program.trainer(device="cpu", out=folder.path, settings={"log_every": 1}) as trainer:
        assert len(list(recorded_by_hand.steps(trainer, range(2)))) == 4
        trainer.save()
    assert not [*folder.path.iterdir()]
