"""The gradient graph of every standard training is replayed from the pullbacks of its ops."""

from dataclasses import replace
from functools import cache

import pytest

from meganeura_dsl.ir.ops import Add
from meganeura_dsl.pipeline import load
from meganeura_runtime.train.spec.step_graphs import TrainingStep, step_of
from meganeura_runtime.train.spec.train_spec import settings_of
from tests.effort import effort
from tests.proofs.pullback_cases import cases
from tests.proofs.replay import Numbers, Sweep, Use, is_replayed, noted
from tests.stdlib_models.first_step import TRAININGS

SOME = [("digits_mlp", "fit"), ("digits_cnn", "fit"), ("maml", "maml")]
PROVED = {type(case.op).__name__ for case in cases()} | {"StopGradient"}


@cache
def built(file: str, train: str) -> tuple[TrainingStep, list[Use]]:
    """A training step of two examples, and the uses of the chain rule that it took."""
    program = load(file)
    with noted() as uses:
        settings = settings_of(program, train, ["batch=2", "epochs=1", "schedule=constant"])
        return step_of(program, train, settings), uses


@pytest.mark.parametrize(("file", "train"), effort(SOME, TRAININGS))
def test_gradients_are_replayed_from_proved_pullbacks(file: str, train: str) -> None:
    _, uses = built(file, train)
    assert uses
    ops = set[str]()
    for use in uses:
        sweep = Sweep(use)
        assert is_replayed(use, sweep.run())
        ops |= sweep.ops
    assert ops <= PROVED


def test_the_gradients_are_those_of_the_step_in_its_certificate() -> None:
    """Each is among the values of the graph from which a certificate of the whole step begins."""
    step, uses = built("digits_mlp", "fit")
    before = step.optimized.optimizations[-1].evidence.before
    numbers = Numbers()
    known = set(numbers.of(before.roots).values())
    found = [each for each in uses[-1].found if each is not None]
    in_step = numbers.of(found)
    assert found
    assert all(in_step[each.id] in known for each in found)


def test_other_gradients_are_not_replayed() -> None:
    _, uses = built("digits_mlp", "fit")
    use = uses[-1]
    made = Sweep(use).run()
    first, second, *rest = use.found
    assert first is not None
    assert not is_replayed(replace(use, found=(second, first, *rest)), made)
    assert not is_replayed(replace(use, found=(None, second, *rest)), made)
    twice = use.build.add(Add(), first, first)
    assert not is_replayed(replace(use, found=(twice, second, *rest)), made)
    assert is_replayed(use, made)
