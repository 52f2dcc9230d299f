"""Utilization of devices, by a clock and a device that the test moves."""

from dataclasses import dataclass
from pathlib import Path
from time import sleep

import pytest

from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import DeviceUsage, Finished
from meganeura_runtime.train.loop.device_usage import UsageMeter
from meganeura_runtime.train.loop.feeder import Feeder
from tests.runtime.runs import Workspace


@dataclass
class World:
    """A clock, and when the device is done with what it was handed."""

    time: float = 0.0
    done: float = 0.0

    def meter(self, *, is_ahead: bool) -> UsageMeter:
        return UsageMeter(
            lambda: is_ahead and self.time < self.done, is_ahead=is_ahead, now=lambda: self.time
        )


def _shares(usage: DeviceUsage | None) -> tuple[float, float, float]:
    assert usage is not None
    return usage.busy, usage.inputs, usage.between


@pytest.mark.parametrize(
    ("handing", "work", "until_inputs", "shares"),
    [(0, 1, 4, (0.25, 0.75, 0)), (1, 2, 3, (0.5, 0.25, 0.25))],
)
def test_a_device_that_is_done_before_its_inputs_come_is_idle(
    handing: int, work: int, until_inputs: int, shares: tuple[float, float, float]
) -> None:
    """Seconds in which a step is handed over, is worked on, and goes by until inputs are there."""
    world = World()
    meter = world.meter(is_ahead=True)
    meter.begin()
    for _ in range(10):
        world.time += handing
        meter.stepped()
        world.done = world.time + work
        meter.look()
        for _ in range(100 * until_inputs):  # looked at every 10 ms
            world.time += 0.01
            meter.look(for_inputs=True)
    assert _shares(meter.usage()) == pytest.approx(shares, abs=0.01)


def test_a_device_that_has_work_left_is_busy_whatever_the_host_does() -> None:
    world = World(done=100.0)
    meter = world.meter(is_ahead=True)
    meter.begin()
    for _ in range(10):
        meter.stepped()
        world.time += 1
        meter.look()
        world.time += 1
        meter.look(for_inputs=True)
    assert _shares(meter.usage()) == (1, 0, 0)


def test_reading_what_a_step_gave_is_waiting_for_the_device() -> None:
    world = World()
    meter = world.meter(is_ahead=True)
    meter.begin()
    meter.stepped()
    world.time = world.done = 5.0
    meter.waited()
    assert _shares(meter.usage()) == (1, 0, 0)
    world.time = 10.0  # now it has nothing to do, and what is read is there
    meter.waited()
    assert _shares(meter.usage()) == (0.5, 0, 0.5)


def test_a_session_that_computes_in_the_call_is_busy_in_it_alone() -> None:
    world = World()
    meter = world.meter(is_ahead=False)
    meter.begin()
    for _ in range(4):
        world.time += 1
        meter.look(for_inputs=True)
        world.time += 6
        meter.stepped()
        world.time += 1
        meter.look()
    assert _shares(meter.usage()) == (0.75, 0.125, 0.125)


def test_evaluations_are_left_out() -> None:
    world = World()
    meter = world.meter(is_ahead=False)
    assert meter.usage() is None
    meter.begin()
    world.time += 1
    meter.stepped()
    world.time += 1  # until they begin
    meter.pause()
    world.time += 50
    meter.look()
    meter.waited()
    meter.stepped()
    assert _shares(meter.usage()) == (0.5, 0, 0.5)
    meter.begin()
    world.time += 2
    meter.look(for_inputs=True)
    assert _shares(meter.usage()) == (0.25, 0.5, 0.25)


def test_no_share_is_below_none() -> None:
    """Though 1 - 0.9 - 0.1 is, by a rounding."""
    assert DeviceUsage(0.9, 0.1).between == 0
    assert DeviceUsage(0.5, 0.25).between == 0.25


class Slow(Feeder):
    """Inputs that take long."""

    def feeds(self, step: int) -> dict[str, Array]:
        sleep(0.03)
        return super().feeds(step)


def test_a_run_says_that_its_inputs_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path)
    monkeypatch.setattr("meganeura_runtime.train.loop.training_loop.Feeder", Slow)
    workspace.start("run")
    (finished,) = [event for event in workspace.events if isinstance(event, Finished)]
    busy, inputs, between = _shares(finished.usage)
    assert inputs > 0.4
    assert busy > 0
    assert busy + inputs + between == pytest.approx(1)


@pytest.mark.parametrize(
    ("looks", "idle"), [("bbbb", 0), ("bbbi", 1), ("bbib", 1), ("bbii", 3), ("biii", 5)]
)
@pytest.mark.parametrize("inputs", [0, 1])
def test_of_the_time_in_which_work_ended_half_counts(looks: str, idle: float, inputs: int) -> None:
    """A look every 2 s, of 8 s in all, which finds the device busy or idle."""
    seen = iter(f"b{looks}")
    times = iter(range(0, 100, 2))
    meter = UsageMeter(lambda: next(seen) == "b", is_ahead=True, now=lambda: next(times))
    meter.begin()
    for _ in looks:
        meter.look(for_inputs=bool(inputs))
    shares = 1 - idle / 8, inputs * idle / 8, (1 - inputs) * idle / 8
    assert _shares(meter.usage()) == pytest.approx(shares)


def test_a_run_is_measured_but_for_what_lies_between_epochs(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations and checkpoints are no steps; what follows them is."""
    told: list[str] = []
    begin, pause = UsageMeter.begin, UsageMeter.pause
    monkeypatch.setattr(UsageMeter, "begin", lambda meter: (told.append("begin"), begin(meter)))
    monkeypatch.setattr(UsageMeter, "pause", lambda meter: (told.append("pause"), pause(meter)))
    workspace.start("run", "epochs=3", "optimize=false")
    assert told == ["begin", *["pause", "begin"] * 3]
