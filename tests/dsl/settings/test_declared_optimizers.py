"""Rules that a program declares step as those that are built in, and refuse what these do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meganeura_dsl.ir import reserved_names
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Adam, Lion, Optimizer, Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings
from tests.declared import RULES, declared_in, steps_of

TWINS: dict[str, tuple[str, dict[str, Any], Optimizer]] = {
    "sgd": ("our_sgd", {}, Sgd(lr=0.01)),
    "momentum": ("our_sgd", {"factor": 0.9}, Sgd(lr=0.01, momentum=0.9)),
    "nesterov": (
        "our_sgd",
        {"factor": 0.9, "nesterov": True},
        Sgd(lr=0.01, momentum=0.9, nesterov=True),
    ),
    "lion": ("our_lion", {"weight_decay": 0.1}, Lion(lr=0.01, weight_decay=0.1)),
    "adam": ("our_adam", {"beta2": 0.99}, Adam(lr=0.01, beta2=0.99)),
}
"""Rules of the program and their arguments, and the same as they are built in."""

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"feed_learning_rate": True},
    {"clip_norm": 0.5, "clip_value": 0.3, "gradient_norm": True},
    {"accumulate": 2},
    {"every": (("bias", 3),)},
    {"scale_loss": True},
    {"ema": 0.9, "skip_not_finite": True},
)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("given", SETTINGS, ids=lambda each: "-".join(each) or "plain")
def test_a_rule_steps_as_the_same_built_in(
    name: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """To the bit, with states of the same names; one counts its steps by itself."""
    word, arguments, built_in = TWINS[name]
    ours = declared_in(RULES, tmp_path)[word](lr=0.01, **arguments)
    found = steps_of(TrainingSettings(ours, **given), 10)
    right = steps_of(TrainingSettings(built_in, **given), 10)
    counts = {each for each in found if each.endswith(".t")}
    assert bool(counts) == (name == "adam")
    assert {*found} - counts - {"optimizer.step"} == {*right} - {"optimizer.step"}
    for each in {*right} - {"optimizer.step"}:
        np.testing.assert_array_equal(found[each], right[each], each)
    moves = {"optimizer.bias.t": 10 // dict(given.get("every", ())).get("bias", 1)}
    if counts and "accumulate" not in given:
        assert {each: int(found[each]) for each in moves} == moves


def test_a_group_has_its_own_rule_and_arguments(tmp_path: Path) -> None:
    declared = declared_in(RULES, tmp_path)
    ours = declared["our_sgd"](lr=0.01), declared["our_lion"](lr=0.1)
    theirs = Sgd(lr=0.01), Lion(lr=0.1)
    found, right = (
        steps_of(
            TrainingSettings(
                one, groups=(("weight", other), ("scale", None)), feed_learning_rate=True
            ),
            10,
        )
        for one, other in (ours, theirs)
    )
    assert found.keys() == right.keys()
    for each, value in right.items():
        np.testing.assert_array_equal(found[each], value, each)


def test_no_rule_has_the_name_of_a_built_in_one() -> None:
    assert (*OPTIMIZERS, "frozen", "none") == reserved_names.OPTIMIZERS


def test_one_rule_is_one_class_whose_arguments_and_text_tell_two_apart(tmp_path: Path) -> None:
    """A cache of steps is asked for by the text of an optimizer, which has that of its rule."""
    first = declared_in(RULES, tmp_path)["our_sgd"](lr=0.01)
    assert str(first) == "our_sgd(lr=0.01)"
    (tmp_path / "other").mkdir()
    changed = RULES.replace("p - lr * direction", "p - lr * (direction + p)")
    other = declared_in(changed, tmp_path / "other")["our_sgd"](lr=0.01)
    assert str(other) == str(first)
    assert repr(other) != repr(first)
