"""Every code has one page that teaches, and a mistyped code is answered with the nearest."""

import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

import meganeura_dsl
from meganeura_dsl.diagnostics import Problem, Report, Severity
from meganeura_dsl.explain import PROBLEMS, UnknownCodeError, explain, overview

PACKAGE = Path(meganeura_dsl.__file__).parent


@dataclass(frozen=True)
class Tired(Problem):
    """The moth is tired.

    It has flown all night:

        moth |> rest
    """

    code: ClassVar[str] = "E0101"
    topic: ClassVar[str] = "moths"

    def report(self) -> Report:
        raise NotImplementedError


@dataclass(frozen=True)
class Dazzled(Tired):
    """The moth sees a light."""

    code: ClassVar[str] = "N0001"
    topic: ClassVar[str] = "light"
    severity: ClassVar[Severity] = Severity.NOTE


MOTHS = (Dazzled, Tired)


def test_page() -> None:
    assert explain("E0101", MOTHS) == (
        "error[E0101]  (moths)\n\nThe moth is tired. It has\n\nflown all night:\n\n    moth |> rest"
    )


def test_code_in_lower_case() -> None:
    assert explain(" n0001\n", MOTHS).startswith("note[N0001]  (light)\n")


@pytest.mark.parametrize(
    ("code", "nearest"), [("E0110", "E0101"), ("N1", "N0001"), ("", "E0101"), ("moth", "E0101")]
)
def test_unknown_code(code: str, nearest: str) -> None:
    with pytest.raises(UnknownCodeError, match=f"`{code}`; the nearest is {nearest}") as caught:
        explain(code, MOTHS)
    assert (caught.value.code, caught.value.nearest) == (code, nearest)


def test_overview_has_a_line_for_each_code_in_order() -> None:
    assert overview(MOTHS).split("\n") == [
        "E0101  moths  The moth is tired.",
        "N0001  light  The moth sees a light.",
    ]


def defined_problems() -> set[type[Problem]]:
    """The problems with a code of all modules named for problems."""
    modules = [
        import_module(".".join(("meganeura_dsl", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for path in PACKAGE.rglob("*problems.py")
    ]
    return {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Problem) and "code" in vars(each)
    }


def test_every_problem_is_listed_once() -> None:
    assert set(PROBLEMS) == defined_problems()
    assert len({problem.code for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.code)
def test_code_and_page_are_well_formed(problem: type[Problem]) -> None:
    letter = {Severity.ERROR: "E", Severity.WARNING: "W", Severity.NOTE: "N"}[problem.severity]
    assert re.fullmatch(rf"{letter}\d{{4}}", problem.code)
    assert not (problem.__doc__ or "").startswith(f"{problem.__name__}(")
    assert len(explain(problem.code).split("\n")) >= 3
    assert max(len(line) for line in explain(problem.code).split("\n")) <= 100
