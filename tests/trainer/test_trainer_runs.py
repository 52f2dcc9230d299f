"""A loop of one's own and runs: folders, checkpoints, and what follows evaluations."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import meganeura
from meganeura import Trainer
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_runtime.io.checkpoint import origins, read_checkpoint
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.training_session import TrainingSession
from meganeura_runtime.train.report.run_summary import summary_of
from tests.effort import effort
from tests.runtime.runs import STEPS, Workspace, contents
from tests.trainer.batches import DEVICES, PROGRAM, Batch, batch, floats, losses


@pytest.mark.parametrize("device", effort(("cpu", "wgpu:0"), DEVICES))
def test_resumed_is_uninterrupted(program: meganeura.Program, tmp_path: Path, device: str) -> None:
    with program.trainer(device=device) as trainer:
        losses(trainer, range(3))
        trainer.learning_rate = 0.003
        losses(trainer, range(3, 5))
        trainer.save(tmp_path / "run")
        expected = losses(trainer, range(5, 8))
        kept = {**trainer.weights, **trainer.states}
    with program.trainer(device=device, resume=tmp_path / "run") as again:
        assert (again.steps, again.learning_rate) == (5, 0.003)
        assert losses(again, range(5, 8)) == expected
        for name, array in {**again.weights, **again.states}.items():
            np.testing.assert_array_equal(array, kept[name])


def test_the_rates_of_paths_follow_evaluations(program: meganeura.Program, tmp_path: Path) -> None:
    settings = {
        "optimizer": "sgd(lr=0.5)",
        'schedule["fc2.*"]': "plateau(factor=0.5, patience=0, threshold=0.9)",
    }

    def moves(trainer: Trainer) -> dict[str, float]:
        """By how much of its gradient each weight moves."""
        before = floats(trainer.weights)
        gradients = floats(trainer.gradients(batch()).gradients)
        trainer.apply(gradients)
        after = floats(trainer.weights)
        return {
            name: float(np.sum((before[name] - after[name]) * slope) / np.sum(slope * slope))
            for name, slope in gradients.items()
            if name.endswith(".weight") and name != "norm.weight"
        }

    with program.trainer(device="cpu", settings=settings) as trainer:
        assert moves(trainer) == pytest.approx({"fc1.weight": 0.5, "fc2.weight": 0.5}, rel=1e-3)
        for _ in range(3):  # the first is the best, and the others are no better
            trainer.evaluate([batch()])
        assert trainer.learning_rate == 0.5
        reduced = {"fc1.weight": 0.5, "fc2.weight": 0.125}
        assert moves(trainer) == pytest.approx(reduced, rel=1e-3)
        trainer.save(tmp_path / "run")
    with program.trainer(device="cpu", resume=tmp_path / "run") as again:
        assert moves(again) == pytest.approx(reduced, rel=1e-3)


def fed(workspace: Workspace, step: int) -> Batch:
    """Returns the inputs that the loop feeds a step of the program."""
    data = Feeder(workspace.job()).feeds(step)
    return {name: data[name] for name in ("x", "y")}


@pytest.mark.parametrize("more", effort([{"steps_per_epoch": 3}], [{}, {"steps_per_epoch": 3}]))
def test_a_run_goes_on_with_what_a_trainer_saved(
    workspace: Workspace, more: Mapping[str, object]
) -> None:
    """Also where an epoch is not a pass over the data, which is of five steps."""
    settings = {"steps": STEPS, **more}
    whole = workspace.start("whole", *(f"{name}={value}" for name, value in settings.items()))
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    with program.trainer(device="cpu", settings=settings) as trainer:
        for step in range(7):
            trainer.step(fed(workspace, step))
        trainer.save(workspace.folder / "own")
    own = workspace.resume("own")
    assert contents(own.checkpoint) == contents(whole.checkpoint)
    assert contents(own.weights) == contents(whole.weights)


def test_a_trainer_goes_on_with_a_run(workspace: Workspace) -> None:
    whole, part = workspace.start("whole"), workspace.start("part", steps=7)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    with pytest.raises(ProblemError, match="E0548"):
        program.trainer(device="cpu", resume=part.path)
    with program.trainer(device="cpu", resume=part.path, settings={"steps": STEPS}) as trainer:
        assert trainer.steps == 7
        for step in range(7, STEPS):
            trainer.step(fed(workspace, step))
        trainer.save(part.path)
    assert contents(part.checkpoint) == contents(whole.checkpoint)


def test_a_rate_set_by_hand_is_not_the_business_of_a_schedule(workspace: Workspace) -> None:
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    with program.trainer(device="cpu", settings={"steps": STEPS}) as trainer:
        trainer.step(batch())
        assert trainer.learning_rate == pytest.approx(0.01 * 2 / 3)
        trainer.learning_rate = 0.5
        assert trainer.step(batch()).learning_rate == 0.5
        for rate in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="a learning rate"):
                trainer.learning_rate = rate
        trainer.save(workspace.folder / "own")
        trainer.learning_rate = 0.0
        trainer.save(workspace.folder / "still")
    for name in ("own", "still"):
        with pytest.raises(ProblemError, match="its learning rate was set by hand"):
            workspace.resume(name)
    with pytest.raises(ProblemError, match="E0548"):
        program.trainer(device="cpu")


def test_a_plateau_follows_the_evaluations_of_a_trainer(workspace: Workspace) -> None:
    """The same batches and evaluations give the rates and the weights of a run."""
    plateau = "plateau(patience=0, factor=0.5, threshold=0.2, warmup=3)"
    whole = workspace.start("whole", f"schedule={plateau}")
    data = load_file(workspace.folder / "points.safetensors")
    held_out = {"x": data["test.x"], "y": data["test.y"]}
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    rates: list[float] = []
    with program.trainer(device="cpu", settings={"schedule": plateau}) as trainer:
        for step in range(STEPS):
            rates.append(trainer.step(fed(workspace, step)).learning_rate)
            trainer.evaluate(held_out, counts=False)
            if (step + 1) % 5 == 0:
                trainer.evaluate(held_out)
            if step == 9:
                trainer.save(workspace.folder / "own")
        trainer.save(workspace.folder / "end")
    assert len(set(rates[3:])) > 1
    ours, theirs = (
        contents(each / "weights.safetensors") for each in (workspace.folder / "end", whole.path)
    )
    assert ours == theirs
    with program.trainer(device="cpu", resume=workspace.folder / "own") as again:
        assert again.learning_rate == rates[10]
    with pytest.raises(ProblemError, match="E0545"):
        program.trainer(device="cpu", settings={"schedule": 'plateau(metric="speed")'})
    with pytest.raises(ProblemError, match="E0549"):
        program.trainer(device="cpu", settings={"schedule": plateau, "best": "lowest speed"})


@pytest.mark.parametrize("device", effort(["cpu"], ["cpu", "wgpu:0"]))
def test_a_trainer_keeps_a_folder(program: meganeura.Program, tmp_path: Path, device: str) -> None:
    out, settings = tmp_path / "run", {"log_every": 2, "stop_after": 2}
    with program.trainer(device=device, settings=settings, out=out, gradients=True) as trainer:
        results = [trainer.step(batch(seed=seed)) for seed in range(7)]
        assert trainer.folder == out
        first = trainer.evaluate(batch(9, 40))
        assert "running" in (out / "report.html").read_text()
        trainer.save()
        assert not trainer.should_stop
        for _ in range(2):
            trainer.evaluate(batch(9, 40))
        assert trainer.should_stop
        with pytest.raises(ProblemError, match="E0555"):
            program.trainer(device=device, settings=settings, out=out)
        trainer.save(tmp_path / "stale")
    with program.trainer(device=device, resume=tmp_path / "stale") as again:
        assert again.should_stop
    found = summary_of(out)
    assert found.description is not None
    assert found.description.status == "finished"
    losses = found.records.curve("step", "loss")
    assert losses is not None
    assert [*losses.steps] == [1, 2, 4, 6]
    assert [*losses.values] == [results[step - 1].loss for step in (1, 2, 4, 6)]
    held_out = found.records.curve("held_out", "accuracy")
    assert held_out is not None
    assert [*held_out.values] == [first["accuracy"]] * 3
    assert not any("gradient" in each.name for each in found.records.curves)
    page = (out / "report.html").read_text()
    assert '"optimizer.lr"' in page
    assert (
        load_file(out / "best.safetensors").keys() == load_file(out / "weights.safetensors").keys()
    )
    with pytest.raises(ProblemError, match="E0534"):
        program.trainer(device=device, settings=settings, out=out)


def test_a_trainer_that_goes_on_compares_another_metric_anew(
    program: meganeura.Program, tmp_path: Path
) -> None:
    out, settings = tmp_path / "run", {"stop_after": 1, "best": "highest loss"}
    with program.trainer(device="cpu", settings=settings, out=out) as trainer:
        trainer.step(batch())
        highest = trainer.evaluate(batch(9, 40))["loss"]
        for _ in range(20):
            trainer.step(batch())
        assert trainer.evaluate(batch(9, 40))["loss"] < highest
        assert trainer.should_stop
        trainer.save()
    other = {"best": "highest accuracy"}
    with program.trainer(device="cpu", settings=other, resume=out, out=out) as again:
        assert not again.should_stop
        assert again.evaluate(batch(9, 40))["accuracy"] < highest
        assert not again.should_stop
        assert again.evaluate(batch(9, 40))
        assert again.should_stop
    assert summary_of(out).best_step == 21  # the first one, before any other step


def test_the_best_is_looked_for_anew_where_its_weights_are_not(
    program: meganeura.Program, tmp_path: Path
) -> None:
    """In another folder, and in one that a trainer without a folder saved in."""
    settings, held_out = {"stop_after": 1, "best": "highest loss"}, batch(9, 40)
    here, there, saved = (tmp_path / name for name in ("here", "there", "saved"))
    with program.trainer(device="cpu", settings=settings, out=here) as trainer:
        trainer.step(batch())
        highest = trainer.evaluate(held_out)["loss"]
        trainer.save()
        trainer.save(saved)
    first = (here / "best.safetensors").read_bytes()
    for resume, out in ((here, there), (saved, saved)):
        with program.trainer(device="cpu", resume=resume, out=out) as again:
            for _ in range(20):
                again.step(batch())
            lower = again.evaluate(held_out)["loss"]
            assert not again.should_stop
            again.save()
        assert lower < highest
        progress = read_checkpoint(out / "checkpoint.safetensors")[1]
        assert (progress.best_value, progress.stale) == (lower, 0)
        best, last = (contents(out / f"{name}.safetensors") for name in ("best", "weights"))
        assert best == last
        assert summary_of(out).best_step == 21
    assert (here / "best.safetensors").read_bytes() == first
    with program.trainer(device="cpu", resume=here, out=here) as again:
        again.step(batch())
        assert again.evaluate(held_out)["loss"] < highest
        assert again.should_stop
    assert (here / "best.safetensors").read_bytes() == first


def test_a_trainer_goes_on_in_its_folder(program: meganeura.Program, tmp_path: Path) -> None:
    out, settings = tmp_path / "run", {"log_every": 1}
    with program.trainer(device="cpu", settings=settings, out=out) as trainer:
        losses(trainer, range(3))
        trainer.save()
        expected = losses(trainer, range(3, 5))
    with program.trainer(device="cpu", resume=str(out), out=out) as again:
        assert losses(again, range(3, 5)) == expected
        assert again.folder == out
    curve = summary_of(out).records.curve("step", "loss")
    assert curve is not None
    assert [*curve.steps] == [1, 2, 3, 4, 5]

    def failing() -> None:
        with program.trainer(device="cpu", out=tmp_path / "b") as trainer:
            trainer.step(batch())
            raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError):
        failing()
    about = summary_of(tmp_path / "b").description
    assert about is not None
    assert (about.status, about.error) == ("failed", "ZeroDivisionError: of the user")
    with program.trainer(device="cpu") as alone, pytest.raises(ValueError, match="without `out`"):
        alone.save()


def test_evaluations_are_no_part_of_the_speed(
    program: meganeura.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what came before: each step takes half a second, also in a run that goes on."""
    now, step, measure = [0.0], TrainingSession.step, TrainingSession.measure

    def lasting(seconds: float, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: object) -> object:
            now[0] += seconds
            return run(*given)

        return timed

    for module in ("meganeura.trainer", "meganeura_runtime.train.loop.speed"):
        monkeypatch.setattr(f"{module}.perf_counter", lambda: now[0])
    monkeypatch.setattr(TrainingSession, "step", lasting(0.5, step))
    monkeypatch.setattr(TrainingSession, "measure", lasting(1000.0, measure))
    with program.trainer(device="cpu", settings={"log_every": 2}, out=tmp_path / "run") as trainer:
        for seed in range(6):
            trainer.step(batch(seed=seed))
            trainer.evaluate(batch(9), counts=seed % 2 == 0)
        trainer.save()
    with program.trainer(device="cpu", resume=tmp_path / "run", out=tmp_path / "run") as trainer:
        losses(trainer, range(6, 8))
    speeds = summary_of(tmp_path / "run").records.curve("step", "steps_per_second")
    assert speeds is not None
    assert [*speeds.values] == [2.0] * 5


def test_a_session_comes_back_from_training(workspace: Workspace) -> None:
    program = meganeura.load("digits_mlp")
    run = program.train("fit", device="cpu", out=workspace.folder / "run", settings={"epochs": 1})
    image = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) % 17
    expected = run.model().run({"image": image}, device="cpu")["output"]
    with run.trainer(device="cpu") as trainer:
        assert trainer.steps == run.steps
        model = trainer.model()
        np.testing.assert_array_equal(model.run({"image": image}, device="cpu")["output"], expected)
        trainer.step({"image": image, "label": [3]})
        np.testing.assert_array_equal(model.run({"image": image}, device="cpu")["output"], expected)
        assert not np.array_equal(
            trainer.model("digits_mlp").run({"image": image}, device="cpu")["output"], expected
        )


def test_what_is_not_finite_is_not_saved(program: meganeura.Program, tmp_path: Path) -> None:
    with program.trainer(device="cpu") as trainer:
        trainer.step(batch())
        trainer.save(tmp_path / "run")
        before = contents(tmp_path / "run" / "checkpoint.safetensors")
        trainer.step({**batch(), "x": np.full((4, 6), np.nan)})
        with pytest.raises(ProblemError, match="E0550"):
            trainer.save(tmp_path / "run")
    assert contents(tmp_path / "run" / "checkpoint.safetensors") == before


def test_another_program_is_not_gone_on_with(program: meganeura.Program, tmp_path: Path) -> None:
    with program.trainer(device="cpu") as trainer:
        trainer.save(tmp_path / "run")
    (tmp_path / "own.mgn").write_text(PROGRAM.replace("gelu", "relu"))
    other = meganeura.load(str(tmp_path / "own.mgn"))
    with pytest.raises(ProblemError, match="the program, or what it is built of, has changed"):
        other.trainer(device="cpu", resume=tmp_path / "run")
    with pytest.raises(ProblemError, match="holds no checkpoint"):
        program.trainer(device="cpu", resume=tmp_path)
    with pytest.raises(ProblemError, match="`seed` was decided"):
        program.trainer(device="cpu", resume=tmp_path / "run", settings={"seed": 2})


def test_a_run_on_a_file_needs_data(program: meganeura.Program, tmp_path: Path) -> None:
    """Also one that goes on with what was saved by hand."""
    with program.trainer(device="cpu") as trainer:
        trainer.save(tmp_path / "run")
    for resume in (None, tmp_path / "run"):
        with pytest.raises(ProblemsError, match="E0511"):
            program.train(device="cpu", resume=resume)


def test_a_run_that_goes_on_has_its_weights_and_its_folder(
    program: meganeura.Program, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with program.trainer(device="cpu") as trainer:
        trainer.save(run)
    weights = run / "weights.safetensors"
    with pytest.raises(ValueError, match="weights of its own"):
        program.train(device="cpu", resume=run, weights=weights)
    with pytest.raises(ValueError, match="has its folder"):
        program.train(device="cpu", resume=run, out=tmp_path / "other")
    with pytest.raises(ValueError, match="weights of its own"):
        program.trainer(device="cpu", resume=run, weights=weights)


def test_the_best_so_far_is_saved_and_gone_on_with(workspace: Workspace) -> None:
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    held = {"x": np.zeros((4, 6), np.float32), "y": np.zeros(4, np.int32)}
    settings = {"schedule": "constant()"}
    with program.trainer(device="cpu", settings=settings) as trainer:
        trainer.step(batch())
        loss = trainer.evaluate(held)["loss"]
        trainer.save(workspace.folder / "run")
    progress = read_checkpoint(workspace.folder / "run" / "checkpoint.safetensors")[1]
    assert progress.best_value == pytest.approx(loss)
    assert progress.stale == 0


def test_a_model_has_the_averages_of_the_weights(tmp_path: Path) -> None:
    """Those are what is saved too; the weights themselves go on."""
    (tmp_path / "net.mgn").write_text(
        "block Net()(x: [n, 2]) -> [n, 1]:\n  return x |> fc: linear(1)\n\nmodel net = Net()\n\n"
        "train fit(x: [batch, 2]):\n  minimize mean(x |> net)\n"
        "  run:\n    batch     = 3\n    optimizer = sgd(lr=0.5)\n    ema       = 0.75\n"
    )
    program = meganeura.load(str(tmp_path / "net.mgn"))
    x = np.array([[1, 2], [3, 4], [5, 9]], np.float32)
    with program.trainer(device="cpu") as trainer:
        first = floats(trainer.model().values)["fc.weight"]
        trainer.step({"x": x})
        last = floats(trainer.weights)["fc.weight"]
        np.testing.assert_allclose(last, first - 0.5 * x.mean(0), rtol=1e-6)
        averages = floats(trainer.model().values)
        np.testing.assert_allclose(averages["fc.weight"], 0.75 * first + 0.25 * last, rtol=1e-6)
        trainer.save(tmp_path / "run")
    saved = load_file(tmp_path / "run" / "weights.safetensors")
    for name, average in averages.items():
        np.testing.assert_array_equal(saved[name], average)


def test_what_is_not_finite_is_saved_where_that_is_ignored(
    program: meganeura.Program, tmp_path: Path
) -> None:
    settings = {"not_finite": "ignore"}
    with program.trainer(device="cpu", settings=settings) as trainer:
        trainer.step({**batch(), "x": np.full((4, 6), np.nan)})
        trainer.save(tmp_path / "run")
    assert np.isnan(load_file(tmp_path / "run" / "weights.safetensors")["fc1.weight"]).all()


def test_a_trainer_saves_in_its_own_folder_by_any_name(
    program: meganeura.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer holds its folder already, against all others."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "run"
    with program.trainer(device="cpu", out=own) as trainer:
        for number, name in enumerate((None, own, "run", Path("other/../run")), start=1):
            (tmp_path / "other").mkdir(exist_ok=True)
            trainer.step(batch())
            trainer.save(name)
            assert read_checkpoint(own / "checkpoint.safetensors")[1].step == number
        trainer.save("elsewhere")
    assert read_checkpoint(tmp_path / "elsewhere" / "checkpoint.safetensors")[1].step == 4


def test_a_trainer_remembers_the_weights_it_began_from(
    program: meganeura.Program, tmp_path: Path
) -> None:
    with program.trainer(device="cpu") as trainer:
        trainer.save(tmp_path / "first")
    weights = tmp_path / "first" / "weights.safetensors"
    with program.trainer(device="cpu", weights=weights, out=tmp_path / "run") as trainer:
        begun = json.loads((tmp_path / "run" / "settings.json").read_text())
        assert begun["weights"] == [dict(each) for each in origins([weights])]
        trainer.save()
    with program.trainer(device="cpu", resume=tmp_path / "run") as trainer:
        trainer.save(tmp_path / "again")
    for name in ("run", "again"):
        progress = read_checkpoint(tmp_path / name / "checkpoint.safetensors")[1]
        assert progress.weights == origins([weights])
        settings = json.loads((tmp_path / name / "settings.json").read_text())
        assert settings["weights"] == [dict(each) for each in progress.weights]
