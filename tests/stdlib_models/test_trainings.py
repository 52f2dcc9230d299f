"""Every `train` block of the standard files makes a step that moves every weight it trains."""

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import elaborate_model, elaborate_train, load
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.job import Job, prepare
from meganeura_runtime.train.session_inputs import feeds
from tests.standard import declared

TRAININGS = [
    (file, train) for file in sorted(standard_model_names()) for train in declared(file, "train")
]
EXAMPLES = 2
MOVES = {"distil": "student.*", "lora": "*.lora_B"}
"""What the first step moves where that is not all: an adapter's other factor begins as 0."""


def job(file: str, train: str, folder: Path, *overrides: str, examples: int = EXAMPLES) -> Job:
    """The training on a few random examples of what it asks for."""
    sizes = {"batch": examples}
    inputs = elaborate_train(load(file), train, sizes=sizes, training=True).inputs
    generator = np.random.default_rng(0)
    data: dict[str, Array] = {}
    for name, wanted in inputs.items():
        if wanted.shape[:1] == (examples,):
            shape = concrete_shape(wanted.shape)
            number = generator.integers(0, 9, shape).astype(np.int32)
            data[name] = number if wanted.dtype is DType.I32 else number.astype(np.float32)
    path = folder / "data.safetensors"
    save_file(data, path)
    settings = [f"data={path}", f"batch={examples}", "epochs=1", "schedule=constant"]
    return prepare(load(file), train, folder, [*settings, *overrides])


def test_every_training_is_tried() -> None:
    for file in standard_model_names():
        tried = tuple(train for home, train in TRAININGS if home == file)
        assert tried == load(file).trains


@pytest.mark.parametrize(("file", "train"), TRAININGS)
def test_one_step_moves_every_weight(file: str, train: str, tmp_path: Path) -> None:
    made = job(file, train, tmp_path)
    kept = made.initial_values()
    data = made.dataset.train.take(slice(0, EXAMPLES))
    results = Interpreter(made.step).run({**kept, **feeds(made.step, data, 0, 0, 0.01)})
    assert np.isfinite(results.outputs["loss"])
    moves = MOVES.get(file, "*")
    trained = {info.name for info in made.parameters if info.kind == "param"}
    moved = {
        name
        for name in trained & results.updates.keys()
        if not np.array_equal(results.updates[name], kept[name])
    }
    assert moved == {name for name in trained if fnmatchcase(name, moves)}


@pytest.mark.parametrize("train", ["words", "frames"])
def test_a_model_holds_what_whisper_trains(train: str, tmp_path: Path) -> None:
    model = elaborate_model(load("whisper"), f"whisper_{train}")
    written = {info.name: info.type for info in job("whisper", train, tmp_path).parameters}
    assert written == {info.name: info.type for info in model.parameters}


EMBEDDED = [
    ("digits_cnn", "fit"),
    ("clip", "digits"),
    ("convnext", "digits"),
    ("ddpm", "ddpm"),
    ("densenet", "digits"),
    ("digits_mlp", "fit"),
    ("distil", "distil"),
    ("efficientnet", "digits"),
    ("gan", "gan"),
    ("mobilenet", "digits"),
    ("mobilenet_v3", "digits"),
    ("repvgg", "digits"),
    ("resnet", "digits"),
    ("unet", "denoise"),
    ("vae", "vae"),
    ("vit", "digits"),
]


@pytest.mark.parametrize(("file", "train"), EMBEDDED)
def test_the_embedded_digits_feed_it(file: str, train: str, tmp_path: Path) -> None:
    made = prepare(load(file), train, tmp_path)
    assert made.dataset.train.examples == 1437
    assert made.dataset.test is not None
    assert made.dataset.test.examples == 360
