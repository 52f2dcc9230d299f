"""The README shows what the program really does."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.cli.command import Command

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


SHORT = {"train": ("--set", "epochs=1", "--device", "cpu"), "fit": ("--device", "cpu")}
"""Options for commands that would otherwise take long."""


def blocks(language: str, section: str) -> list[str]:
    """The code blocks of one section."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(section: str) -> list[list[str]]:
    """Returns the arguments that the section types after `meganeura`."""
    (shown,) = blocks("sh", section)
    return [shlex.split(line, comments=True)[1:] for line in shown.splitlines()]


@pytest.mark.parametrize("arguments", commands("The command line"), ids=" ".join)
def test_a_command_shown_succeeds(
    meganeura: Command, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert meganeura(*arguments, *SHORT.get(arguments[0], ())).code == 0


def test_the_tour_leads_to_its_end(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("mgn", "A tour of five minutes")
    (tmp_path / "tour.mgn").write_text(program)
    for arguments in commands("A tour of five minutes"):
        assert meganeura(*arguments, *SHORT.get(arguments[0], ())).code == 0
    (script,) = blocks("py", "A tour of five minutes")
    (tmp_path / "tour.py").write_text(script)
    runpy.run_path("tour.py")


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
