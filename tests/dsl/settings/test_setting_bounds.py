"""Every setting at its bounds: the outermost value that is accepted, and the next one that is not.

A setting that is added needs a row here.
"""

from collections.abc import Sequence
from math import inf, nan

import pytest

from meganeura_dsl.diagnostics.problem import ProblemsError
from meganeura_dsl.settings.best_metric import best_metric
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.run_settings import FIELDS_BY_PATH, SETTINGS, RunSettings
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.optimizers.schedules import (
    Constant,
    Cosine,
    Reduction,
    RunLength,
    Step,
)
from meganeura_runtime.backends.registry import DEVICE_NAMES
from tests.folded import each_of

TINY = 5e-324
"""The smallest number above 0."""
BOUNDS: dict[str, tuple[Sequence[object], Sequence[object]]] = {
    "data": (('"a.npz"', "digits"), ('""',)),
    "validation": (('"b.npz"', TINY, 0.5, 1 - 2**-53), (0.0, 1.0, -0.5, '""', 1)),
    "sampling_weights": (('"w"',), ('""',)),
    "balance": (('"label"',), ('""',)),
    "workers": ((0, 256), (-1, 257, 0.5)),
    "epochs": ((0, 10**9), (-1, 1.5)),
    "steps": ((1, 10**9), (0, 2.5)),
    "steps_per_epoch": ((1,), (0,)),
    "optimizer": (("sgd(lr=1e-300)", "adam(beta1=0.0)"), ("sgd(lr=0.0)", "adam(beta1=1.0)")),
    "schedule": (("cosine(final=1.0)",), ("cosine(final=1.01)", "cosine(warmup=-1)")),
    "seed": ((0, 2**32 - 1), (-1, 2**32)),
    "shuffle": (("true", "false"), (0, '"true"')),
    "drop_last": (("true", "false"), (1,)),
    "clip_norm": ((TINY, 1e30), (0.0, -1.0)),
    "clip_value": ((TINY, 1e30), (0.0, -1.0)),
    "gradient_norm": (("true", "false"), (1,)),
    "accumulate": ((1, 1000), (0, 1.5)),
    "ema": ((TINY, 0.999), (0.0, 1.0)),
    "not_finite": (("stop", "skip", "ignore"), ("raise",)),
    "best": (
        ('"lowest loss"', '"highest accuracy"'),
        ('"best loss"', '"lowest"', '"lowest loss accuracy"', '""'),
    ),
    "stop_after": ((1, 100), (0,)),
    "log_every": ((0, 10**6), (-1,)),
    "log": (("[]", '["tensorboard", "wandb"]'), ('["comet"]', '"wandb"')),
    "eval_every": ((1, 10**6), (0,)),
    "eval_every_steps": ((1, 10**9), (0,)),
    "sample_prompt": (('"Once"', "Once", 3), ('""',)),
    "sample_tokens": ((1, 10**6), (0,)),
    "save_every": ((1, 10**6), (0,)),
    "device": (("auto", "cpu", "wgpu", "xla"), ("gpu",)),
    "devices": ((1, 4096), (0,)),
    "sharding": (("data", "fsdp"), ("model",)),
    "memory": (("8GiB", "4096"), ("0", "much", '""')),
    "precision": (("f32", "tf32", "bf16"), ("f64",)),
    "optimize": (("true", "false"), (0,)),
    "disabled_rules": (("[]", '["fold"]'), ('"fold"', "[1]")),
}


def resolved(*overrides: str) -> RunSettings:
    given = ["batch=4", *overrides]
    if not any(each.startswith("data=") for each in overrides):
        given.append("data=digits")
    return resolve_settings({}, given, ("batch",), DEVICE_NAMES)


def test_every_setting_has_a_row() -> None:
    assert set(BOUNDS) == set(SETTINGS)
    others = set(RunSettings.model_fields) - set(SETTINGS)
    assert others == {"sizes", "tensors", "reading", "source", *FIELDS_BY_PATH}


def test_the_example_of_each_setting_is_accepted() -> None:
    for name, setting in SETTINGS.items():
        resolved(f"{name}={setting.example}")
        if setting.is_bare:
            bare = setting.example.strip('"')
            assert resolved(f"{name}={bare}") == resolved(f"{name}={setting.example}")


def test_every_text_goes_without_quotes_and_only_a_setting_without_default_is_none() -> None:
    for name, setting in SETTINGS.items():
        assert setting.is_bare == (setting.example.startswith('"') or name == "validation")
        if setting.is_bare and setting.default is None:
            assert getattr(resolved(f"{name}=none"), name) is None
        elif setting.is_bare and name not in {"data", "device"}:
            with pytest.raises(ProblemsError):
                resolved(f"{name}=none")


@each_of("name", BOUNDS)
def test_a_setting_takes_what_lies_within_its_bounds(name: str) -> None:
    for value in BOUNDS[name][0]:
        resolved(f"{name}={value}")


@each_of("name", BOUNDS)
def test_a_setting_takes_nothing_beyond(name: str) -> None:
    for value in BOUNDS[name][1]:
        with pytest.raises(ProblemsError):
            resolved(f"{name}={value}")


def test_defaults_are_those_that_are_documented() -> None:
    settings = resolved()
    found = settings.model_dump(exclude={"optimizer", "schedule", "reading"})
    assert found == {
        "data": "digits", "tensors": {}, "source": None, "workers": 2, "sizes": {"batch": 4},
        "validation": None, "sampling_weights": None, "balance": None, "epochs": 1, "steps": None,
        "steps_per_epoch": None, "optimizers": {}, "intervals": {}, "schedules": {},
        "seed": 0, "shuffle": True,
        "drop_last": True, "clip_norm": None, "clip_value": None, "gradient_norm": False,
        "accumulate": 1, "ema": None, "not_finite": "stop", "best": "lowest loss",
        "stop_after": None, "log_every": 50, "log": [], "eval_every": 1,
        "eval_every_steps": None, "sample_prompt": None, "sample_tokens": 64, "save_every": 1,
        "device": "auto", "devices": 1, "sharding": "data", "precision": ComputePrecision.F32,
        "memory": None, "optimize": True, "disabled_rules": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "than", "expected"),
    [
        ("lowest loss", 2.0, None, True),
        ("lowest loss", 2.0, 2.5, True),
        ("lowest loss", 2.0, 2.0, False),
        ("lowest loss", 2.0, 1.5, False),
        ("lowest loss", nan, None, False),
        ("lowest loss", nan, 2.0, False),
        ("lowest loss", inf, None, False),
        ("lowest loss", -inf, None, True),
        ("highest accuracy", 0.5, None, True),
        ("highest accuracy", -0.5, None, True),
        ("highest accuracy", 0.5, 0.25, True),
        ("highest accuracy", 0.5, 0.5, False),
        ("highest accuracy", 0.5, 0.75, False),
        ("highest accuracy", nan, None, False),
        ("highest accuracy", inf, None, True),
        ("highest accuracy", -inf, None, False),
        ("lowest loss", 0.5, 0.0, False),
        ("highest accuracy", -0.5, 0.0, False),
    ],
)
def test_the_best_value_is_beyond_those_before(
    text: str, value: float, than: float | None, *, expected: bool
) -> None:
    assert best_metric(text).is_better(value, than) is expected


def test_schedules_count_updates() -> None:
    """Of 3 batches, in a run of 31 steps with 10 an epoch: 10 updates, 10 in 3 epochs."""
    settings = resolved("accumulate=3", "optimizer=sgd(lr=0.5)", "schedule=cosine(warmup=2)")
    run = RunLength(steps=31, steps_per_epoch=10)
    rates = [settings.learning_rate(step, run) for step in range(30)]
    expected = [Cosine(2).at(update, RunLength(10, 3)) * 0.5 for update in range(10)]
    assert rates == [rate for rate in expected for _ in range(3)]
    by_epoch = settings.model_copy(update={"schedule": Step(every=1, gamma=0.5)})
    epochs = [(0, 12), (12, 21), (21, 30)]
    for epoch, (first, last) in enumerate(epochs):
        rates = {by_epoch.learning_rate(step, run) for step in range(first, last)}
        assert rates == {0.5 ** (epoch + 1)}
    assert settings.model_copy(update={"accumulate": 100}).learning_rate(5, run) == 0.25
    rarely = by_epoch.model_copy(update={"accumulate": 25})
    rates = [rarely.learning_rate(step, RunLength(100, 10)) for step in (24, 25, 50, 75)]
    assert rates == [0.5, 0.5 * 0.5**2, 0.5 * 0.5**5, 0.5 * 0.5**7]


def test_what_a_group_leaves_out_is_that_of_all_for_the_same_rule() -> None:
    settings = resolved(
        "optimizer=sgd(lr=0.5, momentum=0.9)",
        'optimizer["a.*"]=sgd(lr=0.1)',
        'optimizer["b.*"]=adam(beta1=0.5)',
        'optimizer["c.*"]=frozen',
    )
    assert settings.optimizers["a.*"] == Sgd(lr=0.1, momentum=0.9)
    other = settings.optimizers["b.*"]
    assert other is not None
    assert (other.word, other.lr) == ("adam", 1e-3)
    assert settings.optimizers["c.*"] is None


def test_paths_have_schedules_of_their_own() -> None:
    """An argument left out is that of the setting for all; none of them follows evaluations."""
    settings = resolved(
        "optimizer=sgd(lr=0.5)",
        "schedule=cosine(final=0.5)",
        'schedule["a.*"]=cosine(warmup=2)',
        'schedule["b.*"]=constant()',
        "accumulate=2",
    )
    assert settings.schedules == {"a.*": Cosine(warmup=2, final=0.5), "b.*": Constant()}
    whole = Cosine(final=0.5)
    assert settings.all_schedules == (whole, *settings.schedules.values())
    run, updates = RunLength(steps=20, steps_per_epoch=10), RunLength(10, 5)
    for step in (0, 3, 11):
        each = [each.at(step // 2, updates) for each in settings.all_schedules]
        plain = [Reduction()] * len(each)
        rates = settings.learning_rates(step, run, plain)
        assert rates == tuple(0.5 * factor for factor in each)
        reduced = settings.learning_rates(step, run, [*plain[1:], Reduction(scale=0.1)])
        assert reduced == (*rates[:-1], rates[-1] * 0.1)
    assert not resolved('schedule["a.*"]=constant(warmup=1)').is_steady
    assert resolved('schedule["a.*"]=constant()').is_steady
    for wrong in ("frozen", "cosine(final=2)", "1"):
        with pytest.raises(ProblemsError):
            resolved(f'schedule["a.*"]={wrong}')


def test_an_evaluation_reduces_what_follows_it_by_the_measurement_it_follows() -> None:
    settings = resolved(
        "schedule=plateau(patience=0, factor=0.5)",
        'schedule["a.*"]=cosine()',
        'schedule["b.*"]=plateau(patience=0, factor=0.25, metric="accuracy", mode="max")',
    )
    state = (Reduction(),) * 3
    for measured in ({"loss": 2.0, "accuracy": 0.5}, {"loss": 2.0, "accuracy": 0.75}):
        state = settings.reduced(state, measured)
    assert [each.scale for each in state] == [0.5, 1.0, 1.0]
    assert [each.best for each in state] == [2.0, None, 0.75]
    state = settings.reduced(state, {"loss": 1.0, "accuracy": 0.5})
    assert [each.scale for each in state] == [0.5, 1.0, 0.25]


def test_an_amount_of_memory_is_bytes() -> None:
    assert resolved("memory=8GiB").memory_bytes == 8 << 30
    assert resolved("memory=512").memory_bytes == 512
    assert resolved().memory_bytes is None


def test_steps_and_epochs_are_two_lengths() -> None:
    with pytest.raises(ProblemsError):
        resolved("steps=5", "epochs=2")
