"""A batch of images side by side in one picture."""

from math import ceil, isqrt
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meganeura_runtime.io.preprocess.picture_grid import (
    GAP,
    GREY,
    SMALLEST_SIDE,
    is_pictures,
    picture_grid,
    write_pictures,
)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 12])
@pytest.mark.parametrize(("colors", "height", "width"), [(1, 5, 7), (3, 70, 65), (1, 64, 64)])
def test_every_image_is_in_its_cell(count: int, colors: int, height: int, width: int) -> None:
    values = np.random.default_rng(count).uniform(-0.2, 1.2, (count, colors, height, width))
    grid = picture_grid(values.astype(np.float32))
    scale = ceil(SMALLEST_SIDE / min(height, width))
    rows, columns = isqrt(count), ceil(count / isqrt(count))
    assert rows <= columns <= rows + 2
    tall, wide = scale * height, scale * width
    size = (rows * tall + (rows + 1) * GAP, columns * wide + (columns + 1) * GAP, colors)
    assert (grid.shape, grid.dtype) == (size, np.uint8)
    left = np.ones(size[:2], bool)
    for number, image in enumerate(values.astype(np.float32)):
        row, column = divmod(number, columns)
        top, start = GAP + row * (tall + GAP), GAP + column * (wide + GAP)
        cell = grid[top : top + tall, start : start + wide]
        left[top : top + tall, start : start + wide] = False
        shades = np.rint(np.clip(image.astype(np.float64), 0, 1) * 255)
        for dy in (0, scale - 1):
            for dx in (0, scale - 1):
                assert np.array_equal(cell[dy::scale, dx::scale], np.moveaxis(shades, 0, 2))
    assert (grid[left] == GREY).all()


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((2, 1, 5, 7), np.float32, True),
        ((2, 3, 5, 7), np.float16, True),
        ((2, 1, 5, 7), np.bool_, True),
        ((2, 1, 5, 7), np.int32, False),
        ((2, 3, 5, 7), np.uint8, False),
        ((2, 2, 5, 7), np.float32, False),
        ((2, 4, 5, 7), np.float32, False),
        ((2, 3, 5), np.float32, False),
        ((2, 3, 5, 7, 1), np.float32, False),
        ((2,), np.float32, False),
    ],
)
def test_pictures_are_known_by_their_shape_and_type(
    shape: tuple[int, ...], dtype: type[np.generic], *, expected: bool
) -> None:
    assert is_pictures(np.zeros(shape, dtype)) == expected


def test_what_is_no_number_is_black() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32).reshape(1, 1, 2, 2)
    scale = SMALLEST_SIDE // 2
    shown = picture_grid(values)[GAP : GAP + 2 * scale : scale, GAP : GAP + 2 * scale : scale, 0]
    assert shown.tolist() == [[0, 255], [0, 128]]


@pytest.mark.parametrize(("colors", "mode"), [(1, "L"), (3, "RGB")])
def test_what_is_written_is_the_grid(colors: int, mode: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).uniform(size=(3, colors, 5, 7)).astype(np.float32)
    write_pictures(tmp_path / "grid.png", values)
    with Image.open(tmp_path / "grid.png") as image:
        assert (image.format, image.mode) == ("PNG", mode)
        shown = np.asarray(image).reshape(image.height, image.width, colors)
    np.testing.assert_array_equal(shown, picture_grid(values))
