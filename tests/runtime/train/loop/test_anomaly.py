"""A number that stops being one is traced to its step and to its line of the program."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.transforms.training_step import LOSS
from meganeura_runtime.backends.base import Computed, Outputs, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.splits import Examples, Split, StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Stepped
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.runtime.runs import FAILING, PROGRAM, Workspace

LOG = "mean(log(0.5 - small))"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.write(FAILING)
    return workspace


def stopped(workspace: Workspace, *, detect: bool) -> LossNotFinite:
    with pytest.raises(ProblemError) as caught:
        workspace.start("run", options=RunOptions(detect_anomaly=detect))
    assert isinstance(caught.value.problem, LossNotFinite)
    return caught.value.problem


@pytest.mark.parametrize("detect", [False, True])
def test_the_first_line_that_is_not_finite_is_named(workspace: Workspace, *, detect: bool) -> None:
    problem = stopped(workspace, detect=detect)
    assert problem.first.startswith("`Log`, f32[], of step ")
    assert problem.span is not None
    assert problem.span.text == "log(0.5 - small)"
    assert problem.span.line == 4
    report = problem.report()
    assert report.label is not None
    assert problem.first in {remark.text for remark in report.remarks}


@pytest.mark.parametrize(("limit", "step"), [(0.5, 1), (2.0, 4), (3.0, 8)])
def test_both_ways_find_the_same_step_and_one_stops_at_it(
    workspace: Workspace, limit: float, step: int
) -> None:
    """A larger limit is met later; the eighth step is repeated from a checkpoint at the fifth."""
    workspace.write(FAILING.replace("0.5 - small", f"{limit} - small"))
    late = stopped(workspace, detect=False)
    workspace.events.clear()
    early = stopped(workspace, detect=True)
    assert early.first == late.first
    assert early.first.endswith(f" of step {step}")
    assert early.step == step <= late.step
    made = sum(isinstance(event, Stepped) for event in workspace.events)
    assert made == early.step - 1


def test_a_checkpoint_is_never_replaced_by_one_that_is_not_finite(workspace: Workspace) -> None:
    text = (workspace.folder / "fit.mgn").read_text().replace("log_every = 4", "log_every = 500")
    workspace.write(text)
    stopped(workspace, detect=False)
    tensors, _ = read_checkpoint(RunFolder(workspace.folder / "run").checkpoint)
    assert all(np.all(np.isfinite(each.bits)) for each in tensors.values())


ROOT = """\
block Root()(x: [n, 6]) -> []:
  param w: [6] = zeros
  return sqrt(sum(w * w)) + 0 * mean(x)

train fit(x: [batch, 6]):
  minimize x |> root: Root()
  run:
    data      = "points.safetensors"
    batch     = 4
    optimizer = sgd(lr=0.5)
"""
"""A run whose first loss is finite, and no gradient of it."""


@pytest.mark.parametrize("detect", [False, True])
@pytest.mark.parametrize(("steps", "stopped_at"), [(1, 1), (5, 2)])
def test_a_gradient_that_is_not_finite_is_found_though_its_loss_is(
    workspace: Workspace, steps: int, stopped_at: int, *, detect: bool
) -> None:
    """Also after the last step, so that no weights are saved that are none."""
    workspace.write(f"{ROOT}    steps     = {steps}\n")
    problem = stopped(workspace, detect=detect)
    assert problem.step == (1 if detect else stopped_at)
    assert problem.first.endswith(" of step 1")
    assert not problem.first.startswith("`root.w`")
    assert "in layer  root" in render(problem.report())
    assert (problem.loss == "") == (detect or steps == 1)
    folder = RunFolder(workspace.folder / "run")
    tensors, progress = read_checkpoint(folder.checkpoint)
    assert (progress.step, folder.weights.exists()) == (0, False)
    assert np.all(tensors["root.w"].bits == 0)


class Wrong(ReferenceSession):
    """A device that gives a loss that is none, now and then."""

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        assert not isinstance(feeds, Uploaded)
        outputs = dict(super().step(feeds))
        if COUNTER in feeds and feeds[COUNTER][1] == 2:
            outputs[LOSS] = np.array(np.nan, np.float32)
        return Computed(outputs)


@pytest.mark.parametrize("detect", [False, True])
def test_a_device_that_is_wrong_is_told_by_the_step_alone(
    workspace: Workspace, *, detect: bool
) -> None:
    """The reference finds no value of it that is not finite."""
    workspace.write(PROGRAM)
    with pytest.raises(ProblemError) as caught:
        workspace.start("run", open_session=Wrong, options=RunOptions(detect_anomaly=detect))
    assert caught.value.problem == LossNotFinite(3, "nan", "step 3")


class Spoilt(StoredSplit):
    """Examples of which one number is not finite."""

    def __init__(self, split: Split) -> None:
        assert isinstance(split, StoredSplit)
        super().__init__(split.feeds, split.examples)

    def take(self, examples: Examples) -> dict[str, Array]:
        fed = {name: np.array(array) for name, array in super().take(examples).items()}
        fed["x"][0, 0] = np.nan
        return fed


def test_data_that_is_not_finite_is_named(workspace: Workspace) -> None:
    job = workspace.job()
    spoilt = replace(job, dataset=replace(job.dataset, train=Spoilt(job.dataset.train)))
    with pytest.raises(ProblemError) as caught:
        train(
            spoilt,
            workspace.run_folder("run"),
            ReferenceSession,
            workspace.events.append,
            lambda: False,
        )
    assert isinstance(caught.value.problem, LossNotFinite)
    assert caught.value.problem.first == "`x`, f32[4, 6], of step 1"


@pytest.mark.parametrize(
    ("spoils", "op", "said"),
    [
        ("log(0 * h)", "Log", "`log(maximum(0 * h, 1e-6))`"),
        ("log1p(0 * h - 1)", "Log1p", "`log1p(maximum(0 * h - 1, -0.999999))`"),
        ("sqrt(0 * h - 1)", "Sqrt", "`sqrt(maximum(0 * h - 1, 1e-6))`"),
        ("sqrt(0 * h)", "Div", "`sqrt(maximum(0 * h, 1e-6))`"),
        ("(0 * h) ** 0.5", "Div", "`maximum(x, 1e-6)`"),
        ("(0 * h) ** -0.5", "Div", "`maximum(x, 1e-6)`"),
        ("(0 * h) ** -2", "Div", "`maximum(x, 1e-6)`"),
        ("1 / (0 * h)", "Div", "`x / (y + 1e-6)`"),
        ("exp(0 * h + 200)", "Exp", "`exp(minimum(0 * h + 200, 20))`"),
        ("expm1(0 * h + 200)", "Expm1", "`expm1(minimum(0 * h + 200, 20))`"),
        ("f32(f16(0 * h + 1e6))", "Cast", "f16 has no numbers above 65,504"),
        ("(0 * h + 1e30) ** 2", "Mul", "a smaller learning rate"),
    ],
)
def test_the_advice_is_that_of_the_operation_that_a_run_finds(
    spoils: str, op: str, said: str, workspace: Workspace
) -> None:
    workspace.write(FAILING.replace(LOG, f"small + mean({spoils})"))
    problem = stopped(workspace, detect=True)
    assert problem.first.startswith(f"`{op}`, ")
    report = problem.report()
    assert report.help is not None
    assert said in report.help.text
    cure = report.help.text.partition("`")[2].partition("`")[0]
    if cure.startswith(spoils.partition("(")[0] + "("):
        workspace.write(FAILING.replace(LOG, f"small + mean({cure})"))
        workspace.start("cured", "optimize=false", "epochs=2")


@pytest.mark.parametrize(
    ("line", "first", "said"),
    [
        ("mean(log(x))", "`Log`, f32[n], of step 3", "`log(maximum(x, 1e-6))`"),
        ("mean(x |> log)", "", "`log(maximum(x, 1e-6))`"),
        ("sum(sqrt(x))", "`Sqrt`, f32[n], of step 3", "`sqrt(maximum(x, 1e-6))`"),
        ("mean(x / y)", "`Div`, f32[n], of step 3", "`x / (y + 1e-6)`"),
        ("mean(exp(x))", "`Exp`, f32[n], of step 3", "`exp(minimum(x, 20))`"),
        ("cross_entropy(image / 16 |> net, y)", "`Log`, f32[], of step 3", "learning rate"),
        ("mean(log(x) + exp(y))", "`MatMul`, f32[n], of step 3", "learning rate"),
    ],
)
def test_the_advice_fits_the_operation(line: str, first: str, said: str) -> None:
    report = LossNotFinite(3, "nan", first, Span(Source("net.mgn", line), 0, len(line))).report()
    assert report.help is not None
    assert said in report.help.text
    assert report.help.code is not None
    assert "--set not_finite=skip" in report.help.code
