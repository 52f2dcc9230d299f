"""Random damage to bytes, for fuzzing without instruments; each mutant is determined by a seed."""

from collections.abc import Sequence
from random import Random

NUMBERS = (0, 1, 7, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
TEXTS = (
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"\0", b"\n", b"\n  ", b"(", b")", b"//", b"**",
    b"999999999999999999", b"-1", b"1e999", b"NaN", b"\xff\xfe", b"\xf0\x9f\x92\xa9", b"__class__",
    b"%0", b"shape", b"dtype", b"F32", b"data_offsets", b"descr", b"...",
)  # fmt: skip


def mutate(random: Random, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs, changed in one to four places."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.randint(1, 4)):
        _damage(random, data, inputs)
    return bytes(data)


def _damage(random: Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    match random.randint(0, 8):
        case 0 if data:
            data[at % len(data)] ^= 1 << random.randint(0, 7)
        case 1 if data:
            data[at % len(data)] = random.randint(0, 255)
        case 2:
            del data[at : at + random.randint(1, 16)]
        case 3:
            data[at:at] = random.choice(TEXTS)
        case 4:
            width = random.choice((1, 2, 4, 8))
            number = random.choice(NUMBERS) % (1 << 8 * width)
            data[at : at + width] = number.to_bytes(width, random.choice(("little", "big")))
        case 5:
            end = at + random.randint(1, 32)
            data[at:at] = data[at:end] * random.choice((1, 2, 50))
        case 6:
            other = random.choice(inputs)
            start = random.randint(0, len(other))
            data[at : at + 16] = other[start : start + random.randint(1, 64)]
        case 7:
            del data[at:]
        case _:
            text = random.choice(TEXTS)
            data[at : at + len(text)] = text
