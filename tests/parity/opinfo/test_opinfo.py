"""Every function of the language that PyTorch has too, at the samples of PyTorch's own suite.

By day every 16th row has its first sample that agrees, and at night all have all.
"""

import warnings
from itertools import islice
from pathlib import Path

import pytest

from tests.effort import effort
from tests.folded import each_of
from tests.parity.opinfo.compare import outcome, told
from tests.parity.opinfo.counts import by_function, counted, tables
from tests.parity.opinfo.devices import opened
from tests.parity.opinfo.samples import infos, mistakes, samples
from tests.parity.opinfo.saying import Row
from tests.parity.opinfo.table import ROWS, WITHOUT, every_function

pytestmark = pytest.mark.parity

OF_EACH = effort(usual=1, nightly=100_000)
"""Samples that are compared, and mistakes that are made, of a row."""
TRIED = ROWS[:: effort(usual=16, nightly=1)]
"""The rows of functions of a kind stand together, so that some of each kind are tried."""
PAGE = Path(__file__).parents[3] / "docs" / "yardsticks.md"


def test_every_function_has_a_row_or_a_reason() -> None:
    covered = {each.strip() for row in ROWS for each in row.ours.split(",")}
    ours = {*every_function()}
    assert ours - covered - WITHOUT.keys() == set(), "give a row, or the reason in WITHOUT"
    assert WITHOUT.keys() - ours == set(), "no such function"
    assert WITHOUT.keys() & covered == set(), "in both"
    assert {row.theirs for row in ROWS} <= infos().keys(), "no such OpInfo"


@each_of("row", TRIED)
def test_samples(row: Row) -> None:
    """Values and gradients agree in double precision, or the sample is refused as the row says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in row.dtypes:
            agreed = 0
            for sample in samples(row.theirs, dtype):
                found = outcome(row, sample)
                assert found.kind != "wrong", f"{found.reason}\n{found.text}"
                agreed += found.kind == "agrees"
                if agreed == OF_EACH:
                    break


@each_of("row", TRIED)
def test_mistakes(row: Row) -> None:
    """Samples that PyTorch refuses are refused, or the row says why they are right here."""
    for mistake in islice(mistakes(row.theirs), OF_EACH):
        found = told(row, mistake)
        assert found.kind != "wrong", f"{found.reason}\n{found.text}"


@pytest.mark.adapter
def test_samples_on_devices() -> None:
    """At night of every row each 12th sample, and by day the first of every 64th row."""
    rows = ROWS[:: effort(64, 1)]
    with opened(("wgpu", "xla")) as devices:
        counts = counted(rows, devices, effort(100_000, 12))
    assert not counts.wrong, counts.wrong[0]
    if rows == ROWS:
        page = PAGE.read_text()
        assert "\n".join(tables(counts)) in page
        assert "\n".join(by_function(counts)) in page
