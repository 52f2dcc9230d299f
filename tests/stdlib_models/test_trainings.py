"""Every `train` block of the standard files makes a step that moves every weight it trains.

What the step measures, and its graphs, are what stands in `first_step.json`.
"""

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.pipeline import elaborate_model, load
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.train.spec.train_job import prepare
from tests.effort import effort
from tests.stdlib_models.first_step import TRAININGS, FirstStep, first_step, job, written

MOVES = {"dit": "final_layer.linear.*", "distil": "student.*", "lora": "*.lora_B", "wgan": "d.*"}
"""Parameters that the first step moves, if not all: an adapter's other factor begins as 0, and
the generator of `wgan` moves at every fifth step."""
STILL = {"detr": {"model.decoder.layers.0.self_attn.v_proj.weight"}}
"""Parameters that no step moves, since what they multiply is 0."""


BY_NIGHT = {
    *("convnext", "deepseek", "densenet", "efficientnet", "efficientnet_lite", "ghost_resnet"),
    *("gpt2", "mamba", "mixtral", "mobilenet", "mobilenet_v3", "repvgg", "s4d", "vit"),
}
"""Files whose trainings are as those of others: networks that classify images as `resnet` and
`swin`, and sequences as `lm` and `t5`."""
DAILY = [each for each in TRAININGS if each[0] not in BY_NIGHT and each != ("resnet", "fit")]


def test_every_training_is_tried() -> None:
    for file in standard_model_names():
        tried = tuple(train for home, train in TRAININGS if home == file)
        assert tried == load(file).trains


@pytest.mark.parametrize(("file", "train"), effort(DAILY, TRAININGS))
def test_one_step_moves_every_weight(file: str, train: str, tmp_path: Path) -> None:
    made = job(file, train, tmp_path)
    kept = made.spec.initial_values()
    results = first_step(made, kept)
    golden, found = written()[f"{file} {train}"], FirstStep.of(made, results)
    assert found.measured == pytest.approx(golden.measured, rel=1e-3)
    assert (found.step, found.optimized) == (golden.step, golden.optimized)
    moves = MOVES.get(file, "*")
    trained = {info.name for info in made.spec.parameters if info.kind == "param"}
    moved = {
        name
        for name in trained & results.updates.keys()
        if not np.array_equal(results.updates[name], kept[name])
    }
    wanted = {name for name in trained if fnmatchcase(name, moves)}
    assert moved == wanted - STILL.get(file, set())


@pytest.mark.parametrize("train", ["words", "frames"])
def test_a_model_holds_what_whisper_trains(train: str, tmp_path: Path) -> None:
    model = elaborate_model(load("whisper"), f"whisper_{train}")
    written = {info.name: info.type for info in job("whisper", train, tmp_path).spec.parameters}
    assert written == {info.name: info.type for info in model.parameters}


EMBEDDED = [
    ("digits_cnn", "fit"),
    ("clip", "digits"),
    ("convnext", "digits"),
    ("ddpm", "ddpm"),
    ("densenet", "digits"),
    ("detr", "digits"),
    ("digits_mlp", "fit"),
    ("distil", "distil"),
    ("dit", "guided"),
    ("efficientnet", "digits"),
    ("efficientnet_lite", "digits"),
    ("gan", "gan"),
    ("mae", "digits"),
    ("mobilenet", "digits"),
    ("mobilenet_v3", "digits"),
    ("repvgg", "digits"),
    ("resnet", "digits"),
    ("sam", "flat"),
    ("swin", "digits"),
    ("unet", "denoise"),
    ("vae", "vae"),
    ("vit", "digits"),
    ("wav2vec2", "digits"),
    ("wgan", "wgan"),
]


@pytest.mark.parametrize(
    ("file", "train"), effort([each for each in EMBEDDED if each[0] not in BY_NIGHT], EMBEDDED)
)
def test_the_embedded_digits_feed_it(file: str, train: str, tmp_path: Path) -> None:
    made = prepare(load(file), train, tmp_path, ["optimize=false"])
    assert made.dataset.train.examples == 1437
    assert made.dataset.test is not None
    assert made.dataset.test.examples == 360
