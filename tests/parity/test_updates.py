"""Updates of several batches, and averages of weights, in double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from tests.parity.test_training import network, start

pytestmark = pytest.mark.parity


def kept_after(settings: TrainingSettings, batches: list[Array]) -> dict[str, Array]:
    """Returns the kept tensors after these batches, in double.

    The last of each few moves weights.
    """
    interpreter, adds_up = (
        Interpreter(training_step(network(), replace(settings, part=part)), Precision.DOUBLE)
        for part in (StepPart.WHOLE, StepPart.SUM)
    )
    kept: dict[str, Array] = {**start()}
    for name, value in interpreter.leaves.items():
        if name.startswith("optimizer."):
            of = name.removeprefix("optimizer.").rsplit(".", 1)
            is_average = of[-1] == "average"
            shape = kept[of[0]].shape if len(of) == 2 else ()
            zeros = np.zeros(shape, np.int32 if value.type.dtype.value == "i32" else np.float64)
            kept[name] = kept[of[0]].copy() if is_average else zeros
    for number, x in enumerate(batches):
        moves = (number + 1) % settings.accumulate == 0
        kept |= (interpreter if moves else adds_up).run({"x": x, **kept}).updates
    return kept


def test_batches_that_are_accumulated_are_one_large_batch() -> None:
    """The mean of the gradients of four equal batches is the gradient of their mean."""
    generator = np.random.default_rng(1)
    batches = [generator.normal(size=(4, 3)) for _ in range(5)]
    plain = kept_after(TrainingSettings(Adam(0.1), clip_norm=1.0), batches)
    same = kept_after(
        TrainingSettings(Adam(0.1), clip_norm=1.0, accumulate=4),
        [batch for batch in batches for _ in range(4)],
    )
    for name in plain:
        np.testing.assert_allclose(same[name], plain[name], rtol=1e-9, atol=1e-12)
    assert not same["optimizer.head.gradient_sum"].any()


def test_an_average_is_that_of_torch() -> None:
    generator = np.random.default_rng(1)
    batches = [generator.normal(size=(4, 3)) for _ in range(5)]
    settings = TrainingSettings(Adam(0.1), ema=0.9)
    module = torch.nn.ParameterDict({"head": torch.tensor(start()["head"])})
    mean = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    average = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=mean)
    average.update_parameters(module)
    for count in range(1, 6):
        now = kept_after(settings, batches[:count])
        module["head"].data = torch.tensor(now["head"])
        average.update_parameters(module)
        theirs = average.module.get_parameter("head").detach().numpy()
        np.testing.assert_allclose(now["optimizer.head.average"], theirs, rtol=1e-9)
