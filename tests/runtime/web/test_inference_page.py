"""Pages of models, used as people use them: drawn on, typed into, given files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.io.preprocess.images import read_image
from meganeura_runtime.io.preprocess.input_transforms import Choices
from tests.narrow import trained_values
from tests.runtime.web.conftest import LOSE, answered, build, opened, ready, saved

pytestmark = pytest.mark.browser

THREE = (
    (80, 60), (140, 40), (200, 70), (190, 110), (130, 135), (200, 165), (205, 215), (140, 245),
    (75, 220),
)  # fmt: skip
ONE = ("--size", "n=1")
EIGHT = (*ONE, "--size", "h=8", "--size", "w=8")


def draw(page: Page, points: tuple[tuple[int, int], ...]) -> None:
    """One stroke on the canvas."""
    box = page.locator(".drawing").bounding_box()
    assert box is not None
    places = [(box["x"] + x, box["y"] + y) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def assert_output(page: Page, folder: Path, wanted: np.ndarray) -> None:
    """The page's output is this, within 1e-5 of its largest element."""
    found = load_file(saved(page, "Save", folder))["output"]
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def picture(folder: Path, white: float) -> tuple[Path, np.ndarray]:
    """A picture, and what an input of 8 x 8 in grey is fed of it."""
    file = folder / "noise.png"
    pixels = np.random.default_rng(0).integers(0, 256, (21, 34), dtype=np.uint8)
    Image.fromarray(pixels).save(file)
    form = Choices().image_steps(TensorType(DType.F32, (1, 1, 8, 8)))
    assert form is not None
    values = read_image(file, 1, replace(form.steps, scale=white / 255)).values
    return file, values[None]


def test_who_draws_a_three_sees_a_three(page: Page, tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    run = program.train(device="cpu", settings={"epochs": 8, "save_every": 8}, out=tmp_path / "run")
    page_file = tmp_path / "digits.html"
    build("digits_mlp", "--weights", run.weights, *ONE, "--white", "16", "-o", page_file)
    assert page_file.stat().st_size < 250_000
    opened(page, page_file)
    assert page.inner_text("h1") == "digits_mlp"
    with answered(page):
        draw(page, THREE)
    first = page.locator(".classes li").first
    assert first.get_attribute("data-class") == "3"
    assert float(first.locator(".share").inner_text().split()[0]) > 50
    assert "ms" in page.inner_text("[data-chip=latency]")
    assert "of GPU memory" in page.inner_text("[data-chip=memory]")
    with answered(page):
        page.click("text=Clear")
    zeros = np.zeros((1, 1, 8, 8), np.float32)
    model = program.model(weights=run.weights)
    assert_output(page, tmp_path, model.run({"image": zeros}, device="cpu")["output"])


def test_models_give_in_a_page_what_they_give_here(tabs: BrowserContext, tmp_path: Path) -> None:
    """Three models, opened side by side, from files and from a text."""
    cnn = meganeura.load("digits_cnn").model(seed=0)
    cnn.values = trained_values(cnn.parameters)
    config = {"d": 16, "layers": 1, "heads": 2, "image": 8, "patch": 4, "colors": 1, "classes": 10}
    vit = meganeura.load("vit_tiny_patch16_224").model(seed=0, config=config)
    gpt = meganeura.load("gpt2_tiny").model(seed=0)
    for name, model in (("cnn", cnn), ("vit", vit), ("gpt", gpt)):
        model.save(tmp_path / f"{name}.safetensors")
    weights = {name: tmp_path / f"{name}.safetensors" for name in ("cnn", "vit", "gpt")}
    changes = [word for key, value in config.items() for word in ("--set", f"{key}={value}")]
    (tmp_path / "names.txt").write_text("\n".join(f"kind {number}" for number in range(10)))
    labels = ("--labels", tmp_path / "names.txt")
    files = (
        build(
            *("digits_cnn", "--weights", weights["cnn"], *EIGHT, "--white", "16"),
            *(*labels, "-o", tmp_path / "cnn.html"),
        ),
        build(
            *("vit_tiny_patch16_224", *changes, "--weights", weights["vit"], *ONE),
            *("-o", tmp_path / "vit.html"),
        ),
        build(
            *("gpt2_tiny", "--weights", weights["gpt"], *ONE, "--size", "s=8"),
            *("-o", tmp_path / "gpt.html"),
        ),
    )
    pages = [tabs.new_page() for _ in files]
    for page, file in zip(pages, files, strict=True):
        page.goto(file.as_uri())
    for page in pages:
        ready(page)

    for page, model, white in ((pages[0], cnn, 16), (pages[1], vit, 1)):
        file, fed = picture(tmp_path, white)
        with answered(page):
            page.set_input_files(".picture input[type=file]", file)
        name = next(iter(model.inputs))
        assert_output(page, tmp_path, model.run({name: fed}, device="cpu")["output"])
    assert pages[0].locator(".classes li b").first.inner_text().startswith("kind ")

    page = pages[2]
    with answered(page):
        page.fill("textarea", "ab cé")
    ids = np.zeros((1, 8), np.int32)
    ids[0, :6] = list("ab cé".encode())
    wanted = gpt.run({"ids": ids}, device="cpu")["output"]
    assert_output(page, tmp_path, wanted)
    likeliest = int(wanted[0, 5].argmax())
    assert page.locator(".classes li").first.get_attribute("data-class") == str(likeliest)
    page.click("text=Write 40 bytes")
    page.wait_for_selector("text=the last 8 of 46 bytes")


def damaged(file: Path) -> Path:
    """A copy with one bit changed."""
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    copy = file.with_name("damaged.mgb")
    copy.write_bytes(content)
    return copy


def test_what_is_wrong_is_said(tabs: BrowserContext, tmp_path: Path) -> None:
    """A page without its model, which is dropped: a damaged one, on devices that lack something."""
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    file = build("digits_mlp", *weights, *ONE, "--split", "-o", tmp_path / "mlp.html")
    model = tmp_path / "mlp.mgb"

    def refused(dropped: Path, before: str = "") -> tuple[str, str]:
        """The code and the words after a file was dropped, in a worker where that was run."""
        page = tabs.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector(".drop")
        if before:
            page.workers[0].evaluate(f"() => {{ {before} }}")
        page.set_input_files(".drop input", dropped)
        ready(page, "failed")
        return page.get_attribute("#problem", "data-code") or "", page.inner_text("#problem")

    assert refused(damaged(model))[0] == "E0542"
    assert refused(tmp_path / "mlp.safetensors")[0] == "E0581"
    without = "Object.defineProperty(WorkerNavigator.prototype, 'gpu', { get: () => undefined })"
    code, words = refused(model, without)
    assert code == "E0551"
    assert "use Chrome" in words
    code, words = refused(model, "GPU.prototype.requestAdapter = async () => null")
    assert (code, "finds no GPU" in words, "--enable-unsafe-webgpu" in words) == (
        "E0551", True, True
    )  # fmt: skip
    small = "Object.defineProperty(GPUSupportedLimits.prototype, 'maxBufferSize', {get: () => 9})"
    code, words = refused(model, small)
    assert code == "E0552"
    assert "maxBufferSize of" in words
    assert "where it has 9" in words
    full = """
      const make = GPUDevice.prototype.createBuffer;
      GPUDevice.prototype.createBuffer = function () {
        return make.call(this, { size: 2 ** 38, usage: 128 });
      }"""
    assert refused(model, full)[0] in ("E0554", "E0551")


def test_a_lost_device_is_said(page: Page, tmp_path: Path) -> None:
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    opened(page, build("digits_mlp", *weights, *ONE, "-o", tmp_path / "mlp.html"))
    page.workers[0].evaluate(LOSE)
    page.click("text=Run")
    page.wait_for_selector("#problem[data-code=E0551]")
    assert "the GPU was lost" in page.inner_text("#problem")
