"""A loop of one's own: batches of Python, one step at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import load_file

import meganeura
from meganeura import Trainer
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends import sized_session
from meganeura_runtime.train.data import batch_arrays
from tests.effort import effort
from tests.runtime.runs import Workspace, contents
from tests.shared_entries import cache_of_processes
from tests.trainer.batches import DEVICES, PROGRAM, Batch, batch, floats, losses


@pytest.mark.parametrize("device", effort(("cpu", "xla:cpu"), DEVICES))
def test_a_step_is_that_of_the_loop(workspace: Workspace, device: str) -> None:
    """The same batches give the weights of a run, to the bit."""
    folder = workspace.folder / "run"
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    schedules = {"schedule": "constant(warmup=3)", 'schedule["fc2.*"]': "linear()"}
    settings = {**schedules, "shuffle": False, "steps": 5}
    run = program.train(device=device, out=folder, settings=settings)
    data = load_file(workspace.folder / "points.safetensors")
    with program.trainer(device=device, settings=settings) as trainer:
        for start in range(0, 20, 4):
            rows = slice(start, start + 4)
            trainer.step({"x": data["train.x"][rows], "y": data["train.y"][rows]})
        trainer.save(workspace.folder / "own")
        measured = trainer.evaluate({"x": data["test.x"], "y": data["test.y"]})
    ours, theirs = (
        contents(each / "weights.safetensors") for each in (workspace.folder / "own", folder)
    )
    assert ours == theirs
    assert measured == run.held_out[-1]


@pytest.mark.parametrize("device", effort(("wgpu:0",), DEVICES))
def test_batches_may_differ_in_size(
    program: meganeura.Program, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size has its own session; three are too many to be open at a time."""
    monkeypatch.setattr(sized_session, "MOST", 2)
    sizes = [4, 2, 4, 3, 2, 4]
    results = []
    with program.trainer(device=device) as trainer:
        for seed, size in enumerate(sizes):
            results.append(trainer.step(batch(size, seed)))
        late = [result.loss for result in results]
    with program.trainer(device="cpu") as trainer:
        at_once = [trainer.step(batch(size, seed)).loss for seed, size in enumerate(sizes)]
    np.testing.assert_allclose(late, at_once, rtol=2e-4)


@pytest.mark.parametrize("device", effort(("cpu", "wgpu:0"), DEVICES))
def test_gradients_weights_and_states_go_by_name(program: meganeura.Program, device: str) -> None:
    settings = {"optimizer": "sgd(lr=0.5)"}
    with program.trainer(device=device, settings=settings, gradients=True) as trainer:
        before = {**trainer.weights}
        result = trainer.step(batch())
        assert result.gradients.keys() == before.keys()
        for name, gradient in result.gradients.items():
            moved = before[name].astype(np.float32) - 0.5 * gradient.astype(np.float32)
            now = trainer.weights[name].astype(np.float32)
            np.testing.assert_allclose(now, moved, rtol=1e-5, atol=1e-6)
        assert "norm.running_mean" in trainer.states
        trainer.weights["fc2.bias"] = [1.0, 2.0, 3.0]
        trainer.states["norm.running_mean"] = np.full(8, 0.25)
        assert trainer.weights["fc2.bias"].tolist() == [1, 2, 3]
        assert trainer.states["norm.running_mean"].tolist() == [0.25] * 8
        with pytest.raises(KeyError, match=r"no `fc2.bia`; did you mean `fc2.bias`"):
            trainer.weights["fc2.bia"]
        with pytest.raises(ValueError, match=r"`fc2.bias` is f32\[3\], and not int64\[2\]"):
            trainer.weights["fc2.bias"] = np.arange(2)
        with pytest.raises(KeyError, match=r"no `fc2\.bias`"):
            trainer.states["fc2.bias"]


@pytest.mark.parametrize("device", effort(("cpu", "xla:cpu"), DEVICES))
def test_an_update_by_gradients_of_ones_own(program: meganeura.Program, device: str) -> None:
    """A step in two parts is the step; between them gradients may be changed."""
    schedules = {"schedule": "constant(warmup=4)", 'schedule["fc2.*"]': "constant(warmup=3)"}
    settings = {"clip_norm": 0.5, "ema": 0.9, **schedules}
    with program.trainer(device=device, settings=settings) as whole:
        expected = losses(whole, range(2))
        after = floats({**whole.weights, **whole.states})
    with program.trainer(device=device, settings=settings) as trainer:
        for seed in range(2):
            before, running = {**trainer.weights}, trainer.states["norm.running_mean"]
            result = trainer.gradients(batch(seed=seed))
            assert result.loss == pytest.approx(expected[seed], rel=1e-5)
            assert (result.step, trainer.steps) == (seed + 1, seed + 1)
            assert result.learning_rate == pytest.approx(0.01 * (seed + 1) / 4)
            for name, array in trainer.weights.items():
                np.testing.assert_array_equal(array, before[name], err_msg=name)
            assert (trainer.states["norm.running_mean"] != running).any()
            trainer.apply(result.gradients)
        for name, array in floats({**trainer.weights, **trainer.states}).items():
            np.testing.assert_allclose(array, after[name], rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("device", effort(("wgpu:0",), DEVICES))
def test_paths_move_by_the_rates_of_their_own_schedule(
    program: meganeura.Program, tmp_path: Path, device: str
) -> None:
    """By plain gradient descent, so that a weight moves as far as its rate says."""
    settings: dict[str, object] = {
        "optimizer": "sgd(lr=0.5)",
        'optimizer["fc2.bias"]': "sgd(lr=0.1)",
        "schedule": "linear()",
        'schedule["fc2.*"]': "constant(warmup=4)",
        "steps": 4,
    }
    with program.trainer(device=device, settings=settings) as trainer:
        for step in range(3):
            before = floats(trainer.weights)
            gradients = floats(trainer.gradients(batch(seed=step)).gradients)
            trainer.apply(gradients)
            rates = {"fc1": 0.5 * (1 - step / 4), "fc2": 0.5 * (step + 1) / 4}
            for name, after in floats(trainer.weights).items():
                rate = rates.get(name.partition(".")[0], rates["fc1"])
                rate *= 0.2 if name == "fc2.bias" else 1.0
                expected = before[name] - rate * gradients[name]
                np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6, err_msg=name)
        trainer.save(tmp_path / "run")
        expected_loss = trainer.step(batch(seed=9)).loss
        trainer.learning_rate = 0.0  # of all paths
        before = floats(trainer.weights)
        trainer.step(batch())
        for name, after in floats(trainer.weights).items():
            np.testing.assert_array_equal(after, before[name])
    with program.trainer(device=device, resume=tmp_path / "run") as again:
        assert again.step(batch(seed=9)).loss == expected_loss
    for schedule, code in (("step()", "E0548"), ('plateau(metric="size")', "E0545")):
        needs = {'schedule["fc2.*"]': schedule}
        with pytest.raises(ProblemError, match=code):
            program.trainer(device=device, settings=needs)


def test_gradients_may_be_any(program: meganeura.Program) -> None:
    with program.trainer(device="cpu", settings={"optimizer": "sgd(lr=0.5)"}) as trainer:
        before = floats(trainer.weights)
        trainer.gradients(batch())
        found = trainer.gradients(batch(seed=1)).gradients  # two batches, one update
        own = {name: np.full(each.shape, 2.0) for name, each in found.items()}
        trainer.apply({**own, "fc2.bias": [0.0, 1.0, -1.0]})
        moved = {name: before[name] - now for name, now in floats(trainer.weights).items()}
        np.testing.assert_allclose(moved["fc2.bias"], [0, 0.5, -0.5], atol=1e-6)
        assert all(np.allclose(moved[name], 1.0) for name in moved if name != "fc2.bias")
        with pytest.raises(ValueError, match=r"there is no gradient for `fc1\.weight`"):
            trainer.apply({name: own[name] for name in own if name != "fc1.weight"})
        with pytest.raises(KeyError, match=r"did you mean `fc2\.bias`"):
            trainer.apply({**own, "fc2.bia": own["fc2.bias"]})
        with pytest.raises(ValueError, match=r"`fc2.bias` is f32\[3\], and not int64\[2\]"):
            trainer.apply({**own, "fc2.bias": np.arange(2)})


def test_a_step_that_cannot_be_divided(program: meganeura.Program) -> None:
    with program.trainer(device="cpu", settings={"accumulate": 2}) as trainer:
        for divided in (lambda: trainer.gradients(batch()), lambda: trainer.apply({})):
            with pytest.raises(ValueError, match="with `accumulate`"):
                divided()
    image = np.ones((2, 1, 8, 8), np.float32)
    with meganeura.load("gan").trainer(device="cpu", settings={"batch": 2}) as trainer:
        with pytest.raises(ValueError, match="from the weights that a step moved"):
            trainer.gradients({"image": image})
        assert trainer.step({"image": image}).step == 1


def test_only_what_is_asked_for_is_an_output(program: meganeura.Program) -> None:
    with program.trainer(device="cpu") as trainer:
        result = trainer.step(batch())
        assert result.gradients == {}
        assert result.metrics.keys() == {"accuracy"}
        assert result.loss > 0
        assert (result.step, result.learning_rate) == (1, 0.01)


def test_tensors_of_others_are_read(program: meganeura.Program) -> None:
    ours, int64 = batch(), batch()["y"].astype(np.int64)
    given = [
        {"x": ours["x"].astype(np.float64), "y": int64.astype(np.uint8)},
        {"x": ours["x"].tolist(), "y": int64.tolist()},
        {"x": np.asfortranarray(ours["x"]), "y": ours["y"][::1]},
    ]
    with program.trainer(device="cpu") as trainer:
        expected = trainer.step(ours).loss
    for each in given:
        with program.trainer(device="cpu") as trainer:
            assert trainer.step(each).loss == expected


BAD: dict[str, tuple[dict[str, object], str]] = {
    "missing": ({"x": 0}, "has no `y`, which is i32[batch]"),
    "unknown": ({**batch(), "z": 0}, "has `z`, which is no input"),
    "shape": (
        {"x": np.zeros((4, 7)), "y": batch()["y"]},
        "`x` of a batch for `fit` is [4, 7], and not f32[batch, 6]",
    ),
    "axes": ({"x": np.zeros(6), "y": batch()["y"]}, "is [6], and not f32[batch, 6]"),
    "count": (
        {**batch(), "y": batch(3)["y"]},
        "`y` of a batch for `fit` is [3], and not i32[batch]",
    ),
    "type": ({**batch(), "y": np.zeros(4)}, "is float64[4], and not i32[batch]"),
    "text": ({**batch(), "y": ["a"] * 4}, "and not i32[batch]"),
    "ragged": ({**batch(), "x": [[1, 2], [3]]}, "unreadable (setting an array element"),
    "index": ({**batch(), "y": np.full(4, 3)}, "`y` holds 3, and must be below 3"),
    "range": ({**batch(), "y": np.full(4, 2**40)}, "`y` holds 1099511627776, which i32 cannot"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_batch_that_does_not_fit_is_refused(program: meganeura.Program, name: str) -> None:
    given, said = BAD[name]
    with program.trainer(device="cpu") as trainer:
        with pytest.raises(ProblemError) as caught:
            trainer.step(given)
        assert said in str(caught.value)
        assert trainer.steps == 0
        assert trainer.step(batch()).step == 1


def test_a_batch_is_a_dict(program: meganeura.Program) -> None:
    with program.trainer(device="cpu") as trainer, pytest.raises(TypeError, match="a dict"):
        trainer.step(cast("Batch", [batch()]))


def test_evaluation_counts_every_example_once(program: meganeura.Program) -> None:
    whole = batch(11, 3)
    parts = [{name: each[at] for name, each in whole.items()} for at in (slice(0, 5), slice(5, 11))]

    def stream() -> Iterator[Batch]:
        yield from parts

    with program.trainer(device="cpu") as trainer:
        trainer.step(batch())
        together, apart = trainer.evaluate(whole), trainer.evaluate(stream())
        assert together.keys() == {"loss", "accuracy"}
        for name, value in together.items():
            assert value == pytest.approx(apart[name], rel=1e-6)
        for nothing in ([], batch(0)):
            with pytest.raises((ValueError, ProblemError)):
                trainer.evaluate(nothing)


def test_several_trainers_do_not_know_each_other(program: meganeura.Program) -> None:
    with (
        program.trainer(device="cpu") as first,
        program.trainer(device="cpu", settings={"seed": 1}) as second,
    ):
        alone = []
        with program.trainer(device="cpu") as third:
            alone = losses(third, range(3))
        both = [(first.step(batch(seed=n)).loss, second.step(batch(seed=n)).loss) for n in range(3)]
    assert [each[0] for each in both] == alone
    assert [each[1] for each in both] != alone


def test_a_closed_trainer_says_so(program: meganeura.Program, tmp_path: Path) -> None:
    trainer = program.trainer(device="cpu")
    trainer.close()
    trainer.close()
    uses = (
        lambda: trainer.step(batch()),
        lambda: trainer.save(tmp_path / "run"),
        lambda: trainer.evaluate(batch()),
        trainer.model,
        lambda: trainer.weights,
    )
    for use in uses:
        with pytest.raises(ValueError, match="the trainer is closed"):
            use()


SHARED = """
import sys
import meganeura
from tests.trainer.batches import batch
settings = {"devices": 2, "optimizer": "sgd()"}
with meganeura.load(sys.argv[1]).trainer(device=sys.argv[2], settings=settings) as trainer:
    for seed, size in enumerate((4, 2, 4)):
        print(trainer.step(batch(size, seed)).loss)
    print(trainer.evaluate(batch(9, 5))["loss"])
    try:
        trainer.step(batch(3))
    except meganeura.ProblemError as error:
        print(error.summary)
"""


def test_devices_share_a_batch(program: meganeura.Program, tmp_path: Path) -> None:
    with program.trainer(device="cpu", settings={"optimizer": "sgd()"}) as trainer:
        expected = [trainer.step(batch(size, seed)).loss for seed, size in enumerate((4, 2, 4))]
        expected.append(trainer.evaluate(batch(9, 5))["loss"])
    (tmp_path / "own.mgn").write_text(PROGRAM)
    environment = {
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "MEGANEURA_CACHE": cache_of_processes(),
    }
    done = subprocess.run(
        [sys.executable, "-c", SHARED, str(tmp_path / "own.mgn"), "xla:cpu"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    *numbers, refused = done.stdout.splitlines()
    np.testing.assert_allclose([float(each) for each in numbers], expected, rtol=1e-4)
    assert "E0567" in refused


def test_what_is_skipped_is_no_metric(workspace: Workspace) -> None:
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    settings = {"not_finite": "skip", "log_every": 1, "schedule": "constant()"}
    with program.trainer(device="cpu", settings=settings, out=workspace.folder / "run") as trainer:
        trainer.step(batch())
    lines = (workspace.folder / "run" / "metrics.jsonl").read_text().splitlines()
    (step,) = [record for record in map(json.loads, lines) if record["kind"] == "step"]
    assert {*step} == {"kind", "step", "epoch", "loss", "learning_rate", "steps_per_second"}


@pytest.mark.parametrize(("devices", "sizes"), [(1, [5, 5, 5, 5]), (2, [8, 8, 4])])
def test_what_is_evaluated_is_cut_as_the_devices_can_share_it(
    devices: int, sizes: list[int]
) -> None:
    settings = SimpleNamespace(devices=devices)
    demand = SimpleNamespace(counter="batch", rows={"x": 2})
    spec = SimpleNamespace(input_spec=demand, batch=8, settings=settings)
    made = cast("Any", SimpleNamespace(_spec=spec, _examples=lambda _: 20))
    made._part = partial(Trainer._part, made)
    given = batch_arrays.Batch({"x": np.arange(40), "table": np.arange(3)}, {"batch": 20, "m": 3})
    found = [*Trainer._cut(made, given)]
    assert [each.examples for each in found] == sizes
    assert [dict(each.sizes) for each in found] == [{"batch": size, "m": 3} for size in sizes]
    parts = [each.take(range(each.examples)) for each in found]
    np.testing.assert_array_equal(np.concatenate([each["x"] for each in parts]), np.arange(40))
    np.testing.assert_array_equal(found[1].take(range(1, 3))["x"], parts[1]["x"][2:6])
    assert all(each["table"].tolist() == [0, 1, 2] for each in parts)
