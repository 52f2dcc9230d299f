"""Pages of models, used as people use them: drawn on, typed into, given files."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image
from playwright.sync_api import BrowserContext, Page
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Add, Input
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.export.mgb.compile import compiled_model
from meganeura_runtime.export.page import write
from meganeura_runtime.export.page.forms import input_forms
from meganeura_runtime.export.quantize_weights import levels_of
from meganeura_runtime.io.preprocess.images import read_image
from meganeura_runtime.io.preprocess.input_transforms import Choices
from meganeura_runtime.io.preprocess.mel import log_mel
from meganeura_runtime.io.tensors.quantized_tensors import write_quantized
from tests.narrow import trained_values
from tests.runtime.web.conftest import LOSE, answered, build, opened, ready, saved

pytestmark = pytest.mark.browser

THREE = (
    (80, 60), (140, 40), (200, 70), (190, 110), (130, 135), (200, 165), (205, 215), (140, 245),
    (75, 220),
)  # fmt: skip
ONE = ("--size", "n=1")
EIGHT = (*ONE, "--size", "h=8", "--size", "w=8")


MICROPHONE = """() => {
  navigator.mediaDevices.getUserMedia = async () => {
    const context = new AudioContext();
    const [tone, end] = [context.createOscillator(), context.createMediaStreamDestination()];
    tone.connect(end);
    tone.start();
    return end.stream;
  };
}"""
"""Give a page a microphone, before which somebody plays a tone."""


def draw(page: Page, points: tuple[tuple[int, int], ...]) -> None:
    """One stroke on the canvas, whose side is taken as 280."""
    box = page.locator(".drawing").bounding_box()
    assert box is not None
    scale = box["width"] / 280
    places = [(box["x"] + scale * x, box["y"] + scale * y) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def drop(page: Page, selector: str, name: str, content: bytes, kind: str = "") -> None:
    """Drop a file on an element."""
    page.evaluate(
        """([selector, name, bytes, type]) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([new Uint8Array(bytes)], name, { type }));
          const place = document.querySelector(selector);
          for (const kind of ["dragover", "drop"]) {
            place.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true }));
          }
        }""",
        [selector, name, list(content), kind],
    )


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
    file, fed = picture(tmp_path, 16)
    with answered(page):
        drop(page, "footer", file.name, file.read_bytes(), "image/png")
    assert not page.is_visible("text=fit what is drawn"), "that is about drawings"
    model = program.model(weights=run.weights)
    assert_output(page, tmp_path, model.run({"image": fed}, device="cpu")["output"])
    page.click("text=Clear")
    page.wait_for_selector(".outputs .asked")
    assert not page.locator(".classes").count()


def test_there_is_no_answer_before_an_input(page: Page, tmp_path: Path) -> None:
    """A page says what it wants in words, takes it anywhere, and fills the window."""
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    opened(page, build("digits_mlp", *weights, *ONE, "-o", tmp_path / "mlp.html"))
    asked = "Draw, or drop a picture: the answer comes here."
    assert page.inner_text(".outputs") == asked
    assert page.inner_text("[data-input=image] h2") == "imagegrey picture, 8 by 8"
    assert "f32[" not in page.inner_text("body")
    page.click("text=Names and types")
    assert {"f32[1, 1, 8, 8]", "f32[1, 10]"} == set(page.locator("details code").all_inner_texts())
    page.click("text=Run")
    assert page.inner_text(".outputs") == asked
    assert page.get_attribute(".outputs", "data-runs") is None
    assert page.locator(".card button:text-is('Run')").count() == 1
    drop(page, "h1", "notes.txt", b"moth", "text/plain")
    page.wait_for_selector("text=no input takes `notes.txt`: draw, or drop a picture")

    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        cards = page.locator(".card").evaluate_all("all => all.map(e => e.getBoundingClientRect())")
        sides = page.evaluate(
            "() => { const page = document.documentElement;"
            " return [page.scrollWidth, page.scrollHeight] }"
        )
        assert sides[0] == width
        below = max(sides[1], height) - max(each["bottom"] for each in cards)
        assert below < 100, "nothing but the last line stands below the cards"


def test_models_give_in_a_page_what_they_give_here(tabs: BrowserContext, tmp_path: Path) -> None:
    """Three models, opened side by side, from files and from a text; one with packed weights."""
    cnn = meganeura.load("digits_cnn").model(seed=0)
    cnn.values = trained_values(cnn.parameters)
    config = {"d": 16, "layers": 1, "heads": 2, "image": 8, "patch": 4, "colors": 1, "classes": 10}
    vit = meganeura.load("vit_tiny_patch16_224").model(seed=0, config=config)
    gpt = meganeura.load("gpt2_tiny").model(seed=0)
    for name, model in (("cnn", cnn), ("vit", vit), ("gpt", gpt)):
        model.save(tmp_path / f"{name}.safetensors")
    weights = {name: tmp_path / f"{name}.safetensors" for name in ("cnn", "vit", "gpt")}
    levels = levels_of(gpt.parameters, 4, None)
    write_quantized(weights["gpt"], gpt.values, levels, {})
    gpt = meganeura.load("gpt2_tiny").model(weights=weights["gpt"])
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
    page.fill("textarea", "a longer text")
    page.wait_for_selector("text=the last 8 of 13 bytes")


def damaged(file: Path) -> Path:
    """A copy with one bit changed."""
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    copy = file.with_name("damaged.mgb")
    copy.write_bytes(content)
    return copy


IN_WORKERS = """
window.Blob = class extends Blob {
  constructor(parts, given) {
    super(given?.type === "text/javascript" ? [SCRIPT, ...parts] : parts, given);
  }
};"""
"""Has workers run a script before their own, which asks for a device at once."""


def test_what_is_wrong_is_said(tabs: BrowserContext, tmp_path: Path) -> None:
    """A page without its model, which is dropped: a damaged one, on devices that lack something."""
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    file = build("digits_mlp", *weights, *ONE, "--split", "-o", tmp_path / "mlp.html")
    model = tmp_path / "mlp.mgb"

    asked: list[bool] = []

    def refused(dropped: Path, before: str = "") -> tuple[str, str]:
        """The code and the words after a file was dropped, in a worker that began with `before`."""
        page = tabs.new_page()
        page.add_init_script(IN_WORKERS.replace("SCRIPT", json.dumps(f"{before};")))
        page.goto(file.as_uri())
        page.wait_for_selector(".drop")
        asked.append(page.workers[0].evaluate("() => self.isAsked ?? false"))
        page.set_input_files(".drop input", dropped)
        ready(page, "failed")
        return page.get_attribute("#problem", "data-code") or "", page.inner_text("#problem")

    assert refused(damaged(model))[0] == "E0542"
    assert refused(tmp_path / "mlp.safetensors")[0] == "E0581"
    without = "Object.defineProperty(WorkerNavigator.prototype, 'gpu', { get: () => undefined })"
    code, words = refused(model, without)
    assert code == "E0551"
    assert "use Chrome" in words
    code, words = refused(
        model, "GPU.prototype.requestAdapter = async () => (isAsked = true, null)"
    )
    assert asked[-1], "a device is asked for before there is a model"
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


def test_a_page_is_painted_with_its_answer_or_after_a_second(page: Page, tmp_path: Path) -> None:
    """The browser's own work on the GPU does not come before the model's."""
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    file = build("digits_mlp", *weights, *ONE, "-o", tmp_path / "mlp.html")
    waits = "GPU.prototype.requestAdapter = () => new Promise(() => {});"
    page.add_init_script(IN_WORKERS.replace("SCRIPT", json.dumps(waits)))
    page.add_init_script("""
      window.style = () => getComputedStyle(document.body);
      document.addEventListener("DOMContentLoaded", () => window.atFirst = style().visibility);
    """)
    page.goto(file.as_uri())
    assert page.evaluate("() => [atFirst, style().animationDelay]") == ["hidden", "1s"]
    page.wait_for_function("() => style().visibility === 'visible'")
    assert page.locator(".drawing").is_visible(), "it can be drawn on before the model is open"


def test_a_lost_device_is_said(page: Page, tmp_path: Path) -> None:
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors")
    opened(page, build("digits_mlp", *weights, *ONE, "-o", tmp_path / "mlp.html"))
    page.workers[0].evaluate(LOSE)
    draw(page, THREE)
    page.wait_for_selector("#problem[data-code=E0551]")
    assert "the GPU was lost" in page.inner_text("#problem")


@cache
def doubling() -> write.Page:
    """A model that doubles whatever it is given, in every way there is."""
    build = Builder()
    inputs = {
        "picture": TensorType(DType.F32, (1, 3, 12, 16)),
        "sound": TensorType(DType.F32, (1, 80, 40)),
        "numbers": TensorType(DType.I32, (2, 3)),
        "large": TensorType(DType.F32, (70, 70)),
    }
    outputs = {
        f"{name} twice": build.add(Add(), *[build.add(Input(name, of.dtype, of.shape))] * 2)
        for name, of in inputs.items()
    }
    artefact = compiled_model("twice", build.graph(outputs), {})
    return write.Page(artefact, "twice", input_forms(inputs, {}, Choices()))


def sound(file: Path) -> Path:
    """Noise of a third of a second, as a file."""
    samples = (np.random.default_rng(1).normal(size=5000) * 8000).astype(np.int16)
    soundfile.write(file, samples, 16_000)
    return file


def refuse_and_record(page: Page, other: Path) -> None:
    """A file that is no sound is said, and then a sound is recorded."""
    page.set_input_files("[data-input=sound] input[type=file]", other)
    page.wait_for_selector("text=this is no sound that this browser reads")
    page.evaluate(MICROPHONE)
    with answered(page):
        page.click("[data-input=sound] button:text-is('Record')")


def give_what_is_asked_for(page: Page, folder: Path) -> None:
    """Give a page one input after the other, until it has them all, as files `x` of the folder."""

    def asked(words: str) -> None:
        page.wait_for_selector(f".outputs .asked:text-is('{words}: the answer comes here.')")

    numbers = "rop a file of numbers (.npy, .npz or .safetensors)"
    asked(f"Draw, or drop a picture; drop a sound, or record one; d{numbers}")
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (30, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "x.png")
    drop(page, "main", "x.png", (folder / "x.png").read_bytes(), "image/png")
    asked(f"Drop a sound, or record one; d{numbers}")
    heard = sound(folder / "x.wav").read_bytes()
    drop(page, "[data-input=numbers]", "x.wav", heard, "audio/wav")
    asked(f"D{numbers}")
    np.save(folder / "x.npy", random.normal(size=(70, 70)).astype(np.float32))
    with answered(page):
        page.set_input_files("[data-input=large] input[type=file]", folder / "x.npy")


def test_each_way_to_give_an_input(page: Page, tmp_path: Path) -> None:
    (file,) = doubling().write(tmp_path / "twice.html")
    opened(page, file)

    def output(name: str) -> np.ndarray:
        with page.expect_download() as download:
            page.click(f"section:has(> h3:has-text('{name} twice')) button:text-is('Save')")
        download.value.save_as(tmp_path / "out.safetensors")
        return load_file(tmp_path / "out.safetensors")[f"{name} twice"]

    give_what_is_asked_for(page, tmp_path)
    large = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(output("large"), 2 * large)
    form = Choices().image_steps(TensorType(DType.F32, (1, 3, 12, 16)))
    assert form is not None
    wanted = read_image(tmp_path / "x.png", 3, form.steps).values
    np.testing.assert_allclose(output("picture")[0], 2 * wanted, atol=1e-5)

    samples = soundfile.read(tmp_path / "x.wav")[0].astype(np.float64)
    padded = np.pad(samples, (0, 40 * 160 - 5000))
    # The browser decodes 16 bits to other floats than 1 / 32768.
    np.testing.assert_allclose(output("sound")[0], 2 * log_mel(padded, 80), atol=2e-3)
    refuse_and_record(page, tmp_path / "x.png")
    for other in (np.zeros(40 * 160), padded):
        assert np.abs(output("sound")[0] - 2 * log_mel(other, 80)).max() > 0.1

    with answered(page):
        page.fill("[data-input=numbers] textarea", "1 2 3\n-4, 5 6")
    assert output("numbers").tolist() == [[2, 4, 6], [-8, 10, 12]]
    page.fill("[data-input=numbers] textarea", "1 2 moth")
    page.wait_for_selector("text=`moth` is no number")
    page.fill("[data-input=numbers] textarea", "1 2 3")
    page.wait_for_selector("text=`numbers` takes 6 numbers, and these are 3")
    with answered(page):
        page.click("[data-input=numbers] button:text-is('Random')")
    np.save(tmp_path / "y.npy", large[1:])
    page.set_input_files("[data-input=large] input[type=file]", tmp_path / "y.npy")
    page.wait_for_selector("text=holds f32[69, 70], not f32[70, 70]")
