"""Shape bugs of public collections are told as `outcomes.txt` says, and counted on the page.

`python -m tests.shape_bugs` judges all of them and writes the file anew: read the difference. Here
one program of each collection and message is told anew, at night all.
"""

from collections.abc import Iterable
from pathlib import Path

from tests.effort import effort
from tests.folded import each_of
from tests.shape_bugs.cases import Case, cases, outcome
from tests.shape_bugs.figures import omissions, recorded, tables

PAGE = (Path(__file__).parents[2] / "docs" / "yardsticks.md").read_text()
CASES = cases()
CHECKED = [each for each in CASES if not each.is_fed]
FED = [each for each in CASES if each.is_fed]
TOLD = {each.case: each for each in recorded()}


def each_kind(cases: Iterable[Case]) -> list[Case]:
    """The first case of each collection and message: by day these alone are told anew."""
    kinds: dict[tuple[str, str], Case] = {}
    for each in cases:
        kinds.setdefault((str(each).partition("/")[0], TOLD[str(each)].code), each)
    return [*kinds.values()]


@each_of("case", effort(each_kind(CHECKED) + each_kind(FED), CHECKED + FED))
def test_it_is_told_as_recorded(case: Case) -> None:
    (told,) = (each for each in recorded() if each.case == str(case))
    assert outcome(case) == told


def test_all_are_recorded_and_counted_on_the_page() -> None:
    outcomes = recorded()
    assert [each.case for each in outcomes] == [str(each) for each in CASES]
    missing = [line for line in tables(outcomes) if line and line not in PAGE]
    assert not missing, missing


def test_no_mistake_is_silent_and_no_mended_program_is_refused() -> None:
    assert not [each.case for each in recorded() if each.code == "silent"]
    assert not [each.case for each in recorded() if each.right != "accepted"]


def test_nothing_is_a_case_and_left_out() -> None:
    left = {f"{each.collection}/{each.name}" for each in omissions()}
    assert not left & {str(each) for each in CASES}
    assert len(CASES) + len(left) == 146 + 24 + 13 + 3
