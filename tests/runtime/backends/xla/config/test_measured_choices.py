"""Every measured choice has an effect: some step is compiled otherwise without it."""

import os
import re
from collections.abc import Callable

import numpy as np
import pytest
from jax.sharding import Mesh

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Constant,
    ConvWeightGradient,
    Input,
    MatMul,
    Mul,
    Parameter,
    Sum,
)
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla import session as session_module
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.config.measured_choices import (
    CHOICES,
    CUDNN_ATTENTION,
    EAGER_OUTPUTS,
    UNMIXED_COLLECTIVES,
    disabled,
)
from meganeura_runtime.backends.xla.device import nccl
from meganeura_runtime.backends.xla.device.compiler_options import compiler_options
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import AXIS, OneDevice, Placement
from meganeura_runtime.backends.xla.passes import fuse_attention
from meganeura_runtime.backends.xla.passes.pipeline import PassTarget, run_passes
from tests.effort import effort
from tests.runtime.backends.xla.device.test_compiler_options import Gpus, convolution, gpu, step
from tests.runtime.backends.xla.passes.test_golden import graph_of

BF16, F32 = ComputePrecision.BF16, ComputePrecision.F32
NAMES = {choice.name: choice for choice in CHOICES}
LOCATIONS = re.compile(r"^#loc.*\n| loc\(.*?\)", re.MULTILINE)
"""Lines of this file, in the text of a step."""


def cpu() -> Placement:
    return OneDevice(named("xla:cpu"))


def gpus() -> Placement:
    return Gpus(Mesh([named("xla:cpu")], (AXIS,)), DeviceSharding.DATA, {})


def inference() -> Graph:
    return step(8, trains=False)


def layers() -> Graph:
    """Two layers with their gradients, which the weights become."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 4)))
    v, w = (build.add(Parameter(name, DType.F32, (4, 4), "param")) for name in "vw")
    hidden = build.add(MatMul(), x, v)
    y = build.add(MatMul(), hidden, w)
    slope = build.add(MatMul(transpose_right=True), y, w)
    updates = {
        "v": build.add(MatMul(transpose_left=True), x, slope),
        "w": build.add(MatMul(transpose_left=True), hidden, y),
    }
    return build.graph({"y": y}, updates)


def small_updates() -> Graph:
    """Three small parameters times one scalar."""
    build = Builder()
    scalar = build.add(Broadcast((4,), ()), build.add(Input("rate", DType.F32, ())))
    parameters = {name: build.add(Parameter(name, DType.F32, (4,), "param")) for name in "uvw"}
    updates = {name: build.add(Mul(), each, scalar) for name, each in parameters.items()}
    return build.graph({}, updates)


def counter() -> Graph:
    """A state that counts steps."""
    build = Builder()
    state = build.add(Parameter("steps", DType.I32, (), "state"))
    return build.graph({}, {"steps": build.add(Add(), state, build.add(Constant(1, DType.I32)))})


def long_sum() -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (1024, 4)))
    return build.graph({"y": build.add(Sum((0,)), x)})


def depthwise_gradient() -> Graph:
    """The gradient of a depthwise kernel of 49 taps."""
    build = Builder()
    x, dy = (build.add(Input(name, DType.F32, (1, 3, 8, 8))) for name in ("x", "dy"))
    gradient = ConvWeightGradient((1, 1), (3, 3), (1, 1), 3, (7, 7))
    return build.graph({"dw": build.add(gradient, x, dy)})


def signature(graph: Graph, precision: ComputePrecision, placement: Placement) -> tuple[str, ...]:
    """Everything that is compiled for a graph, and the states that the host counts."""
    program = Program.of(graph, precision, placement)
    options = compiler_options(program.graph, precision, placement)
    given, counters = str(program.given), str(program.counters)
    step = LOCATIONS.sub("", program.exported())
    return (format_graph(program.graph), step, str(options), given, counters)


CASES: dict[str, tuple[Callable[[], Graph], ComputePrecision, Callable[[], Placement]]] = {
    "rounded-storage": (inference, BF16, cpu),
    "whole-sums": (inference, BF16, gpu),
    "library-products": (inference, F32, gpu),
    "residual-with-norm": (inference, BF16, gpu),
    "channels-first": (convolution, F32, gpu),
    "statistics-heavy": (convolution, F32, gpu),
    "cuda-graphs": (inference, F32, gpu),
    "collectives-in-graphs": (convolution, BF16, gpus),
    "reduce-in-place": (inference, F32, gpus),
    "combined-gradients": (inference, F32, gpus),
    "matmul-epilogue": (lambda: graph_of("fuse-matmul-epilogue/bias-and-gelu"), BF16, gpu),
    "attention-weights": (lambda: graph_of("reuse-attention-weights/gradient"), F32, cpu),
    "one-pass-variance": (lambda: graph_of("one-pass-variance/batch"), BF16, cpu),
    "relu-backward-from-output": (
        lambda: graph_of("relu-backward-from-output/gradient"),
        BF16,
        cpu,
    ),
    "flatten-norm-rows": (lambda: graph_of("flatten-norm-rows/variance"), BF16, gpu),
    "joint-products": (layers, BF16, gpu),
    "shared-scalars": (small_updates, F32, gpu),
    "counters-on-host": (counter, F32, cpu),
    "narrow-copies": (inference, BF16, cpu),
    "column-major-logits": (lambda: step_without_tanh(4104 + 1), BF16, gpu),
    "aligned-products": (lambda: step(4104 + 1), BF16, cpu),
    "tanh-by-exponential": (inference, BF16, cpu),
    "cut-sums": (long_sum, F32, gpu),
    "depthwise-by-taps": (depthwise_gradient, F32, gpu),
}


def step_without_tanh(size: int) -> Graph:
    """Logits of an inference."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (8, 8)))
    w = build.add(Parameter("w", DType.F32, (8, size), "param"))
    return build.graph({"y": build.add(MatMul(), x, w)})


@pytest.mark.parametrize("name", [*CASES][:: effort(3, 1)])
def test_a_step_is_compiled_otherwise_without_a_choice(name: str) -> None:
    graph, precision, placement = CASES[name]
    chosen = signature(graph(), precision, placement())
    with disabled(NAMES[name]):
        assert signature(graph(), precision, placement()) != chosen
    assert signature(graph(), precision, placement()) == chosen


def test_attention_is_the_programs_own_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_attention, "supports", lambda *_: True)
    graph, target = graph_of("fuse-attention/gradient"), PassTarget(BF16, "gpu")
    assert "LibraryAttention(" in format_graph(run_passes(graph, target))
    with disabled(CUDNN_ATTENTION):
        assert "LibraryAttention(" not in format_graph(run_passes(graph, target))


def test_nccl_is_left_alone_without_its_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = UNMIXED_COLLECTIVES.value
    monkeypatch.setenv(name, "1")
    monkeypatch.delenv(name)
    with disabled(UNMIXED_COLLECTIVES):
        nccl.configure()
        assert name not in os.environ
    nccl.configure()
    assert os.environ[name] == "0"


def test_small_outputs_are_copied_when_they_are_read_without_their_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested: list[object] = []

    def request(outputs: object) -> None:
        requested.append(outputs)

    monkeypatch.setattr(session_module._Fetched, "request", request)
    with choose_device("xla:cpu").open(long_sum()) as session:
        feeds = {"x": np.zeros((1024, 4), np.float32)}
        with disabled(EAGER_OUTPUTS):
            session.step(feeds)
            assert not requested
        session.step(feeds)
        assert len(requested) == 1


def test_every_choice_is_tried() -> None:
    apart = {CUDNN_ATTENTION.name, UNMIXED_COLLECTIVES.name, EAGER_OUTPUTS.name}
    assert {*CASES} | apart == {*NAMES}
