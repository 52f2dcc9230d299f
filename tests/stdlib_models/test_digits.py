"""The embedded digits are the set they claim to be, split as the README beside them says."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

DATA = Path(__file__).parents[2] / "stdlib_models" / "data"
DIGITS = DATA / "digits.safetensors"

Tensors = Mapping[str, NDArray[np.integer]]


@pytest.fixture(scope="module")
def digits() -> Tensors:
    return load_file(DIGITS)


@pytest.mark.parametrize("name", ["digits", "karate", "burgers", "waves"])
def test_the_file_has_the_checksum_its_readme_states(name: str) -> None:
    content = (DATA / f"{name}.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() in (DATA / "README.md").read_text()


@pytest.mark.parametrize(("split", "count"), [("train", 1437), ("test", 360)])
def test_images_and_labels_match(digits: Tensors, split: str, count: int) -> None:
    images, labels = digits[f"{split}.image"], digits[f"{split}.label"]
    assert (images.shape, images.dtype) == ((count, 1, 8, 8), np.dtype(np.uint8))
    assert (labels.shape, labels.dtype) == ((count,), np.dtype(np.int32))
    assert (images.min(), images.max()) == (0, 16)


def test_both_splits_together_are_the_published_set(digits: Tensors) -> None:
    labels = np.concatenate([digits["train.label"], digits["test.label"]])
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert sum(int(digits[f"{split}.image"].sum()) for split in ("train", "test")) == 561_718


def test_each_class_keeps_its_share_in_the_test_split(digits: Tensors) -> None:
    held_out = np.bincount(digits["test.label"])
    total = held_out + np.bincount(digits["train.label"])
    assert np.abs(held_out - total / 5).max() < 1


def test_no_image_is_in_both_splits(digits: Tensors) -> None:
    train, test = (
        {image.tobytes() for image in digits[f"{split}.image"]} for split in ("train", "test")
    )
    assert train.isdisjoint(test)
