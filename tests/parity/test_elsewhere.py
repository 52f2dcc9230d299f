"""The page about models from elsewhere: its files are Python, and its commands run."""

import re
import shlex
from pathlib import Path

import pytest

from meganeura.cli.app import run
from tests.effort import effort

PAGE = (Path(__file__).parents[2] / "docs" / "elsewhere.md").read_text()
FILES = dict(re.findall(r"```py\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By day they name files of the page; at night they run, in order."""
    assert len(FILES) == 3
    assert len(COMMANDS) == 5
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        compile(text, name, "exec")
        (tmp_path / name).write_text(text)
    for line in COMMANDS:
        program, *words = shlex.split(line)
        assert program == "meganeura"
        imported = words[1].partition(":")[0] if words[0] == "import" else "net.py"
        assert imported in FILES
        assert effort(lambda _words: 0, run)(words) == 0, line
    if effort(usual=False, nightly=True):
        (shown,) = re.findall(r"```mgn\n(.*?)```", PAGE, re.DOTALL)
        written = " ".join((tmp_path / "net.mgn").read_text().split())
        assert written.endswith(" ".join(shown.split()))
