"""Checksums of the tensors and of the header of a file, in an entry of its metadata.

CRC-32, as they are to find damage and not malice: whoever changes a file on purpose computes anew
whatever needs no key. A CRC finds every change of up to 32 bits in a row, and all others but for
one in 2**32, in a quarter of the time of BLAKE2b. Tensors are summed in pieces, by several threads;
where there is more than one piece, the sum is that of the sums of the pieces, which stand in an
entry of their own. With them a tensor can be compared piece by piece, when each is read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from math import prod
from zlib import crc32

import numpy as np

from meganeura_runtime.io.tensors.file_array import Array, InFile, bytes_of
from meganeura_runtime.io.tensors.verified_pieces import PIECE, Sums, for_each_piece, piece_memory

KEY = "meganeura.checksums"
"""The entry of the metadata."""
MARK = "meganeura-crc32"
"""What its text begins with, by which it is known if a damaged file has another name for it."""
HEADER = "its header"

PIECES = "meganeura.pieces"
"""The entry with the sums of pieces: for each tensor of several, in the order of names, digits."""

Contents = Mapping[str, Array | InFile]


class DamagedHeaderError(Exception):
    """The header is not as it was when its sum was made, or what it says of sums is not so."""


@dataclass(frozen=True)
class Claims:
    """What a file says of its tensors."""

    tensors: Mapping[str, int]
    """The sum of each."""
    pieces: Mapping[str, Sums]
    """The sums of the pieces of each, but of large tensors of files that only have the former."""

    def find_damage(self, contents: Contents) -> str | None:
        """The first of some tensors that is not as it was when its sum was made."""
        found = _sums(contents)
        wrong = (name for name in sorted(found) if _combined(found[name]) != self.tensors[name])
        return next((f"`{name}`" for name in wrong), None)


def checksums(
    metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents
) -> dict[str, str]:
    """The entries of sums: of the header, of each tensor, and of pieces if a tensor has several.

    The sum of the header is that of all other metadata, of the names, types and shapes of the
    tensors, which `types` has in words, and of their sums.
    """
    found = _sums(contents)
    ordered = [found[name] for name in sorted(contents)]
    several = [sums.astype(">u4").tobytes().hex() for sums in ordered if len(sums) > 1]
    entries = {PIECES: " ".join(several)} if several else {}
    sums = [f"{_combined(each):08x}" for each in ordered]
    header = _sum_of_header({**metadata, **entries}, types, sums)
    return {**entries, KEY: " ".join([MARK, f"{header:08x}", *sums])}


def claimed(
    metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents
) -> Claims | None:
    """What a file says of its tensors, or `None` if it says nothing, as those of other programs.

    Raises `DamagedHeaderError`.
    """
    claims = [key for key, text in metadata.items() if key == KEY or text.startswith(MARK)]
    if not claims:
        return None
    mark, *told = metadata.get(KEY, "").split(" ")
    if claims != [KEY] or mark != MARK or len(told) != 1 + len(contents):
        raise DamagedHeaderError
    header, *sums = told
    if header != f"{_sum_of_header(metadata, types, sums):08x}":
        raise DamagedHeaderError
    try:
        tensors = {name: int(sum_, 16) for name, sum_ in zip(sorted(contents), sums, strict=True)}
        return Claims(tensors, _pieces(metadata.get(PIECES), tensors, contents))
    except ValueError:
        raise DamagedHeaderError from None


def _pieces(text: str | None, sums: Mapping[str, int], contents: Contents) -> dict[str, Sums]:
    """The sums of pieces, as far as they are known; raises `ValueError`."""
    counts = {name: _pieces_of(_bytes(content)) for name, content in contents.items()}
    found = {n: np.array([sums[n]], np.uint32) for n, count in counts.items() if count == 1}
    if text is None:
        return found
    several = sorted(name for name, count in counts.items() if count > 1)
    for name, digits in zip(several, text.split(" "), strict=True):
        found[name] = np.frombuffer(bytes.fromhex(digits), ">u4").astype(np.uint32)
        if len(found[name]) != counts[name] or _combined(found[name]) != sums[name]:
            raise ValueError(name)
    return found


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


def _sums(contents: Contents) -> dict[str, Sums]:
    """The sums of the pieces of each tensor."""
    pieces = [
        (name, number)
        for name, content in contents.items()
        for number in range(_pieces_of(_bytes(content)))
    ]

    def sum_of(piece: tuple[str, int]) -> int:
        return _sum_of_piece(contents[piece[0]], piece[1])

    sums = for_each_piece(sum_of, pieces, sum(map(_bytes, contents.values())))
    together = zip(pieces, sums, strict=True)
    return {
        name: np.array([found for _, found in each], np.uint32)
        for name, each in groupby(together, key=lambda one: one[0][0])
    }


def _combined(sums: Sums) -> int:
    return int(sums[0]) if len(sums) == 1 else crc32(sums.astype("<u4").tobytes())


def _sum_of_piece(content: Array | InFile, number: int) -> int:
    start = number * PIECE
    if not isinstance(content, InFile):
        return crc32(bytes_of(content)[start : start + PIECE])
    memory = piece_memory(min(PIECE, _bytes(content) - start))
    content.file.fill(memory, content.offset + start)
    return crc32(memory)


def _pieces_of(size: int) -> int:
    return max(1, -(-size // PIECE))


def _bytes(content: Array | InFile) -> int:
    return content.itemsize * prod(content.shape)
