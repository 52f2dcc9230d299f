"""Accumulation, averages of weights, the best by a metric, early ends, what is not finite."""

from typing import TypeGuard

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura import StopTraining
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.ops import Sqrt
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.backends.base import Session, leaf_types
from meganeura_runtime.backends.sized_session import SizedSession
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import (
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Logged,
    NotFinite,
    Stepped,
    StoppedEarly,
)
from tests.effort import effort
from tests.runtime.runs import Workspace, contents

DEVICES = ("cpu", "wgpu:0", "xla:cpu")
LINEAR = """\
train fit(x: [batch, 6], y: i32[batch]):
  logits = x |> fc1: linear(8) |> gelu |> fc2: linear(3)
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 4
    optimizer = adam(lr=0.01)
    log_every = 1
"""
"""A model without statistics over the batch."""
RISKY = """\
train fit(x: [batch, 6]):
  h = x |> norm: batch_norm |> fc: linear(1)
  minimize mean(h ** 2 * sqrt(x[:, 0:1] + 10))
  run:
    batch     = 4
    optimizer = adam(lr=0.1)
"""


def points(examples: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(examples, 6)).astype(np.float32)
    return {"x": x, "y": generator.integers(0, 3, examples).astype(np.int32)}


@pytest.mark.parametrize("device", effort(("wgpu:0",), DEVICES))
def test_accumulation_on_a_device(workspace: Workspace, device: str) -> None:
    """Four small batches are the large one; in the middle of them a run is saved and goes on."""
    workspace.write(LINEAR)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    schedule = {"schedule": "cosine()"}
    several = {"batch": 2, "accumulate": 4, "steps": 12, "ema": 0.5, **schedule}
    with program.trainer(
        device=device, settings={"batch": 8, "steps": 3, "ema": 0.5, **schedule}
    ) as whole:
        for seed in range(3):
            whole.step(points(8, seed))
        expected = {**whole.weights, **whole.states}
    with program.trainer(device=device, settings=several) as parts:
        rates = []
        for step in range(12):
            data = points(8, step // 4)
            at = slice(2 * (step % 4), 2 * (step % 4) + 2)
            if step == 6:
                parts.save(workspace.folder / "middle")
            rates.append(parts.step({name: each[at] for name, each in data.items()}).learning_rate)
        found = {**parts.weights, **parts.states}
    assert len(set(rates)) == 3
    for name, array in expected.items():
        np.testing.assert_allclose(
            np.asarray(found[name], np.float64),
            np.asarray(array, np.float64),
            rtol=2e-3,
            atol=2e-5,
            err_msg=name,
        )
    with program.trainer(device=device, resume=workspace.folder / "middle") as again:
        for step in range(6, 12):
            data = points(8, step // 4)
            at = slice(2 * (step % 4), 2 * (step % 4) + 2)
            again.step({name: each[at] for name, each in data.items()})
        for name, array in {**again.weights, **again.states}.items():
            np.testing.assert_array_equal(array, found[name], err_msg=name)


def steps_of(trainer: meganeura.Trainer) -> list[Session]:
    """The sessions of a trainer that accumulates: of the whole step, and of the sum."""
    session = trainer.trained.session
    assert isinstance(session, SizedSession)
    return sorted((each.innermost for each in session.opened), key=lambda one: -len(one.inputs))


def test_batches_before_an_update_compute_none(workspace: Workspace) -> None:
    """Their kernels are those of the gradients, and no memory is taken besides that of the step."""
    workspace.write(LINEAR)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    settings = {"batch": 2, "accumulate": 4, "ema": 0.9, "clip_norm": 1.0}
    with program.trainer(device="wgpu:0", settings=settings) as trainer:
        trainer.step(points(2))
        whole, part = steps_of(trainer)
        assert isinstance(whole, WebGpuSession)
        assert isinstance(part, WebGpuSession)
        counts = [len(each.plan.dispatches) for each in (whole, part)]
        assert counts == [26, 13]
        assert [each.steps for each in (whole, part)] == [0, 1]
        own = part.plan.bytes_for(Role.OUTPUTS) + part.plan.bytes_for(Role.INPUTS)  # a stage
        assert whole.device.allocated == sum(buffer.bytes for buffer in whole.plan.buffers) + own
        for seed in range(7):
            trainer.step(points(2, seed))
        assert [each.steps for each in (whole, part)] == [2, 6]
    with program.trainer(device="wgpu:0", settings={"batch": 2, "optimizer": "sgd()"}) as plain:
        plain.step(points(2))
        (alone,) = steps_of(plain)
        assert isinstance(alone, WebGpuSession)
        assert len(alone.plan.dispatches) == 13


def test_batches_before_an_update_compute_none_elsewhere(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    with program.trainer(device="cpu", settings={"batch": 2, "accumulate": 4}) as trainer:
        trainer.step(points(2))
        graphs = [
            trainer.trained.spec.graphs.sized({}, each).optimized
            for each in (StepPart.WHOLE, StepPart.SUM)
        ]
        roots = [sum(isinstance(value.op, Sqrt) for value in graph.values) for graph in graphs]
        assert (roots[0] > 0, roots[1]) == (True, 0)
        assert set(graphs[1].updates) == {
            f"optimizer.{name}.gradient_sum" for name in trainer.weights
        }
        assert leaf_types(graphs[0])[0] == leaf_types(graphs[1])[0]
    with program.trainer(device="xla:cpu", settings={"batch": 2, "accumulate": 4}) as trainer:
        trainer.step(points(2))
        texts = [each.compiled.as_text() for each in steps_of(trainer) if is_xla(each)]
        assert ["sqrt" in (text or "") for text in texts] == [True, False]
        assert steps_of(trainer)[0].names == steps_of(trainer)[1].names


def is_xla(session: Session) -> TypeGuard[XlaSession]:
    return isinstance(session, XlaSession)


@pytest.mark.parametrize("device", effort(("wgpu:0",), DEVICES))
def test_an_update_that_is_not_finite_is_left_out(workspace: Workspace, device: str) -> None:
    workspace.write(RISKY)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    good = {"x": points(4)["x"]}
    nan, inf = good["x"].copy(), good["x"].copy()
    nan[0, 0], inf[1, 2] = -100, np.inf
    with program.trainer(device=device, settings={"not_finite": "skip", "ema": 0.9}) as trainer:
        assert not trainer.step(good).is_skipped
        before = {**trainer.weights, **trainer.states}
        for bad in (nan, inf):
            result = trainer.step({"x": bad})
            assert result.is_skipped
            assert result.metrics == {}
            for name, array in {**trainer.weights, **trainer.states}.items():
                np.testing.assert_array_equal(array, before[name], err_msg=name)
        assert not trainer.step(good).is_skipped
        assert int(trainer.states["optimizer.step"]) == 2


@pytest.mark.parametrize("device", effort(("cpu",), DEVICES))
def test_a_batch_that_is_not_finite_spoils_its_update(workspace: Workspace, device: str) -> None:
    """Those that follow in it are skipped with it, and the next update is made."""
    workspace.write(RISKY)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    good = {"x": points(4)["x"]}
    bad = {"x": good["x"].copy()}
    bad["x"][0, 0] = -100
    settings = {"not_finite": "skip", "ema": 0.9, "accumulate": 3}
    with program.trainer(device=device, settings=settings) as trainer:
        assert not trainer.step(good).is_skipped
        before = {**trainer.weights, **trainer.states}
        assert all(trainer.step(each).is_skipped for each in (bad, good))
        for name, array in {**trainer.weights, **trainer.states}.items():
            expected = 0 if name.endswith(".gradient_sum") else before[name]
            np.testing.assert_array_equal(array, expected, err_msg=name)
        assert not any(trainer.step(good).is_skipped for _ in range(3))
        assert int(trainer.states["optimizer.step"]) == 1


def test_a_run_skips_or_goes_on(workspace: Workspace) -> None:
    data = {f"{split}.x": points(8)["x"] for split in ("train", "test")}
    data["train.x"][3, 0] = -100
    save_file(data, workspace.folder / "points.safetensors")
    workspace.write(
        RISKY.replace("run:\n", 'run:\n    data = "points.safetensors"\n    epochs = 2\n')
    )
    with pytest.raises(ProblemError, match="E0550"):
        workspace.start("stops")
    workspace.events.clear()
    skips = workspace.start("skips", "not_finite=skip")
    found = [event for event in workspace.events if isinstance(event, NotFinite)]
    assert len(found) == 2
    assert all(event.is_skipped for event in found)
    assert all(np.isfinite(each).all() for each in load_file(skips.weights).values())
    workspace.events.clear()
    ignores = workspace.start("ignores", "not_finite=ignore")
    assert not any(event.is_skipped for event in workspace.events if isinstance(event, NotFinite))
    assert not all(np.isfinite(each).all() for each in load_file(ignores.weights).values())


def test_a_run_is_saved_though_the_sums_of_a_batch_that_is_skipped_are_not_finite(
    workspace: Workspace,
) -> None:
    """An epoch of three batches ends within an update of two; what goes on skips the rest of it."""
    x = points(12)["x"]
    x[9, 0] = -100
    save_file({"x": x}, workspace.folder / "points.safetensors")
    workspace.write(
        RISKY.replace(
            "run:\n", 'run:\n    data = "points.safetensors"\n    epochs = 3\n    shuffle = false\n'
        )
    )
    options = "accumulate=2", "not_finite=skip", "ema=0.9"
    whole = workspace.start("whole", *options)
    found = [event.step for event in workspace.events if isinstance(event, NotFinite)]
    assert found == [3, 4, 6, 9]
    sums = load_file(workspace.start("part", *options, steps=3).checkpoint)
    assert any(np.isnan(each).any() for name, each in sums.items() if name.endswith("_sum"))
    part = workspace.resume("part")
    assert contents(part.checkpoint) == contents(whole.checkpoint)
    assert contents(part.weights) == contents(whole.weights)
    assert all(np.isfinite(each).all() for each in load_file(part.weights).values())


def test_what_a_trainer_skips_does_not_keep_it_from_saving(workspace: Workspace) -> None:
    workspace.write(RISKY)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    bad = points(4)["x"]
    bad[0, 0] = -100
    with program.trainer(device="cpu", settings={"not_finite": "skip", "accumulate": 2}) as trainer:
        assert trainer.step({"x": bad}).is_skipped
        trainer.save(workspace.folder / "saved")
        trainer.states["norm.running_mean"] = np.full(6, np.nan)
        with pytest.raises(ProblemError, match="E0550"):
            trainer.save(workspace.folder / "other")


def test_a_run_that_moves_nothing_skips_nothing(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    workspace.start("run", "not_finite=skip", 'optimizer["*"]=frozen', "epochs=1")
    assert any(isinstance(event, EpochEnded) for event in workspace.events)
    assert not any(isinstance(event, NotFinite) for event in workspace.events)


def test_an_update_is_skipped_though_the_loss_is_finite(workspace: Workspace) -> None:
    """The slope of a root is infinite at 0, where the loss is 0."""
    x = points(8)["x"]
    x[4:] = 0
    save_file({"x": x}, workspace.folder / "points.safetensors")
    workspace.write(
        "train fit(x: [batch, 6]):\n"
        "  param w: [6] = ones\n"
        "  minimize mean(sqrt(x * x * expand(w, [d] -> [batch, d]) ** 2))\n"
        '  run:\n    data = "points.safetensors"\n    batch = 4\n    shuffle = false\n'
        "    epochs = 1\n    log_every = 1\n    optimizer = sgd(lr=0.1)\n"
    )
    folder = workspace.start("run", "not_finite=skip")
    found = [event for event in workspace.events if isinstance(event, NotFinite)]
    assert [(event.step, event.loss, event.is_skipped) for event in found] == [(2, 0.0, True)]
    logged = [event for event in workspace.events if isinstance(event, Logged)]
    (ended,) = (event for event in workspace.events if isinstance(event, EpochEnded))
    assert ended.loss == pytest.approx(logged[0].loss / 2)
    slope = np.abs(x[:4]).sum(0) / 24
    assert load_file(folder.weights)["w"] == pytest.approx(1 - 0.1 * slope, rel=1e-5)


def test_an_average_begins_with_the_first_weights(workspace: Workspace) -> None:
    """And of each step it keeps as much as is said."""
    workspace.write(LINEAR)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    settings = {"ema": 0.75, "optimize": False}
    with program.trainer(device="cpu", settings=settings) as trainer:
        expected = np.asarray(trainer.weights["fc1.weight"], np.float64)
        assert np.abs(expected).max() > 0.1
        for step in range(3):
            average = np.asarray(trainer.states["optimizer.fc1.weight.average"], np.float64)
            np.testing.assert_allclose(average, expected, 1e-5, 1e-7)
            trainer.step(points(4, step))
            expected = 0.75 * expected + 0.25 * np.asarray(
                trainer.weights["fc1.weight"], np.float64
            )


def test_averages_are_what_is_evaluated_and_saved(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    run = workspace.start("run", "ema=0.8")
    kept, weights = load_file(run.checkpoint), load_file(run.weights)
    np.testing.assert_array_equal(weights["fc2.bias"], kept["optimizer.fc2.bias.average"])
    assert (kept["fc2.bias"] != weights["fc2.bias"]).any()
    with safe_open(run.weights, "np") as file:
        assert file.metadata()["weights"] == "exponential moving average, decay 0.8"
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    data = load_file(workspace.folder / "points.safetensors")
    held_out = {"x": data["test.x"], "y": data["test.y"]}
    with program.trainer(device="cpu", resume=run.path) as trainer:
        measured = trainer.evaluate(held_out)["loss"]
    with program.trainer(device="cpu", weights=run.weights) as trainer:
        assert trainer.evaluate(held_out)["loss"] == measured
    last = [event for event in workspace.events if isinstance(event, Evaluated)][-1]
    assert last.loss == measured


@pytest.mark.parametrize("steps", effort([7], [7, 11]))
def test_all_of_it_resumed_is_uninterrupted(workspace: Workspace, steps: int) -> None:
    workspace.write(LINEAR)
    options = ("accumulate=3", "ema=0.9", "not_finite=skip", "best=highest accuracy")
    whole = workspace.start("whole", *options)
    workspace.start("part", *options, steps=steps)
    part = workspace.resume("part")
    for file in ("checkpoint", "weights", "best"):
        assert contents(getattr(part, file)) == contents(getattr(whole, file))


def test_the_best_is_that_of_its_metric(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    for best, better in (("highest accuracy", max), ("lowest accuracy", min)):
        workspace.events.clear()
        run = workspace.start(best.split()[0], f"best={best}", "optimizer=adam(lr=0.2)")
        values: list[float] = []
        for event in workspace.events:
            if isinstance(event, Evaluated):
                value = event.metrics["accuracy"]
                assert event.best == (not values or better([*values, value]) != better(values))
                values.append(value)
        assert run.best.is_file()


def test_a_run_ends_when_nothing_gets_better(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    still = ("optimizer=sgd(lr=1e-12)", "stop_after=2", "epochs=9")
    run = workspace.start("run", *still)
    (early,) = [event for event in workspace.events if isinstance(event, StoppedEarly)]
    assert (early.step, early.evaluations, early.metric) == (15, 2, "loss")
    finished = workspace.events[-1]
    assert isinstance(finished, Finished)
    assert (finished.steps, finished.interrupted) == (15, False)
    assert run.weights.is_file()
    workspace.events.clear()
    workspace.resume("run", "epochs=12")
    assert not [event for event in workspace.events if isinstance(event, Stepped)]
    assert [event for event in workspace.events if isinstance(event, StoppedEarly)] == [early]
    workspace.resume("run", "stop_after=3")
    assert len([event for event in workspace.events if isinstance(event, Stepped)]) == 5


def test_a_run_that_ended_within_an_epoch_goes_on_there(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    still = ("optimizer=sgd(lr=1e-12)", "epochs=2", "eval_every_steps=2")
    workspace.start("run", *still, "stop_after=1")
    (early,) = [event for event in workspace.events if isinstance(event, StoppedEarly)]
    assert early.step == 4
    workspace.events.clear()
    workspace.resume("run", "stop_after=9")
    measured = [event for event in workspace.events if isinstance(event, Evaluated)]
    assert [event.step for event in measured] == [5, 6, 8, 10]


def test_what_cannot_be_is_refused(workspace: Workspace) -> None:
    workspace.write(LINEAR)
    with pytest.raises(ProblemError, match="E0549"):
        workspace.job("best=highest acuracy")
    for wrong in ("best=accuracy", "not_finite=panic", "ema=1.0", "accumulate=0", "stop_after=0"):
        with pytest.raises(ProblemsError, match="E0513"):
            workspace.job(wrong)
    steps = workspace.job().steps
    assert workspace.job(f"accumulate={steps}").steps == steps
    with pytest.raises(ProblemError, match="E0574"):
        workspace.job(f"accumulate={steps + 1}")
    data = load_file(workspace.folder / "points.safetensors")
    save_file({"x": data["train.x"], "y": data["train.y"]}, workspace.folder / "points.safetensors")
    for setting in ("stop_after", "eval_every_steps"):
        with pytest.raises(ProblemError, match=f"E0573.*`{setting}`"):
            workspace.job(f"{setting}=2")


@pytest.mark.parametrize("kind", [Logged, Evaluated])
def test_an_observer_ends_a_run_and_leaves_it_whole(
    workspace: Workspace, kind: type[Event]
) -> None:
    workspace.write(LINEAR)
    seen: list[Event] = []

    def stop(event: Event) -> None:
        if isinstance(event, kind):
            raise StopTraining

    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    run = program.train(device="cpu", out=workspace.folder / "run", watch=[stop, seen.append])
    assert run.steps == (1 if kind is Logged else 5)
    assert isinstance(seen[-1], Finished)
    assert seen[-1].interrupted
    with run.trainer(device="cpu") as trainer:
        assert trainer.steps == run.steps
    workspace.resume("run")
    whole = workspace.start("whole")
    assert contents(workspace.folder / "run" / "weights.safetensors") == contents(whole.weights)
