"""Rematerialized values: large, quickly computed, and held when memory is fullest."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import (
    Input,
    MatMul,
    Mul,
    Neg,
    Reshape,
    Slice,
    StopGradient,
    Sum,
)
from meganeura_dsl.ir.ops.fused import WinogradInput
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.passes import rematerialize
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule import fusion
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.dsl.transforms.egraph.winograd_cases import FORMS
from tests.effort import effort
from tests.runtime.running import assert_as_reference

SETTINGS = TrainingSettings(Sgd(0.1, momentum=0.9))
ROOMY = DeviceLimits(buffer_bytes=1 << 33, binding_bytes=1 << 32, storage_buffers=32)
NEVER = 1 << 60
LAYERS = """\
block Layer(c)(x: [n, c, h, w]) -> [n, c, h, w]:
  return relu(x + (x |> conv: conv2d(c, 3, pad=1, bias=false) |> bn: batch_norm))

block Net()(x: [n, c, h, w]):
  x = x |> stem: conv2d(8, 3, pad=1, bias=false) |> bn: batch_norm |> relu
  for i in 0..3:
    x = x |> layers[i]: Layer(8)
  return x
"""
POOLED = """\
block Net()(x: [n, c, SIDE, SIDE]):
  x = x |> stem: conv2d(16, 5, pad=2, bias=false) STEM |> max_pool(2)
  for i in 0..6:
    x = x |> layers[i]: conv2d(16, 1) |> tanh
  return x
"""
SIDE = 128
RELU = 4 * 16 * 16 * SIDE * SIDE
TRAINING = """
model net = Net()

train fit(x: [batch, {channels}, {size}, {size}]):
  minimize mean((x |> net) ** 2)
"""


def step(folder: Path, blocks: str, *, channels: int, size: int, batch: int) -> Graph:
    """A training step, its 3 x 3 convolutions in tiles."""
    path = folder / "net.mgn"
    sized = blocks.replace("Net()(x: [n, c,", f"Net()(x: [n, {channels},")
    path.write_text(sized + TRAINING.format(channels=channels, size=size))
    forward = pipeline.elaborate_train(
        pipeline.load(str(path)), sizes={"batch": batch}, training=True
    )
    return optimized_training_step(forward.graph, SETTINGS, RewriteOptions(device=FORMS)).graph


def planned(graph: Graph, held: int, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(rematerialize, "HELD", held)
    return plan_graph(graph, ROOMY)


def temporaries(plan: Plan) -> int:
    return plan.bytes_for(Role.TEMPORARIES)


def test_tiles_are_made_again_by_kernels_that_run_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = step(tmp_path, LAYERS, channels=8, size=32, batch=4)
    tiles = 4 * 36 * 8 * 4 * 64
    once, twice = (planned(graph, held, monkeypatch) for held in (NEVER, tiles // 2))
    assert len(twice.dispatches) == len(once.dispatches)
    assert temporaries(twice) <= temporaries(once) - 3 * tiles
    assert temporaries(planned(graph, 2 * tiles, monkeypatch)) == temporaries(once)


@pytest.mark.parametrize(
    ("stem", "gain"),
    [
        ("|> bn: batch_norm |> relu", RELU),
        ("|> relu", 0),
        *effort([], [("|> bn: batch_norm |> gelu", 0)]),
    ],
)
def test_what_only_elementwise_work_reads_later_is_made_again(
    stem: str, gain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relu before a pooling is held for its sign, which the norm's operand tells as well.

    Without the norm, nobody else would hold that operand.
    """
    graph = step(
        tmp_path,
        POOLED.replace("STEM", stem).replace("SIDE", str(SIDE)),
        channels=3,
        size=SIDE,
        batch=16,
    )
    once, twice = (planned(graph, held, monkeypatch) for held in (NEVER, RELU))
    assert len(twice.dispatches) <= len(once.dispatches)
    assert once.least_bytes - twice.least_bytes == gain


@pytest.mark.usefixtures("apart")
def test_a_large_mirrored_kernel_is_not_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = step(tmp_path, LAYERS, channels=8, size=32, batch=4)
    ahead = plan_graph(graph, ROOMY)
    monkeypatch.setattr(fusion, "AHEAD", 1)
    assert len(plan_graph(graph, ROOMY).dispatches) == len(ahead.dispatches) + 3


def test_one_large_op_holds_nothing() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (1, 8, 1024, 1024)))
    graph = build.graph({"y": build.add(WinogradInput(4, (1, 1)), x)})
    assert len(plan_graph(graph, ROOMY).dispatches) == 1


def recomputed(graph: Graph, held: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the number of values computed once more."""
    monkeypatch.setattr(rematerialize, "HELD", held)
    changed = rematerialize.rematerialize(graph, Target(ROOMY, Style.GPU))
    return sum(isinstance(value.op, StopGradient) for value in changed.values)


def product(build: Builder, name: str, rows: int, columns: int) -> Value:
    """A product of two inputs, which is in memory."""
    left = build.add(Input(f"{name}_left", DType.F32, (rows, 4)))
    return build.add(MatMul(), left, build.add(Input(f"{name}_right", DType.F32, (4, columns))))


@pytest.mark.parametrize(("other", "times"), [("x", 1), ("another", 0)])
def test_an_operand_that_is_held_as_long_costs_nothing(
    other: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Builder()
    add = build.add
    x = product(build, "x", 64, 16)
    tiles = add(WinogradInput(4, (1, 1)), add(Reshape((1, 4, 16, 16)), x))
    fullest = add(Sum((0, 1)), product(build, "most", 64, 64))
    row = add(Slice((0,), (1024,), (1,)), add(Reshape((2304,)), tiles))
    read = x if other == "x" else add(Input(other, DType.F32, (64, 16)))
    last = add(MatMul(), add(Reshape((1, 1024)), row), add(Reshape((1024, 1)), read))
    graph = build.graph({"total": fullest, "y": last})
    assert recomputed(graph, 4 * 2304, monkeypatch) == times


def test_who_reads_when_memory_is_fullest_reads_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product needs its factor in memory, but when memory is fullest it is there still."""
    build = Builder()
    x = product(build, "x", 32, 32)
    negative = build.add(Neg(), x)
    fullest = build.add(Sum((0, 1)), build.add(MatMul(), negative, negative))
    again = build.add(Sum((0, 1)), build.add(Mul(), negative, x))
    graph = build.graph({"early": fullest, "late": again})
    assert recomputed(graph, 4 * 1024, monkeypatch) == 1


@pytest.mark.adapter
@pytest.mark.parametrize(
    "blocks",
    [
        POOLED.replace("STEM", "|> bn: batch_norm |> relu").replace("SIDE", "12"),
        *effort([], [LAYERS]),
    ],
)
def test_the_step_stays_the_same(
    blocks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    graph = step(tmp_path, blocks, channels=3, size=12, batch=2)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for value in graph.values:
        if isinstance(value.op, Leaf):
            shape = concrete_shape(value.op.shape)
            drawn = np.abs(generator.standard_normal(shape, np.float32))
            feeds[value.op.name] = drawn.astype(storage_type(value.op.dtype))
    monkeypatch.setattr(rematerialize, "HELD", 1)
    monkeypatch.setattr(fusion, "AHEAD", 1)
    assert_as_reference(graph, feeds, device, Style.GPU)
