"""The training loop on a reference session: order, log points, evaluations, files, interruption."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.initializers import Ones
from meganeura_dsl.ir.ops import Broadcast, Constant, Input, Mul, Parameter, Sub, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.settings_problems import MetricTaken
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.transforms.optimizers.optimizers import AdamW, Sgd
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
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import training_step
from meganeura_runtime.backends.backend import Hosts, OpenDevice
from meganeura_runtime.backends.base import Outputs, Uploaded
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.dataset import InputSpec, match_data
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor
from meganeura_runtime.train.events import (
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Logged,
    Saved,
    Started,
    Stepped,
    StoppedEarly,
)
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records import run_folder
from meganeura_runtime.train.records.run_folder import RunFolder, named_folder, new_folder
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.spec.step_graphs import SizedStep, training_settings
from meganeura_runtime.train.spec.train_job import TrainJob, prepare
from meganeura_runtime.train.spec.train_spec import TrainSpec
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.runtime.runs import PROGRAM, Workspace

EXAMPLES = 10
X = np.arange(1, EXAMPLES + 1, dtype=np.float32).reshape(EXAMPLES, 1) / EXAMPLES
PLACE = Location(Span(Source("fit.mgn", "param w: [1] = ones"), 0, 5))


class Read(Outputs):
    """Outputs that count how often they are looked at."""

    def __init__(self, outputs: Outputs, session: "WatchedSession") -> None:
        self.outputs = outputs
        self.session = session

    def request(self) -> None:
        self.outputs.request()

    def __getitem__(self, name: str) -> Array:
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        self.session.reads += 1
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)


class WatchedSession(ReferenceSession):
    """A session that remembers what it was fed and how often its outputs were looked at."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.fed: list[Mapping[str, Array]] = []
        self.reads = 0
        self.closed = False

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        assert not isinstance(feeds, Uploaded)
        self.fed.append(feeds)
        return Read(super().step(feeds), self)

    def close(self) -> None:
        self.closed = True
        super().close()


class Sessions:
    """Opens reference sessions and remembers them."""

    def __init__(self) -> None:
        self.opened: list[WatchedSession] = []

    def __call__(self, graph: Graph) -> WatchedSession:
        self.opened.append(WatchedSession(graph))
        return self.opened[-1]


def forward(examples: int) -> Graph:
    """Loss = mean((x (w - 2))**2), error = mean(x)."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (examples, 1)))
    w = build.add(Parameter("w", DType.F32, (1,), "param"))
    two = build.add(Broadcast((1,), ()), build.add(Constant(2.0, DType.F32)))
    off = build.add(Broadcast((examples, 1), (1,)), build.add(Sub(), w, two))
    scaled = build.add(Mul(), x, off)
    square = build.add(Mul(), scaled, scaled)
    part = build.add(Constant(1 / examples, DType.F32))
    loss = build.add(Mul(), part, build.add(Sum((0, 1)), square))
    mean = build.add(Mul(), part, build.add(Sum((0, 1)), x))
    return build.graph({"loss": loss, "size": mean})


def job(*, held_out: bool = True, test: Array = X, **changes: object) -> TrainJob:
    settings = RunSettings.model_validate(
        {
            "data": "x",
            "sizes": {"batch": 4},
            "epochs": 3,
            "optimizer": {"kind": "sgd", "lr": 0.5},
            "schedule": {"kind": "constant"},
            "log_every": 2,
            **changes,
        }
    )
    batch = settings.sizes["batch"]
    demand = InputSpec({"x": TensorType(DType.F32, (dim("batch"), 1))}, settings.sizes)
    splits = ("train.x", "test.x") if held_out else ("x",)
    path = Path("x.safetensors")
    data = {"train.x": X, "x": X, "test.x": test}
    tensors = {name: StoredTensor(path, name, "f32", data[name]) for name in splits}
    parameter = ParameterInfo("w", TensorType(DType.F32, (1,)), "param", "f32", Ones(), PLACE)
    wanted = training_settings(settings)
    step = training_step(forward(batch), wanted)
    spec = TrainSpec(
        name="fit",
        settings=settings,
        input_spec=demand,
        parameters=(parameter,),
        whole_step=SizedStep(batch, forward(batch), wanted, step),
        graphs=OneParameter(),
    )
    return TrainJob(spec=spec, dataset=match_data(tensors, demand, path))


class OneParameter:
    """The graphs of `forward`, of which steps have one size."""

    def evaluation(self, sizes: Mapping[str, int]) -> Graph:
        return forward(sizes["batch"])

    def symbolic_evaluation(self) -> Graph | None:
        return None

    def sized(self, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        raise AssertionError(sizes, part)

    def bounds(self, sizes: Mapping[str, int]) -> Mapping[str, Bound]:
        del sizes
        return {}


def run(
    folder: Path, wanted: TrainJob, stop_after: int | None = None
) -> tuple[list[Event], RunFolder, Sessions]:
    events: list[Event] = []
    sessions = Sessions()

    def stop() -> bool:
        return stop_after is not None and len(sessions.opened[0].fed) >= stop_after

    with new_folder(folder, wanted.spec.name) as kept:
        train(wanted, kept, sessions, events.append, stop)
    return events, kept, sessions


def metrics(folder: RunFolder) -> list[dict[str, float | str | None]]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


def test_a_run_does_all_steps_and_tells_them(tmp_path: Path) -> None:
    events, _, sessions = run(tmp_path, job())
    assert isinstance(events[0], Started)
    assert (events[0].steps_per_epoch, events[0].examples, events[0].held_out) == (2, 10, 10)
    assert (events[0].parameters, events[0].weights) == (1, 1)
    assert [each.step for each in events if isinstance(each, Stepped)] == [1, 2, 3, 4, 5, 6]
    assert [each.epoch for each in events if isinstance(each, Stepped)] == [0, 0, 1, 1, 2, 2]
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (6, False)
    assert len(sessions.opened[0].fed) == 6
    assert all(each.closed for each in sessions.opened)


def test_metrics_are_read_at_log_points_only(tmp_path: Path) -> None:
    events, _, sessions = run(tmp_path, job(log_every=4))
    assert [each.step for each in events if isinstance(each, Logged)] == [1, 4, 6]
    assert sessions.opened[0].reads == 3


def test_what_is_learned_is_what_the_numbers_say(tmp_path: Path) -> None:
    wanted = job(shuffle=False)
    _, folder, _ = run(tmp_path, wanted)
    w = 1.0
    for _ in range(3):
        for batch in (X[:4], X[4:8]):
            w -= 0.5 * 2 * float(np.mean(batch**2)) * (w - 2)
    assert load_file(folder.weights)["w"] == pytest.approx([w], rel=1e-6)


def test_every_epoch_has_another_order_which_the_seed_decides(tmp_path: Path) -> None:
    def order(seed: int) -> list[float]:
        _, _, sessions = run(tmp_path, job(seed=seed))
        return [float(x) for feeds in sessions.opened[0].fed for x in feeds["x"].ravel()]

    first = order(1)
    assert first == order(1)
    assert first != order(2)
    assert first[:8] != first[8:16]
    assert len(set(first[:8])) == 8


def test_evaluation_covers_every_example_once_weighted_by_rows(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(eval_every=2))
    evaluations = [each for each in events if isinstance(each, Evaluated)]
    assert [each.epoch for each in evaluations] == [1, 2]
    w = float(load_file(folder.weights)["w"][0])
    assert evaluations[-1].loss == pytest.approx(float(np.mean((X * (w - 2)) ** 2)), rel=1e-5)
    assert evaluations[-1].metrics["size"] == pytest.approx(float(X.mean()))
    # the step, batches of four, and the remainder of two; each planned once
    assert [len(each.fed) for each in sessions.opened] == [6, 4, 2]


def test_evaluations_within_an_epoch_change_nothing_but_what_is_measured(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(eval_every_steps=3, eval_every=3, epochs=4))
    found = [each for each in events if isinstance(each, Evaluated)]
    # 3 within the second epoch; 6 is the end of the third, evaluated once; 8 is the end of all.
    assert [(each.step, each.epoch, each.is_within_epoch) for each in found] == [
        (3, 1, True), (6, 2, False), (8, 3, False),
    ]  # fmt: skip
    plain, other, _ = run(tmp_path, job(epochs=4))
    by_step = {each.step: each for each in plain if isinstance(each, Evaluated)}
    assert [by_step[step].loss for step in (6, 8)] == [each.loss for each in found[1:]]
    assert folder.weights.read_bytes() == other.weights.read_bytes()
    kept = [each["step"] for each in metrics(folder) if each["kind"] == "held_out"]
    assert kept == [3, 6, 8]


def test_a_run_ends_within_an_epoch_where_nothing_gets_better(tmp_path: Path) -> None:
    wanted = job(epochs=9, eval_every_steps=1, stop_after=2, best="lowest size")
    events, folder, _ = run(tmp_path, wanted)
    (early,) = [event for event in events if isinstance(event, StoppedEarly)]
    assert (early.step, early.epoch, early.evaluations) == (3, 1, 2)
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position, progress.stale) == (3, 1, 1, 2)
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (3, False)
    assert load_file(folder.weights).keys() == {"w"}


def test_a_last_batch_of_one_example_counts_once(tmp_path: Path) -> None:
    wanted = job(test=X[:7], sizes={"batch": 3}, epochs=1)
    events, folder, sessions = run(tmp_path, wanted)
    [measured] = [each for each in events if isinstance(each, Evaluated)]
    w = float(load_file(folder.weights)["w"][0])
    assert measured.loss == pytest.approx(float(np.mean((X[:7] * (w - 2)) ** 2)), rel=1e-5)
    assert [[len(feeds["x"]) for feeds in each.fed] for each in sessions.opened[1:]] == [
        [3, 3],
        [1],
    ]


def test_the_mean_loss_of_an_epoch_is_that_of_all_its_steps(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(held_out=False, log_every=100))
    w, losses = 1.0, list[float]()
    for feeds in sessions.opened[0].fed:
        scale = float(np.mean(np.square(feeds["x"], dtype=np.float64)))
        losses.append(scale * (w - 2) ** 2)
        w -= 0.5 * 2 * scale * (w - 2)
    means = [float(np.mean(losses[first : first + 2])) for first in (0, 2, 4)]
    ended = [each for each in events if isinstance(each, EpochEnded)]
    assert [(each.step, each.epoch, each.steps) for each in ended] == [
        (2, 0, 2),
        (4, 1, 2),
        (6, 2, 2),
    ]
    assert [each.loss for each in ended] == pytest.approx(means, rel=1e-5)
    assert all(each.seconds > 0 for each in ended)
    records = [each for each in metrics(folder) if each["kind"] == "epoch"]
    assert [each["loss"] for each in records] == [each.loss for each in ended]


def test_no_steps_are_logged_where_none_are_asked_for(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(log_every=0))
    assert not any(isinstance(each, Logged) for each in events)
    assert [each["kind"] for each in metrics(folder)] == ["epoch", "held_out"] * 3


def test_a_loss_that_is_not_finite_is_noticed_without_a_log(tmp_path: Path) -> None:
    with np.errstate(all="ignore"), pytest.raises(ProblemError) as caught:
        run(tmp_path, job(optimizer={"kind": "sgd", "lr": 1e30}, epochs=10, log_every=0))
    assert isinstance(caught.value.problem, LossNotFinite)
    assert caught.value.problem.step == 2
    assert metrics(RunFolder(tmp_path / "fit-1"))[-1] == {
        "kind": "step", "step": 2, "epoch": 0, "loss": None,
    }  # fmt: skip


def test_no_epochs_leave_the_initial_weights(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(epochs=0))
    assert [type(each) for each in events] == [Started, Saved, Finished]
    assert [len(each.fed) for each in sessions.opened] == [0]
    assert load_file(folder.weights)["w"].tolist() == [1.0]
    assert read_checkpoint(folder.checkpoint)[1].step == 0
    assert not folder.metrics.exists()


def test_evaluation_avoids_a_remainder_where_a_batch_of_another_size_does(tmp_path: Path) -> None:
    _, _, sessions = run(tmp_path, job(sizes={"batch": 6}))
    assert [len(each.fed) for each in sessions.opened] == [3, 6]
    assert {len(feeds["x"]) for feeds in sessions.opened[1].fed} == {5}


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(optimizer={"kind": "sgd", "lr": 20.0}, epochs=2))
    evaluations = [each for each in events if isinstance(each, Evaluated)]
    assert [each.best for each in evaluations] == [True, False]
    assert evaluations[1].loss > evaluations[0].loss
    assert load_file(folder.best)["w"] != load_file(folder.weights)["w"]


def test_without_held_out_examples_nothing_is_evaluated(tmp_path: Path) -> None:
    events, folder, _ = run(tmp_path, job(held_out=False))
    assert not any(isinstance(each, Evaluated) for each in events)
    assert not folder.best.exists()
    assert folder.weights.exists()


def test_the_folder_holds_settings_and_metrics(tmp_path: Path) -> None:
    wanted = job()
    _, folder, _ = run(tmp_path, wanted)
    written = json.loads(folder.settings.read_text())
    assert written.pop("weights") == []
    assert RunSettings.model_validate(written) == wanted.settings
    records = metrics(folder)
    assert [(each["kind"], each["step"]) for each in records] == [
        ("step", 1), ("step", 2), ("epoch", 2), ("held_out", 2), ("step", 4), ("epoch", 4),
        ("held_out", 4), ("step", 6), ("epoch", 6), ("held_out", 6),
    ]  # fmt: skip
    assert all(isinstance(each["loss"], float) for each in records)
    assert {"learning_rate", "steps_per_second", "size"} <= set(records[0])


def test_weights_say_which_run_and_step_they_are_of(workspace: Workspace) -> None:
    """The best are those of the step that was evaluated."""
    folder = workspace.start("run", "epochs=2", "best=highest loss", "optimize=false")
    evaluated = [event.loss for event in workspace.events if isinstance(event, Evaluated)]
    best = 5 * (1 + int(np.argmax(evaluated)))
    for path, step in ((folder.weights, 10), (folder.best, best)):
        with safe_open(path, "np") as file:
            said = {"format": "pt", "train": "fit", "step": str(step)}
            assert {name: file.metadata()[name] for name in said} == said


def test_a_checkpoint_holds_the_place_in_the_run(tmp_path: Path) -> None:
    wanted = job(optimizer={"kind": "adam"})
    _, folder, _ = run(tmp_path, wanted)
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert sorted(tensors) == [
        "optimizer.step",
        "optimizer.w.exp_avg",
        "optimizer.w.exp_avg_sq",
        "w",
    ]
    assert int(tensors["optimizer.step"].bits) == 6
    assert (progress.step, progress.epoch, progress.position) == (6, 3, 0)
    assert progress.program == wanted.spec.program_hash
    assert progress.best_value is not None


def test_an_interrupted_run_leaves_a_checkpoint_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    events, folder, sessions = run(tmp_path, job(), stop_after=3)
    assert isinstance(events[-1], Finished)
    assert (events[-1].steps, events[-1].interrupted) == (3, True)
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert (progress.step, progress.epoch, progress.position) == (3, 1, 1)
    w = 1.0
    for feeds in sessions.opened[0].fed:
        w -= 0.5 * 2 * float(np.mean(np.square(feeds["x"], dtype=np.float64))) * (w - 2)
    assert tensors["w"].bits == pytest.approx([w], rel=1e-6)
    assert folder.weights.exists()


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_run_may_be_stopped_by_an_evaluation(epoch: int, tmp_path: Path) -> None:
    """It is as far then as one that was stopped after the epoch; after the last it is over."""
    events: list[Event] = []

    def stop() -> bool:
        return sum(isinstance(event, Evaluated) for event in events) == epoch

    with new_folder(tmp_path, "fit") as folder:
        finished = train(job(), folder, ReferenceSession, events.append, stop)
    assert (finished.steps, finished.interrupted) == (2 * epoch, epoch < 3)
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position) == (2 * epoch, epoch, 0)
    assert sum(isinstance(event, Stepped) for event in events) == 2 * epoch


class Agreeing(ReferenceSession):
    """A session of one of several processes, which are asked whether a run should end."""

    asked: list[int]
    until: int

    def agree(self, *, wish: bool) -> bool:
        assert wish
        self.asked.append(self.step_now())
        return len(self.asked) == self.until

    step_now: Callable[[], int]


@pytest.mark.parametrize(
    ("every", "asked"),
    [(0, [2, 4, 5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [2, 3, 4, 5])],
)
@pytest.mark.parametrize("until", [1, 2, 9])
def test_several_processes_end_after_the_same_step(
    every: int, asked: list[int], until: int, tmp_path: Path
) -> None:
    """They agree where a step is logged, at the end of an epoch of two steps, and of the run."""
    events: list[Event] = []

    def made() -> int:
        return sum(isinstance(event, Stepped) for event in events)

    def opened(graph: Graph) -> Agreeing:
        session = Agreeing(graph)
        session.asked, session.until, session.step_now = [], until, made
        sessions.append(session)
        return session

    sessions: list[Agreeing] = []
    options = RunOptions(hosts=Hosts(2, 0))
    wanted = job(steps=5, epochs=3, log_every=every)
    with new_folder(tmp_path, "fit") as folder:
        finished = train(wanted, folder, opened, events.append, lambda: True, options)
    assert sessions[0].asked == asked[:until]
    assert finished.steps == [*asked, 5][min(until, len(asked)) - 1]
    assert finished.interrupted == (until < 9)


@pytest.mark.parametrize("save_every", [1, 2, 5])
def test_a_run_that_ends_early_saves_all_there(tmp_path: Path, save_every: int) -> None:
    """Whenever it is saved otherwise: the third evaluation is the second that is no better."""
    wanted = job(epochs=9, save_every=save_every, stop_after=2, best="lowest size")
    events, folder, _ = run(tmp_path, wanted)
    (early,) = [event for event in events if isinstance(event, StoppedEarly)]
    assert (early.step, early.epoch, early.evaluations, early.metric) == (6, 2, 2, "size")
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.step, progress.epoch, progress.position, progress.stale) == (6, 3, 0, 2)
    saved = [event.path for event in events[events.index(early) :] if isinstance(event, Saved)]
    assert saved == [folder.checkpoint, folder.weights]
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert (finished.steps, finished.interrupted) == (6, False)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with np.errstate(all="ignore"), pytest.raises(ProblemError) as caught:
        run(tmp_path, job(optimizer={"kind": "sgd", "lr": 1e30}, epochs=10))
    assert isinstance(caught.value.problem, LossNotFinite)
    caught.value.problem.report()
    last = metrics(RunFolder(tmp_path / "fit-1"))[-1]
    assert last["loss"] is None


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


# --- schedules -----------------------------------------------------------------------------------


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


def test_a_plateau_lowers_the_rate_of_what_follows(tmp_path: Path) -> None:
    """A metric that never changes is no better after the first evaluation."""
    plateau = {"kind": "plateau", "metric": "size", "factor": 0.5, "patience": 0, "final": 0.2}
    events, folder, sessions = run(tmp_path, job(schedule=plateau, epochs=5, log_every=1))
    rates = [each.learning_rate for each in events if isinstance(each, Logged)]
    expected = [0.5, 0.5, 0.25, 0.125, 0.1]
    assert rates == pytest.approx([rate for rate in expected for _ in range(2)])
    fed = [float(feeds["learning_rate"]) for feeds in sessions.opened[0].fed]
    assert fed == pytest.approx(rates)
    told = [each.learning_rate for each in events if isinstance(each, Evaluated)]
    assert told == [None, pytest.approx(0.25), pytest.approx(0.125), pytest.approx(0.1), None]
    progress = read_checkpoint(folder.checkpoint)[1]
    assert (progress.reduction.scale, progress.reduction.bad) == (0.2, 0)


@pytest.mark.parametrize("of_all", [True, False])
def test_a_plateau_of_some_paths_changes_no_other_rate(tmp_path: Path, *, of_all: bool) -> None:
    """What is told is the rate of all paths, where that changed."""
    plateau = {"kind": "plateau", "metric": "size", "factor": 0.5, "patience": 0, "final": 0.2}
    rest, own = (plateau, {"kind": "constant"})[:: 1 if of_all else -1]
    wanted = job(schedule=rest, schedules={"*": own}, epochs=5, log_every=1)
    events, folder, sessions = run(tmp_path, wanted)
    fed = np.array([feeds["learning_rate"].tolist() for feeds in sessions.opened[0].fed])
    lowered = [rate for rate in (0.5, 0.5, 0.25, 0.125, 0.1) for _ in range(2)]
    np.testing.assert_allclose(fed[:, 0 if of_all else 1], lowered)
    np.testing.assert_allclose(fed[:, 1 if of_all else 0], 0.5)
    told = [each.learning_rate for each in events if isinstance(each, Evaluated)]
    changes = [None, 0.25, 0.125, 0.1, None] if of_all else [None] * 5
    assert told == [each and pytest.approx(each) for each in changes]
    progress = read_checkpoint(folder.checkpoint)[1]
    scales = [progress.reduction.scale, progress.reductions["*"].scale]
    assert scales == ([0.2, 1.0] if of_all else [1.0, 0.2])


def test_a_run_by_hand_that_is_longer_than_it_was_said_to_be_keeps_its_last_rate() -> None:
    wanted = job(steps=5, schedule={"kind": "linear"})
    reductions = (Reduction(),)
    rates = [wanted.spec.scheduled_rates(step, reductions)[0] for step in range(9)]
    assert rates[:5] == [
        wanted.settings.learning_rates(step, RunLength(5, 1), reductions)[0] for step in range(5)
    ]
    assert len(set(rates[:5])) == 5
    assert rates[5:] == [rates[5]] * 4


def test_settings_that_do_not_fit_the_program_are_refused_before_a_run(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ProblemsError, match="E05") as caught:
        workspace.job('optimizer["fc9.*"]=sgd(lr=0.1)')
    assert "fc9" in str(caught.value.problems[0].report())
    text = PROGRAM.replace("  run:", "  metric gradient_norm = mean(h)\n  run:")
    workspace.write(text)
    assert workspace.job().steps == 20
    with pytest.raises(ProblemsError) as caught:
        workspace.job("gradient_norm=true")
    (problem,) = caught.value.problems
    assert isinstance(problem, MetricTaken)
    assert problem.name == "gradient_norm"


def test_only_the_plain_constant_is_steady() -> None:
    assert ConstantRate().is_steady
    assert not ConstantRate(warmup=1).is_steady
    assert not training_settings(job().settings).feed_learning_rate


# --- folders -------------------------------------------------------------------------------------


def test_run_folders_are_numbered(tmp_path: Path) -> None:
    paths: list[str] = []
    for _ in range(3):
        with new_folder(tmp_path / "runs", "fit") as folder:
            paths.append(folder.path.name)
    assert paths == ["fit-1", "fit-2", "fit-3"]


def test_a_named_folder_must_be_empty(tmp_path: Path) -> None:
    with named_folder(tmp_path / "new" / "run") as folder:
        folder.write_settings(job().settings)
    with pytest.raises(ProblemError, match="E0534"), named_folder(folder.path):
        pass


def test_a_folder_in_the_way_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="E0534"), new_folder(tmp_path / "file", "fit"):
        pass
    with pytest.raises(ProblemError, match="E0534"), named_folder(tmp_path / "file"):
        pass


def test_numbers_that_are_not_finite_are_null_in_the_metrics(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.add_metrics({"kind": "step", "loss": math.nan})
    assert metrics(folder) == [{"kind": "step", "loss": None}]


def test_settings_say_how_the_step_is_built() -> None:
    clipped = job(clip_norm=1.0).settings
    assert training_settings(clipped).clip_norm == 1.0
    adamw = job(optimizer={"kind": "adamw"}).settings
    assert training_settings(adamw).optimizer == AdamW(weight_decay=0.01)
    assert Sgd(lr=0.5) == job().settings.optimizer


def test_a_line_of_the_metrics_speaks_of_a_step_or_is_left_out() -> None:
    lines = (b'{"step": 2}', b'{"step": 3}', b"[" * 200_000, b'{"step": "2"}', b"{", b"[2]", b"")
    assert [run_folder._is_by(2, line) for line in lines] == [True, *[False] * 6]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hosts_train_together_on_so_many_devices_as_is_said(count: int, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    job = prepare(pipeline.load(str(workspace.folder / "fit.mgn")), "fit", workspace.folder)
    device = cast("OpenDevice", SimpleNamespace(hosts=SimpleNamespace(count=count)))
    if count == 1:
        assert job.spec.spread_over(device) is device
    else:
        with pytest.raises(DeviceError, match=f"{count} hosts train together"):
            job.spec.spread_over(device)
