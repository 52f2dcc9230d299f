"""A folder to train in, and a program for loops of one's own."""

from pathlib import Path

import pytest

import meganeura
from tests.runtime.runs import Workspace
from tests.trainer.batches import PROGRAM


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> meganeura.Program:
    (tmp_path / "own.mgn").write_text(PROGRAM)
    return meganeura.load(str(tmp_path / "own.mgn"))
