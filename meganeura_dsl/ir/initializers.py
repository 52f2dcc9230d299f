"""Initial values of parameters.

They depend on nothing but the seed, the parameter's path, its shape and its initializer, so that
adding a layer never changes another layer's start. The words come from Philox-4x64-10, whose
stream NumPy keeps for ever, and a test holds NumPy to what it makes of them: the fractions
(word >> 11) * 2**-53. Everything after these is computed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import log, pi, prod, sqrt
from typing import assert_never

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.lazy_numpy import np

BLOCK = 1 << 14


@dataclass(frozen=True)
class Zeros:
    """0 everywhere."""


@dataclass(frozen=True)
class Ones:
    """1 everywhere."""


@dataclass(frozen=True)
class Full:
    """One number everywhere."""

    value: float


@dataclass(frozen=True)
class Uniform:
    """Uniform in [-bound, bound)."""

    bound: float


@dataclass(frozen=True)
class Normal:
    """Normal with mean 0 and a standard deviation."""

    std: float


@dataclass(frozen=True)
class KaimingUniform:
    """Uniform within 1 / sqrt(fan_in), fan_in the product of all axes after the first.

    The default of PyTorch's convolutions and linear layers: He et al. (2015) with a = sqrt(5).
    """


@dataclass(frozen=True)
class Sinusoids:
    """Whisper's positions [length, d]: [sin | cos] of the position over 10000**(i / (d/2 - 1))."""


Initializer = Zeros | Ones | Full | Uniform | Normal | KaimingUniform | Sinusoids


def spell(initializer: Initializer) -> str:
    """An initializer as it is written in the language."""
    match initializer:
        case Zeros():
            return "zeros"
        case Ones():
            return "ones"
        case Full(number):
            return repr(number)
        case Uniform(bound):
            return f"uniform({bound!r})"
        case Normal(std):
            return f"normal({std!r})"
        case KaimingUniform():
            return "kaiming_uniform()"
        case Sinusoids():
            return "sinusoids()"
        case _:
            assert_never(initializer)


def fits(initializer: Initializer, shape: tuple[int, ...]) -> bool:
    """True if a parameter of this shape can begin so; a table of sinusoids is not for every one."""
    if not isinstance(initializer, Sinusoids):
        return True
    return len(shape) == 2 and shape[1] % 2 == 0 and shape[1] >= 4


MOST_WHOLE = 1 << 24
"""Values are made in single precision, which holds whole numbers up to here."""
WHOLE = {DType.BOOL: (0, 1), DType.I32: (-MOST_WHOLE, MOST_WHOLE), DType.U32: (0, MOST_WHOLE)}


def holds(dtype: DType, initializer: Initializer) -> bool:
    """True if elements of a type can begin so: whole numbers and truth values are not drawn."""
    if dtype not in WHOLE or isinstance(initializer, Zeros | Ones):
        return True
    low, high = WHOLE[dtype]
    match initializer:
        case Full(number):
            return float(number).is_integer() and low <= number <= high
        case _:
            return False


def sample(initializer: Initializer, seed: int, name: str, shape: tuple[int, ...]) -> Array:
    """The first value of the parameter `name`, in float32."""
    match initializer:
        case Zeros():
            value = np.zeros(shape, np.float32)
        case Ones():
            value = np.ones(shape, np.float32)
        case Full(number):
            value = np.full(shape, number)
        case Uniform(bound):
            value = _uniform(seed, name, shape, bound)
        case Normal(std):
            value = _normal(seed, name, shape, std)
        case KaimingUniform():
            value = _uniform(seed, name, shape, 1 / sqrt(prod(shape[1:])))
        case Sinusoids():
            value = _sinusoids(name, shape)
        case _:
            assert_never(initializer)
    return value.astype(np.float32, copy=False)


def _uniform(seed: int, name: str, shape: tuple[int, ...], bound: float) -> Array:
    draw = _generator(seed, name)
    values = np.empty(prod(shape), np.float32)
    for block in _blocks(values.size):
        part = values[block]
        part[:] = bound * (2 * draw.random(part.size) - 1)
    return values.reshape(shape)


def _normal(seed: int, name: str, shape: tuple[int, ...], std: float) -> Array:
    # G. Box and M. Muller (1958): sqrt(-2 log u) cos(2 pi v) and sqrt(-2 log u) sin(2 pi v)
    size = prod(shape)
    half = (size + 1) // 2
    fractions = _generator(seed, name).random(2 * half)
    values = np.empty(2 * half, np.float32)
    for block in _blocks(half):
        radius = np.sqrt(-2 * np.log(1 - fractions[:half][block]))
        angle = 2 * pi * fractions[half:][block]
        values[:half][block] = std * (radius * np.cos(angle))
        values[half:][block] = std * (radius * np.sin(angle))
    return values[:size].reshape(shape)


def _blocks(size: int) -> Iterator[slice]:
    """Parts that stay in the cache of a processor while they are computed."""
    return (slice(start, start + BLOCK) for start in range(0, size, BLOCK))


def _sinusoids(name: str, shape: tuple[int, ...]) -> Array:
    if not fits(Sinusoids(), shape):
        raise ValueError(f"`{name}` {list(shape)} is no table of an even number of channels >= 4")
    length, half = shape[0], shape[1] // 2
    rates = np.exp(-log(10000) / (half - 1) * np.arange(half))
    angles = np.arange(length)[:, None] * rates[None, :]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _generator(seed: int, name: str) -> "np.random.Generator":
    """Draws the fractions that `seed` and `name` determine."""
    digest = sha256(f"{seed}\0{name}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], "<u8")))
