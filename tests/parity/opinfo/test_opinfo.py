"""Every function of the language that PyTorch has too, at the samples of PyTorch's own suite.

By day every function has a row or a reason. To load those samples takes 10 s, so that they are
compared at night.
"""

import warnings
from pathlib import Path

import pytest

from tests.folded import each_of
from tests.parity.opinfo.compare import outcome, told
from tests.parity.opinfo.counts import by_function, counted, tables
from tests.parity.opinfo.devices import opened
from tests.parity.opinfo.samples import infos, mistakes, samples
from tests.parity.opinfo.saying import Row
from tests.parity.opinfo.table import ROWS, WITHOUT, every_function

pytestmark = pytest.mark.parity

PAGE = Path(__file__).parents[3] / "docs" / "yardsticks.md"


def test_every_function_has_a_row_or_a_reason() -> None:
    covered = {each.strip() for row in ROWS for each in row.ours.split(",")}
    ours = {*every_function()}
    assert ours - covered - WITHOUT.keys() == set(), "give a row, or the reason in WITHOUT"
    assert WITHOUT.keys() - ours == set(), "no such function"
    assert WITHOUT.keys() & covered == set(), "in both"


def test_every_row_is_of_an_op_info() -> None:
    assert {row.theirs for row in ROWS} <= infos().keys(), "no such OpInfo"


@each_of("row", ROWS)
def test_samples(row: Row) -> None:
    """Values and gradients agree in double precision, or the sample is refused as the row says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in row.dtypes:
            for sample in samples(row.theirs, dtype):
                found = outcome(row, sample)
                assert found.kind != "wrong", f"{found.reason}\n{found.text}"


@each_of("row", ROWS)
def test_mistakes(row: Row) -> None:
    """Samples that PyTorch refuses are refused, or the row says why they are right here."""
    for mistake in mistakes(row.theirs):
        found = told(row, mistake)
        assert found.kind != "wrong", f"{found.reason}\n{found.text}"


@pytest.mark.adapter
def test_samples_on_devices() -> None:
    """Of every row each 12th sample."""
    with opened(("wgpu", "xla")) as devices:
        counts = counted(ROWS, devices, 12)
    assert not counts.wrong, counts.wrong[0]
    page = PAGE.read_text()
    assert "\n".join(tables(counts)) in page
    assert "\n".join(by_function(counts)) in page
