"""A folder to train in, and a program for loops of one's own."""

from pathlib import Path

import pytest

import meganeura
from tests.runtime.runs import Workspace
from tests.trainer.batches import PROGRAM


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> meganeura.Program:
    """One program for all tests, so that its graphs are made once."""
    file = tmp_path_factory.mktemp("trainer") / "own.mgn"
    file.write_text(PROGRAM)
    return meganeura.load(str(file))
