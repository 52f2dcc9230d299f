"""Values that stay unchanged if gradients are not finite, in each part of a step."""

from collections.abc import Mapping

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Results
from meganeura_dsl.ir.ops import Add, Constant, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Optimizer, Sgd
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

SHAPES = {"a": (3,), "b": (2, 2)}
SOUND = {"a": np.array([1, -2, 3], np.float32), "b": np.full((2, 2), 0.5, np.float32)}
"""Gradients that are finite."""
NEVER = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1.1e19)
"""Elements that a gradient may not hold: its norm is then no number, or above 1e19."""
OPTIMIZERS: tuple[Optimizer, ...] = (Sgd(), Sgd(momentum=0.9, nesterov=True), Adam(amsgrad=True))


def forward() -> Graph:
    """The gradients of `a` and `b` are the inputs `x.a` and `x.b`; a state counts batches."""
    build = Builder()
    sums = []
    for name, shape in SHAPES.items():
        parameter = build.add(Parameter(name, DType.F32, shape, "param"))
        fed = build.add(Input(f"x.{name}", DType.F32, shape))
        sums.append(build.add(Sum(tuple(range(len(shape)))), build.add(Mul(), parameter, fed)))
    count = build.add(Parameter("count", DType.I32, (), "state"))
    more = build.add(Add(), count, build.add(Constant(1, DType.I32)))
    return build.graph({"loss": build.add(Add(), *sums)}, {"count": more})


class Step:
    """A step, of which what is kept is ones and halves, so that whatever is changed is seen."""

    def __init__(
        self,
        part: StepPart,
        optimizer: Optimizer = OPTIMIZERS[0],
        accumulate: int = 1,
        *,
        skips: bool,
        clip_norm: float | None = None,
    ) -> None:
        settings = TrainingSettings(
            optimizer,
            clip_norm=clip_norm,
            ema=0.5,
            accumulate=accumulate,
            skip_not_finite=skips,
            part=part,
        )
        self._interpreter = Interpreter(training_step(forward(), settings))
        self._prefix = "gradient." if part is StepPart.UPDATE else "x."
        self.kept = {
            name: np.array(1, np.int32)
            if leaf.type.dtype is DType.I32
            else np.full(concrete_shape(leaf.type.shape), 0.5, np.float32)
            for name, leaf in self._interpreter.leaves.items()
            if not name.startswith(("x.", "gradient."))
        }

    def by(self, gradients: Mapping[str, Array], **kept: Array) -> Results:
        """Returns the results for these gradients, computed or given."""
        fed = {f"{self._prefix}{name}": each for name, each in gradients.items()}
        return self._interpreter.run({**self.kept, **kept, **fed})


def spoilt(name: str, at: int, value: float) -> dict[str, Array]:
    """Gradients of which one element is something else."""
    array = SOUND[name].copy()
    array.flat[at] = value
    return {**SOUND, name: array}


PLACES = (("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 3))
SPOILT = [
    *(spoilt("a", 1, value) for value in NEVER),
    *(spoilt(name, at, value) for name, at in PLACES for value in NEVER[:2]),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("part", [StepPart.WHOLE, StepPart.UPDATE])
def test_gradients_that_are_not_finite_move_nothing(part: StepPart, optimizer: Optimizer) -> None:
    """Neither parameters, states of optimizers and of the program, nor averages."""
    step = Step(part, optimizer, skips=True)
    for gradients in SPOILT:
        found = step.by(gradients)
        assert found.outputs["update.skipped"] == 1
        for name, array in found.updates.items():
            np.testing.assert_array_equal(array, step.kept[name], err_msg=f"{name} by {gradients}")


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("part", [StepPart.WHOLE, StepPart.UPDATE])
def test_finite_gradients_move_all_as_if_nothing_were_ever_skipped(
    part: StepPart, optimizer: Optimizer
) -> None:
    skipping, plain = (Step(part, optimizer, skips=skips) for skips in (True, False))
    for gradients in (SOUND, spoilt("a", 1, 9e18), spoilt("b", 2, -9e18), spoilt("a", 0, 0)):
        found, expected = skipping.by(gradients), plain.by(gradients)
        assert found.outputs["update.skipped"] == 0
        assert found.updates.keys() == expected.updates.keys()
        assert {*SHAPES, *(f"optimizer.{name}.average" for name in SHAPES)} <= found.updates.keys()
        assert ("count" in found.updates) == (part is StepPart.WHOLE)
        for name, array in found.updates.items():
            np.testing.assert_array_equal(array, expected.updates[name], err_msg=name)


def test_a_finite_norm_that_is_clipped_is_no_reason_to_skip() -> None:
    """Whatever its squares are; one that is not finite is, however it is clipped."""
    skipping, plain = (Step(StepPart.WHOLE, skips=skips, clip_norm=1.0) for skips in (True, False))
    for value in (1.1e19, -1e25, 3e38):
        gradients = spoilt("a", 1, value)
        found, expected = skipping.by(gradients), plain.by(gradients)
        assert found.outputs["update.skipped"] == 0
        moved = found.updates["a"] - skipping.kept["a"]
        np.testing.assert_allclose(moved, [0, -0.01 * np.sign(value), 0], atol=1e-7)
        for name, array in found.updates.items():
            np.testing.assert_array_equal(array, expected.updates[name], err_msg=name)
    for value in NEVER[:3]:
        assert skipping.by(spoilt("a", 1, value)).outputs["update.skipped"] == 1
    whole = {"a": np.full(3, 3e38, np.float32), "b": np.full((2, 2), 3e38, np.float32)}
    assert skipping.by(whole).outputs["update.skipped"] == 1, "the norm is no number of f32"


@pytest.mark.parametrize("part", [StepPart.GRADIENTS, StepPart.SUM])
def test_a_part_that_moves_nothing_keeps_the_states_of_a_batch_that_is_not_finite(
    part: StepPart,
) -> None:
    """The gradients or their sums are what they are; the update sees that they are not finite."""
    step = Step(part, accumulate=3 if part is StepPart.SUM else 1, skips=True)
    sums = {name: f"optimizer.{name}.gradient_sum" for name in SHAPES}
    for gradients, skipped in ((SOUND, 0), *((each, 1) for each in SPOILT)):
        found = step.by(gradients)
        assert found.outputs["update.skipped"] == skipped
        assert found.updates["count"] == 2 - skipped
        if part is StepPart.GRADIENTS:
            assert found.updates.keys() == {"count"}
        else:
            assert found.updates.keys() == {"count", *sums.values()}
        for name, gradient in gradients.items():
            if part is StepPart.GRADIENTS:
                np.testing.assert_array_equal(found.outputs[f"gradient.{name}"], gradient)
            else:
                total = found.updates[sums[name]]
                np.testing.assert_array_equal(total, np.float32(0.5) + gradient)


@pytest.mark.parametrize("early", [False, True])
def test_one_of_the_batches_of_an_update_is_enough_to_skip_it(*, early: bool) -> None:
    """And the step says so, whichever batch it was. The sums begin anew."""
    step = Step(StepPart.WHOLE, accumulate=2, skips=True)
    for value in (np.nan, np.inf, -np.inf, 9e19):
        bad = spoilt("b", 1, value)
        before, last = (bad, SOUND) if early else (SOUND, bad)
        sums = {f"optimizer.{name}.gradient_sum": each for name, each in before.items()}
        found = step.by(last, **sums)
        assert found.outputs["update.skipped"] == 1
        for name, array in found.updates.items():
            expected = np.zeros_like(array) if name in sums else step.kept[name]
            np.testing.assert_array_equal(array, expected, err_msg=name)


def test_a_batch_that_comes_after_one_that_is_not_finite_is_skipped_too() -> None:
    """Its sums move nothing any more, so the program's states stay."""
    step = Step(StepPart.SUM, accumulate=3, skips=True)
    for gradients in SPOILT:
        sums = {f"optimizer.{name}.gradient_sum": each for name, each in gradients.items()}
        found = step.by(SOUND, **sums)
        assert found.outputs["update.skipped"] == 1
        assert found.updates["count"] == step.kept["count"]
