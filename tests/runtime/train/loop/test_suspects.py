"""The first value that is not finite in a suspected step, whatever the cause."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import Add, Div, Input, Log, Mul, Neg, Parameter, Sum
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.base import Computed, Outputs, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import NotFinite, Stepped
from meganeura_runtime.train.loop.anomaly import Anomaly, Suspect, find_anomaly
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import TrainJob
from tests.runtime.runs import FAILING, Workspace

SOUND = {"w": [1.0, 2.0], "m": [0.5, 0.5], "x": [1.0, 3.0]}
"""A parameter, a moment and an input."""
Made = dict[str, Value]
Make = Callable[[Builder, Made], Mapping[str, Value]]


def step_of(make: Make) -> Graph:
    """A step with the outputs and updates that are made; the loss is the sum of `w x` else."""
    build = Builder()
    leaves: Made = {
        "w": build.add(Parameter("w", DType.F32, (2,), "param")),
        "m": build.add(Parameter("m", DType.F32, (2,), "state")),
        "x": build.add(Input("x", DType.F32, (2,))),
    }
    made = {**leaves, **make(build, leaves)}
    loss = made.get("loss") or build.add(Sum((0,)), build.add(Mul(), leaves["w"], leaves["x"]))
    outputs = {name: each for name, each in made.items() if name not in leaves}
    return build.graph({**outputs, "loss": loss}, {"w": made["w"], "m": made["m"]})


def log_loss(build: Builder, of: Made) -> Mapping[str, Value]:
    return {"loss": build.add(Sum((0,)), build.add(Log(), of["x"]))}


def log_weights(build: Builder, of: Made) -> Mapping[str, Value]:
    return {"w": build.add(Log(), of["x"])}


def log_moments(build: Builder, of: Made) -> Mapping[str, Value]:
    return {"m": build.add(Log(), of["x"])}


def log_gradient(build: Builder, of: Made) -> Mapping[str, Value]:
    return {"gradient.w": build.add(Log(), of["x"])}


def log_of_all(build: Builder, of: Made) -> Mapping[str, Value]:
    found = build.add(Log(), of["x"])
    return {"loss": build.add(Sum((0,)), found), "w": build.add(Neg(), found), "m": found}


def doubled_weights(build: Builder, of: Made) -> Mapping[str, Value]:
    return {"w": build.add(Add(), of["w"], of["w"])}


def doubled_then_log(build: Builder, of: Made) -> Mapping[str, Value]:
    """Weights that overflow before the loss is computed."""
    return {**doubled_weights(build, of), **log_loss(build, of)}


def log_then_doubled(build: Builder, of: Made) -> Mapping[str, Value]:
    return {**log_loss(build, of), **doubled_weights(build, of)}


def no_more(build: Builder, of: Made) -> Mapping[str, Value]:
    """An infinite value that neither an output nor what is kept shows."""
    infinite = build.add(Add(), of["w"], of["w"])
    return {"loss": build.add(Sum((0,)), build.add(Div(), of["x"], infinite))}


def plain(build: Builder, of: Made) -> Mapping[str, Value]:
    del build
    return {"w": of["x"]}


NEGATIVE, LARGE = {"x": [1.0, -1.0]}, {"w": [1.0, 3e38]}
NAN, INFINITE = [0.0, np.nan], [-np.inf, 0.0]


@pytest.mark.parametrize(
    ("make", "given", "first"),
    [
        (plain, {}, None),
        (log_loss, {}, None),
        (doubled_weights, {}, None),
        (log_loss, NEGATIVE, "Log"),
        (log_weights, NEGATIVE, "Log"),
        (log_moments, NEGATIVE, "Log"),
        (log_gradient, NEGATIVE, "Log"),
        (log_of_all, NEGATIVE, "Log"),
        (doubled_weights, LARGE, "Add"),
        (doubled_then_log, {**LARGE, **NEGATIVE}, "Add"),
        (log_then_doubled, {**LARGE, **NEGATIVE}, "Log"),
        (log_then_doubled, LARGE, "Add"),
        (log_then_doubled, NEGATIVE, "Log"),
        (no_more, LARGE, None),
        (plain, {"w": NAN}, "w"),
        (plain, {"w": INFINITE}, "w"),
        (plain, {"m": NAN}, "m"),
        (plain, {"x": INFINITE}, "x"),
        (log_of_all, {**NEGATIVE, "m": NAN}, "m"),
        (log_of_all, {"x": NAN}, "x"),
        (doubled_weights, {**LARGE, "x": NAN}, "x"),
    ],
)
def test_the_first_that_is_not_finite_is_found_wherever_it_ends(
    make: Make, given: Mapping[str, list[float]], first: str | None
) -> None:
    """In the loss, a gradient, the weights or a moment, or in what was given."""
    graph = step_of(make)
    arrays = {name: np.array(each, np.float32) for name, each in (SOUND | dict(given)).items()}
    kept, fed = {name: arrays[name] for name in "wm"}, {"x": arrays["x"]}
    with ReferenceSession(graph) as session:
        session.load(kept)
        found = Suspect(6, kept, fed).judge(graph, session, session.step(fed))
    if first is None:
        assert found is None
        return
    assert found is not None
    assert found.value is not None
    of = found.value.op
    assert (found.step, getattr(of, "name", type(of).__name__)) == (7, first)


class Wrong(ReferenceSession):
    """A device that spoils what it gives, or what it keeps."""

    spoils = ""

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        outputs = dict(super().step(feeds))
        return Computed(outputs | {name: np.array(np.nan) for name in outputs if self.is_bad(name)})

    def persistent(self) -> dict[str, Array]:
        kept = super().persistent()
        spoilt: dict[str, Array] = {
            name: np.full_like(array, np.inf) for name, array in kept.items() if self.is_bad(name)
        }
        return kept | spoilt

    def is_bad(self, name: str) -> bool:
        return name == self.spoils


@pytest.mark.parametrize("spoils", ["loss", "w", "m", ""])
def test_a_step_that_only_the_device_gets_wrong_has_no_first_value(spoils: str) -> None:
    graph = step_of(plain)
    arrays = {name: np.array(each, np.float32) for name, each in SOUND.items()}
    kept, fed = {name: arrays[name] for name in "wm"}, {"x": arrays["x"]}
    with Wrong(graph) as session:
        session.load(kept)
        session.spoils = spoils
        found = Suspect(0, kept, fed).judge(graph, session, session.step(fed))
    assert found == (Anomaly(1, None) if spoils else None)


@dataclass
class Steps:
    """A job and its feeder: of some steps the input is negative, of which a loss is no number."""

    bad: tuple[int, ...]
    fed: list[int] = field(default_factory=list[int])
    graph: Graph = field(default_factory=lambda: step_of(log_loss))

    def step_at(self, step: int, fed: Mapping[str, Array]) -> Graph:
        assert fed
        assert step == self.fed[-1]
        return self.graph

    def feeds(self, step: int) -> dict[str, Array]:
        self.fed.append(step)
        return self.whole(step)

    def whole(self, step: int) -> dict[str, Array]:
        return {"x": np.array([1, -1 if step in self.bad else 1], np.float32)}


@pytest.mark.parametrize(
    ("bad", "first", "last", "good", "found"),
    [
        ((3,), 0, 6, 0, 3),
        ((3,), 0, 6, 3, 3),
        ((3,), 0, 6, 4, None),
        ((3,), 0, 3, 0, None),
        ((3,), 0, 4, 0, 3),
        ((3,), 3, 4, 3, 3),
        ((3,), 4, 6, 4, None),
        ((1, 3, 4), 0, 6, 0, 1),
        ((1, 3, 4), 0, 6, 2, 3),
        ((), 0, 6, 0, None),
        ((0,), 0, 0, 0, None),
    ],
)
def test_of_the_steps_that_are_made_again_the_first_bad_one_from_the_last_good_is_told(
    bad: tuple[int, ...], first: int, last: int, good: int, found: int | None
) -> None:
    steps = Steps(bad)
    with ReferenceSession(steps.graph) as session:
        session.load({name: np.ones(2, np.float32) for name in "wm"})
        anomaly = find_anomaly(
            cast("TrainJob", steps), session, cast("Feeder", steps), first, last, good
        )
    assert (None if anomaly is None else anomaly.step) == (None if found is None else found + 1)
    assert steps.fed == [*range(first, last if found is None else found + 1)]


def test_losses_that_are_ignored_are_told_all_the_same(tmp_path: Path) -> None:
    """The loss of a step and all after it are no numbers, and the run goes on to its end."""
    workspace = Workspace(tmp_path)
    workspace.write(FAILING)
    workspace.start("run", "not_finite=ignore", "optimize=false")
    told = [event for event in workspace.events if isinstance(event, NotFinite)]
    made = sum(isinstance(event, Stepped) for event in workspace.events)
    assert [each.step for each in told] == [*range(told[0].step, made + 1)]
    assert not any(each.is_skipped or np.isfinite(each.loss) for each in told)
