"""`meganeura explain`: every code has its page."""

import pytest

from meganeura.cli.error_catalogue import problems
from meganeura_dsl.diagnostics.problem import Problem
from tests.cli.command import Command


def test_codes_are_unique() -> None:
    codes = [problem.code for problem in problems()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem.code)
def test_every_code_has_a_page(meganeura: Command, problem: type[Problem]) -> None:
    shown = meganeura("explain", problem.code)
    assert shown.code == 0
    assert problem.code in shown.out
    assert len(shown.out.splitlines()) >= 3


def test_without_a_code_all_are_listed(meganeura: Command) -> None:
    shown = meganeura("explain")
    assert len(shown.out.splitlines()) == len(problems())


def test_an_unknown_code_is_the_command_line_s_fault(meganeura: Command) -> None:
    shown = meganeura("explain", "E0599")
    assert shown.code == 2
    assert "the nearest is" in shown.err
