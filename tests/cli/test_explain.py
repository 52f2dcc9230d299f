"""`meganeura explain`: every code has its page."""

import re
from inspect import cleandoc

import pytest

from meganeura.cli.error_catalogue import problems
from meganeura_dsl.diagnostics.problem import Problem
from meganeura_dsl.resources import reference_pages
from meganeura_dsl.settings.choices import arguments
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS
from meganeura_dsl.transforms.optimizers.schedules import SCHEDULES
from tests.cli.command import Command
from tests.folded import each_of


def test_codes_are_unique() -> None:
    codes = [problem.code for problem in problems()]
    assert len(set(codes)) == len(codes)


@each_of("problem", problems(), ids=lambda problem: problem.code)
def test_every_code_has_a_page(meganeura: Command, problem: type[Problem]) -> None:
    shown = meganeura("explain", problem.code)
    assert shown.code == 0
    assert problem.code in shown.out
    assert len(shown.out.splitlines()) >= 3


def test_every_page_is_that_of_a_code() -> None:
    pages = {page.stem for page in (reference_pages() / "errors").glob("*.md")}
    assert pages == {problem.code for problem in problems()}


def test_without_a_code_all_are_listed(meganeura: Command) -> None:
    shown = meganeura("explain")
    assert len(shown.out.splitlines()) == len(problems())


@pytest.mark.parametrize("word", [*OPTIMIZERS, *SCHEDULES])
def test_a_choice_has_a_page_with_its_arguments(meganeura: Command, word: str) -> None:
    shown = meganeura("explain", word)
    choice = {**OPTIMIZERS, **SCHEDULES}[word]
    assert shown.code == 0
    head = shown.out.splitlines()[0]
    assert head.startswith((f"optimizer = {word}(", f"schedule = {word}("))
    for each in arguments(choice):
        assert f"{each.name}={each.default}" in head
        assert re.search(rf"\n  {each.name} +{re.escape(each.values)}\n", shown.out)
    assert cleandoc(choice.__doc__ or "") in shown.out


def test_an_unknown_code_is_the_command_line_s_fault(meganeura: Command) -> None:
    shown = meganeura("explain", "E0699")
    assert shown.code == 2
    assert "the nearest is" in shown.err
