"""Optimizers and schedules of another package train, save and resume as built-in ones do."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from safetensors.numpy import save_file

import meganeura as api
from meganeura.language_server.completion import _values
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.plugins.plugin_groups import PluginGroup
from meganeura_dsl.settings.choices import PLUGINS
from meganeura_runtime.io.checkpoint import read_checkpoint
from tests.cli.command import Command
from tests.distributions import forget, install
from tests.effort import effort
from tests.plugins.conftest import uninstall

PROGRAM = """\
block Net()(x: [n, 2]) -> [n, 1]:
  return x |> fc: linear(1)

model net = Net()

train fit(x: [batch, 2], y: [batch, 1]):
  minimize mse(x |> net, y)
  run:
    data = "points.safetensors"
    batch = 4
    epochs = 2
    seed = 3
    optimizer = {optimizer}
    schedule = {schedule}
"""
OURS = "heavy_ball(lr=0.05, momentum=0.8)"
BUILT_IN = "sgd(lr=0.05, momentum=0.8)"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    points = {
        f"{split}.{name}": random.normal(size=(16, width)).astype(np.float32)
        for split in ("train", "test")
        for name, width in (("x", 2), ("y", 1))
    }
    save_file(points, tmp_path / "points.safetensors")


def write(optimizer: str, schedule: str = "constant()", name: str = "fit.mgn") -> str:
    Path(name).write_text(PROGRAM.format(optimizer=optimizer, schedule=schedule))
    return name


def trained(run: str) -> Mapping[str, Array]:
    tensors, _ = read_checkpoint(Path(run) / "checkpoint.safetensors")
    return {name: cast("Array", each.bits) for name, each in tensors.items()}


def says(shown: str) -> str:
    return " ".join(shown.split())


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    "device", ["cpu", *effort([], [pytest.param("wgpu:0", marks=pytest.mark.adapter)])]
)
def test_one_trains_as_the_same_built_in(meganeura: Command, device: str) -> None:
    """Bit for bit in one go, and where a run of it goes on after a first epoch."""
    for optimizer, out in ((OURS, "ours"), (BUILT_IN, "theirs")):
        shown = meganeura("train", write(optimizer), "--device", device, "--out", out)
        assert (shown.code, shown.err) == (0, "")
    options = ("--device", device, "--out", "half", "--set", "epochs=1")
    assert meganeura("train", write(OURS), *options).code == 0
    again = meganeura("train", write(OURS), "--resume", "half", "--set", "epochs=2")
    assert (again.code, again.err) == (0, "")
    ours, theirs, half = trained("ours"), trained("theirs"), trained("half")
    assert ours.keys() == theirs.keys() == half.keys()
    assert "optimizer.fc.weight.momentum" in ours
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)
        np.testing.assert_array_equal(half[name], values)


@pytest.mark.usefixtures("example")
def test_a_schedule_sets_the_rate_of_each_step() -> None:
    settings = {"log_every": 1}
    api.load(write(BUILT_IN, "triangle(low=0.2)")).train(device="cpu", out="run", settings=settings)
    lines = map(json.loads, Path("run/metrics.jsonl").read_text().splitlines())
    rates = [each["learning_rate"] for each in lines if "learning_rate" in each]
    expected = [0.05 * (0.2 + 0.8 * (1 - abs(step / 4 - 1))) for step in range(8)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


@pytest.mark.usefixtures("example")
def test_its_package_is_in_the_checkpoint() -> None:
    api.load(write(OURS, "triangle()")).train(device="cpu", out="run")
    _, progress = read_checkpoint(Path("run/checkpoint.safetensors"))
    stored = progress.settings.model_dump(include={"optimizer", "schedule"})
    assert stored["optimizer"] == {
        "kind": "heavy_ball",
        "from": "meganeura-example 1.0",
        "lr": 0.05,
        "momentum": 0.8,
    }
    assert stored["schedule"]["from"] == "meganeura-example 1.0"


# --- a run without its plugin --------------------------------------------------------------------


def test_a_run_does_not_go_on_without_its_plugin(meganeura: Command, example: Path) -> None:
    program = write(BUILT_IN)
    given = ("--set", f"optimizer={OURS}", "--device", "cpu", "--out", "run")
    assert meganeura("train", program, *given).code == 0
    uninstall(example)
    shown = meganeura("train", program, "--resume", "run", "--set", "epochs=3")
    assert shown.code == 1
    assert (
        "error[E0592]: the optimizer `heavy_ball` of `meganeura-example 1.0` cannot be used"
        in shown.err
    )
    assert "because  it is not installed" in shown.err
    assert "help: pip install meganeura-example" in shown.err
    shown = meganeura("check", write(OURS))
    assert shown.code == 1
    assert "error[E0514]: `heavy_ball` is no optimizer" in shown.out + shown.err


def test_a_run_does_not_go_on_with_the_plugin_of_another_package(
    meganeura: Command, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(BUILT_IN)
    given = ("--set", f"optimizer={OURS}", "--device", "cpu", "--out", "run")
    assert meganeura("train", program, *given).code == 0
    uninstall(example)
    points = {"meganeura.optimizers": {"heavy_ball": "meganeura_example.optimizers:HeavyBall"}}
    install(monkeypatch, example, "taker", points)
    shown = meganeura("train", program, "--resume", "run", "--set", "epochs=3")
    assert shown.code == 1
    assert "because  `heavy_ball` is now of `taker 1.0`" in shown.err


# --- plugins that are wrong ----------------------------------------------------------------------

HEAD = """\
from dataclasses import dataclass, field
from meganeura_dsl.ir.ops import Reshape, Sub
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.schedules import Constant, Schedule

"""
RULE = """\
    def update(self, update, p, g, rate):
        return update.op(Sub(), p, update.scaled(rate, g))
"""
FROZEN = "@dataclass(frozen=True)\n"


def installed(
    site: Path, monkeypatch: pytest.MonkeyPatch, text: str, group: str = "optimizers"
) -> None:
    site.mkdir()
    (site / "meganeura_example_wrong.py").write_text(HEAD + text)
    points = {f"meganeura.{group}": {"mine": "meganeura_example_wrong:Mine"}}
    install(monkeypatch, site, "meganeura-wrong", points)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mine = 3\n", "is no class that derives from `Optimizer`"),
        ("Mine = Constant\n", "is no class that derives from `Optimizer`"),
        (f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n", "has no `update`"),
        (
            f"class Mine(Optimizer):\n    word = 'mine'\n    rho: float = 0.5\n{RULE}",
            "is no dataclass: `@dataclass(frozen=True)` is missing above it",
        ),
        (f"{FROZEN}class Mine(Optimizer):\n{RULE}", "has another `word` than its entry point"),
        (
            f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n    kind: str = ''\n{RULE}",
            "has an argument `kind` of a name that is taken",
        ),
        (
            f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n    a: dict = None\n{RULE}",
            "has an argument `a` of another type than bool, int, float, str, Literal",
        ),
        (
            f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n    a: 'Lost' = None\n{RULE}",
            "has arguments of types that are unknown: NameError: name 'Lost' is not defined",
        ),
        (
            (
                f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n"
                f"    a: tuple[float, ...] = field(default_factory=tuple)\n{RULE}"
            ),
            "has no default for `a`",
        ),
        ("import nowhere\n", "is not imported: ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_one_of_another_form_is_refused_at_the_setting_that_asks_for_it(
    text: str, reason: str, meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "site", monkeypatch, text)
    shown = meganeura("check", write("mine(lr=0.1)"))
    assert shown.code == 1
    said = says(shown.out + shown.err)
    assert "error[E0592]: the optimizer `mine` of `meganeura-wrong 1.0` cannot be used" in said
    assert "fit.mgn:13 optimizer = mine(lr=0.1)" in said
    assert f"because `meganeura_example_wrong:Mine` {reason}" in said
    assert f"because `meganeura_example_wrong:Mine` {reason}" in says(
        meganeura("docs", "settings").out
    )


@pytest.mark.parametrize(
    ("group", "body", "reason"),
    [
        (
            "optimizers",
            f"    def __post_init__(self):\n        self.none.there\n{RULE}",
            (
                "AttributeError: 'Mine' object has no attribute 'none' "
                "(meganeura_example_wrong.py:10), for {'lr': 0.001}"
            ),
        ),
        (
            "optimizers",
            "    def update(self, update, p, g, rate):\n        return {}['x']\n",
            (
                "KeyError: 'x' (meganeura_example_wrong.py:10), "
                "while it builds the update of `fc.weight`"
            ),
        ),
        (
            "optimizers",
            "    def update(self, update, p, g, rate):\n        return rate\n",
            (
                "TypeError: `update` returned f32[], and the parameter is f32[1, 2], "
                "while it builds the update of `fc.weight`"
            ),
        ),
        (
            "optimizers",
            "    def demand(self, of):\n        return 1 / 0\n" + RULE,
            (
                "ZeroDivisionError: division by zero (meganeura_example_wrong.py:10), "
                "when it was asked which parameters it moves"
            ),
        ),
        (
            "schedules",
            "    def at(self, step, run):\n        return {}[step]\n",
            "KeyError: 0 (meganeura_example_wrong.py:10), for the rate of step 0",
        ),
        (
            "schedules",
            "    def at(self, step, run):\n        return 'fast'\n",
            "TypeError: `at` returned 'fast', for the rate of step 0",
        ),
        (
            "schedules",
            (
                "    is_steady = property(lambda self: 1 / 0)\n"
                "    def at(self, step, run):\n        return 1.0\n"
            ),
            "ZeroDivisionError: division by zero (meganeura_example_wrong.py:9)",
        ),
    ],
)
def test_an_error_of_its_code_names_its_package(
    group: str,
    body: str,
    reason: str,
    meganeura: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = group.removesuffix("s").title()
    text = f"{FROZEN}class Mine({base}):\n    word = 'mine'\n{body}"
    installed(tmp_path / "site", monkeypatch, text, group)
    program = write("mine()") if group == "optimizers" else write("sgd(lr=1)", "mine()")
    shown = meganeura("train", program, "--device", "cpu")
    assert shown.code == 1
    said = says(shown.err)
    assert (
        f"error[E0592]: the {base.lower()} `mine` of `meganeura-wrong 1.0` cannot be used" in said
    )
    assert f"because {reason} help: update or uninstall `meganeura-wrong`" in said
    assert "Traceback" not in shown.err


def test_a_value_that_it_refuses_is_a_wrong_setting(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ValueError` is how every optimizer says that arguments do not go together."""
    refuse = "    def __post_init__(self):\n        raise ValueError('needs more')\n"
    text = f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n{refuse}{RULE}"
    installed(tmp_path / "site", monkeypatch, text)
    shown = meganeura("train", write("mine()"), "--device", "cpu")
    assert "error[E0513]: `optimizer` needs more" in shown.err


def test_a_step_of_it_is_made_by_its_code_as_it_is_now(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cache of compiled steps knows the code of another package."""
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    text = f"{FROZEN}class Mine(Optimizer):\n    word = 'mine'\n{RULE}"
    installed(tmp_path / "site", monkeypatch, text)
    program = write("mine(lr=0.05)")
    for out, sign in (("down", "Sub"), ("up", "Add")):
        path = tmp_path / "site/meganeura_example_wrong.py"
        # Of another length, as Python takes compiled code of the same second and length for it.
        code = f"{text.replace('Sub()', f'{sign}()')}# {out}\n"
        path.write_text(HEAD.replace("Sub", "Add, Sub") + code)
        forget()
        given = ("--device", "cpu", "--set", "shuffle=false", "--set", "epochs=1", "--out", out)
        assert meganeura("train", program, *given).code == 0
    assert not np.array_equal(trained("down")["fc.weight"], trained("up")["fc.weight"])


# --- pages and lists -----------------------------------------------------------------------------


@pytest.mark.usefixtures("example")
def test_lists_and_pages_have_it_with_its_package(meganeura: Command) -> None:
    shown = meganeura("docs", "settings").out
    line = "`heavy_ball(lr=0.01, momentum=0.9)`: Descent with momentum (Polyak, 1964)"
    assert line in shown
    assert "Of the package `meganeura-example 1.0`." in shown
    page = meganeura("explain", "heavy_ball").out
    assert page.startswith("optimizer = heavy_ball(lr=0.01, momentum=0.9)\n")
    assert "It is of the package `meganeura-example 1.0`." in page
    assert "  momentum      at least 0, below 1" in page
    shown = meganeura("check", write("heavy_bal()"))
    said = says(shown.out + shown.err)
    assert "error[E0514]: `heavy_bal` is no optimizer" in said
    assert re.search(r"there are sgd, .*, heavy_ball", said)
    assert "did you mean `heavy_ball`?" in said
    shown = meganeura("check", write(BUILT_IN, "triangle(low=2.0)"))
    assert "error[E0513]: `schedule.low` must be at most 1" in shown.out + shown.err
    shown = meganeura("check", write("heavy_ball(beta=1)"))
    assert "`heavy_ball` has no argument `beta`" in shown.out + shown.err


@pytest.mark.usefixtures("example")
def test_completion_knows_its_name_and_does_not_import_it() -> None:
    found = {each.label: each.documentation for each in _values("optimizer")}
    assert found["heavy_ball"] == "of the package meganeura-example 1.0"
    assert "meganeura_example" not in sys.modules


@pytest.mark.usefixtures("example")
def test_a_run_with_what_is_built_in_reads_no_metadata(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: object) -> None:
        del self
        raise AssertionError("metadata was read")

    monkeypatch.setattr(PluginGroup, "_plugins", read)
    shown = meganeura("train", write(BUILT_IN, "cosine()"), "--device", "cpu", "--out", "run")
    assert (shown.code, shown.err) == (0, "")
    assert meganeura("train", "fit.mgn", "--resume", "run", "--set", "epochs=3").code == 0


def test_a_word_that_means_something_else_there_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("frozen", "none", "if", "for", "sgd", "a-b", "1a", "\u00e9t\u00e9", "nonesuch", "iff")
    points = {str(name): "json:dumps" for name in names}
    install(monkeypatch, tmp_path, "meganeura-named", {"meganeura.optimizers": points})
    assert PLUGINS["optimizer"].names() == ("iff", "nonesuch")
    _, errors = PLUGINS["optimizer"].usable()
    assert len(errors) == len(names)
