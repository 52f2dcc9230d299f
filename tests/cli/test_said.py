"""Commands say, and write, what stands in `said.snap` and `said_together.snap`."""

from collections.abc import Iterator
from typing import Any

import typer

from meganeura.cli.app import command_line
from tests.cli import said_together
from tests.cli.said import ELSEWHERE, SNAPSHOT, commands


def test_commands_say_what_they_said() -> None:
    SNAPSHOT.check()


def test_commands_with_two_options_say_what_they_said() -> None:
    said_together.SNAPSHOT.check()


def test_every_option_of_a_command_is_given() -> None:
    given = [set(words) for words in commands()]
    for path, names in _options(typer.main.get_command(command_line())):
        if path[0] not in ELSEWHERE:
            called = [words for words in given if words.issuperset(path)]
            assert called, path
            assert any(words & names for words in called), (path, names)


def _options(
    command: Any,  # noqa: ANN401 - a class that typer does not export
    path: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """The words that a command begins with, and the names of each of its options."""
    for name, part in getattr(command, "commands", {}).items():
        yield from _options(part, (*path, name))
    if path:
        for each in command.params:
            if each.opts[0].startswith("-"):
                yield path, set(each.opts)
