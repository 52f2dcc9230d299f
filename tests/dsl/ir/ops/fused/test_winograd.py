"""Winograd's form is a convolution: its matrices for themselves, and whole images in tiles."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Value
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, Input
from meganeura_dsl.ir.ops.fused.winograd import WinogradOutput, in_tiles
from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS, TAPS, matrices
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved


@pytest.mark.parametrize("outputs", POINTS)
def test_the_matrices_convolve_a_row(outputs: int) -> None:
    generator = np.random.default_rng(outputs)
    row, taps = generator.normal(size=outputs + TAPS - 1), generator.normal(size=TAPS)
    found = matrices(outputs)
    products = (found.kernel @ taps) * (found.input @ row)
    np.testing.assert_allclose(found.output @ products, np.correlate(row, taps), rtol=1e-12)


@pytest.mark.parametrize("outputs", POINTS)
@pytest.mark.parametrize(
    ("image", "channels", "padding"),
    [((2, 3, 5, 6), 2, (1, 1)), ((1, 1, 3, 9), 3, (0, 2)), ((3, 2, 4, 4), 1, (2, 0))],
)
def test_pictures_in_tiles(
    outputs: int, image: tuple[int, ...], channels: int, padding: tuple[int, int]
) -> None:
    build, feeds = Builder(), dict[str, Array]()

    def drawn(*shape: int) -> Value:
        name = f"x{len(feeds)}"
        feeds[name] = np.random.default_rng(sum(shape)).normal(size=shape)
        return build.add(Input(name, DType.F32, shape))

    geometry = ((1, 1), padding, (1, 1), 1)
    x, w = drawn(*image), drawn(channels, image[1], TAPS, TAPS)
    dy = drawn(*concrete_shape(build.add(Conv(*geometry), x, w).type.shape))
    ways: dict[str, tuple[Convolution, tuple[Value, Value]]] = {
        "y": (Conv(*geometry), (x, w)),
        "dx": (ConvInputGradient(*geometry, image[2:]), (w, dy)),
        "dw": (ConvWeightGradient(*geometry, (TAPS, TAPS)), (x, dy)),
    }
    direct = {name: build.add(op, *factors) for name, (op, factors) in ways.items()}
    tiled = {f"{n} tiled": in_tiles(build, op, two, outputs) for n, (op, two) in ways.items()}
    found = evaluate(build.graph({**direct, **tiled}), feeds, Precision.DOUBLE).outputs
    for name in ways:
        np.testing.assert_allclose(found[f"{name} tiled"], found[name], 1e-11, 1e-11)


@pytest.mark.parametrize("spatial", [(0, 4), (4, 0)])
def test_a_picture_has_pixels(spatial: tuple[int, int]) -> None:
    nothing = TensorType(DType.F32, (16, 3, 0))
    with pytest.raises(Unproved, match="spatial"):
        WinogradOutput(2, 1, spatial).infer(Facts(), nothing)
