"""The README shows what the program really does."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import Command

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for line in re.findall(r"^meganeura (.*)$", README, re.MULTILINE)
]
QUICK = [command for command in COMMANDS if command[0] != "train"]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_a_command_shown_succeeds(meganeura: Command, arguments: list[str]) -> None:
    assert meganeura(*arguments).code == 0


def test_training_is_shown_too() -> None:
    assert len(COMMANDS) == len(QUICK) + 1


def test_the_refusal_shown_is_the_one_printed(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resnet = (ROOT / "stdlib_models" / "resnet.mgn").read_text()
    forgetful = resnet.replace("if stride != 1 or c_in != c:", "if c_in != c:")
    assert forgetful != resnet
    (tmp_path / "resnet.mgn").write_text(forgetful)
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    checked = meganeura("check", "resnet.mgn")
    assert checked.code == 1
    assert shown in checked.out
