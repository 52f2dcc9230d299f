"""Weights say how their inputs were prepared, and whatever uses them does the same."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from safetensors import safe_open
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import meganeura as api
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.onnx.model import LEAVES
from meganeura_runtime.io.preprocess.images import Cover, Filter, ImageSteps, Middle, Stretch
from meganeura_runtime.io.preprocess.input_transforms import scaled
from meganeura_runtime.io.preprocess.preparation import (
    CLASSES,
    IMAGE,
    SOUND,
    TOKENIZER,
    ImagePreparation,
    Preparation,
    SoundPreparation,
)
from tests.cli.command import Command

PROGRAM = """\
block Net(classes)(image: [n, 3, h, w]) -> [n, classes]:
  return image |> conv: conv2d(4, 3, stride=2, pad=1) |> relu |> mean(2, 3) |> fc: linear(classes)

model net = Net(classes=2)

train fit(image: [batch, 3, 8, 8], label: i32[batch]):
  logits = image |> net
  minimize cross_entropy(logits, label)
  metric accuracy = mean(argmax(logits, 1) == label)
  run:
    data       = images("pictures", crop=0.5, mean=[0.1], std=[0.3], resample="bicubic")
    validation = 0.25
    batch      = 4
    epochs     = 1
    workers    = 0
"""
STEPS = [
    ImageSteps(Cover(8, 9), Middle(4, 5), Filter.BOX, 1 / 255, (0.1, 0.2, 0.3), (1.0, 2.0, 3.0)),
    ImageSteps(Stretch(8, 9), None, Filter.LANCZOS, 1.0, (0.0,), (1.0,)),
    ImageSteps(None, Middle(4, 5, rounds_down=True), Filter.NEAREST, 0.5, (0.5,), (0.5,)),
]


@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_what_is_written_is_read_back(steps: ImageSteps) -> None:
    image = ImagePreparation.of(3, 4, 5, steps)
    assert image.steps == steps
    assert type(image.steps.resize) is type(steps.resize)
    whole = Preparation(("a", "b"), image, SoundPreparation(mels=80, frames=3000), "0f" * 32)
    assert Preparation.of(Path("w"), whole.entries) == whole
    assert Preparation.of(Path("w"), {}) == Preparation()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *((key, "[") for key in (CLASSES, IMAGE, SOUND, TOKENIZER)),
        (CLASSES, "[]"),
        (IMAGE, "{}"),
        (SOUND, '{"sample_rate": 8000, "mels": 80, "frames": 3000}'),
        (TOKENIZER, '"words"'),
    ],
)
def test_what_cannot_be_read_is_refused(key: str, text: str) -> None:
    with pytest.raises(ProblemError, match="E0530"):
        Preparation.of(Path("w.safetensors"), {key: text})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    generator = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(8):
            pixels = generator.integers(0, 255, (21, 17, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / name / f"{number}.png")
    (folder / "net.mgn").write_text(PROGRAM)
    api.load(str(folder / "net.mgn")).train(out=folder / "run", device="cpu")
    return folder


def fed(folder: Path) -> np.ndarray:
    """The first picture, prepared by Pillow and NumPy as the program says."""
    with Image.open(folder / "pictures" / "cat" / "0.png") as image:
        resized = image.resize((16, 16 * 21 // 17), Image.Resampling.BICUBIC)
    top, left = round((resized.height - 8) / 2), round((resized.width - 8) / 2)
    pixels = np.asarray(resized.crop((left, top, left + 8, top + 8)), np.float32) / 255
    return ((pixels - 0.1) / 0.3).transpose(2, 0, 1)[None].astype(np.float32)


def test_run_from_python_prepares_images_as_in_training(trained: Path) -> None:
    model = api.load(str(trained / "net.mgn")).model(weights=trained / "run")
    assert model.preparation.classes == ("cat", "dog")
    picture = trained / "pictures" / "cat" / "0.png"
    (wanted,) = model.run({"image": fed(trained)}, device="cpu").values()
    for given in (picture, str(picture), [picture]):
        (found,) = model.run({"image": given}, device="cpu").values()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    with pytest.raises(ValueError, match="of files or of arrays, not of both"):
        model.run({"image": [picture, fed(trained)[0]]}, device="cpu")  # pyright: ignore[reportArgumentType] - what is refused


def test_the_command_line_does_so_and_names_classes(
    trained: Path, meganeura: Command, tmp_path: Path
) -> None:
    words = ("--input", str(trained / "pictures" / "cat" / "0.png"), "--device", "cpu")
    weights = str(trained / "run" / "weights.safetensors")
    target = str(trained / "net.mgn")
    shown = meganeura("run", target, "--weights", weights, *words, "-o", str(tmp_path / "y.npy"))
    assert "prepared as in training" in shown.out
    assert "cat" in shown.out
    whole = ("--size", "n=1", "--size", "h=8", "--size", "w=8")
    compiled = str(tmp_path / "net.mgb")
    assert meganeura("build", target, "--weights", weights, *whole, "-o", compiled).code == 0
    again = meganeura("run", compiled, *words, "-o", str(tmp_path / "z.npy"))
    assert "cat" in again.out
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), np.load(tmp_path / "y.npy"), atol=1e-5)
    page = tmp_path / "net.html"
    assert meganeura("build", target, "--weights", weights, *whole, "-o", str(page)).code == 0
    assert '"labels": ["cat", "dog"]' in page.read_text()
    assert '"mean": [0.1]' in page.read_text()


def test_options_come_before_what_weights_say(trained: Path, meganeura: Command) -> None:
    shown = meganeura(
        *("run", str(trained / "net.mgn"), "--weights", str(trained / "run"), "--device", "cpu"),
        *("--input", str(trained / "pictures" / "cat" / "0.png"), "--image-size", "12"),
        *("--crop", "1", "--mean", "0", "--std", "1"),
    )
    source, steps = shown.out.splitlines()[:2]
    assert source.endswith("which the weights say, but for --image-size --crop --mean --std")
    assert "cropped to 12 x 12" in steps
    assert "mean" not in steps


def test_a_program_without_a_model_is_told_how_to_name_one(
    meganeura: Command, tmp_path: Path
) -> None:
    text = "train fit(x: [batch, 4], y: i32[batch]):\n"
    text += "  minimize cross_entropy(x |> fc: linear(3), y)\n"
    text += '  run:\n    data  = "x.npz"\n    batch = 2\n'
    (tmp_path / "net.mgn").write_text(text)
    shown = meganeura("run", str(tmp_path / "net.mgn"), "--random-weights", "0", "--input", "a.npy")
    assert "declares no model" in shown.err
    assert "model net = Net()" in shown.err


def test_the_folder_of_a_run_is_its_program_and_its_best_weights(
    trained: Path, meganeura: Command
) -> None:
    program, pictures = str(trained / "net.mgn"), trained / "pictures"
    device = ("--device", "cpu")
    best = ("--weights", str(trained / "run" / "best.safetensors"))
    fed = ("--input", str(pictures / "cat" / "0.png"))
    for command, *given in (("run", *fed), ("predict", str(pictures))):
        by_name = meganeura(command, program, *given, *best, *device)
        by_run = meganeura(command, str(trained / "run"), *given, *device)
        assert by_run.code == 0
        assert by_run.out == by_name.out
        assert by_run.err == f"program: {program}:fit\n{by_name.err}"
    untrained = meganeura("run", str(trained / "run"), *fed, "--random-weights", "0", *device)
    assert "weights: random, of seed 0" in untrained.out


def test_another_size_keeps_the_share_that_training_cropped(
    trained: Path, meganeura: Command, tmp_path: Path
) -> None:
    """A picture of 500 x 375 pixels: 8 of 16 in training, so 12 of 24."""
    picture = tmp_path / "wide.png"
    pixels = np.random.default_rng(1).integers(0, 255, (375, 500, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(picture)
    words = ("--weights", str(trained / "run"), "--device", "cpu", "--input", str(picture))
    shown = meganeura("run", str(trained / "net.mgn"), *words)
    source, steps = shown.out.splitlines()[:2]
    assert source == "prepared as in training, which the weights say"
    assert steps == (
        f"image: {picture}, 375 x 500, in colour, resized to cover 16 x 16 (bicubic), "
        "cropped to 8 x 8, / 255, mean 0.1, std 0.3"
    )
    shown = meganeura("run", str(trained / "net.mgn"), *words, "--image-size", "12")
    assert "which the weights say, but for --image-size\n" in shown.out
    assert "resized to cover 24 x 24 (bicubic), cropped to 12 x 12, / 255, mean 0.1" in shown.out


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (STEPS[0], "resized to cover 24 x 22 (box), cropped to 12 x 12"),
        (STEPS[1], "stretched to 12 x 12 (lanczos)"),
        (STEPS[2], "resized to cover 12 x 12 (nearest), cropped to 12 x 12"),
    ],
)
def test_steps_for_another_size(steps: ImageSteps, wanted: str) -> None:
    assert str(scaled(steps, 12)).startswith(wanted)


def test_weights_of_arrays_are_said_to_know_no_preparation(
    trained: Path, meganeura: Command, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    image = generator.normal(size=(8, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "arrays.npz", image=image, label=np.arange(8, dtype=np.int32) % 2)
    start, _, _ = PROGRAM.partition("    data ")
    (tmp_path / "net.mgn").write_text(f'{start}    data = "arrays.npz"\n    batch = 4\n')
    api.load(str(tmp_path / "net.mgn")).train(out=tmp_path / "run", device="cpu")
    picture = str(trained / "pictures" / "cat" / "0.png")
    words = (str(tmp_path / "net.mgn"), "--weights", str(tmp_path / "run"), "--device", "cpu")
    unknown = "the weights do not say how images were prepared: taken as usual"
    assert meganeura("run", *words, "--input", picture).out.splitlines()[0] == unknown
    shown = meganeura("predict", *words, picture)
    assert f"images: {unknown}: resized to cover 256 x 256" in shown.err


def test_predict_says_how_files_are_prepared(trained: Path, meganeura: Command) -> None:
    words = ("--weights", str(trained / "run"), "--device", "cpu", str(trained / "pictures"))
    shown = meganeura("predict", str(trained / "net.mgn"), *words)
    (line,) = (each for each in shown.err.splitlines() if each.startswith("images:"))
    assert line == (
        "images: prepared as in training, which the weights say: resized to cover 16 x 16 "
        "(bicubic), cropped to 8 x 8, / 255, mean 0.1, std 0.3"
    )


def test_copies_say_the_same(trained: Path, meganeura: Command, tmp_path: Path) -> None:
    weights = trained / "run" / "weights.safetensors"
    with safe_open(weights, "numpy") as file:
        said = {key: text for key, text in file.metadata().items() if key in (CLASSES, IMAGE)}
    assert said.keys() == {CLASSES, IMAGE}
    model = loaded(trained)
    model.save(tmp_path / "saved.safetensors")
    target = str(trained / "net.mgn")
    deployed = str(tmp_path / "deployed.safetensors")
    assert meganeura("deploy", target, "--weights", str(weights), "-o", deployed).code == 0
    for copy in ("saved.safetensors", "deployed.safetensors"):
        with safe_open(tmp_path / copy, "numpy") as file:
            assert said.items() <= file.metadata().items()
    model.export(tmp_path / "net.onnx")
    props = onnx.load(tmp_path / "net.onnx").metadata_props
    assert {each.key: each.value for each in props if each.key != LEAVES} == said


def loaded(folder: Path) -> api.Model:
    return api.load(str(folder / "net.mgn")).model(weights=folder / "run")


def test_an_evaluation_of_other_images_is_warned_of(trained: Path) -> None:
    program = api.load(str(trained / "net.mgn"))
    same = program.evaluate(weights=trained / "run", device="cpu")
    changed = (trained / "net.mgn").read_text().replace("crop=0.5", "crop=1")
    (trained / "other.mgn").write_text(changed)
    other = api.load(str(trained / "other.mgn"))
    with pytest.warns(UserWarning, match="were trained on other inputs: images resized to cover"):
        found = other.evaluate(weights=trained / "run", device="cpu")
    assert found != same


def test_the_page_of_a_run_has_the_names_of_classes(trained: Path) -> None:
    about = json.loads((trained / "run" / "run.json").read_text())
    assert about["classes"] == ["cat", "dog"]


TEXTS = """\
block Next(words)(ids: i32[n, s]) -> [n, s, words]
    where 0 <= ids, ids < words:
  return ids |> table: embedding(words, 4) |> out: linear(words)

model next = Next(words=256)

train fit(ids: i32[batch, 5]):
  logits = ids[:, :4] |> next
  minimize cross_entropy(rearrange(logits, [n, s, w] -> [n * s, w]),
                         rearrange(ids[:, 1:], [n, s] -> [n * s]))
  run:
    data   = DATA
    batch  = 2
    epochs = 1
"""


def test_a_tokenizer_lies_beside_weights_and_no_other_is_taken(
    tmp_path: Path, meganeura: Command
) -> None:
    (tmp_path / "words.txt").write_text("one two three four five\n" * 8)
    words = {"one": 0, "two": 1, "three": 2, "four": 3, "five": 4, "[unk]": 5}
    for name in ("tokenizer", "other"):
        tokenizer = Tokenizer(WordLevel(words, unk_token="[unk]"))  # noqa: S106 - a word
        tokenizer.pre_tokenizer = Whitespace()
        tokenizer.save(str(tmp_path / f"{name}.json"))
        words = {**words, "six": 6}
    for name, data in (
        ("bytes", '"words.txt"'),
        ("words", 'text("words.txt", tokenizer="tokenizer.json")'),
    ):
        (tmp_path / f"{name}.mgn").write_text(TEXTS.replace("DATA", data))
        shown = meganeura(
            *("train", str(tmp_path / f"{name}.mgn"), "--device", "cpu"),
            *("--out", str(tmp_path / name)),
        )
        assert shown.code == 0, shown.err
    copied = (tmp_path / "words" / "tokenizer.json").read_bytes()
    assert copied == (tmp_path / "tokenizer.json").read_bytes()
    assert not (tmp_path / "bytes" / "tokenizer.json").exists()
    for name, other in (("bytes", "tokenizer.json"), ("words", "other.json")):
        shown = meganeura(
            *("generate", str(tmp_path / f"{name}.mgn"), "--prompt", "one", "--device", "cpu"),
            *("--weights", str(tmp_path / name), "--tokenizer", str(tmp_path / other)),
        )
        assert "E0666" in shown.err
