"""The mistakes of a classifier that are the farthest from right, of one evaluation."""

from base64 import b64encode
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.records.pictures import colours, png

FILE = "mistakes.json"
"""The name of the file in the folder of what a run shows."""
MOST = 12
"""Mistakes that are kept."""
LARGEST = 64
"""Rows and columns of a picture that is kept; of a larger one every second, third, ... is left."""


@dataclass(frozen=True)
class _Mistake:
    number: int
    """The number of the example, from 0, among those that are evaluated."""
    label: int
    predicted: int
    share: float
    """The probability that the model gives to the label."""
    picture: Array | None


class Mistakes:
    """The examples whose label has the least probability, and that are taken for another class."""

    def __init__(self) -> None:
        self._kept: list[_Mistake] = []
        self.examples = 0
        """The number of examples that were looked at."""
        self.count = 0
        """The number of mistakes among them."""

    def add(self, labels: Array, logits: Array, pictures: Array | None) -> None:
        """Take in the next examples: i32[n], f32[n, classes], and an image of each or None.

        A label that is no class, as one that a loss leaves out, is no mistake.
        """
        numbers = np.asarray(labels, np.int64)
        shares, predicted = probabilities(np.asarray(logits, np.float64)), np.argmax(logits, axis=1)
        classes = shares.shape[1]
        is_class = (numbers >= 0) & (numbers < classes)
        wrong = np.flatnonzero(is_class & (predicted != numbers))
        of_label = shares[np.arange(len(numbers)), np.clip(numbers, 0, classes - 1)]
        self.count += len(wrong)
        worst = wrong[np.argsort(of_label[wrong], kind="stable")][:MOST]
        self._kept += [
            _Mistake(
                self.examples + int(row),
                int(numbers[row]),
                int(predicted[row]),
                float(of_label[row]),
                None if pictures is None else np.array(pictures[row]),
            )
            for row in worst
        ]
        self._kept = sorted(self._kept, key=lambda each: each.share)[:MOST]
        self.examples += len(labels)

    def as_data(self, step: int) -> dict[str, object]:
        """The mistakes as JSON, after a step; pictures are PNG files in base64."""
        worst = [
            {
                "number": each.number,
                "label": each.label,
                "predicted": each.predicted,
                "share": float(f"{each.share:.4g}") if np.isfinite(each.share) else None,
                "picture": None if each.picture is None else _encoded(each.picture),
            }
            for each in self._kept
        ]
        return {"step": step, "examples": self.examples, "count": self.count, "worst": worst}


def probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the softmax of logits f64[n, classes], or these where they are probabilities."""
    if logits.min(initial=0.0) >= 0 and np.allclose(logits.sum(axis=1), 1, atol=1e-3):
        return logits
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _encoded(picture: Array) -> str:
    drawn = colours(picture)
    every = -(-max(drawn.shape[:2]) // LARGEST)
    return b64encode(png(np.ascontiguousarray(drawn[::every, ::every]))).decode()
