"""A hash of the data of a run, so that a resumed run notices other data."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.splits import Feed, Split, StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, chunks, stored_array

STREAM = "stream"
"""The type of data that is not known by its elements."""
WEIGHTS = "train weights"
"""Name of the sampling weights; no tensor of a split has it."""
SAMPLED_ROWS = 256
"""Rows by which a tensor is known that is too large to be read before a run."""

DIGEST_BYTES = 16
"""Bytes of a hash: enough that no two tensors of anybody's have the same by chance."""


def fingerprints(dataset: Dataset) -> tuple[Fingerprint, ...]:
    """All tensors that feed a run, and how often its examples are drawn.

    Reads each once, a few megabytes at a time.

    Of what is too large to be looked at before the run some pieces tell, and of a stream only its
    length, as it cannot be had again.
    """
    found: list[Fingerprint] = []
    known: dict[int, str] = {}
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        match split:
            case StoredSplit(feeds=feeds):
                for input_, feed in feeds.items():
                    tensor = feed.tensor
                    if id(tensor) not in known:  # examples held out may be of the same tensors
                        known[id(tensor)] = _known_by(feed)
                    text = known[id(tensor)]
                    found.append(_fingerprint(f"{name}.{input_}", tensor, split.examples, text))
            case Split():
                found.append(
                    Fingerprint(tensor=name, type=STREAM, examples=split.examples, digest="")
                )
            case None:
                pass
    match dataset.train:
        case StoredSplit(weights=np.ndarray() as weights):
            stored = stored_array(dataset.path, WEIGHTS, weights)
            found.append(_fingerprint(WEIGHTS, stored, len(weights), digest(stored)))
        case _:
            pass
    return tuple(found)


def _fingerprint(name: str, tensor: StoredTensor, examples: int, text: str) -> Fingerprint:
    return Fingerprint(tensor=name, type=str(tensor), examples=examples, digest=text)


def _known_by(feed: Feed) -> str:
    """Returns the stored digest of a tensor, or a hash: of some rows where there are too many."""
    content = feed.tensor.content
    if not isinstance(content, np.ndarray) and content.digest is not None:
        return content.digest
    return digest(feed.tensor) if feed.is_verified else sampled_digest(feed.tensor)


def digest(tensor: StoredTensor) -> str:
    """The hash of a tensor's elements, however they lie in memory."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for _, bits in chunks(tensor.content):
        state.update(np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def sampled_digest(tensor: StoredTensor) -> str:
    """The hash of rows that are spread evenly over a tensor: of all, where there are no more."""
    content = tensor.content
    if not tensor.shape or len(content) <= SAMPLED_ROWS:
        return digest(tensor)
    numbers = np.unique(np.linspace(0, len(content) - 1, SAMPLED_ROWS).astype(np.int64))
    rows = np.ascontiguousarray(content[numbers])
    return blake2b(rows.tobytes(), digest_size=DIGEST_BYTES).hexdigest()


def changes(
    before: tuple[Fingerprint, ...], now: tuple[Fingerprint, ...]
) -> Iterator[tuple[str, str, str]]:
    """The tensors that are not what they were: as they were, and as they are; empty for none.

    Checkpoints of earlier versions do not say how often examples are drawn.
    """
    old, new = ({each.tensor: each for each in group} for group in (before, now))
    if WEIGHTS not in old:
        new.pop(WEIGHTS, None)
    for name in {**old, **new}:
        then, found = old.get(name), new.get(name)
        if then != found:
            yield name, str(then or ""), str(found or "")
