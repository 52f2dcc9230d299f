"""The standard models against plain PyTorch modules with the same weights.

In double precision: the output in both modes to 1e-12, every gradient and running statistic to
1e-11, and all weights after five steps to 1e-9. In single precision, as they run, to the tolerances
of the README. Weights cross over in files, in both directions, strictly.
"""

import numpy as np
import pytest

from meganeura_dsl.ir.interpreter import Precision
from tests.effort import effort
from tests.parity import models
from tests.parity.cases import FAMILIES, SMALL
from tests.parity.models import Case

pytestmark = pytest.mark.parity

every_small_model = pytest.mark.parametrize("case", SMALL, ids=str)
IN_DOUBLE, IN_SINGLE = effort((FAMILIES[::2], FAMILIES[1::2]), (FAMILIES, FAMILIES))
"""Models that are trained in double precision, and in single: by day each in one of them."""


@every_small_model
def test_output(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.inference(case).inputs, 0)
    expected = models.their_forward(module, data)
    exact = models.forward(case, values, data, Precision.DOUBLE)
    models.assert_near({"output": exact}, {"output": expected}, 1e-12)
    single = models.forward(case, values, data, Precision.SINGLE)
    models.assert_near({"output": single}, {"output": expected}, 1e-4)


@every_small_model
def test_gradients_and_states(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 1)
    theirs = models.their_step(module, data)
    for precision, tolerance in ((Precision.DOUBLE, 1e-11), (Precision.SINGLE, 1e-3)):
        ours = models.step(case, values, data, precision)
        assert ours.loss == pytest.approx(theirs.loss, rel=tolerance)
        models.assert_near(ours.gradients, theirs.gradients, tolerance)
        assert ours.gradients.keys() == models.trainable(models.training(case).parameters)
        assert ours.states.keys() == theirs.states.keys()
        for name, state in theirs.states.items():
            np.testing.assert_allclose(ours.states[name], state, rtol=tolerance, atol=tolerance)


def test_the_output_in_training_is_of_the_batch() -> None:
    for case in (each for each in SMALL if each.name in ("resnet", "repvgg")):
        module = models.reference(case)
        values = models.weights(case, module)
        data = models.drawn(models.inference(case).inputs, 2)
        expected = models.their_forward(module, data, training=True)
        found = models.forward(case, values, data, Precision.DOUBLE, training=True)
        models.assert_near({"output": found}, {"output": expected}, 1e-12)
        kept = models.forward(case, values, data, Precision.DOUBLE)
        assert np.abs(found - kept).max() > 0.01


@pytest.mark.parametrize("case", IN_DOUBLE, ids=str)
@pytest.mark.parametrize("optimizer", effort(["adam"], list(models.OPTIMIZERS)))
def test_weights_after_five_steps(case: Case, optimizer: str) -> None:
    models.assert_same_weights_after_steps(case, optimizer)


@pytest.mark.parametrize("case", IN_SINGLE, ids=str)
def test_five_steps_in_single_precision_and_back_to_pytorch(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    ours, theirs = models.OPTIMIZERS["sgd"]
    trained = models.trained_weights(case, values, ours, Precision.SINGLE)
    models.assert_near(trained, models.their_trained_weights(case, module, theirs), 1e-4)
    data = models.drawn(models.inference(case).inputs, 3)
    found = models.forward(case, trained, data, Precision.DOUBLE)
    expected = models.their_forward(models.loaded(case, trained), data)
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
