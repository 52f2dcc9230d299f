"""Both sides of a benchmark do the same work."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import growth, software

pytestmark = pytest.mark.parity
TINY = growth.Size(batch=2, width=8, depth=1)


@pytest.mark.parametrize("training", software.TRAININGS)
def test_both_sides_train_the_same_network(training: str) -> None:
    ours, theirs = software.our_training(training, "cpu"), software.their_training(training)
    for _ in range(3):
        ours.step()
        theirs.step()
        np.testing.assert_allclose(ours.result(), theirs.result(), rtol=1e-4)


@pytest.mark.parametrize("size", [TINY, replace(TINY, length=4)])
def test_pytorch_grows_too(size: growth.Size) -> None:
    step = growth.their_step(size, growth.inputs(size.elaborated().graph))
    assert np.isfinite(growth.median_ms(step, growth.Effort(rounds=1, seconds=0.0)))
