"""Results of steps, the time of reading them, and their speed, by a clock that is set by hand."""

from math import isnan

import pytest

from meganeura_runtime.backends.base import Computed
from meganeura_runtime.train.loop import speed
from meganeura_runtime.train.loop.speed import Clock, Speed
from meganeura_runtime.train.loop.step_record import Losses, StepRecord


def reading(step: int, *, examples: int = 4, is_logged: bool = False) -> StepRecord:
    """A step that began at ten times its number, and took one second."""
    lasted = 10.0 * step, 10.0 * step + 1
    found = Speed(1, 1) if is_logged else None
    return StepRecord(step, 0, examples, (0.1,), Computed({}), lasted, found)


def test_a_mean_loss_counts_each_example_once() -> None:
    losses = Losses()
    assert isnan(losses.mean)
    losses.add(reading(1), 2.0)
    losses.add(reading(2), 3.0)
    losses.add(reading(3, examples=2), 0.5)
    assert (losses.sum, losses.examples, losses.mean) == (21.0, 10, 2.1)


def test_a_run_that_goes_on_counts_what_it_had() -> None:
    losses = Losses(21.0, 10)
    losses.add(reading(4, examples=2), 4.5)
    assert losses.mean == 2.5


def test_an_epoch_lasts_from_its_first_step_to_its_last() -> None:
    losses = Losses()
    assert losses.seconds(reading(3)) == 1
    for step in (3, 4, 5):
        losses.add(reading(step), 1.0)
    assert losses.seconds(reading(5)) == 21
    assert losses.seconds(reading(6)) == 31


@pytest.mark.parametrize(
    ("is_logged", "behind", "due"),
    [(True, 0, 7), (False, 0, 7), (True, 2, 9), (False, 2, 10), (True, 1, 8), (False, 1, 9)],
)
def test_a_step_is_read_once_its_device_is_done_with_it(
    behind: int, due: int, *, is_logged: bool
) -> None:
    assert reading(7, is_logged=is_logged).due(behind) == due


def test_the_speed_is_that_since_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(speed, "perf_counter", lambda: now)
    clock = Clock()
    clock.start(10)
    clock.examples += 24
    now = 103.0
    clock.leave_out(1.0)
    assert clock.speed(16) == Speed(3.0, 12.0)
    clock.examples += 4
    now = 105.0
    assert clock.speed(17) == Speed(0.5, 2.0)
    clock.examples += 4
    found = clock.speed(18)
    assert (found.steps, found.examples) == pytest.approx((1e9, 4e9))
