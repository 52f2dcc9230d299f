"""Learning rates of the steps of a run, by schedules."""

from pathlib import Path

import pytest

from meganeura_dsl.transforms.optimizers.schedules import (
    SCHEDULES,
    Linear,
    OneCycle,
    Piecewise,
    Reduction,
    RunLength,
    Step,
)
from meganeura_dsl.transforms.optimizers.schedules import Constant as ConstantRate
from meganeura_runtime.train.events import (
    Logged,
)
from meganeura_runtime.train.spec.step_graphs import training_settings
from tests.runtime.train.loop.one_parameter import (
    job,
    metrics,
    run,
)


def test_the_schedule_decides_each_step_s_rate(tmp_path: Path) -> None:
    wanted = job(schedule={"kind": "linear", "warmup": 2, "final": 0.5}, log_every=1)
    events, _, sessions = run(tmp_path, wanted)
    rates = [each.learning_rate for each in events if isinstance(each, Logged)]
    assert rates == pytest.approx([0.25, 0.5, 0.5, 0.4375, 0.375, 0.3125])
    fed = [float(feeds["learning_rate"]) for feeds in sessions.opened[0].fed]
    assert fed == pytest.approx(rates)


def test_paths_with_a_schedule_of_their_own_are_fed_and_recorded_apart(tmp_path: Path) -> None:
    wanted = job(
        schedule={"kind": "linear", "final": 0.5},
        schedules={"*": {"kind": "constant", "warmup": 2}},
        log_every=1,
    )
    events, folder, sessions = run(tmp_path, wanted)
    fed = [feeds["learning_rate"].tolist() for feeds in sessions.opened[0].fed]
    told = [each.learning_rate for each in events if isinstance(each, Logged)]
    assert told == pytest.approx([of_all for of_all, _ in fed])
    steps = [each for each in metrics(folder) if each["kind"] == "step"]
    names = ("learning_rate", 'learning_rate["*"]')
    assert fed == [pytest.approx([each[name] for name in names]) for each in steps]
    assert [of_paths for _, of_paths in fed] == [0.25, 0.5, 0.5, 0.5, 0.5, 0.5]


def test_a_cosine_ends_where_it_was_told_to() -> None:
    cosine = job(schedule={"kind": "cosine", "warmup": 10, "final": 0.1}).settings.schedule
    length = RunLength(110, 11)
    assert cosine.at(0, length) == pytest.approx(0.1)
    assert cosine.at(9, length) == 1.0
    assert cosine.at(10, length) == 1.0
    assert cosine.at(60, length) == pytest.approx(0.55)
    assert cosine.at(110, length) == pytest.approx(0.1)


def test_a_warmup_longer_than_the_run_never_divides_by_zero() -> None:
    assert Linear(warmup=5).at(5, RunLength(5, 5)) == 1.0


@pytest.mark.parametrize("word", SCHEDULES)
@pytest.mark.parametrize("length", [RunLength(1, 1), RunLength(2, 1), RunLength(3, 2)])
def test_a_short_run_has_rates_too(word: str, length: RunLength) -> None:
    for schedule in (SCHEDULES[word](), OneCycle(0.5), OneCycle(0.5, three_phase=True)):
        assert all(0 <= schedule.at(step, length) <= 1 for step in range(length.steps))


def test_milestones_are_where_their_digits_say() -> None:
    """Seven tenths of ten steps are seven steps, though 0.7 is no binary number."""
    tenth = [Step(every=0.1, gamma=0.5).at(step, RunLength(10, 10)) for step in range(10)]
    assert tenth == [0.5**step for step in range(10)]
    late = Piecewise(milestones=(0.7,), factors=(0.5,))
    assert [late.at(step, RunLength(10, 10)) for step in range(10)] == [1.0] * 7 + [0.5] * 3


def test_a_run_by_hand_that_is_longer_than_it_was_said_to_be_keeps_its_last_rate() -> None:
    wanted = job(steps=5, schedule={"kind": "linear"})
    reductions = (Reduction(),)
    rates = [wanted.spec.scheduled_rates(step, reductions)[0] for step in range(9)]
    assert rates[:5] == [
        wanted.settings.learning_rates(step, RunLength(5, 1), reductions)[0] for step in range(5)
    ]
    assert len(set(rates[:5])) == 5
    assert rates[5:] == [rates[5]] * 4


def test_only_the_plain_constant_is_steady() -> None:
    assert ConstantRate().is_steady
    assert not ConstantRate(warmup=1).is_steady
    assert not training_settings(job().settings).feed_learning_rate
