"""A source of data of another package feeds runs, and is asked again where one goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import meganeura as api
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.settings.choices import choice_of
from meganeura_dsl.settings.data_source import DataRequest, DataSource
from meganeura_runtime.io.checkpoint import read_checkpoint
from tests.cli.command import Command
from tests.distributions import install
from tests.plugins.conftest import uninstall

PROGRAM = """\
block Net()(x: [n, 2]) -> [n, 2]:
  return x |> hidden: linear(8) |> tanh |> out: linear(2)

model net = Net()

train fit(x: [batch, 2], label: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, label)
  metric accuracy = mean(argmax(logits, 1) == label)
  run:
    data = {data}
    batch = 30
    epochs = 2
    optimize = false
"""


def write(data: str) -> str:
    Path("fit.mgn").write_text(PROGRAM.format(data=data))
    return "fit.mgn"


def says(shown: str) -> str:
    return " ".join(shown.split())


def losses(run: str) -> list[float]:
    lines = map(json.loads, Path(run, "metrics.jsonl").read_text().splitlines())
    return [each["loss"] for each in lines if each.get("event") == "evaluation" or "loss" in each]


@pytest.mark.usefixtures("example")
def test_a_run_is_fed_by_it_and_goes_on(meganeura: Command) -> None:
    program = write("spiral(points=100, seed=1)")
    assert meganeura("check", program).code == 0
    shown = meganeura("train", program, "--device", "cpu", "--out", "whole")
    assert (shown.code, shown.err) == (0, "")
    options = ("--device", "cpu", "--out", "half", "--set", "epochs=1")
    assert meganeura("train", program, *options).code == 0
    shown = meganeura("train", program, "--resume", "half", "--set", "epochs=2")
    assert (shown.code, shown.err) == (0, "")
    whole, half = (
        read_checkpoint(Path(run) / "checkpoint.safetensors") for run in ("whole", "half")
    )
    for name, tensor in whole[0].items():
        np.testing.assert_array_equal(half[0][name].bits, tensor.bits)
    settings = whole[1].settings
    assert settings.data == "spiral(points=100, seed=1)"
    stored = settings.model_dump(include={"source"})["source"]
    assert (stored["kind"], stored["from"]) == ("spiral", "meganeura-example 1.0")
    assert whole[1].data == half[1].data
    assert losses("whole")[-1] == losses("half")[-1]


@pytest.mark.usefixtures("example")
def test_it_may_be_given_on_the_command_line_and_from_python(meganeura: Command) -> None:
    program = write('"points.npz"')
    given = ("--set", "data=spiral(points=40)", "--set", "batch=4", "--device", "cpu")
    assert meganeura("train", program, *given, "--out", "a").code == 0
    settings = {"data": "spiral(points=40)", "batch": 4}
    api.load(program).train(device="cpu", out="b", settings=settings)
    assert losses("a") == losses("b")
    api.load(write("spiral()")).train(
        data={"x": np.ones((8, 2), np.float32), "label": np.zeros(8, np.int32)},
        device="cpu",
        out="c",
        settings={"batch": 4},
    )
    _, progress = read_checkpoint(Path("c/checkpoint.safetensors"))
    assert progress.settings.source is None


@pytest.mark.usefixtures("example")
def test_data_of_a_resumed_run_may_be_a_file_instead(meganeura: Command) -> None:
    """As with other data, it has to be the same examples."""
    spiral = cast("Callable[..., DataSource]", choice_of("data", "spiral"))
    program = write("spiral(points=40)")
    options = ("--device", "cpu", "--set", "batch=4", "--out", "run")
    assert meganeura("train", program, *options).code == 0
    arrays = cast("dict[str, Array]", spiral(points=40).examples(DataRequest({}, Path())))
    np.savez("same.npz", allow_pickle=False, **arrays)
    again = ("--resume", "run", "--set", "epochs=3")
    shown = meganeura("train", program, *again, "--set", "data=same.npz")
    assert (shown.code, shown.err) == (0, "")
    shown = meganeura("train", program, *again, "--set", "data=spiral(points=40, seed=1)")
    assert shown.code == 1
    assert "error[E0557]" in shown.err


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("spirl()", "error[E0514]: `spirl` is no way to read data"),
        ("spiral(points=-1)", "error[E0513]: `points` must be at least 0"),
        ("spiral(points=3)", "error[E0513]: `data` needs at least 10 points"),
        ("spiral(turns=3)", "error[E0510]: `spiral` has no argument `turns`"),
        ("spiral(100)", "error[E0516]: this argument has no name"),
        ("spiral(kind=100)", "error[E0510]: `spiral` has no argument `kind`"),
    ],
)
def test_what_is_wrong_with_its_call_is_told(data: str, message: str, meganeura: Command) -> None:
    shown = meganeura("check", write(data))
    assert shown.code == 1
    assert message in says(shown.out + shown.err)
    if data == "spirl()":
        assert "there are file, images, table, text, spiral" in says(shown.out + shown.err)


def test_a_run_does_not_go_on_without_it(meganeura: Command, example: Path) -> None:
    program = write('"points.npz"')
    given = ("--set", "data=spiral(points=40)", "--set", "batch=4", "--device", "cpu")
    assert meganeura("train", program, *given, "--out", "run").code == 0
    uninstall(example)
    shown = meganeura("train", program, "--resume", "run", "--set", "epochs=3")
    assert shown.code == 1
    assert "the source of data `spiral` of `meganeura-example 1.0` cannot be used" in says(
        shown.err
    )
    assert "help: pip install meganeura-example" in shown.err


HEAD = """\
from dataclasses import dataclass
import numpy as np
from meganeura_dsl.settings.data_source import DataSource

@dataclass(frozen=True)
class Mine(DataSource):
    word = "mine"

    def examples(self, request):
        shapes = {name: each.shape for name, each in request.inputs.items()}
        assert shapes == {"x": (30, 2), "label": (30,)}, shapes
        assert (request.folder / "fit.mgn").exists()
"""
BATCH = "{'x': np.ones((30, 2), np.float32), 'label': np.zeros(30, np.int32)}"


def installed(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "meganeura_example_wrong.py").write_text(HEAD + body)
    points = {"meganeura.data": {"mine": "meganeura_example_wrong:Mine"}}
    install(monkeypatch, site, "meganeura-wrong", points)


def test_batches_are_a_stream_with_held_out_batches(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out = f"    def held_out(self, request):\n        return [{BATCH}]\n"
    body = f"        return [{BATCH}] * 3\n\n{held_out}"
    installed(body, tmp_path, monkeypatch)
    shown = meganeura("train", write("mine()"), "--device", "cpu", "--out", "run")
    assert (shown.code, shown.err) == (0, "")
    assert "90 examples, 30 held out" in shown.out
    _, progress = read_checkpoint(Path("run/checkpoint.safetensors"))
    assert progress.step == 6


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "        return {}['x']\n",
            (
                "the source of data `mine` of `meganeura-wrong 1.0` cannot be used (plugin) "
                "because KeyError: 'x' (meganeura_example_wrong.py:13), when it was asked for "
                "examples"
            ),
        ),
        (
            "        return None\n",
            (
                "error[E0600]: what `mine` of `meganeura-wrong 1.0` returned cannot feed the "
                "program (data) because it is of type NoneType its inputs are x, label"
            ),
        ),
        (
            f"        yield {BATCH}\n        raise OSError('gone')\n",
            "the data has no length",
        ),
        (
            (
                "        return Loader()\n\nclass Loader:\n    def __len__(self): return 3\n"
                f"    def __iter__(self):\n        yield {BATCH}\n        raise OSError('gone')\n"
            ),
            (
                "the source of data `mine` of `meganeura-wrong 1.0` cannot be used (plugin) "
                "because OSError: gone (meganeura_example_wrong.py:19)"
            ),
        ),
    ],
)
def test_what_is_wrong_with_its_code_names_its_package(
    body: str,
    message: str,
    meganeura: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(body, tmp_path, monkeypatch)
    shown = meganeura("train", write("mine()"), "--device", "cpu", "--out", "run")
    assert shown.code == 1
    assert message in says(shown.err)
    assert "Traceback" not in shown.err
