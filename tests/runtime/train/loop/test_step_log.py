"""Logs of a run by hand: steps that a device has finished, and evaluations behind them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.transforms.training_step import SKIPPED
from meganeura_runtime.train.events import Evaluated, Event, Logged
from meganeura_runtime.train.loop.step_log import StepLog
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.records.visual_log import VisualLog


class _Outputs(dict[str, float]):
    """Results that come when they are asked for."""

    requested = 0

    def request(self) -> None:
        self.requested += 1


class _Folder:
    """A folder that keeps what is written to it."""

    def __init__(self, told: list[str]) -> None:
        self.told, self.writes = told, False

    def add_metrics(self, record: dict[str, object]) -> None:
        timeless = {name: value for name, value in record.items() if "per_second" not in name}
        self.told.append(f"{timeless.pop('kind')} {timeless}")

    def add_shown(self, shown: VisualLog, step: int, epoch: int) -> None:
        """The program of these tests shows nothing."""
        del shown, step, epoch


@pytest.fixture
def told() -> list[str]:
    return []


def spec_of(settings: SimpleNamespace) -> Any:  # noqa: ANN401 - what a log reads of a spec
    return SimpleNamespace(settings=settings, parameters=(SimpleNamespace(name="w"),))


@pytest.fixture
def log(told: list[str]) -> StepLog:
    def watch(event: Event) -> None:
        match event:
            case Logged(step=step, epoch=0, loss=loss, metrics=metrics, learning_rate=rate):
                told.append(f"logged {step} {loss} {dict(metrics)} {rate}")
            case Evaluated(step, 0, loss, metrics, best):
                told.append(f"evaluated {step} {loss} {dict(metrics)} {best}")
            case _:
                told.append(str(event))

    settings = SimpleNamespace(log_every=2, steps=7, schedules={}, all_schedules=[None])
    made = StepLog(
        spec_of(settings),
        cast("RunFolder", _Folder(told)),
        watch,
        lambda: told.append("page"),
    )
    made.start(0)
    return made


def step(log: StepLog, number: int, ahead: int = 0) -> _Outputs:
    outputs = _Outputs(loss=number / 8, accuracy=0.5, **{Gradient("w"): 1.0, SKIPPED: 0.0})
    log.stepped(number, 4, (0.25,), cast("Any", outputs), ahead)
    return outputs


def of_step(number: int) -> list[str]:
    place = {"step": number, "epoch": 0, "loss": number / 8, "accuracy": 0.5, "learning_rate": 0.25}
    return [f"step {place}", f"logged {number} {number / 8} {{'accuracy': 0.5}} 0.25"]


def test_the_first_step_each_second_and_the_last_are_logged(log: StepLog, told: list[str]) -> None:
    requested = [step(log, number).requested for number in range(1, 9)]
    assert requested == [1, 1, 0, 1, 0, 1, 1, 1]
    assert told == [line for number in (1, 2, 4, 6, 7, 8) for line in (*of_step(number), "page")]


def test_what_is_under_way_is_logged_once_it_is_done(log: StepLog, told: list[str]) -> None:
    for number in (1, 2, 3, 4):
        step(log, number, ahead=3)
    assert told == [*of_step(1), "page"]
    log.read(1 << 62)
    assert told[3:] == [*of_step(2), *of_step(4), "page"]


def test_a_loss_that_is_not_finite_is_recorded_and_not_told(log: StepLog, told: list[str]) -> None:
    outputs = _Outputs(loss=float("inf"))
    log.stepped(2, 4, (0.25,), cast("Any", outputs), 0)
    assert [line.split()[0] for line in told] == ["step", "page"]
    assert "'loss': inf" in told[0]


@pytest.mark.parametrize("every", [0, 1, 3])
def test_so_many_steps_lie_between_two_that_are_logged(
    log: StepLog, told: list[str], every: int
) -> None:
    log._settings = cast("Any", SimpleNamespace(**{**vars(log._settings), "log_every": every}))
    asked = [number for number in range(1, 8) if step(log, number).requested]
    assert asked == {0: [], 1: [1, 2, 3, 4, 5, 6, 7], 3: [1, 3, 6, 7]}[every]
    assert sum(line.startswith("logged") for line in told) == len(asked)


def test_the_speed_is_that_of_the_steps_alone(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second each on four examples; what took ten seconds between them is left out."""
    now, events, records = [100.0], list[Event](), list[dict[str, object]]()
    monkeypatch.setattr("meganeura_runtime.train.loop.speed.perf_counter", lambda: now[0])
    folder = _Folder(told)
    monkeypatch.setattr(folder, "add_metrics", records.append)
    settings = SimpleNamespace(log_every=2, steps=4, schedules={}, all_schedules=[None])
    log = StepLog(spec_of(settings), cast("RunFolder", folder), events.append, lambda: None)
    log.start(0)
    for number in (1, 2, 3, 4):
        now[0] += 0.5
        step(log, number)
        now[0] += 10
        log.leave_out(10)
    logged = [event for event in events if isinstance(event, Logged)]
    speeds = [(each.steps_per_second, each.examples_per_second) for each in logged]
    assert speeds == [(2.0, 8.0)] * 3
    assert [each["steps_per_second"] for each in records] == [2.0] * 3


def test_an_evaluation_stands_behind_the_steps_before_it(log: StepLog, told: list[str]) -> None:
    step(log, 2, ahead=9)
    log.evaluated(2, {"loss": 0.5, "accuracy": 0.75}, VisualLog(), best=True)
    assert told == [
        *of_step(2),
        "page",
        "held_out {'step': 2, 'epoch': 0, 'loss': 0.5, 'accuracy': 0.75}",
        "evaluated 2 0.5 {'accuracy': 0.75} True",
        "page",
    ]


def test_rates_of_paths_are_recorded_beside_the_one_that_is_told(
    log: StepLog, told: list[str]
) -> None:
    more = {"schedules": {"fc.*": None}, "all_schedules": [None, None]}
    log._settings = cast("Any", SimpleNamespace(**{**vars(log._settings), **more}))
    log.stepped(1, 4, (0.25, 0.5), cast("Any", _Outputs(loss=1.0)), 0)
    rates = {"learning_rate": 0.25, 'learning_rate["fc.*"]': 0.5}
    place = {"step": 1, "epoch": 0, "loss": 1.0, **rates}
    assert told == [
        f"step {place}", "logged 1 1.0 {} 0.25", "page",
    ]  # fmt: skip
