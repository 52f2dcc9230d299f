"""A device that runs behind the loop: nothing waits for it, and nothing is told otherwise."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import wait
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.backends.base import Outputs, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Compiled, Compiling, Logged, Started, Stepped
from meganeura_runtime.train.loop.evaluation import MOST, Evaluator, HeldBatch
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.prefetcher import WORTH_A_THREAD, Prefetcher, is_worthwhile
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.runtime.runs import FAILING, PROGRAM, Workspace, contents

AHEAD = 3


class Late(Outputs):
    """Outputs that remember how many steps were made when they were first read."""

    def __init__(self, outputs: Outputs, session: "Behind") -> None:
        self.outputs = outputs
        self.session = session
        self.step = session.steps
        self.asked = False
        self.read = False

    def request(self) -> None:
        self.asked = True

    def __getitem__(self, name: str) -> Array:
        assert not self.session.is_closed, "its memory is given back"
        if self.asked and not self.read:
            self.session.reads.append((self.step, self.session.steps))
        self.read = True
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)


class Behind(ReferenceSession):
    """A session that claims to run behind."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.steps = 0
        self.reads: list[tuple[int, int]] = []
        self.stagers: list[str] = []
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()

    @property
    def ahead(self) -> int:
        return AHEAD

    @property
    def kernels(self) -> int:
        return 7

    def stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        self.stagers.append(threading.current_thread().name)
        return super().stage(feeds)

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        outputs = super().step(feeds)
        self.steps += 1
        return Late(outputs, self)


class Sessions:
    """Opens them and remembers the first, which trains."""

    def __init__(self) -> None:
        self.opened: list[Behind] = []

    def __call__(self, graph: Graph) -> Behind:
        self.opened.append(Behind(graph))
        return self.opened[-1]


def measured(folder: RunFolder) -> list[Mapping[str, object]]:
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    times = ("steps_per_second", "seconds")
    return [{k: v for k, v in record.items() if k not in times} for record in records]


def same_files(folder: RunFolder, other: RunFolder) -> bool:
    return all(
        contents(getattr(folder, name)) == contents(getattr(other, name))
        for name in ("weights", "best", "checkpoint")
    )


def test_what_is_measured_is_the_same_and_read_behind(workspace: Workspace) -> None:
    expected = workspace.start("here", "log_every=1")
    workspace.events.clear()
    sessions = Sessions()
    found = workspace.start("behind", "log_every=1", open_session=sessions)
    assert measured(found) == measured(expected)
    assert same_files(found, expected)
    made = [event for event in workspace.events if isinstance(event, Logged)]
    assert [event.step for event in made] == list(range(1, 21))
    assert all(event.steps_per_second > 0 for event in made), "also of those read together"
    waited = {1: 1, 3: 5, 4: 5, 5: 5}  # the first at once; the last of an epoch before it is saved
    reads = sessions.opened[0].reads
    assert [step for step, _ in reads] == list(range(1, 21))
    for step, at in reads[:5]:
        assert at == waited.get(step, step + AHEAD)


def test_a_run_that_is_left_has_read_what_its_last_steps_gave(workspace: Workspace) -> None:
    expected = workspace.start("here", "log_every=1")
    workspace.start("behind", "log_every=1", steps=7, open_session=Sessions())
    found = workspace.resume("behind", open_session=Sessions())
    assert measured(found) == measured(expected)
    assert same_files(found, expected)


def test_each_batch_held_out_is_read_behind(workspace: Workspace) -> None:
    sessions = Sessions()
    workspace.start("behind", "batch=2", open_session=sessions)
    reads = sessions.opened[1].reads
    assert reads[:2] == [(1, 2), (2, 2)], "the third batch is smaller, and of another session"
    assert len(reads) == 8, "two batches in each of four epochs"


def test_batches_of_many_sizes_are_measured_by_few_sessions(workspace: Workspace) -> None:
    """They are opened anew where they were closed, and always have the newest weights."""
    job, sessions = workspace.job(), Sessions()
    evaluator = Evaluator(job.spec, sessions)
    split = job.dataset.train
    sizes = (1, 2, 3, 1, 4, 5, 1, 2, 3)
    assert len(set(sizes)) > MOST
    starts = [sum(sizes[:place]) for place in range(len(sizes))]

    def batches(*sizes_and_starts: tuple[int, int]) -> Iterator[HeldBatch]:
        for size, start in sizes_and_starts:
            run = slice(start, start + size)
            yield HeldBatch(size, {"batch": size}, partial(split.take_own, run))
            assert len(evaluator.opened) <= MOST

    values = job.spec.initial_values()
    for weights in (values, {**values, "fc2.bias": np.array([3, 0, -3], np.float32)}):
        found = evaluator.measure(batches(*zip(sizes, starts, strict=True)), weights)
        whole = evaluator.measure(batches((sum(sizes), 0)), weights)
        assert found == pytest.approx(whole, rel=1e-5)
    assert len(sessions.opened) > 2 * MOST
    evaluator.close()
    assert not evaluator.opened


def test_the_step_that_is_not_finite_is_named_though_later_ones_were_made(
    workspace: Workspace,
) -> None:
    workspace.write(FAILING.replace("0.5 - small", "3.0 - small"))
    steps: list[int] = []
    for name, open_session in (("here", ReferenceSession), ("behind", Sessions())):
        with pytest.raises(ProblemError) as caught:
            workspace.start(name, "log_every=1", open_session=open_session)
        assert isinstance(caught.value.problem, LossNotFinite)
        steps.append(caught.value.problem.step)
    assert steps[0] == steps[1] > 1


def test_kernels_are_told_between_the_start_and_the_first_step(workspace: Workspace) -> None:
    workspace.start("behind", steps=1, open_session=Sessions())
    kinds = [type(event) for event in workspace.events]
    assert kinds[:4] == [Started, Compiling, Compiled, Stepped]
    assert workspace.events[1] == Compiling(7)


def test_large_inputs_are_staged_by_a_thread(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions()
    expected = workspace.start("here", open_session=sessions)
    assert sessions.opened[0].stagers == []
    monkeypatch.setattr("meganeura_runtime.train.loop.prefetcher.WORTH_A_THREAD", 1)
    sessions = Sessions()
    found = workspace.start("behind", open_session=sessions)
    assert sessions.opened[0].stagers == ["inputs_0"] * 19
    assert measured(found) == measured(expected)
    assert same_files(found, expected)
    stopped = workspace.start("parts", steps=7, open_session=sessions)
    resumed = workspace.resume("parts", open_session=sessions)
    assert stopped == resumed
    assert same_files(resumed, expected)


def test_what_is_staged_is_staged_anew_where_the_rate_changes(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write(PROGRAM.replace("cosine(warmup=3)", "plateau(threshold=0.9, patience=0)"))
    expected = workspace.start("here")
    monkeypatch.setattr("meganeura_runtime.train.loop.prefetcher.WORTH_A_THREAD", 1)
    sessions = Sessions()
    found = workspace.start("behind", open_session=sessions)
    assert len(sessions.opened[0].stagers) == 21, "two of them once more"
    assert measured(found) == measured(expected)
    assert same_files(found, expected)


class Staged:
    """Inputs that are staged, and whether they were given back."""

    def __init__(self, fed: dict[str, Array]) -> None:
        self.fed, self.closed = fed, False

    def close(self) -> None:
        self.closed = True


class Stage:
    """The feeder of steps, and the session that stages them."""

    is_slow, ahead = False, 1

    def __init__(self, *fails: int, rated: bool = True) -> None:
        self.fails, self.rated, self.staged, self.rate = fails, rated, list[Staged](), 0.5

    def feeds(self, step: int) -> dict[str, Array]:
        if step in self.fails:
            raise OSError(f"step {step}")
        rate = {LEARNING_RATE: np.zeros((), np.float32)} if self.rated else {}
        return {"x": np.array(step), **rate}

    def rates(self, _: int) -> tuple[float, ...]:
        return (self.rate,)

    def stage(self, fed: dict[str, Array]) -> Staged:
        self.staged.append(Staged(fed))
        return self.staged[-1]


def begun(stage: Stage) -> Prefetcher:
    """One whose first step is taken, and whose second is staged."""
    made = Prefetcher(cast("Any", stage), cast("Any", stage), 3)
    made.take(0, lambda: None)
    wait([made._next] if made._next is not None else [])
    return made


def test_a_new_rate_is_that_of_the_step_that_is_staged() -> None:
    stage = Stage()
    ahead = begun(stage)
    stage.rate = 0.25
    ahead.refresh((0.25,))
    fed = cast("Staged", ahead.take(1, lambda: None)).fed
    assert (fed["x"], fed[LEARNING_RATE]) == (1, 0.25)
    assert [each.closed for each in stage.staged[:3]] == [False, True, False]
    ahead.take(2, lambda: None)
    ahead.refresh((0.125,))  # of no step that is left
    ahead.close()
    assert [int(each.fed["x"]) for each in stage.staged] == [0, 1, 1, 2]


def test_steps_that_were_gathered_before_have_the_new_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow gathering takes several steps at a time."""
    stage = Stage()
    monkeypatch.setattr(stage, "is_slow", True)
    ahead = begun(stage)
    wait(ahead._gathering.values())
    stage.rate = 0.25
    ahead.refresh((0.25,))
    for step in (1, 2):
        fed = cast("Staged", ahead.take(step, lambda: None)).fed
        assert (fed["x"], fed[LEARNING_RATE]) == (step, 0.25)
    ahead.close()


@pytest.mark.parametrize(("end", "asked"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2])])
def test_no_step_beyond_the_last_is_gathered(
    monkeypatch: pytest.MonkeyPatch, end: int, asked: list[int]
) -> None:
    stage, found = Stage(), list[int]()
    feeds = stage.feeds
    monkeypatch.setattr(stage, "is_slow", True)
    monkeypatch.setattr(stage, "feeds", lambda step: (found.append(step), feeds(step))[1])
    ahead = Prefetcher(cast("Any", stage), cast("Any", stage), end)
    for step in range(end):
        ahead.take(step, lambda: None)
    ahead.close()
    assert sorted(found) == asked


def test_a_rate_is_that_from_which_step_on_it_was_reduced(workspace: Workspace) -> None:
    """Steps are fed again where something is looked for, with the rates they had."""
    feeder = Feeder(workspace.job("schedule=plateau()", "optimize=false"))
    for first, scale in ((5, 0.5), (12, 0.25)):
        feeder.reduce_rates(first, (Reduction(scale=scale),))
    expected = {0: 1.0, 4: 1.0, 5: 0.5, 11: 0.5, 12: 0.25, 19: 0.25}
    for step, scale in expected.items():
        assert feeder.rates(step) == pytest.approx((0.01 * scale,))
        assert feeder.feeds(step)[LEARNING_RATE] == pytest.approx(0.01 * scale)
        assert feeder.whole(step)[LEARNING_RATE] == pytest.approx(0.01 * scale)


def test_a_step_that_takes_no_rate_is_staged_once() -> None:
    stage = Stage(rated=False)
    ahead = begun(stage)
    ahead.refresh((0.25,))
    assert cast("Staged", ahead.take(1, lambda: None)) is stage.staged[1]
    ahead.close()
    assert [each.closed for each in stage.staged] == [False, False, True]


def test_a_step_that_could_not_be_staged_is_told_when_it_comes() -> None:
    ahead = begun(Stage(1))
    ahead.refresh((0.25,))
    with pytest.raises(OSError, match="step 1"):
        ahead.take(1, lambda: None)
    ahead.close()


@pytest.mark.parametrize(
    ("is_slow", "ahead", "spare", "expected"),
    [
        (False, 1, 0, True),
        (False, 1, -1, False),
        (False, 0, 0, False),
        (True, 0, -1, True),
    ],
)
def test_a_thread_is_worth_it_for_much_or_for_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, ahead: int, spare: int, *, is_slow: bool, expected: bool
) -> None:
    stage = Stage()
    monkeypatch.setattr(stage, "is_slow", is_slow)
    monkeypatch.setattr(stage, "ahead", ahead)
    half = np.zeros(WORTH_A_THREAD // 2, np.uint8)
    fed = {"x": half, "y": half[-spare:]}
    assert is_worthwhile(cast("Any", stage), cast("Any", stage), fed) == expected


def test_what_goes_wrong_in_the_thread_stops_the_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = workspace.job()
    feeds = Feeder(job).feeds

    def failing(_: Feeder, step: int) -> dict[str, Array]:
        if step == 3:
            raise OSError("the disk is gone")
        return feeds(step)

    monkeypatch.setattr("meganeura_runtime.train.loop.prefetcher.WORTH_A_THREAD", 1)
    monkeypatch.setattr(Feeder, "feeds", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        train(job, workspace.run_folder("run"), Sessions(), workspace.events.append, lambda: False)
    assert sum(isinstance(event, Stepped) for event in workspace.events) == 3


def test_the_speed_leaves_evaluations_out(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    measure = Evaluator.measure

    def slow(
        self: Evaluator,
        batches: Iterable[HeldBatch],
        kept: Mapping[str, Array],
        shown: VisualLog | None = None,
    ) -> dict[str, float]:
        now[0] += 1000.0
        return measure(self, batches, kept, shown)

    for module in ("training_loop", "speed"):
        monkeypatch.setattr(f"meganeura_runtime.train.loop.{module}.perf_counter", lambda: now[0])
    monkeypatch.setattr(Evaluator, "measure", slow)
    workspace.start("run", "log_every=1")
    assert now[0] == 4000.0
    speeds = [event.steps_per_second for event in workspace.events if isinstance(event, Logged)]
    assert len(speeds) == 20
    assert min(speeds) > 1
