"""Winograd's convolution is chosen where it pays, and nowhere else."""

from dataclasses import replace

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, GPU
from meganeura_dsl.ir.graph import Builder, Graph, Op
from meganeura_dsl.ir.ops import (
    Add,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    Parameter,
)
from meganeura_dsl.ir.ops.fused import FusedConv, WinogradOutput
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.cost.winograd_candidates import promising_forms
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.compare import (
    assert_equal_results,
    feeds,
    ops_of,
    run,
    run_optimized,
)
from tests.dsl.transforms.egraph.net import Net
from tests.dsl.transforms.egraph.winograd_cases import FORMS, Geometry, convolution

GRADIENTS = ("ConvInputGradient", "ConvWeightGradient")


def matches(graph: Graph, mode: Mode = "train") -> int:
    explored, _ = examine(graph, mode, FORMS)
    return sum(count for name, count in explored.matches.items() if name.startswith("winograd"))


@pytest.mark.parametrize("op", ["Conv", *GRADIENTS])
@pytest.mark.parametrize(
    ("kernel", "geometry"),
    [
        ((3, 3), ((2, 1), (1, 1), (1, 1), 1)),
        ((3, 3), ((1, 1), (1, 1), (1, 2), 1)),
        ((3, 3), ((1, 1), (1, 1), (1, 1), 2)),
        ((3, 1), ((1, 1), (1, 0), (1, 1), 1)),
        ((5, 3), ((1, 1), (1, 1), (1, 1), 1)),
        ((3,), ((1,), (1,), (1,), 1)),
    ],
    ids=str,
)
def test_another_geometry_is_left_alone(
    op: str, kernel: tuple[int, ...], geometry: Geometry
) -> None:
    net = Net()
    spatial = (6,) * len(kernel)
    assert matches(net.graph(convolution(net, op, spatial, kernel, geometry))) == 0


@pytest.mark.parametrize("padding", [(3, 0), (0, 3)])
def test_a_padding_that_no_kernel_covers_has_no_mirrored_form(padding: tuple[int, int]) -> None:
    net = Net()
    y = convolution(net, "ConvInputGradient", geometry=((1, 1), padding, (1, 1), 1))
    explored, _ = examine(net.graph(y), "train", FORMS)
    assert explored.matches["winograd"] > 0
    assert explored.matches["winograd-input-gradient"] == 0


def test_what_will_be_differentiated_is_left_alone() -> None:
    assert ops_of(optimize(layer(), mode="forward", device=FORMS).graph) == ["Conv"]


def test_a_device_without_the_transforms_is_left_alone() -> None:
    net = Net()
    explored = saturate_graph(net.graph(convolution(net)), "train")
    assert explored.matches["winograd"] == 0
    assert DEFAULT_DEVICE.winograd == ()


def test_a_kernel_that_stays_is_transformed_when_it_is_loaded() -> None:
    net = Net()
    x, w = net.x(2, 32, 8, 8), net.w(24, 32, 3, 3)
    _, optimized = examine(net.graph(net.conv(x, w, 1)), "infer", FORMS)
    assert ops_of(optimized.graph) == ["WinogradInput", "MatMul", "WinogradOutput"]
    (derived,) = (v.op for v in optimized.graph.values if isinstance(v.op, Parameter))
    assert derived.shape == (36, 24, 32)


def layer(images: int = 2, channels: int = 32, size: int = 8) -> Graph:
    net = Net()
    w = net.x(channels, channels, 3, 3)
    return net.graph(net.conv(net.x(images, channels, size, size), w, 1))


def test_rules_can_be_disabled() -> None:
    chosen = optimize(layer(), mode="train", device=FORMS).graph
    assert "WinogradOutput" in ops_of(chosen)
    kept = optimize(layer(), mode="train", device=FORMS, disabled=["winograd"]).graph
    assert ops_of(kept) == ["Conv"]


@pytest.mark.parametrize(
    ("images", "channels", "size", "forms"),
    [
        (32, 64, 56, (4,)),
        (32, 128, 28, (4,)),
        (32, 256, 14, (4,)),
        (32, 512, 7, (4,)),
        (1024, 512, 2, (2,)),
        (1, 64, 56, ()),
        (1, 512, 7, ()),
        (32, 8, 8, ()),
    ],
)
def test_the_form_that_pays_is_looked_at_and_chosen(
    images: int, channels: int, size: int, forms: tuple[int, ...]
) -> None:
    graph = layer(images, channels, size)
    assert promising_forms(graph, GPU) == forms
    chosen = optimize(graph, mode="train", device=GPU).graph
    assert tuple(v.op.outputs for v in chosen.values if isinstance(v.op, WinogradOutput)) == forms


@pytest.mark.parametrize(
    ("images", "channels", "size", "form"), [(2, 128, 28, 4), (4, 512, 7, 4), (8, 512, 4, 2)]
)
def test_a_kernel_that_is_transformed_when_it_is_loaded_makes_a_form_pay(
    images: int, channels: int, size: int, form: int
) -> None:
    net = Net()
    x, w = net.x(images, channels, size, size), net.w(channels, channels, 3, 3)
    graph = net.graph(net.conv(x, w, 1))
    assert promising_forms(graph, GPU) == (form,)
    chosen = optimize(graph, mode="infer", device=GPU).graph
    assert [v.op.outputs for v in chosen.values if isinstance(v.op, WinogradOutput)] == [form]


def test_a_training_step_gives_the_same_numbers() -> None:
    program = pipeline.load("digits_cnn")
    forward = pipeline.elaborate_train(program, sizes={"batch": 2}, training=True).graph
    settings = TrainingSettings(Sgd(0.1, momentum=0.9))
    plain = training_step(forward, settings)
    step = optimized_training_step(forward, settings, RewriteOptions(device=FORMS)).graph
    assert {"WinogradOutput", "WinogradKernelGradient"} <= set(ops_of(step))
    fed = feeds(plain)
    assert_equal_results(run(step, fed), run(plain, fed))


@pytest.mark.parametrize("groups", [1, 4])
def test_branches_become_one_convolution_in_tiles(groups: int) -> None:
    net = Net()
    x = net.x(2, 64, 8, 8)
    branches = [
        net.batch_norm(net.conv(x, net.w(64, 64 // groups, size, size), size // 2, groups=groups))
        for size in (3, 1)
    ]
    y = net.relu(net.do(Add(), net.do(Add(), *branches), net.batch_norm(x)))
    graph = net.graph(y)
    optimized = optimize(graph, mode="infer", device=FORMS)
    in_tiles = ["WinogradInput", "MatMul", "FusedWinogradOutput"]
    assert ops_of(optimized.graph) == (in_tiles if groups == 1 else ["FusedConv"])
    fed = feeds(graph)
    assert_equal_results(run_optimized(optimized, fed), run(graph, fed))


def test_few_tiles_are_left_alone() -> None:
    for narrowest, chosen in ((8, "WinogradOutput"), (9, "Conv")):
        device = replace(FORMS, narrowest=narrowest, winograd=(4,))
        assert ops_of(optimize(layer(), mode="train", device=device).graph)[-1] == chosen


def test_tiles_that_are_too_large_for_the_device_are_not_made() -> None:
    graph = layer(32, 64, 56)
    tiles = 4 * 36 * 64 * 32 * 14 * 14
    for largest, chosen in ((tiles, "WinogradOutput"), (tiles - 1, "Conv")):
        small = replace(GPU, largest=largest)
        assert ops_of(optimize(graph, mode="train", device=small).graph)[-1] == chosen


@pytest.mark.parametrize(("taps", "spatial"), [(3, 12), (5, 12), (5, 3)])
def test_a_form_is_promising_for_each_kind_of_convolution(taps: int, spatial: int) -> None:
    """It is the kernel that has to be of 3 x 3, whatever the images are."""
    around = (taps // 2, taps // 2)
    geometry = ((1, 1), around, (1, 1), 1)
    images, kernel = (2, 16, spatial, spatial), (16, 16, taps, taps)
    ops: dict[Op, tuple[tuple[int, ...], ...]] = {
        Conv(*geometry): (images, kernel),
        FusedConv(*geometry, "none"): (images, kernel, kernel[:1]),
        FusedConv(*geometry, "relu"): (images, kernel, kernel[:1], images),
        ConvInputGradient(*geometry, images[2:]): (kernel, images),
        ConvWeightGradient(*geometry, kernel[2:]): (images, images),
    }
    for op, shapes in ops.items():
        build = Builder()
        operands = [build.add(Input(f"x{n}", DType.F32, one)) for n, one in enumerate(shapes)]
        graph = build.graph({"y": build.add(op, *operands)})
        assert bool(promising_forms(graph, FORMS)) == (taps == 3), op


@pytest.mark.parametrize(("around", "is_promising"), [(0, True), (2, True), (3, False)])
def test_no_form_is_promising_where_padding_is_wider_than_a_kernel_covers(
    around: int, *, is_promising: bool
) -> None:
    geometry = ((1, 1), (around, 0), (1, 1), 1)
    build = Builder()
    images, kernel = (
        build.add(Input(name, DType.F32, shape))
        for name, shape in (("x", (2, 16, 12, 12)), ("w", (16, 16, 3, 3)))
    )
    graph = build.graph({"y": build.add(Conv(*geometry), images, kernel)})
    assert bool(promising_forms(graph, FORMS)) is is_promising
