"""The trainings of standard models for some steps, beside the reference.

Momentum keeps the gradients, and the rate is small. Batch norm sees eight examples: of two, the
sign of a difference is all that it leaves, which rounding can turn.
"""

from pathlib import Path

import numpy as np
import pytest

from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.train.spec.session_inputs import feeds
from tests.effort import effort
from tests.stdlib_models.first_step import TRAININGS, job

STEPS = 5
EXAMPLES = 8
RATE = 1e-5
USUAL = {("digits_cnn", "fit")}
"""Convolutions and batch norm, look-ups and attention: a night tries all."""
LARGE = ("resnet", "fit")
"""Images of 224 pixels, which the reference takes minutes for."""


@pytest.mark.parametrize(
    ("file", "train"), [each for each in TRAININGS if effort(each in USUAL, each != LARGE)]
)
def test_a_training_follows_the_reference(file: str, train: str, tmp_path: Path) -> None:
    made = job(file, train, tmp_path, f"optimizer=sgd(lr={RATE}, momentum=0.9)", examples=EXAMPLES)
    kept = made.spec.initial_values()
    data = made.dataset.train.take(slice(0, made.batch))
    with (
        choose_device("xla:cpu").open(made.spec.step) as actual,
        choose_device("cpu").open(made.spec.step) as expected,
    ):
        actual.load(kept)
        expected.load(kept)
        for step in range(STEPS):
            fed = feeds(made.spec.step, data, 0, step, RATE)
            found, wanted = (dict(each.step(fed)) for each in (actual, expected))
            for name, value in wanted.items():
                np.testing.assert_allclose(found[name], value, 2e-4, 1e-5, err_msg=name)
        for name, value in expected.persistent().items():
            tolerance = 1e-3 * np.abs(value).max() + 1e-5
            np.testing.assert_allclose(actual.read(name), value, 0, tolerance, err_msg=name)
