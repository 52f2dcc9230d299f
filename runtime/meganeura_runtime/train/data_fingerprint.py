"""A hash of the data of a run, so that a resumed run notices other data."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, chunks

DIGEST_BYTES = 16
"""Bytes of a hash: enough that no two tensors of anybody's have the same by chance."""


def fingerprints(dataset: Dataset) -> tuple[Fingerprint, ...]:
    """All tensors that feed a run. Reads each once, a few megabytes at a time."""
    splits = {"train": dataset.train, "test": dataset.test}
    return tuple(
        Fingerprint(
            tensor=f"{split}.{name}",
            type=str(feed.tensor),
            examples=examples.examples,
            digest=digest(feed.tensor),
        )
        for split, examples in splits.items()
        if examples is not None
        for name, feed in examples.feeds.items()
    )


def digest(tensor: StoredTensor) -> str:
    """The hash of a tensor's elements, however they lie in memory."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for _, bits in chunks(tensor.content):
        state.update(np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def changes(
    before: tuple[Fingerprint, ...], now: tuple[Fingerprint, ...]
) -> Iterator[tuple[str, str, str]]:
    """The tensors that are not what they were: as they were, and as they are; empty for none."""
    old, new = ({each.tensor: each for each in group} for group in (before, now))
    for name in {**old, **new}:
        then, found = old.get(name), new.get(name)
        if then != found:
            yield name, str(then or ""), str(found or "")
