"""Sampling of examples more or less often than once an epoch."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_runtime.io.data.data_problems import MissingTensor
from meganeura_runtime.io.data.source_problems import WrongWeights
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.tensors.joined_array import Joined
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


def sampling_weights(
    split: StoredSplit,
    tensors: Mapping[str, StoredTensor],
    name: str,
    span: Span,
    *,
    is_balance: bool,
) -> NDArray[np.float64]:
    """The weight of each example of a split: what a tensor says, or 1 / the size of its class.

    Examples that are held out are of no class. Raises `ProblemError` unless there is one number,
    finite and at least 0, for each example, and one above 0 in the split.
    """
    stored = next((tensors[key] for key in (name, f"train.{name}") if key in tensors), None)
    if stored is None:
        file = next(iter(tensors.values())).file
        raise ProblemError(MissingTensor(span, file, name, tuple(tensors)))
    if stored.shape != (split.stored,):
        reason = f"it is {stored}, and there are {split.stored:,} examples"
        raise ProblemError(WrongWeights(span, name, reason))
    for file, count, examples in _unequal_shards(split, stored):
        reason = f"`{file}` has {count:,} of it, and {examples:,} examples"
        raise ProblemError(WrongWeights(span, name, reason))
    if is_balance and stored.is_float:
        raise ProblemError(WrongWeights(span, name, f"classes are integers, and it is {stored}"))
    chosen = slice(None) if split.numbers is None else split.numbers
    if is_balance:
        found = np.unique(stored.bits[chosen], return_inverse=True, return_counts=True)
        _, classes, counts = found
        return 1 / counts[classes]
    if stored.stored == "bf16":
        raise ProblemError(WrongWeights(span, name, "weights are f16, f32 or f64"))
    weights = stored.bits.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        reason = "some are below 0 or not finite, or all are 0"
        raise ProblemError(WrongWeights(span, name, reason))
    if not weights[chosen].any():
        reason = "all examples with a weight above 0 are held out"
        raise ProblemError(WrongWeights(span, name, reason))
    return weights[chosen]


def _unequal_shards(split: StoredSplit, stored: StoredTensor) -> Iterator[tuple[Path, int, int]]:
    """The files that hold another number of weights than of examples, and both numbers."""
    for feed in split.feeds.values():
        match stored.content, feed.tensor.content:
            case Joined() as given, Joined() as fed if feed.rows:
                for file, count, rows in zip(fed.files, given.lengths, fed.lengths, strict=True):
                    if count != rows // feed.rows:
                        yield file, count, rows // feed.rows
            case _:
                pass
