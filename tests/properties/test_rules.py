"""Random rules of programs: proved for all shapes, they step as NumPy says."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from meganeura_dsl.ir.interpreter import Precision
from meganeura_dsl.transforms.training_step import TrainingSettings
from tests.declared import SHAPES, declared_in, slopes, started, steps_of
from tests.effort import effort
from tests.properties.rule_programs import random_rule

STEPS, RATE = 3, 0.1


@pytest.mark.parametrize("seed", range(effort(20, 400)))
def test_a_random_rule_steps_as_its_text_says(seed: int, tmp_path: Path) -> None:
    rule = random_rule(Random(seed))
    given = declared_in(rule.text, tmp_path)["ours"](lr=RATE, beta=rule.beta, adds=rule.adds)
    found = steps_of(TrainingSettings(given), STEPS, Precision.DOUBLE)
    for name in SHAPES:
        right = rule.steps(started()[name], [each[name] for each in slopes(STEPS)], RATE)
        for state, value in right.items():
            path = name if state == "p" else f"optimizer.{name}.{state}"
            np.testing.assert_allclose(found[path], value, rtol=1e-7, atol=1e-9, err_msg=rule.text)
