# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors", "scikit-learn==1.9.1"]
# ///
"""Builds stdlib_models/data/digits.safetensors from scikit-learn's copy of the UCI digits.

The same bytes come out each time. The file is committed; this script is its provenance.
"""

import gzip
import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

DIGITS = Path(__file__).parents[1] / "stdlib_models" / "data" / "digits.safetensors"

# One entry only: safetensors writes several in no fixed order.
ABOUT = (
    "Optical Recognition of Handwritten Digits, test set: 1,797 images of 8x8 pixels with values "
    "0..16. E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository, "
    "https://doi.org/10.24432/C50P49. Licence: CC BY 4.0, "
    "https://creativecommons.org/licenses/by/4.0/. Taken from scikit-learn's digits.csv.gz, split "
    "and stored by scripts/build_digits.py; no pixel was changed."
)


def read_digits() -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Images and labels in scikit-learn's order; a row of its file is 64 pixels and a label."""
    packed = files("sklearn.datasets").joinpath("data", "digits.csv.gz").read_bytes()
    rows = np.loadtxt(gzip.decompress(packed).decode().splitlines(), delimiter=",", dtype=np.int32)
    return rows[:, :64].astype(np.uint8).reshape(-1, 1, 8, 8), rows[:, 64]


def held_out(labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """The test split: sorted by class, in file order within a class, every fifth sample."""
    chosen = np.zeros(labels.size, dtype=np.bool_)
    chosen[np.argsort(labels, kind="stable")[::5]] = True
    return chosen


def main() -> None:
    """Write the file and say what is in it."""
    images, labels = read_digits()
    test = held_out(labels)
    tensors = {
        "train.image": images[~test],
        "train.label": labels[~test],
        "test.image": images[test],
        "test.label": labels[test],
    }
    content = save(tensors, {"about": ABOUT})
    DIGITS.write_bytes(content)
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")
    print(f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
