"""Checksums of the tensors and of the header of a file, in an entry of its metadata.

CRC-32, as they are to find damage and not malice: whoever changes a file on purpose computes anew
whatever needs no key. A CRC finds every change of up to 32 bits in a row, and all others but for
one in 2**32, in a quarter of the time of BLAKE2b. Tensors are summed in pieces, by several threads;
where there is more than one piece, the sum is that of the sums of the pieces.
"""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import chain, groupby
from math import prod
from threading import local
from zlib import crc32

import numpy as np

from meganeura_runtime.io.tensors.file_array import Array, InFile, bytes_of

KEY = "meganeura.checksums"
"""The entry of the metadata."""
MARK = "meganeura-crc32"
"""What its text begins with, by which it is known if a damaged file has another name for it."""
HEADER = "its header"

PIECE = 1 << 20
"""Bytes of one piece; they stay in the caches of a processor."""
WORTH_THREADS = 4 << 20
"""Bytes from which on threads save time."""
MOST_THREADS = 8

Contents = Mapping[str, Array | InFile]

_own = local()
"""Memory of each thread, for one piece."""


def checksums(metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents) -> str:
    """The entry: a mark, the sum of the header, and one of each tensor in the order of names.

    The sum of the header is that of all other metadata, of the names, types and shapes of the
    tensors, which `types` has in words, and of their sums.
    """
    found = _sums(contents)
    sums = [f"{found[name]:08x}" for name in sorted(contents)]
    return " ".join([MARK, f"{_sum_of_header(metadata, types, sums):08x}", *sums])


def find_damage(
    metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents
) -> str | None:
    """What is not as it was when its sum was made: a tensor's name or `HEADER`.

    `None` if all is as it was, or if nothing says how it was, as in the files of other programs.
    """
    claims = [key for key, text in metadata.items() if key == KEY or text.startswith(MARK)]
    if not claims:
        return None
    mark, *told = metadata.get(KEY, "").split(" ")
    if claims != [KEY] or mark != MARK or len(told) != 1 + len(contents):
        return HEADER
    header, *sums = told
    if header != f"{_sum_of_header(metadata, types, sums):08x}":
        return HEADER
    found = _sums(contents)
    wrong = (n for n, s in zip(sorted(contents), sums, strict=True) if s != f"{found[n]:08x}")
    return next((f"`{name}`" for name in wrong), None)


def _sum_of_header(
    metadata: Mapping[str, str], types: Mapping[str, str], sums: Iterable[str]
) -> int:
    """Of texts that each follow their length, so that none can pass into the next."""
    total = 0
    entries = sorted((key, text) for key, text in metadata.items() if key != KEY)
    told = chain.from_iterable(entries), chain.from_iterable(sorted(types.items())), sums
    for text in chain.from_iterable(("", *each) for each in told):
        content = text.encode("utf-8", "surrogatepass")
        total = crc32(content, crc32(b"%d:" % len(content), total))
    return total


def _sums(contents: Contents) -> dict[str, int]:
    """The sum of each tensor."""
    sizes = {name: _bytes(content) for name, content in contents.items()}
    pieces = [(name, at) for name, size in sizes.items() for at in range(0, max(1, size), PIECE)]
    threads = (
        ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1))
        if sum(sizes.values()) >= WORTH_THREADS
        else None
    )
    with nullcontext() if threads is None else threads:
        of_piece = partial(_sum_of_piece, contents)
        sums = [*(map(of_piece, pieces) if threads is None else threads.map(of_piece, pieces))]
    together = zip(pieces, sums, strict=True)
    return {
        name: _combined([found for _, found in each])
        for name, each in groupby(together, key=lambda one: one[0][0])
    }


def _combined(sums: list[int]) -> int:
    return sums[0] if len(sums) == 1 else crc32(np.array(sums, "<u4").tobytes())


def _sum_of_piece(contents: Contents, piece: tuple[str, int]) -> int:
    name, at = piece
    content = contents[name]
    if not isinstance(content, InFile):
        return crc32(bytes_of(content)[at : at + PIECE])
    if not hasattr(_own, "memory"):
        _own.memory = memoryview(bytearray(PIECE))
    memory: memoryview = _own.memory[: min(PIECE, _bytes(content) - at)]
    content.file.fill(memory, content.offset + at)
    return crc32(memory)


def _bytes(content: Array | InFile) -> int:
    return content.itemsize * prod(content.shape)
