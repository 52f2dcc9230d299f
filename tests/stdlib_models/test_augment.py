"""Augmentations change examples in training, and leave them alone elsewhere."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.backends.registry import choose_device
from tests.stdlib_models.test_behaviour import model

SHAPES = {"images": "x: [n, 3, 8, 6]", "sounds": "x: [n, 10, 12]"}
IMAGES = np.random.default_rng(0).uniform(1, 2, (64, 3, 8, 6)).astype(np.float32)
SOUNDS = np.random.default_rng(1).uniform(1, 2, (64, 10, 12)).astype(np.float32)
CLASSES = np.r_[np.arange(32) % 2, 2 + np.arange(32) % 3]  # those of a mixed pair differ
LABELS = np.eye(5, dtype=np.float32)[CLASSES]

LAYERS = {
    "random_flip": (IMAGES, "x |> random_flip(0.5)"),
    "random_shift": (IMAGES, "x |> random_shift(2)"),
    "random_erase": (IMAGES, "x |> random_erase(0.75)"),
    "random_colour": (IMAGES, "x |> random_colour"),
    "spec_augment": (SOUNDS, "x |> spec_augment"),
}
PAIRS = ("mixup", "cutmix")


def made(name: str, *, training: bool = True, step: int = 5, device: str = "") -> tuple[Array, ...]:
    """Returns an augmentation's results, on a device or by the reference in double precision."""
    if name in PAIRS:
        fed, text = {"x": IMAGES, "y": LABELS}, f"a, b = {name}()(x, y)\n  return a, b"
        inputs, results = f"{SHAPES['images']}, y: [n, 5]", "[n, 3, 8, 6], [n, 5]"
    else:
        images, call = LAYERS[name]
        inputs = SHAPES["images" if images is IMAGES else "sounds"]
        fed, text, results = {"x": images}, f"return {call}", inputs.removeprefix("x: ")
    block = f"block Net()({inputs}) -> {results}:\n  {text}\nmodel net = Net()\n"
    net = model(f"from augment import {name}\n\n{block}", training=training, n=64)
    given = {**fed, "counter": np.array([7, step], np.uint32)}
    feeds = {name: given[name] for name in net.inputs}
    if device:
        with choose_device(device).open(net.graph) as session:
            return tuple(np.asarray(each) for each in session.step(feeds).values())
    return tuple(Interpreter(net.graph, Precision.DOUBLE).run(feeds).outputs.values())


def test_a_flip_mirrors_half_of_the_images() -> None:
    (found,) = made("random_flip")
    same = (found == IMAGES).all((1, 2, 3))
    assert 16 < same.sum() < 48
    np.testing.assert_array_equal(found[~same], IMAGES[~same][..., ::-1])


def test_a_shift_moves_whole_images() -> None:
    (found,) = made("random_shift")
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 6), (2, 3))
    places = [
        {(i, j) for i in range(5) for j in range(5) if (windows[k, :, i, j] == found[k]).all()}
        for k in range(64)
    ]
    assert all(len(each) == 1 for each in places)
    assert len(set.union(*places)) > 15


def test_an_erased_box_is_the_same_in_all_channels() -> None:
    (found,) = made("random_erase")
    gone = found == 0
    assert (gone == gone[:, :1]).all()
    assert (found[~gone] == IMAGES[~gone]).all()
    shares = gone[:, 0].mean((1, 2))
    assert 0.2 < (shares > 0).mean() < 0.8  # some boxes hold no pixel
    assert shares.max() <= 0.25
    for one in gone[:, 0]:
        assert (one == np.outer(one.any(1), one.any(0))).all()


def test_colours_keep_the_mean_of_what_brightness_makes() -> None:
    (found,) = made("random_colour")
    brightness = found.mean((1, 2, 3)) / IMAGES.mean((1, 2, 3))
    assert ((brightness > 0.6) & (brightness < 1.4)).all()
    assert brightness.std() > 0.1
    contrast = found.std((1, 2, 3)) / IMAGES.std((1, 2, 3)) / brightness
    assert contrast.std() > 0.1


def test_bands_of_a_spectrogram_are_left_out() -> None:
    (found,) = made("spec_augment")
    gone = found == 0
    assert 0.05 < gone.mean() < 0.5
    assert (gone == (gone.all(2)[:, :, None] | gone.all(1)[:, None])).all()


@pytest.mark.parametrize("name", PAIRS)
def test_labels_are_mixed_as_their_images_are(name: str) -> None:
    found, labels = made(name)
    np.testing.assert_allclose(labels.sum(1), 1, 1e-6)
    other = IMAGES[::-1]
    if name == "cutmix":
        assert ((found == IMAGES) | (found == other)).all()
        shares = (found == IMAGES).mean((1, 2, 3))
    else:
        shares = ((found - other) / (IMAGES - other)).mean((1, 2, 3))
    own = (labels * LABELS).sum(1)
    np.testing.assert_allclose(own, shares, 1e-4)
    assert shares.std() > 0.1


@pytest.mark.parametrize("name", [*LAYERS, *PAIRS])
def test_nothing_is_changed_outside_of_training(name: str) -> None:
    given = (IMAGES, LABELS) if name in PAIRS else (LAYERS[name][0],)
    for found, was in zip(made(name, training=False), given, strict=True):
        np.testing.assert_array_equal(found, was)


@pytest.mark.parametrize("name", [*LAYERS, *PAIRS])
def test_a_step_has_its_own_numbers_and_always_the_same(name: str) -> None:
    first, again, next_ = made(name)[0], made(name)[0], made(name, step=6)[0]
    np.testing.assert_array_equal(first, again)
    assert (first != next_).any()


@pytest.mark.parametrize("device", ["xla:cpu", pytest.param("wgpu:0", marks=pytest.mark.adapter)])
@pytest.mark.parametrize("name", [*LAYERS, *PAIRS])
def test_all_devices_draw_the_same(name: str, device: str) -> None:
    for found, wanted in zip(made(name, device=device), made(name), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
