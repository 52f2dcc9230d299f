"""Every function of the language that PyTorch has too, at the samples of PyTorch's own suite."""

import warnings
from itertools import islice
from pathlib import Path

import pytest

from tests.dsl.test_special_points import functions
from tests.effort import effort
from tests.folded import each_of
from tests.parity.opinfo.compare import outcome, told
from tests.parity.opinfo.counts import counted, tables
from tests.parity.opinfo.devices import opened
from tests.parity.opinfo.samples import infos, mistakes, samples
from tests.parity.opinfo.saying import Row
from tests.parity.opinfo.table import ELSEWHERE, ROWS

pytestmark = pytest.mark.parity

OF_EACH = effort(usual=1, nightly=100_000)
"""Samples of each function."""
TRIED = ROWS[:: effort(usual=8, nightly=1)]
"""An eighth of the rows by day: all samples take a minute."""
PAGE = Path(__file__).parents[3] / "docs" / "yardsticks.md"
PREFIXES = ("nn.functional.", "special.", "linalg.")


def _plain(name: str) -> str:
    """A name of PyTorch's as it would be here: without its module and its variant."""
    name = name.partition("/")[0]
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace("_", "").lower()


def test_every_function_of_the_same_name_has_a_row() -> None:
    theirs = {_plain(name) for name in infos()}
    shared = {name for name in functions() if _plain(name) in theirs}
    covered = {each.strip() for row in ROWS for each in row.ours.split(",")}
    named = {_plain(row.theirs) for row in ROWS}
    missing = {name for name in shared if name not in covered and _plain(name) not in named}
    assert missing == ELSEWHERE.keys(), "give a row or a reason"
    assert {row.theirs for row in ROWS} <= infos().keys()


@each_of("row", TRIED)
def test_samples(row: Row) -> None:
    """Values and gradients agree in double precision, or the sample is refused as the row says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in row.dtypes:
            for sample in islice(samples(row.theirs, dtype), OF_EACH):
                found = outcome(row, sample)
                assert found.kind != "wrong", f"{found.reason}\n{found.text}"


@each_of("row", TRIED)
def test_mistakes(row: Row) -> None:
    """Samples that PyTorch refuses are refused, or the row says why they are right here."""
    for mistake in islice(mistakes(row.theirs), OF_EACH):
        found = told(row, mistake)
        assert found.kind != "wrong", f"{found.reason}\n{found.text}"


@pytest.mark.adapter
def test_samples_on_devices() -> None:
    """Every 12th sample at night, and the first of every 32nd function by day."""
    rows = ROWS[:: effort(32, 1)]
    with opened(("wgpu", "xla")) as devices:
        for row in rows:
            for dtype in row.dtypes[: effort(1, 2)]:
                for sample in islice(samples(row.theirs, dtype), 0, effort(1, None), 12):
                    found = outcome(row, sample, devices)
                    assert found.kind != "wrong", f"{row}: {found.reason}\n{found.text}"


@pytest.mark.skipif(effort(usual=True, nightly=False), reason="counted at night")
def test_the_page_has_the_counts() -> None:
    assert "\n".join(tables(counted())) in PAGE.read_text()
