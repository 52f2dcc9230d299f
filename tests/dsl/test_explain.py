"""Every code has one page that teaches, and a mistyped code is answered with the nearest."""

import re
from pathlib import Path

import pytest

import meganeura_dsl
import meganeura_runtime
from meganeura.cli.error_catalogue import problems
from meganeura_dsl.diagnostics.problem import Problem, Severity
from meganeura_dsl.explain import UnknownCodeError, explain, overview
from tests.folded import each_of

PACKAGES = [Path(each) for each in (*meganeura_dsl.__path__, *meganeura_runtime.__path__)]
CODE = re.compile(r'^    code(?:: ClassVar\[str\])? = "(\w+)"', re.MULTILINE)


def test_a_page_is_that_of_the_specification_in_upper_or_lower_case() -> None:
    shown = explain(" n0002\n", problems())
    assert shown == explain("N0002", problems())
    assert shown.startswith("# N0002: a variance that may be over one element\n\nOver a single")
    assert "# note[N0002]" in shown
    assert "# note: [" not in shown


@pytest.mark.parametrize(
    ("code", "nearest"), [("E01O1", "E0101"), ("E0191", "E0101"), ("n1", "N0001")]
)
def test_unknown_code(code: str, nearest: str) -> None:
    with pytest.raises(UnknownCodeError, match=f"`{code}`; the nearest is {nearest}") as caught:
        explain(code, problems())
    assert (caught.value.code, caught.value.nearest) == (code, nearest)


def test_nearest_code_is_of_the_same_kind() -> None:
    with pytest.raises(UnknownCodeError, match=r"the nearest is E03\d\d"):
        explain("E0399", problems())


def test_overview_has_a_line_for_each_code_in_order() -> None:
    lines = overview(problems()).split("\n")
    assert [line[:5] for line in lines] == sorted(problem.code for problem in problems())
    (line,) = (line for line in lines if line.startswith("E0301"))
    assert re.fullmatch("E0301  refuted shape equality +two sides of different shapes", line)


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
    assert re.fullmatch(rf"{letter}\d{{4}}", problem.code)
    assert re.fullmatch(r"[^\n]+[.?]", problem.__doc__ or ""), "a class has one short sentence"
    shown = explain(problem.code.lower(), problems())
    assert re.match(rf"# {problem.code}: .+\n\n", shown)
    prose = re.sub(r"^```.*?^```$", "", shown, flags=re.MULTILINE | re.DOTALL)
    assert max(len(line) for line in prose.split("\n")) <= 100
