"""Cases of silent bugs: a program, what it is fed, and what is right, in double precision."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array

NAN, INF = float("nan"), float("inf")
STEP = 1e-5
"""Half the distance of the points of a difference quotient."""
BY_DIFFERENCES = 1e-7
"""The relative error of a slope by differences of values near 1."""

Value = Array | np.generic
"""An array, or one number of NumPy."""
Right = Callable[..., Sequence[Value]]


@dataclass(frozen=True)
class Case:
    """A kind of mistake that a compiler made in silence, as a program of the language."""

    name: str
    source: str
    """The repository and the number of the issue or pull request, or the family of the BugZoo."""
    mistake: str
    """The mistake, as a sentence about what the compiler did."""
    text: str
    """The inputs, results and body of the block `Main`."""
    fed: Mapping[str, Array]
    """Inputs, parameters and states by name."""
    right: Right
    """The results in the order of the program and then the updates, from what is fed by name."""
    close: float = 1e-9
    """The relative and absolute tolerance in double precision."""
    single: float = 2e-5
    """The tolerance in single precision, relative to the largest element or 1."""
    training: bool = False
    turns: bool = True
    """False if what is fed makes no sense in reverse order."""
    imports: str = ""
    not_promised: Mapping[str, str] = field(default_factory=dict[str, str])
    """Devices, or `optimized`, of which docs/numbers.md does not promise it, and the reason."""

    def __str__(self) -> str:
        return self.name

    @property
    def program(self) -> str:
        """The program, whose model is `main`."""
        return f"{self.imports}\nblock Main(){self.text}\nmodel main = Main()\n"


def drawn(name: str, *shape: int) -> Array:
    """Numbers of the standard normal distribution, the same ones for each name."""
    generator = np.random.default_rng(crc32(name.encode()))
    return generator.standard_normal(shape).astype(np.float32)


def floats(*numbers: object) -> Array:
    """Listed numbers in single precision."""
    return np.array(numbers, np.float32)


def wholes(*numbers: object) -> Array:
    """Listed whole numbers."""
    return np.array(numbers, np.int32)


def slope(function: Callable[[Array], Value], x: Array) -> Array:
    """The gradient of a scalar function by central differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        ends: list[float] = []
        for by in (STEP, -STEP):
            moved = x.copy()
            moved[place] += by
            ends.append(float(function(moved)))
        found[place] = (ends[0] - ends[1]) / (2 * STEP)
    return found


def softmax(x: Array) -> Array:
    """The softmax of the last axis."""
    raised = np.exp(x - np.max(x, -1, keepdims=True))
    return raised / np.sum(raised, -1, keepdims=True)


def normed(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    """Each set of elements less its mean, in units of its deviation."""
    centered = x - np.mean(x, axes, keepdims=True)
    return centered / np.sqrt(np.mean(centered**2, axes, keepdims=True) + eps)
