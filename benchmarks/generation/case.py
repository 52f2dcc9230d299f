"""The generated case: a decoder of the Llama family with random weights, and a prompt."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]
ROUNDS = 5
WARM_SECONDS = 0.05
EPS = 1e-5


@dataclass(frozen=True)
class Case:
    """A model of `stdlib_models/lm.mgn`, and how long its prompt and what follows are."""

    model: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    shared: int
    ffn: int
    theta: float
    prompt: int
    compared: int
    """Tokens that have to be those of transformers."""
    timed: int
    """Tokens that are timed together, those behind the prompt."""

    @property
    def head_dim(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @property
    def capacity(self) -> int:
        """The tokens that caches hold."""
        return self.prompt + max(self.compared, self.timed)

    @property
    def ids(self) -> NDArray[np.int32]:
        """The prompt."""
        return np.random.default_rng(1).integers(0, self.vocabulary, self.prompt, np.int32)

    def weights(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
        """Random ones, the same for all who ask: of a size at which tokens vary."""
        generator = np.random.default_rng(0)
        found: dict[str, Array] = {}
        for name in sorted(shapes):
            noise = generator.standard_normal(tuple(shapes[name]), np.float32)
            found[name] = 1 + 0.1 * noise if len(noise.shape) == 1 else noise * self.width**-0.5
        return found


SMOLLM = Case("smollm2_135m", 49152, 576, 30, 9, 3, 1536, 1e5, 512, 200, 100)
TINY = Case("lm_tiny", 256, 64, 2, 4, 2, 128, 1e4, 64, 8, 8)


def per_token(case: Case, start: Callable[[], Iterator[object]], wait: Callable[[], None]) -> float:
    """Milliseconds of a token behind the prompt, the median of the rounds.

    `start` reads the prompt and gives the tokens one by one; `wait` until they are there.
    """
    times: list[float] = []
    for _ in range(ROUNDS + 1):
        tokens = start()
        next(tokens)
        wait()
        begin, count = perf_counter(), 0
        for _ in tokens:
            count += 1
        wait()
        times.append((perf_counter() - begin) / count * 1e3)
    assert case.timed > 1
    return median(times[1:])


def per_call(call: Callable[[], object]) -> float:
    """Milliseconds of a call that waits for its result, the median of the rounds."""
    call()
    begin = perf_counter()
    while perf_counter() - begin < WARM_SECONDS:
        call()
    times: list[float] = []
    for _ in range(2 * ROUNDS):
        start = perf_counter()
        call()
        times.append((perf_counter() - start) * 1e3)
    return median(times)
