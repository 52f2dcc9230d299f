"""Every code has one page that teaches, and a mistyped code is answered with the nearest."""

import re
from pathlib import Path
from typing import ClassVar

import pytest

import meganeura_dsl
import meganeura_runtime
from meganeura.cli.error_catalogue import problems
from meganeura_dsl.diagnostics.problem import Problem, Report, Severity
from meganeura_dsl.explain import UnknownCodeError, explain, overview
from tests.folded import each_of

PACKAGES = [Path(each) for each in (*meganeura_dsl.__path__, *meganeura_runtime.__path__)]
CODE = re.compile(r'^    code(?:: ClassVar\[str\])? = "(\w+)"', re.MULTILINE)


class Tired(Problem):
    """The moth is tired.

    It has flown all night:

        moth |> rest
    """

    code: ClassVar[str] = "E0101"
    topic: ClassVar[str] = "moths"

    def report(self) -> Report:
        raise NotImplementedError


class Dazzled(Tired):
    """The moth sees a light."""

    code: ClassVar[str] = "N0001"
    topic: ClassVar[str] = "light"
    severity: ClassVar[Severity] = Severity.NOTE


MOTHS = (Dazzled, Tired)


def test_page() -> None:
    assert explain("E0101", MOTHS) == (
        "error[E0101]  (moths)\n\nThe moth is tired.\n\nIt has flown all night:\n\n    moth |> rest"
    )


def test_code_in_lower_case() -> None:
    assert explain(" n0001\n", MOTHS).startswith("note[N0001]  (light)\n")


@pytest.mark.parametrize(
    ("code", "nearest"), [("E01O1", "E0101"), ("E0110", "E0101"), ("n1", "N0001")]
)
def test_unknown_code(code: str, nearest: str) -> None:
    with pytest.raises(UnknownCodeError, match=f"`{code}`; the nearest is {nearest}") as caught:
        explain(code, MOTHS)
    assert (caught.value.code, caught.value.nearest) == (code, nearest)


def test_nearest_code_is_of_the_same_kind() -> None:
    with pytest.raises(UnknownCodeError, match=r"the nearest is E03\d\d"):
        explain("E0399", problems())


def test_overview_has_a_line_for_each_code_in_order() -> None:
    assert overview(MOTHS).split("\n") == [
        "E0101  moths  The moth is tired.",
        "N0001  light  The moth sees a light.",
    ]


def test_every_code_in_the_source_is_catalogued_once() -> None:
    sources = [path for package in PACKAGES for path in package.rglob("*.py")]
    defined = [
        code
        for path in sources
        for code in re.findall(r'\bcode="([EN]\d{4})"', path.read_text(encoding="utf-8"))
    ]
    assert sorted(problem.code for problem in problems()) == sorted(defined)
    assert len(set(defined)) == len(defined)


@each_of("problem", problems(), ids=lambda problem: problem.code)
def test_code_and_page_are_well_formed(problem: type[Problem]) -> None:
    letter = {Severity.ERROR: "E", Severity.WARNING: "W", Severity.NOTE: "N"}[problem.severity]
    shown = explain(problem.code.lower(), problems())
    assert re.fullmatch(rf"{letter}\d{{4}}", problem.code)
    assert not (problem.__doc__ or "").startswith(f"{problem.__name__}(")
    assert shown.startswith(f"{problem.severity.value}[{problem.code}]  ({problem.topic})\n\n")
    assert max(len(line) for line in shown.split("\n")) <= 100
