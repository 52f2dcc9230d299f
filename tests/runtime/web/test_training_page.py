"""A page that trains: the same run as the reference makes, paused, lost, saved and gone on with."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.data.data_files import embedded_data
from meganeura_runtime.train.loop.evaluation import Evaluator, held_batches
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import TrainJob, prepare
from tests.runtime.web.conftest import LOSE, build, opened, saved

pytestmark = pytest.mark.browser

DIGITS = embedded_data()["digits"]
STEPS = 44
"""Of one epoch of the digits."""
PAUSED = """() => {
  const buttons = [...document.querySelectorAll("button")];
  const named = (name) => buttons.find((each) => each.textContent === name);
  named("Go on").click();
  named("Pause").click();
}"""
"""Have a page go on, and pause at once."""


@cache
def reference() -> tuple[list[float], Mapping[str, float], Mapping[str, Array]]:
    """The loss of each step, what is measured on held-out examples, and what is kept at last."""
    job = job_of("epochs=1")
    feeder, losses = Feeder(job), list[float]()
    with ReferenceSession(job.spec.compiled) as session:
        session.load(job.spec.initial_values())
        for step in range(job.steps):
            losses.append(float(session.step(feeder.feeds(step))["loss"]))
        kept = session.persistent()
    held_out = job.dataset.test
    assert held_out is not None
    batches = held_batches(job.spec, held_out)
    return losses, Evaluator(job.spec, ReferenceSession).measure(batches, kept), kept


def job_of(*changes: str) -> TrainJob:
    program = pipeline.load("digits_mlp")
    folder = pipeline.find("digits_mlp").path.parent
    return prepare(program, program.train(), folder, [*changes, "device=cpu"])


def metrics(page: Page, folder: Path) -> list[dict[str, Any]]:
    """The steps of the page's metrics."""
    lines = saved(page, "Save metrics", folder).read_text().splitlines()
    return [json.loads(line) for line in lines]


def wait_for_end(page: Page, steps: int = STEPS) -> None:
    page.wait_for_selector(f"[data-step='{steps}']")
    page.wait_for_selector("button:text-is('Save weights'):enabled")


def test_a_page_trains_as_the_reference_does(page: Page, tmp_path: Path) -> None:
    file = build("digits_mlp", "--mode", "train", "--set", "epochs=1", "-o", tmp_path / "mlp.html")
    opened(page, file)
    assert page.inner_text("h1") == "digits_mlp: fit"
    assert page.is_disabled("text=One step")

    _feed(page, tmp_path)
    checkpoint = _train(page, tmp_path)
    found, weights = metrics(page, tmp_path), saved(page, "Save weights", tmp_path)
    _assert_reference(found, weights)
    _go_on(page, checkpoint)
    again = [each["loss"] for each in metrics(page, tmp_path) if each["kind"] == "step"]
    assert again[-(STEPS - 1) :] == [each["loss"] for each in found[1:-1]]
    assert saved(page, "Save weights", tmp_path).read_bytes() == weights.read_bytes()

    # Weights alone begin anew; those of others are refused.
    page.set_input_files("[data-role=load] input", weights)
    page.wait_for_selector("[data-step='0']")
    page.set_input_files("[data-role=load] input", DIGITS)
    page.wait_for_selector("#problem[data-code=E0540]")
    _draw(page)


def _feed(page: Page, tmp_path: Path) -> None:
    """A bad file is said, and then the data is there."""
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(DIGITS.read_bytes()[:-8])
    page.set_input_files("[data-role=data] input", bad)
    page.wait_for_selector("#problem[data-code=E0530]")
    np.savez(tmp_path / "other.npz", image=np.zeros((64, 1, 8, 8)), label=np.full(64, 10))
    page.set_input_files("[data-role=data] input", tmp_path / "other.npz")
    page.wait_for_selector("#problem[data-code=E0535]")
    page.set_input_files("[data-role=data] input", DIGITS)
    page.wait_for_selector("text=1,437 examples to train on, 360 held out")
    assert page.is_hidden("#problem")


def _train(page: Page, tmp_path: Path) -> Path:
    """One step, a checkpoint of it, and then all."""
    page.click("text=One step")
    wait_for_end(page, 1)
    checkpoint = saved(page, "Save checkpoint", tmp_path)
    page.evaluate(PAUSED)
    page.wait_for_selector("button:text-is('Go on'):enabled")
    step = int(page.get_attribute("[data-step]", "data-step") or 0)
    assert 1 < step < STEPS
    page.click("text=Go on")
    wait_for_end(page)
    return checkpoint


def _draw(page: Page) -> None:
    """A batch of examples that are drawn, and a step on them."""
    box = page.locator(".drawing").bounding_box()
    assert box is not None
    for number in range(32):
        page.mouse.move(box["x"] + 60, box["y"] + 40 + number)
        page.mouse.down()
        page.mouse.move(box["x"] + 200, box["y"] + 200 - number)
        page.mouse.up()
        page.click(f".names button:text-is('{number % 10}')")
    page.click("text=Train on what is drawn")
    page.wait_for_selector("text=32 examples to train on")
    page.click("button:text-is('Train')")
    wait_for_end(page, 1)
    assert page.is_hidden("#problem")


def _assert_reference(found: list[dict[str, Any]], weights: Path) -> None:
    """The losses, the measurement and the weights are those of the reference."""
    losses, held_out, kept = reference()
    assert [each["step"] for each in found] == [*range(1, STEPS + 1), STEPS]
    np.testing.assert_allclose([each["loss"] for each in found[:-1]], losses, rtol=1e-6)
    assert found[-1]["kind"] == "held_out"
    for name, value in held_out.items():
        assert found[-1][name] == pytest.approx(value, rel=1e-6)
    for name, array in load_file(weights).items():
        np.testing.assert_allclose(array, kept[name], rtol=1e-4, atol=1e-6)
    image = {"image": np.zeros((2, 1, 8, 8), np.float32)}
    assert meganeura.load("digits_mlp").model(weights=weights).run(image, device="cpu")


def _go_on(page: Page, checkpoint: Path) -> None:
    """From a checkpoint, through the loss of its device, to the same end."""
    page.set_input_files("[data-role=load] input", checkpoint)
    page.wait_for_selector("[data-step='1']")
    page.workers[0].evaluate(LOSE)
    page.click("text=One step")
    page.wait_for_selector("#problem[data-code=E0551]")
    page.click("text=Open the device again")
    page.wait_for_selector("button:text-is('Go on'):enabled")
    page.click("text=Go on")
    wait_for_end(page)
