"""A folder to train in, and the run that nothing interrupts."""

from pathlib import Path

import pytest

from meganeura_runtime.train.records.run_folder import RunFolder
from tests.runtime.runs import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that nothing interrupts."""
    return Workspace(tmp_path_factory.mktemp("whole")).start("whole")
