"""Checksums of the tensors and of the header of a file, in an entry of its metadata.

CRC-32, as they are to find damage and not malice: whoever changes a file on purpose computes anew
whatever needs no key. A CRC finds every change of up to 32 bits in a row, and all others but for
one in 2**32, in a quarter of the time of BLAKE2b. Tensors are summed in runs of a mebibyte, by
several threads; where there is more than one run, the sum of a tensor is that of the sums of its
runs. The sums of smaller pieces stand in an entry of their own: with them a tensor can be compared
piece by piece, when each is read. The sum of a run follows from those of its pieces.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from math import prod
from zlib import crc32

import numpy as np

from meganeura_runtime.io.tensors.file_array import Array, InFile, bytes_of
from meganeura_runtime.io.tensors.verified_pieces import RUN, Sums, for_each_run, run_memory

KEY = "meganeura.checksums"
"""The entry of the metadata."""
MARK = "meganeura-crc32"
"""The beginning of its text, which identifies it if a damaged file has changed its name."""
HEADER = "its header"

PIECES = "meganeura.pieces"
"""The entry of pieces: their size, and for each tensor of several runs the sums, in hexadecimal."""
SMALLEST_PIECE = 16 << 10
"""Bytes: about a row of a data set, which is read and compared without its neighbours."""
MOST_PIECES = 1 << 20
"""The most pieces of a file; larger files have larger pieces. Sums take 8 MiB of the header."""
PIECE_SIZES = [1 << bits for bits in range(SMALLEST_PIECE.bit_length() - 1, RUN.bit_length())]

Contents = Mapping[str, Array | InFile]


class DamagedHeaderError(Exception):
    """The header is not as it was when its sum was made, or what it says of sums is not so."""


@dataclass(frozen=True)
class ChecksumManifest:
    """The checksums that a file holds for its tensors."""

    tensors: Mapping[str, int]
    """The sum of each."""
    pieces: Mapping[str, tuple[int, Sums]]
    """The bytes of a piece, and the sums; not of the large tensors of files that do not tell."""

    def find_damage(self, contents: Contents) -> str | None:
        """The first of some tensors that is not as it was when its sum was made."""
        found = _sums(contents, RUN)
        wrong = (name for name in sorted(found) if _combined(found[name]) != self.tensors[name])
        return next((f"`{name}`" for name in wrong), None)


def checksums(
    metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents
) -> dict[str, str]:
    """The entries of sums: of the header, of each tensor, and of pieces if a tensor has several.

    The sum of the header is that of all other metadata, of the names, types and shapes of the
    tensors, which `types` has in words, and of their sums.
    """
    sizes = {name: _bytes(content) for name, content in contents.items()}
    piece = _piece_size(sizes)
    found = _sums(contents, piece)
    several = [name for name in sorted(sizes) if sizes[name] > RUN]
    digits = [found[name].astype(">u4").tobytes().hex() for name in several]
    entries = {PIECES: " ".join([str(piece), *digits])} if several else {}
    of_runs = {name: runs_of_pieces(each, piece, sizes[name]) for name, each in found.items()}
    sums = [f"{_combined(of_runs[name]):08x}" for name in sorted(contents)]
    header = _sum_of_header({**metadata, **entries}, types, sums)
    return {**entries, KEY: " ".join([MARK, f"{header:08x}", *sums])}


def claimed(
    metadata: Mapping[str, str], types: Mapping[str, str], contents: Contents
) -> ChecksumManifest | None:
    """Returns the checksums that a file holds, or `None` for a file of another program.

    Raises `DamagedHeaderError`.
    """
    claims = [key for key, text in metadata.items() if key == KEY or text.startswith(MARK)]
    if not claims:
        return None
    mark, *fields = metadata.get(KEY, "").split(" ")
    if claims != [KEY] or mark != MARK or len(fields) != 1 + len(contents):
        raise DamagedHeaderError
    header, *sums = fields
    if header != f"{_sum_of_header(metadata, types, sums):08x}":
        raise DamagedHeaderError
    try:
        tensors = {name: int(sum_, 16) for name, sum_ in zip(sorted(contents), sums, strict=True)}
        return ChecksumManifest(tensors, _pieces(metadata.get(PIECES), tensors, contents))
    except ValueError:
        raise DamagedHeaderError from None


def _pieces(
    text: str | None, sums: Mapping[str, int], contents: Contents
) -> dict[str, tuple[int, Sums]]:
    """The sums of pieces, as far as they are known; raises `ValueError`."""
    sizes = {name: _bytes(content) for name, content in contents.items()}
    found = {n: (RUN, np.array([sums[n]], np.uint32)) for n, size in sizes.items() if size <= RUN}
    if text is None:
        return found
    fields, *digits = text.split(" ")
    piece = int(fields)
    if piece not in PIECE_SIZES:
        raise ValueError(fields)
    several = sorted(name for name, size in sizes.items() if size > RUN)
    for name, each in zip(several, digits, strict=True):
        of_pieces = np.frombuffer(bytes.fromhex(each), ">u4").astype(np.uint32)
        if len(of_pieces) != -(-sizes[name] // piece):
            raise ValueError(name)
        if _combined(runs_of_pieces(of_pieces, piece, sizes[name])) != sums[name]:
            raise ValueError(name)
        found[name] = piece, of_pieces
    return found


def _piece_size(sizes: Mapping[str, int]) -> int:
    """Bytes of the pieces of tensors of such sizes."""
    total = sum(size for size in sizes.values() if size > RUN)
    return next((each for each in PIECE_SIZES if total <= each * MOST_PIECES), RUN)


def _sum_of_header(
    metadata: Mapping[str, str], types: Mapping[str, str], sums: Iterable[str]
) -> int:
    """Returns the sum of texts that each follow their length, so that none passes into the next."""
    total = 0
    entries = sorted((key, text) for key, text in metadata.items() if key != KEY)
    fields = chain.from_iterable(entries), chain.from_iterable(sorted(types.items())), sums
    for text in chain.from_iterable(("", *each) for each in fields):
        content = text.encode("utf-8", "surrogatepass")
        total = crc32(content, crc32(b"%d:" % len(content), total))
    return total


def _sums(contents: Contents, piece: int) -> dict[str, Sums]:
    """The sums of the pieces of each tensor; one sum of a tensor that is no longer than a run."""
    sizes = {name: _bytes(content) for name, content in contents.items()}
    runs = [(name, at) for name, size in sizes.items() for at in range(0, max(1, size), RUN)]

    def of_run(run: tuple[str, int]) -> list[int]:
        name, start = run
        size = min(RUN, sizes[name] - start)
        step = piece if sizes[name] > RUN else RUN
        memory = _run(contents[name], start, size)
        return [crc32(memory[at : at + step]) for at in range(0, max(1, size), step)]

    found = zip(runs, for_each_run(of_run, runs, sum(sizes.values())), strict=True)
    return {
        name: np.array([*chain.from_iterable(sums for _, sums in each)], np.uint32)
        for name, each in groupby(found, key=lambda one: one[0][0])
    }


def _run(content: Array | InFile, start: int, size: int) -> memoryview:
    """Some bytes of a tensor, until this thread asks for others."""
    if not isinstance(content, InFile):
        return bytes_of(content)[start : start + size]
    memory = run_memory(size)
    content.file.fill(memory, content.offset + start)
    return memory


def _combined(of_runs: Sums) -> int:
    """The sum of a tensor."""
    return int(of_runs[0]) if len(of_runs) == 1 else crc32(of_runs.astype("<u4").tobytes())


def runs_of_pieces(sums: Sums, piece: int, size: int) -> Sums:
    """The sums of the runs of a tensor of `size` bytes, which those of its pieces decide.

    The CRC of bytes that are followed by others is a linear function of their CRC over GF(2) that
    the number of the others decides, added to the CRC of the others.
    """
    if size <= RUN or piece == RUN:
        return sums
    each = RUN // piece
    padded = np.zeros((-(-len(sums) // each), each), np.uint32)
    padded.reshape(-1)[: len(sums)] = sums
    behind, full = _behind(piece), padded[: size // RUN]
    found = full[:, 0]
    for column in full.T[1:]:
        found = behind(found) ^ column
    if size % RUN == 0:
        return found
    rest = sums[len(full) * each :]
    whole = rest[: size % RUN // piece]
    last = np.zeros(1, np.uint32)
    for one in whole:
        last = behind(last) ^ one
    if len(rest) > len(whole):
        last = _behind(size % piece)(last) ^ rest[-1:]
    return np.concatenate([found, last])


@lru_cache(maxsize=8)
def _behind(count: int) -> Callable[[Sums], Sums]:
    """Returns the change of a CRC by so many zero bytes after it, without the CRC of these."""
    zeros = bytes(count)
    bits = [crc32(zeros, 1 << bit) ^ crc32(zeros) for bit in range(32)]
    tables = np.zeros((4, 256), np.uint32)
    for number, of_bit in enumerate(bits):
        tables[number // 8, np.arange(256) >> number % 8 & 1 == 1] ^= np.uint32(of_bit)

    def changed(sums: Sums) -> Sums:
        bytes_of_sums = np.ascontiguousarray(sums, "<u4").view(np.uint8).reshape(-1, 4)
        return np.bitwise_xor.reduce([tables[byte][bytes_of_sums[:, byte]] for byte in range(4)])

    return changed


def _bytes(content: Array | InFile) -> int:
    return content.itemsize * prod(content.shape)
