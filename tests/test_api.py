"""The package as a user of Python meets it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl.diagnostics import ProblemError
from meganeura_runtime.train.events import Event, Finished

HEAVY = ("numpy", "wgpu", "egglog", "pydantic", "lark", "rich", "typer")


def test_importing_it_loads_nothing_heavy() -> None:
    program = f"import sys, meganeura; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_program_is_trained_and_its_weights_are_used(tmp_path: Path) -> None:
    events: list[Event] = []
    program = meganeura.load("digits_mlp")
    run = program.train(
        device="cpu", out=tmp_path / "run", settings={"epochs": 2}, watch=events.append
    )
    assert isinstance(events[-1], Finished)
    assert run.steps == 2 * (1437 // 32)
    assert len(run.held_out) == 2
    assert run.held_out[-1]["accuracy"] > 0.8

    trained = program.model(weights=run.weights)
    fresh = program.model(seed=3)
    image = np.arange(3 * 64, dtype=np.float32).reshape(3, 1, 8, 8) % 17
    outputs = trained.run(image=image)["output"]
    assert outputs.shape == (3, 10)
    assert not np.allclose(outputs, fresh.run(image=image)["output"])


def test_saved_weights_are_read_back(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    first = program.model(seed=7)
    first.save(tmp_path / "weights.safetensors")
    second = program.model(weights=tmp_path / "weights.safetensors")
    assert first.values.keys() == second.values.keys()
    for name, value in first.values.items():
        np.testing.assert_array_equal(value, second.values[name])


def test_a_session_is_kept_for_many_runs() -> None:
    model = meganeura.load("digits_mlp").model()
    image = np.ones((2, 1, 8, 8), np.float32)
    with model.session(device="cpu", n=2) as session:
        first = session.step({"image": image})["output"]
        second = session.step({"image": 2 * image})["output"]
        np.testing.assert_array_equal(session.read("fc1.weight"), model.values["fc1.weight"])
    assert not np.allclose(first, second)


def test_a_mistake_is_an_error_with_its_cure() -> None:
    with pytest.raises(ProblemError, match="no file or standard model called `digits_cn`"):
        meganeura.load("digits_cn")
    assert meganeura.check("digits_cnn").fine
