"""Ranges and invariants that comments and pages state of blocks of the library."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from tests.stdlib_models.test_behaviour import model

IMAGES = np.random.default_rng(0).uniform(0.2, 2, (64, 3, 8, 6))
ROWS = np.random.default_rng(1).normal(size=(64, 10)) * 20
SMALL = 1e-9


def made(x: Array, call: str, result: str, imports: str = "", step: int = 5) -> Array:
    """Returns the result of a call in training, by the reference in double precision."""
    shape = ", ".join(("n", *map(str, x.shape[1:])))
    text = f"{imports}\nblock Net()(x: [{shape}]) -> {result} = {call}\nmodel net = Net()\n"
    net = model(text, training=True, n=x.shape[0])
    given = {"x": x, "counter": np.array([7, step], np.uint32)}
    feeds = {name: given[name] for name in net.inputs}
    (found,) = Interpreter(net.graph, Precision.DOUBLE).run(feeds).outputs.values()
    return found


def ratios(new: Array, old: Array) -> Array:
    """By which factor the deviations of each example from its mean grew."""
    axes = tuple(range(1, old.ndim))
    return new.std(axes) / old.std(axes)


def test_brightness_contrast_and_saturation_stay_within_what_is_asked_for() -> None:
    """Each is a factor: of the mean, of the grey image about it, of colours about that."""
    for step in range(8):
        call = "x |> random_colour(0.4, 0.3, 0.2)"
        found = made(IMAGES, call, "[n, 3, 8, 6]", "from augment import random_colour", step)
        brightness = found.mean((1, 2, 3)) / IMAGES.mean((1, 2, 3))
        contrast = ratios(found.mean(1), IMAGES.mean(1)) / brightness
        colours = ratios(found - found.mean(1)[:, None], IMAGES - IMAGES.mean(1)[:, None])
        saturation = colours / contrast / brightness
        for factor, most in ((brightness, 0.4), (contrast, 0.3), (saturation, 0.2)):
            assert np.abs(factor - 1).max() <= most + SMALL
            assert factor.std() > most / 4


@pytest.mark.parametrize("widest", [0.2, 0.7, 1.0])
def test_a_span_and_a_box_are_no_wider_than_asked_for(widest: float) -> None:
    x = np.zeros((256, 40))
    call = f"f32(random_span({widest})(x))"
    widths = made(x, call, "[n, 40]", "from augment import random_span").sum(1) / 40
    assert widest - 0.1 < widths.max() <= widest + 1 / 40
    call = f"f32(random_box({widest})(x))"
    boxes = made(np.zeros((256, 1, 40, 40)), call, "[n, 40, 40]", "from augment import random_box")
    for axis in (1, 2):
        sides = boxes.max(axis).sum(1) / 40
        assert widest - 0.1 < sides.max() <= widest + 1 / 40


RANGES: dict[str, tuple[float, float]] = {
    "sigmoid(x)": (0, 1),
    "hard_sigmoid(x)": (0, 1),
    "relu6(x)": (0, 6),
    "softmax(x)": (0, 1),
    "log_softmax(x)": (-np.inf, 0),
    "log_sigmoid(x)": (-np.inf, 0),
    "softplus(x)": (0, np.inf),
    "elu(x)": (-1, np.inf),
    "silu(x)": (-0.2785, np.inf),
    "gelu(x)": (-0.17, np.inf),
    "mish(x)": (-0.3089, np.inf),
    "f32(sample(x))": (0, 9),
}


@pytest.mark.parametrize("call", RANGES)
def test_a_function_stays_within_its_range(call: str) -> None:
    found = made(ROWS, call, "[n]" if "sample" in call else "[n, 10]")
    low, high = RANGES[call]
    assert found.min() >= low
    assert found.max() <= high


def test_shares_add_up_to_one() -> None:
    np.testing.assert_allclose(made(ROWS, "softmax(x)", "[n, 10]").sum(1), 1)


@pytest.mark.parametrize(
    ("call", "chosen"),
    [
        ("f32(sample(top_k=3)(x))", lambda order: order[:, :3]),
        ("f32(sample_top(x, ones([]), i32(full([], 3))))", lambda order: order[:, :3]),
        ("f32(sample(x, zeros([])))", lambda order: order[:, :1]),
    ],
)
def test_a_sample_is_among_the_likeliest(call: str, chosen: Callable[[Array], Array]) -> None:
    logits = ROWS / 20
    order = np.argsort(-logits, 1)
    for step in range(4):
        found = made(logits, call, "[n]", step=step)
        assert (chosen(order) == found[:, None]).any(1).all()


def test_a_nucleus_has_the_share_asked_for() -> None:
    logits = ROWS / 10
    order = np.argsort(-logits, 1)
    p = np.take_along_axis(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), order, 1)
    before = np.cumsum(p, 1) - p
    for step in range(4):
        found = made(logits, "f32(sample_nucleus(x, ones([]), full([], 0.6)))", "[n]", step=step)
        assert (before[order == found[:, None]] < 0.6).all()


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_a_resized_image_is_within_what_it_is_made_of(mode: str) -> None:
    found = made(IMAGES, f'resize(5, 11, mode="{mode}")(x)', "[n, 3, 5, 11]")
    assert (found.min((2, 3)) >= IMAGES.min((2, 3)) - SMALL).all()
    assert (found.max((2, 3)) <= IMAGES.max((2, 3)) + SMALL).all()
