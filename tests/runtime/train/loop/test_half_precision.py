"""Runs in f16: losses as in f32, overflows, and resuming in another precision."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.loss_scale import FIRST, GROWTH, SCALE
from meganeura_runtime.backends.webgpu.backend import DawnBackend
from meganeura_runtime.backends.webgpu.codegen.matmul import tile_sizes
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.config.limits import MatrixDialect, MatrixUnits, Style
from meganeura_runtime.backends.webgpu.device.device import open_device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Logged, LossScaled, NotFinite
from meganeura_runtime.train.spec.resume import RunOptions
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.effort import effort
from tests.runtime.runs import FAILING, PROGRAM, STEPS, Workspace, contents

HALF = "precision=f16"
LARGE = """\
train fit(x: [batch, 6]):
  minimize mean(1e36 * (x |> fc1: linear(4, bias=false)))
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 4
    optimizer = sgd(lr=0.5)
    clip_norm = 1.0
    log_every = 1
"""
"""Gradients of about 1e36, which the first scale makes infinite; the loss is finite."""
INFINITE = """\
train fit(x: [batch, 6]):
  h = x |> fc1: linear(4)
  minimize mean(sqrt(h - h))
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 4
    optimizer = sgd(lr=0.5)
    log_every = 1
"""
"""A loss of 0 whose gradient no scale makes finite."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def scalings(workspace: Workspace) -> list[tuple[int, float, float]]:
    found = [each for each in workspace.events if isinstance(each, LossScaled)]
    return [(each.step, each.before, each.after) for each in found]


def weights(workspace: Workspace, run: str) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return contents(workspace.folder / run / "weights.safetensors")


def kept(workspace: Workspace, run: str) -> dict[str, Array]:
    return load_file(workspace.folder / run / "checkpoint.safetensors")


def test_scales_of_a_power_of_two_change_no_bit_of_a_run(workspace: Workspace) -> None:
    """The reference computes products in f32, and all else is the same."""
    workspace.start("wide")
    workspace.start("narrow", HALF)
    assert weights(workspace, "wide") == weights(workspace, "narrow")
    assert kept(workspace, "narrow")[GROWTH] == STEPS
    assert scalings(workspace) == []


def test_an_overflow_halves_the_scale_until_gradients_fit(workspace: Workspace) -> None:
    workspace.write(LARGE)
    workspace.start("run", HALF)
    found = scalings(workspace)
    assert [each[1:] for each in found] == [
        (FIRST / 2**number, FIRST / 2 ** (number + 1)) for number in range(len(found))
    ]
    assert 4 < len(found) < STEPS // 2
    final = kept(workspace, "run")
    assert float(final[SCALE]) + FIRST == found[-1][2]
    assert final[GROWTH] == STEPS - found[-1][0]
    assert not any(isinstance(each, NotFinite) for each in workspace.events)


def test_batches_of_one_update_halve_it_once(workspace: Workspace) -> None:
    workspace.write(LARGE)
    workspace.start("run", HALF, "accumulate=5")
    assert [each[0] for each in scalings(workspace)] == [5, 10, 15, 20]


def test_gradients_that_no_scale_makes_finite_end_a_run(workspace: Workspace) -> None:
    workspace.write(INFINITE)
    with pytest.raises(
        ProblemError, match="a gradient is not finite, with a loss scale of 1,"
    ) as caught:
        workspace.start("run", HALF)
    problem = caught.value.problem
    assert isinstance(problem, LossNotFinite)
    assert (problem.step, problem.is_half) == (17, False)
    assert problem.first.startswith("`Div`, f32[4, 4], of step ")
    assert problem.span is not None
    assert "sqrt" in problem.span.text, "the line whose slope is infinite in f32 as well"
    assert len(scalings(workspace)) == 16


def test_a_loss_that_is_not_finite_is_named_with_its_line(workspace: Workspace) -> None:
    workspace.write(FAILING)
    with pytest.raises(ProblemError, match="the loss is nan at step") as caught:
        workspace.start("run", HALF)
    problem = caught.value.problem
    assert isinstance(problem, LossNotFinite)
    assert problem.first.startswith("`Log`, f32[], of step ")
    assert not problem.is_half


def test_an_overflow_is_no_anomaly_where_the_reference_finds_none(workspace: Workspace) -> None:
    workspace.write(LARGE)
    workspace.start("run", HALF, options=RunOptions(detect_anomaly=True))
    assert scalings(workspace)


def test_a_run_that_leaves_them_out_says_so_at_each_step(workspace: Workspace) -> None:
    workspace.write(INFINITE)
    workspace.start("run", HALF, "not_finite=skip")
    left_out = [each.step for each in workspace.events if isinstance(each, NotFinite)]
    assert left_out == [17, 18, 19, 20]
    assert not np.isnan(kept(workspace, "run")["fc1.weight"]).any()


@pytest.mark.parametrize(
    ("first", "then"),
    effort([("f16", "f16")], [("f32", "f16"), ("f16", "f32"), ("f16", "f16")]),
)
def test_a_run_goes_on_in_another_precision(workspace: Workspace, first: str, then: str) -> None:
    workspace.start("whole")
    workspace.start("run", f"precision={first}", steps=7)
    workspace.resume("run", f"precision={then}")
    assert weights(workspace, "whole") == weights(workspace, "run")
    assert (SCALE in kept(workspace, "run")) is (then == "f16")
    if then == "f16":
        assert kept(workspace, "run")[GROWTH] == (STEPS if first == "f16" else STEPS - 7)


LATER = FAILING.replace("0.5 -", "3.0 -")
"""A loss that is not finite at step 8."""


def test_a_loss_that_is_not_finite_is_traced_after_a_resumption_in_f16(
    workspace: Workspace,
) -> None:
    """The checkpoint of the run in f32, from which steps are repeated, has no scale."""
    workspace.write(LATER)
    workspace.start("run", steps=6)
    with pytest.raises(ProblemError, match=r"log\(3.0 - small\)"):
        workspace.resume("run", HALF)


@pytest.mark.parametrize("setting", ["accumulate=5", "gradient_norm=true"])
def test_an_overflow_is_no_anomaly_where_it_spoils_a_sum_or_a_norm(
    workspace: Workspace, setting: str
) -> None:
    workspace.write(LARGE)
    workspace.start("run", HALF, setting, options=RunOptions(detect_anomaly=True))
    assert scalings(workspace)


@pytest.mark.adapter
def test_losses_are_those_of_f32_up_to_the_rounding_of_factors(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 20
    wide = PROGRAM.replace("linear(8)", "linear(64) |> gelu |> fc: linear(64)")
    workspace.write(
        wide.replace("batch     = 4", "batch     = 20").replace("= 4\n", f"= {steps}\n")
    )
    monkeypatch.setattr(tile_sizes, "MATRIX_SPEEDS", {Tile(32, 32, 16, 4, 4): 1.0})
    device = open_device("wgpu")
    monkeypatch.setattr(device, "matrix_units", MatrixUnits(MatrixDialect.PLAIN))
    monkeypatch.setattr(device, "style", Style.GPU)
    opened = OpenAdapter.of(DawnBackend(), device)
    losses: list[list[float]] = []
    for precision in (ComputePrecision.F32, ComputePrecision.F16):
        workspace.events.clear()
        settings = f"precision={precision}", "log_every=1"
        workspace.start(precision, *settings, open_session=opened.at(precision).open)
        losses.append([each.loss for each in workspace.events if isinstance(each, Logged)])
    device.close()
    assert len(losses[0]) == steps
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=5e-3)
