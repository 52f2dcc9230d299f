"""Every command and every program that `docs/` shows does what it is shown for."""

import re
import shlex
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image
from safetensors.numpy import load_file, save_file

import meganeura as api
from fuzz.onnx_models import convolutional
from meganeura.cli.app import run
from tests.cli.command import Command
from tests.narrow import trained_values

DOCUMENTS = Path(__file__).parents[2] / "docs"
NAMES = (
    "browser.md",
    "data.md",
    "deploy.md",
    "generation.md",
    "inference.md",
    "onnx.md",
    "reports.md",
    "training.md",
    "weights.md",
)

# These need another library, or stand for what is shown elsewhere.
FOREIGN = ("from safetensors.torch", "import torch")


def blocks(name: str, language: str) -> list[str]:
    text = (DOCUMENTS / name).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


# The commands of a block are run in their order: some read what those before them wrote.
COMMANDS = [(name, block.splitlines()) for name in NAMES for block in blocks(name, "sh")]
PROGRAMS = [
    (name, block) for name in NAMES for block in blocks(name, "py") if not block.startswith(FOREIGN)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files the documents speak of."""
    place = tmp_path_factory.mktemp("documents")
    api.load("resnet18").model(seed=0).save(place / "resnet18.safetensors")
    api.load("vit_tiny_patch16_224").model(seed=0).save(place / "vit.safetensors")
    api.load("digits_mlp").model(seed=0).save(place / "digits.safetensors")
    api.load("gpt2_tiny").model(seed=0).save(place / "gpt2_tiny.safetensors")
    network = api.load("digits_cnn").model(seed=0)
    network.values = trained_values(network.parameters)
    network.save(place / "digits_cnn.safetensors")
    np.save(place / "image.npy", np.zeros((1, 1, 8, 8), np.float32))
    first = load_file(place / "digits.safetensors")
    named = [(f"{part}.{name}", first[name]) for part in ("student", "teacher") for name in first]
    save_file(dict(named), place / "distilled.safetensors")
    for name in ("cat.png", "dog.png", "seven.png"):
        Image.fromarray(np.zeros((90, 70, 3), np.uint8)).save(place / name)
    soundfile.write(place / "speech.wav", np.sin(np.arange(20_000) / 9) / 2, 22_050)
    build = ["build", "digits_cnn", "--size", "n=1", "--size", "h=8", "--size", "w=8"]
    given = ["--weights", "digits_cnn.safetensors", "-o", "model.mgb"]
    with chdir(place):
        assert run([*build, *given]) == 0
    (place / "model.onnx").write_bytes(convolutional().SerializeToString())
    api.import_onnx(place / "model.onnx", place / "network.mgn")
    np.save(place / "x.npy", np.zeros((1, 3, 16, 16), np.float32))
    pixels = np.zeros((200, 1, 8, 8), np.uint8)
    for shard in range(2):
        values = {"image": pixels, "label": np.arange(200) % 10}
        np.savez(place / f"digits-{shard}.npz", **values)
    for each in range(10):
        (place / "scans" / str(each)).mkdir(parents=True)
        for number in range(8):
            shade = np.full((12, 10), 20 * each, np.uint8)
            Image.fromarray(shade).save(place / "scans" / str(each) / f"{number}.png")
    (place / "corpus.txt").write_text("to be or not to be\n" * 100)
    (place / "imagenet.txt").write_text("\n".join(f"class {number}" for number in range(1000)))
    return place


def test_there_is_something_to_run() -> None:
    assert {name for name, _ in COMMANDS} == {name for name, _ in PROGRAMS} == set(NAMES)
    assert all(lines for _, lines in COMMANDS)
    assert all(line.startswith("meganeura ") for _, lines in COMMANDS for line in lines)


@pytest.mark.parametrize(
    ("name", "lines"), COMMANDS, ids=[f"{name}-{lines[0]}" for name, lines in COMMANDS]
)
def test_a_command_shown_succeeds(
    meganeura: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[str]
) -> None:
    monkeypatch.chdir(folder)
    for line in lines:
        if line.startswith("meganeura import "):
            for file in ("network.mgn", "network.safetensors"):
                Path(file).unlink()  # an import replaces no program
        shown = meganeura(*shlex.split(line, comments=True)[1:])
        assert shown.code == 0, (line, shown.err)
        # The text of a generation is alone on standard output.
        assert shown.err == "" or name == "generation.md", line


@pytest.mark.parametrize(("name", "program"), PROGRAMS)
def test_a_program_shown_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, program: str
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(program, name, "exec"), {})  # noqa: S102 - our own text
