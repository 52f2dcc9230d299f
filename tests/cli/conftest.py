"""Runs the command line inside the test's own process."""

import pytest

from meganeura.cli.app import run
from tests.cli.command import Command, Outcome


@pytest.fixture
def meganeura(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("MEGANEURA_TRACEBACK", raising=False)

    def command(*arguments: str) -> Outcome:
        # A command is a separate process, which knows of no device that another began to open.
        monkeypatch.setattr("meganeura_runtime.backends.registry._begun", dict[str, object]())
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command
