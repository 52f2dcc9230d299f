"""An optimizer or a schedule is one class: settings, training and documents read it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemsError
from meganeura_dsl.ir.graph import Array, Value
from meganeura_dsl.ir.ops import Add, Sub, Tanh
from meganeura_dsl.settings.choices import CHOICES, arguments, choice_page
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, Positive, Share
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Adam, Optimizer, Sgd
from meganeura_dsl.transforms.optimizers.schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    Falling,
    Piecewise,
    RunLength,
)
from meganeura_dsl.transforms.optimizers.update import Update
from meganeura_runtime.io.checkpoint import read_checkpoint

PAGE = Path(__file__).parents[3] / "docs/training.md"

PROGRAM = """\
train fit(x: [batch, 2], y: [batch, 1]):
  prediction = x |> fc: linear(1)
  minimize mse(prediction, y)
  run:
    data = "points.safetensors"
    batch = 4
    epochs = 2
    shuffle = false
    schedule = half()
    optimizer = bounded(lr=0.25, momentum=0.5)
"""


@dataclass(frozen=True)
class Bounded(Optimizer):
    """Momentum whose steps are bounded: b' = momentum b + g, p' = p - lr tanh(b').

    It is defined here alone.
    """

    word = "bounded"

    lr: Positive = 0.5
    momentum: Fraction = 0.0

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        old = update.state("momentum", p.type)
        new = update.op(Add(), update.times(self.momentum, old), g)
        update.store(old, new)
        return update.op(Sub(), p, update.scaled(rate, update.op(Tanh(), new)))


@dataclass(frozen=True)
class Half(Falling):
    """A part of the rate from the first half of the run on."""

    word = "half"

    part: Share = 0.5

    def after_warmup(self, step: int, run: RunLength) -> float:
        """1 in the first half."""
        return 1.0 if self.passed(step, run) < 0.5 else self.part


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIMIZERS, Bounded.word, Bounded)
    monkeypatch.setitem(SCHEDULES, Half.word, Half)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    points = {
        f"{split}.{name}": random.normal(size=(8, width)).astype(np.float32)
        for split in ("train", "test")
        for name, width in (("x", 2), ("y", 1))
    }
    save_file(points, tmp_path / "points.safetensors")
    path = tmp_path / "fit.mgn"
    path.write_text(PROGRAM)
    return path


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("device", ["cpu", pytest.param("wgpu:0", marks=pytest.mark.adapter)])
@pytest.mark.parametrize("optimize", ["true", "false"])
def test_one_class_is_a_whole_optimizer(program: Path, device: str, optimize: str) -> None:
    """Its word, arguments and rule are those of programs, runs and checkpoints."""
    folder = program.parent
    settings = {"device": device, "optimize": optimize}
    loaded = meganeura.load(str(program))
    start = loaded.train(settings={**settings, "epochs": 0}, out=str(folder / "start"))
    run = loaded.train(settings=settings, out=str(folder / "run"))
    tensors, progress = read_checkpoint(run.folder / "checkpoint.safetensors")
    assert progress.settings.optimizer == Bounded(lr=0.25, momentum=0.5)
    assert progress.settings.schedule == Half()
    expected = by_hand(load_file(start.weights), load_file(folder / "points.safetensors"))
    assert expected.keys() == tensors.keys()
    for name, values in expected.items():
        actual = cast("Array", tensors[name].bits)
        np.testing.assert_allclose(actual, values, rtol=1e-4, atol=1e-6)


def by_hand(start: Mapping[str, Array], points: Mapping[str, Array]) -> dict[str, Array]:
    """Weights and moments after four steps on the mean squared error."""
    weights = {name: each.astype(np.float64) for name, each in start.items()}
    moments = {name: np.zeros_like(each) for name, each in weights.items()}
    for step in range(4):
        rows = slice(4 * (step % 2), 4 * (step % 2) + 4)
        x, y = points["train.x"][rows], points["train.y"][rows]
        slope = 2 / 4 * (x @ weights["fc.weight"].T + weights["fc.bias"] - y)
        gradients = {"fc.weight": slope.T @ x, "fc.bias": slope.sum(0)}
        rate = 0.25 * (1.0 if step < 2 else 0.5)
        for name, g in gradients.items():
            moments[name] = 0.5 * moments[name] + g
            weights[name] = weights[name] - rate * np.tanh(moments[name])
    return weights | {f"optimizer.{name}.momentum": each for name, each in moments.items()}


@pytest.mark.usefixtures("registered")
def test_a_new_choice_is_judged_and_explained(program: Path, tmp_path: Path) -> None:
    loaded = meganeura.load(str(program))
    for wrong, headline in (
        ("bounded(momentum=1)", "`optimizer.momentum` must be below 1"),
        ("bounded(beta=1)", "`bounded` has no argument `beta`"),
        ("bonded", "`bonded` is no optimizer"),
    ):
        with pytest.raises(ProblemsError, match=re.escape(headline)):
            loaded.train(settings={"optimizer": wrong}, out=str(tmp_path / "run"))
    assert choice_page("bounded") == (
        "optimizer = bounded(lr=0.5, momentum=0)\n\n"
        "Momentum whose steps are bounded: b' = momentum b + g, p' = p - lr tanh(b').\n\n"
        "It is defined here alone.\n\n"
        "  lr            above 0\n"
        "  momentum      at least 0, below 1"
    )
    assert choice_page("bonded") is None


def test_arguments_of_long_names_are_explained_in_one_column() -> None:
    page = choice_page("adagrad") or ""
    assert page.endswith(
        "\n\n  lr                         above 0\n"
        "  lr_decay                   at least 0\n"
        "  initial_accumulator_value  at least 0\n"
        "  eps                        above 0\n"
        "  weight_decay               at least 0\n"
        '  decay                      "all" or "matrices"'
    )


def test_the_page_lists_the_arguments_of_every_choice() -> None:
    row = re.compile(r"^\| `(\w+)` \| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
    expected = [
        (word, each.name, each.default, each.values)
        for choices in CHOICES.values()
        for word, choice in choices.items()
        for each in arguments(choice)
    ]
    assert row.findall(PAGE.read_text()) == expected


@pytest.mark.parametrize("setting", CHOICES)
def test_bounds_and_defaults_of_the_page_are_those_that_are_judged(setting: str) -> None:
    """The last value inside of each bound is taken, and the bound itself where it is not within."""
    for word, choice in CHOICES[setting].items():
        assert settings_of(setting, {"kind": word}) == choice()
        for each in arguments(choice):
            if each.values.startswith("a list"):
                continue
            for bound, number in re.findall(
                r"(above|at least|below|at most) (\S+?)(?:,|$)", each.values
            ):
                outward = {"above": 0, "at least": -1, "below": 0, "at most": 1}[bound]
                with pytest.raises(ValidationError, match=rf"{setting}\.{each.name}"):
                    settings_of(setting, {"kind": word, each.name: int(number) + outward})
                inward = {"above": 1e-3, "at least": 0, "below": -1e-3, "at most": 0}[bound]
                settings_of(setting, {"kind": word, each.name: int(number) + inward})


def test_lists_are_judged_item_by_item() -> None:
    given = {"kind": "piecewise", "milestones": [1, 2.5], "factors": [0.1, 0]}
    assert settings_of("schedule", given) == Piecewise(0, (1.0, 2.5), (0.1, 0.0))
    for wrong, where in (
        ({"milestones": [0, 1]}, "milestones.0"),
        ({"milestones": ["1", 2]}, "milestones.0"),
        ({"milestones": "12"}, "milestones"),
        ({"factors": [0.1, -1]}, "factors.1"),
        ({"factors": [0.1]}, "as many factors"),
        ({"milestones": [2.5, 1]}, "increase"),
    ):
        with pytest.raises(ValidationError, match=where):
            settings_of("schedule", given | wrong)


def settings_of(setting: str, record: object) -> object:
    records = {"optimizer": {"kind": "adam"}, "schedule": {"kind": "constant"}, setting: record}
    settings = RunSettings.model_validate({"data": "digits", "sizes": {}, **records})
    return getattr(settings, setting)


OLDER = (
    '{"data":"digits","sizes":{"batch":64},'
    '"optimizer":{"kind":"sgd","lr":0.05,"momentum":0.9,"nesterov":true,"weight_decay":0.0005},'
    '"schedule":{"kind":"cosine","warmup":44,"final":0.0}}'
)
TODAY = OLDER.replace("0.0005}", '0.0005,"decay":"all"}').replace("44,", '44,"steps":0,')


def test_settings_of_older_checkpoints_are_read() -> None:
    settings = RunSettings.model_validate_json(OLDER)
    assert settings.optimizer == Sgd(0.05, 0.9, nesterov=True, weight_decay=5e-4)
    assert settings.schedule == Cosine(warmup=44)
    assert settings == RunSettings.model_validate_json(TODAY)
    assert settings.model_dump_json(include={"data", "sizes", "optimizer", "schedule"}) == TODAY


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "none"},
        {"kind": 3},
        {"kind": ["adam"]},
        {},
        [],
        None,
        "adam",
        {"kind": "adam", "self": 1},
        {"kind": "adam", "__class__": 1},
        {"kind": "adam", "lr": True},
        {"kind": "adam", "lr": "1"},
        {"kind": "constant"},
        {"kind": "sgd", "nesterov": True},
        {"kind": "adam", "decay": "none"},
        Constant(),
        Bounded(),
    ],
    ids=str,
)
def test_no_other_record_is_an_optimizer(record: object) -> None:
    with pytest.raises(ValidationError, match="optimizer"):
        settings_of("optimizer", record)


def test_a_word_names_one_class() -> None:
    for choices in CHOICES.values():
        for word, choice in choices.items():
            assert choice.word == word
            assert all(each.name != "kind" for each in fields(choice))
    assert not OPTIMIZERS.keys() & SCHEDULES.keys()
    assert settings_of("optimizer", Adam(lr=0.5)) == Adam(lr=0.5)
