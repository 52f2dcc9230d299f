"""Shape bugs that others asked about: refused at the mistake, and proved once it is mended.

A folder of `cases` has the program as it was asked about, `wrong.mgn`, with a comment at the line
of the mistake, and `right.mgn`. docs/yardsticks.md says where each is from and what is advised.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.pipeline import check_file
from tests.folded import each_of

CASES = Path(__file__).parent / "cases"
PAGE = (Path(__file__).parents[3] / "docs" / "yardsticks.md").read_text()
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<source>[^|]+) \| (?P<code>E\d{4}) "
    r"\| (?P<place>there|line \d+) \| (?P<cure>right|general|wrong|none)\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Case:
    name: str
    source: str
    code: str
    place: str
    cure: str

    def __str__(self) -> str:
        return self.name


TOLD = [Case(**each.groupdict()) for each in ROW.finditer(PAGE)]


def test_the_page_has_all_cases_and_counts_them() -> None:
    assert [each.name for each in TOLD] == sorted(each.name for each in CASES.iterdir())
    cures = Counter(each.cure for each in TOLD)
    there = sum(each.place == "there" for each in TOLD)
    counts = ", ".join(f"{cures[kind]} {kind}" for kind in ("right", "general", "none", "wrong"))
    line = (
        f"{len(TOLD)} of {len(TOLD)} refused, {there} at the mistake's line; first cure: {counts}"
    )
    assert line in PAGE, line


@each_of("case", TOLD)
def test_it_is_refused_as_the_page_says(case: Case) -> None:
    path = CASES / case.name / "wrong.mgn"
    lines = path.read_text().splitlines()
    assert case.source in lines[0]
    (mistake,) = (at for at, line in enumerate(lines, 1) if line.endswith("# mistake"))
    report = check_file(str(path)).reports[0]
    assert report.code == case.code
    assert report.label is not None
    told = report.label.span.line
    assert case.place == ("there" if told == mistake else f"line {told}")
    assert (case.cure == "none") == (report.help is None)


@each_of("case", TOLD)
def test_the_mended_program_is_proved(case: Case) -> None:
    result = check_file(str(CASES / case.name / "right.mgn"))
    assert result.reports == ()
