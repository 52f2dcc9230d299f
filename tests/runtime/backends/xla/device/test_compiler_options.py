"""XLA's options for a compilation for a GPU, and their preconditions."""

from collections.abc import Iterable

import jax
import pytest
from jax import lax
from jax.sharding import Mesh

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Conv, Input, MatMul, Parameter, Sum, Tanh
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla import compile as compile_module
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.config.measured_choices import (
    CHANNELS_FIRST,
    CUDA_GRAPHS,
    LIBRARY_PRODUCTS,
    REDUCE_IN_PLACE,
    RESIDUAL_WITH_NORM,
)
from meganeura_runtime.backends.xla.device import cudnn
from meganeura_runtime.backends.xla.device.compiler_options import (
    compiler_options,
    count_convolutions,
)
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import AXIS, OneDevice, SeveralDevices
from tests.scans import forward

BF16, F32, TF32 = ComputePrecision.BF16, ComputePrecision.F32, ComputePrecision.TF32
LOOP = """
block Net()(x: [n, s, 3, 6, 6]) -> [n, 3, 6, 6]:
  h = zeros([n, 3, 6, 6])
  scan t in 0..s:
    h = (h + x[:, t]) |> conv: conv2d(3, 3, pad=1)
  return h

model net = Net()
"""


class Gpu(OneDevice):
    """A device that passes for one of a GPU."""

    @property
    def platform(self) -> str:
        return "gpu"


def gpu() -> Gpu:
    return Gpu(named("xla:cpu"))


def step(size: int, *, trains: bool = True) -> Graph:
    """A product, whose result a parameter becomes if it trains."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (size, size)))
    w = build.add(Parameter("w", DType.F32, (size, size), "param"))
    y = build.add(Tanh(), build.add(MatMul(), x, w))
    return build.graph({"y": y}, {"w": y} if trains else {})


def convolution() -> Graph:
    """An inference."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 6, 6)))
    w = build.add(Parameter("w", DType.F32, (4, 3, 3, 3), "param"))
    return build.graph({"y": build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, w)})


@pytest.mark.parametrize(
    ("size", "trains", "precision", "has_libraries"),
    [
        (64, True, BF16, True),
        (64, False, BF16, True),
        (4099, False, BF16, True),
        (64, True, F32, True),
        (64, True, TF32, False),
    ],
)
def test_products_are_those_of_libraries_but_for_tf32(
    size: int, precision: ComputePrecision, *, trains: bool, has_libraries: bool
) -> None:
    found = compiler_options(step(size, trains=trains), precision, gpu())
    is_narrow = precision is BF16 and not trains
    assert (RESIDUAL_WITH_NORM.value.items() <= found.items()) == is_narrow
    assert CUDA_GRAPHS.value.items() <= found.items()
    assert (LIBRARY_PRODUCTS.value.items() <= found.items()) == has_libraries
    assert not compiler_options(step(size, trains=trains), F32, OneDevice(named("xla:cpu")))


class Gpus(SeveralDevices):
    """Devices that pass for GPUs."""

    @property
    def platform(self) -> str:
        return "gpu"


@pytest.mark.parametrize(
    ("graph", "sharding", "has_collectives"),
    [
        (convolution(), DeviceSharding.DATA, True),
        (convolution(), DeviceSharding.FSDP, False),
        (step(8), DeviceSharding.DATA, False),
    ],
)
def test_small_collectives_are_launched_by_cuda_graphs(
    graph: Graph, sharding: DeviceSharding, *, has_collectives: bool
) -> None:
    mesh = Mesh([named("xla:cpu")], (AXIS,))
    found = compiler_options(graph, BF16, Gpus(mesh, sharding, {}))
    types = str(found["xla_gpu_enable_command_buffer"]).split(",")
    assert ("COLLECTIVES" in types) == has_collectives
    # what NCCL is told is wrong where one that is launched apart runs beside a graph
    assert (found.get("xla_gpu_enable_latency_hiding_scheduler") is False) == has_collectives
    assert "CONVOLUTION" in types


@pytest.mark.parametrize(("size", "combined"), [(8, 30 << 20), (8192, 64 << 20)])
def test_a_few_collectives_sum_large_gradients(size: int, combined: int) -> None:
    mesh = Mesh([named("xla:cpu")], (AXIS,))
    name = "xla_gpu_all_reduce_combine_threshold_bytes"
    data, fsdp = (
        compiler_options(step(size), F32, Gpus(mesh, each, {})) for each in DeviceSharding
    )
    assert data[name] == combined
    assert REDUCE_IN_PLACE.value.items() <= data.items()
    for other in (fsdp, compiler_options(step(size), F32, gpu())):
        assert not {name, *REDUCE_IN_PLACE.value} & {*other}


@pytest.mark.parametrize("precision", [BF16, F32])
def test_convolutions_are_launched_by_cuda_graphs(precision: ComputePrecision) -> None:
    found = compiler_options(convolution(), precision, gpu())
    assert "CONVOLUTION" in str(found["xla_gpu_enable_command_buffer"]).split(",")


@pytest.mark.parametrize(
    ("precision", "placement", "is_cut"),
    [(BF16, gpu(), True), (F32, gpu(), True), (F32, OneDevice(named("xla:cpu")), False)],
)
def test_sums_are_cut_on_one_gpu(
    precision: ComputePrecision, placement: OneDevice, *, is_cut: bool
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (1024, 4)))
    graph = build.graph({"y": build.add(Sum((0,)), x)})
    text = Program.of(graph, precision, placement).exported()
    assert ("optimization_barrier" in text) == is_cut


@pytest.mark.parametrize(
    ("precision", "groups", "has_channels_first"),
    [(F32, 1, True), (F32, 3, False), (BF16, 1, False)],
)
def test_images_in_float32_have_their_channels_first(
    precision: ComputePrecision, groups: int, *, has_channels_first: bool
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 6, 6)))
    w = build.add(Parameter("w", DType.F32, (3, 3 // groups, 3, 3), "param"))
    graph = build.graph({"y": build.add(Conv((1, 1), (1, 1), (1, 1), groups), x, w)})
    found = compiler_options(graph, precision, gpu())
    assert (CHANNELS_FIRST.value.items() <= found.items()) == has_channels_first
    layout = Program.of(graph, precision, gpu()).formats["w"].layout.major_to_minor
    assert layout == ((0, 1, 2, 3) if precision is F32 else (0, 2, 3, 1))


def test_convolutions_of_loops_count() -> None:
    graph = forward(LOOP)
    assert count_convolutions(graph) == 1
    assert not any(isinstance(value.op, Conv) for value in graph.values)


@pytest.mark.parametrize(("graph", "has_convolutions"), [(convolution(), True), (step(8), False)])
def test_cudnn_has_a_handle_before_a_graph_of_convolutions(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, has_convolutions: bool
) -> None:
    given: list[jax.Device] = []

    def create(devices: Iterable[jax.Device]) -> None:
        given.extend(devices)

    monkeypatch.setattr(compile_module, "create_handles", create)
    Program.of(graph, F32, gpu()).compiled()
    assert given == [named("xla:cpu")] * has_convolutions
    given.clear()
    Program.of(graph, F32, OneDevice(named("xla:cpu"))).compiled()
    assert not given


def test_a_device_gets_one_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[jax.Array] = []

    def convolved(
        image: jax.Array, kernel: jax.Array, strides: tuple[int, ...], padding: str
    ) -> jax.Array:
        computed.append(image)
        return conv(image, kernel, strides, padding)

    conv = lax.conv
    monkeypatch.setattr(lax, "conv", convolved)
    for _ in range(2):
        cudnn.create_handles([named("xla:cpu")])
    assert len(computed) == 1
