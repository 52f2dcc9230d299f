"""Silent bugs of other compilers do not happen here: values and gradients, on every backend."""

from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.pipeline import check_file
from tests.effort import effort
from tests.folded import each_of
from tests.silent_bugs.case import Case, drawn
from tests.silent_bugs.run import faults, opened_on
from tests.silent_bugs.table import COMPILERS, ZOO, ZOO_ELSEWHERE, tables

CASES = (*COMPILERS, *ZOO)
ON_DEVICES = CASES[:: effort(usual=12, nightly=1)]
"""By day a twelfth of the cases runs on devices."""
PAGE = Path(__file__).parents[2] / "docs" / "yardsticks.md"
DEVICES = ("cpu", "xla", pytest.param("wgpu", marks=pytest.mark.adapter))


def test_names_are_those_of_one_case_and_the_page_has_all() -> None:
    assert len({each.name for each in CASES}) == len(CASES)
    assert len({each.source for each in ZOO} | ZOO_ELSEWHERE.keys()) == 13
    assert "\n".join(tables()) in PAGE.read_text(), "python -m tests.silent_bugs"


@each_of("case", CASES[:: effort(usual=2, nightly=1)], ids=str)
def test_it_is_right_in_double_precision(case: Case) -> None:
    """As it stands and optimized."""
    assert list(faults(case, {})) == []


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_right_on_devices(device: str) -> None:
    """As it stands and optimized."""
    opened = {device: opened_on(device)}
    assert [fault for case in ON_DEVICES for fault in faults(case, opened)] == []


def test_a_comparison_finds_what_is_wrong() -> None:
    """A case whose right results are another program's fails in each form and with both data."""
    case = Case("c", "", "", "(x: [n]) -> [n] = x * 2", {"x": drawn("x", 3)}, lambda x: (x * 3,))
    assert len(list(faults(case, {"cpu": opened_on("cpu")}))) == 8


def test_a_row_is_not_stretched_into_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "net.mgn"
    path.write_text("block F()(y: [n], z: [n, 1]) -> [n, n] = y - z\n\nmodel f = F()\n")
    assert check_file(str(path)).reports[0].code == "E0301"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("token", [7, -1])
def test_a_token_that_has_no_row_is_refused(tmp_path: Path, device: str, token: int) -> None:
    path = tmp_path / "net.mgn"
    body = "\n  return gather(table, tokens + 1)\n\nmodel f = F()\n"
    path.write_text(f"block F()(table: [8, 2], tokens: i32[n]) -> [n, 2]:{body}")
    fed = {"table": np.ones((8, 2), np.float32), "tokens": np.array([0, token * 2], np.int32)}
    with pytest.raises(ProblemError, match="E0537"):
        meganeura.load(str(path)).model(seed=0).run(fed, device=device)
