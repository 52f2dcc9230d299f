"""Slopes by finite differences, and whether reverse mode agrees with them.

Along a direction d, with D(h) = (f(x + h d) - f(x - h d)) / 2h, the slope is (4 D(h) - D(2h)) / 3,
whose error falls with the fourth power of h (L. Richardson, 1911). |D(h) - D(2h)| says how far the
slope itself may be off; f's rounding, divided by h, says how much of it is noise. Reverse mode is
rounded as well: a norm of equal numbers magnifies that 300 times, eight norms 300 times each. Where
the two disagree, the numbers are rounded otherwise, and what that changes is noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from meganeura_dsl.gradcheck.probe import DECISION, LOSS, MAGNITUDE, Point
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.startup.deferred_dataclass import dataclass

STEPS = (1e-4, 1e-6, 1e-8)
"""The first step that crosses no kink is used; wide models have kinks nearly everywhere."""
WIDER_STEPS = (1e-3, 1e-2)
"""Tried where the two disagree: what several norms round moves a quotient less, the wider it is."""
TOLERANCE = 1e-6
ROUNDING = 1e3 * float(np.finfo(np.float64).eps)
LEAST = 1e-2
"""A magnitude below those of the numbers drawn: what cancels to nothing has been rounded too."""
WORTHLESS = 1e-3
"""A slope known no better than this share of its terms decides nothing."""
ELEMENTWISE = 48
"""Numbers in all tensors together up to which each is moved by itself."""
APART = 12
"""Tensors up to which each is moved along a direction of its own."""
ROUNDINGS = 3
"""How often gradients are computed again from numbers rounded otherwise."""
TOGETHER = 2
"""Directions in which all tensors of a larger model are moved."""
SOME = 3
"""Tensors of a larger model that are moved alone as well."""

Direction = Mapping[str, Array]


@dataclass(frozen=True)
class Slope:
    """What both ways of differentiation say of one direction; `where` says which."""

    where: str
    reverse: float
    differences: float
    scale: float
    """The sum of the magnitudes of the terms of the slope."""
    allowed: float

    @property
    def error(self) -> float:
        """How far apart the two are, relative to the terms; 0 where noise drowns them."""
        is_known = self.allowed <= 2 * TOLERANCE * self.scale
        return abs(self.reverse - self.differences) / self.scale if is_known else 0.0

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as the differences are exact; what is infinite is not."""
        is_near = abs(self.reverse - self.differences) <= self.allowed
        return is_near and isfinite(self.reverse)


def slopes(point: Point, seed: int) -> Iterator[Slope]:
    """The slopes along all directions chosen; none where every step crosses a kink."""
    for where, direction in _directions(point.gradients, np.random.default_rng(seed)):
        slope = _slope(point, where, direction)
        if slope is not None and not slope.agrees:
            noise = _noise_of_reverse(point, direction, slope.reverse)
            slope = replace(slope, allowed=slope.allowed + 10 * noise)
            if not slope.agrees:
                wider = _slope(point, where, direction, WIDER_STEPS)
                slope = wider if wider is not None and wider.agrees else slope
        if slope is not None:
            yield slope


def _directions(
    gradients: Mapping[str, Array], generator: np.random.Generator
) -> Iterator[tuple[str, Direction]]:
    if sum(gradient.size for gradient in gradients.values()) <= ELEMENTWISE:
        for name, gradient in gradients.items():
            for index in np.ndindex(gradient.shape):
                unit = np.zeros(gradient.shape)
                unit[index] = 1.0
                yield f"{name}{list(index) if index else ''}", {name: unit}
        return
    alone: list[str] = list(gradients)
    if len(alone) > APART:
        for _ in range(TOGETHER):
            together = {name: _any(generator, each) for name, each in gradients.items()}
            yield "all tensors", together
        alone = generator.choice(alone, SOME, replace=False).tolist()
    for name in alone:
        yield f"{name}, all elements", {name: _any(generator, gradients[name])}


def _any(generator: np.random.Generator, like: Array) -> Array:
    signs = np.asarray(generator.choice((-1.0, 1.0), like.shape))
    return signs * generator.uniform(0.5, 1, like.shape)


def _slope(
    point: Point, where: str, direction: Direction, steps: Sequence[float] = STEPS
) -> Slope | None:
    """The slope along one direction, if some step stays on one smooth piece and is exact enough."""
    terms = [point.gradients[name] * each for name, each in direction.items()]
    reverse = float(sum(term.sum() for term in terms))
    scale = float(sum(np.abs(term).sum() for term in terms))
    for step in steps:
        values = _on_one_piece(point, direction, step)
        if values is None:
            continue
        far = _quotient(values[0], values[1], 4 * step)
        near = _quotient(values[2], values[3], 2 * step)
        noise = ROUNDING * (float(values[0][MAGNITUDE]) + LEAST) / step
        allowed = TOLERANCE * scale + 10 * abs(far - near) + noise
        if not isfinite(reverse) or allowed <= WORTHLESS * max(scale, noise / WORTHLESS):
            return Slope(where, reverse, (4 * near - far) / 3, scale, allowed)
    return None


def _on_one_piece(
    point: Point, direction: Direction, step: float
) -> list[Mapping[str, Array]] | None:
    """The outputs two steps away on either side, then one; None with a kink between them."""
    values: list[Mapping[str, Array]] = []
    for steps in (-2, 2, -1, 1):
        values.append(point.moved(direction, steps * step))
        if not _decides_as(values[0], values[-1]):
            return None
    return values


def _noise_of_reverse(point: Point, direction: Direction, reverse: float) -> float:
    """How far reverse mode is from itself where the numbers are rounded otherwise."""
    generator = np.random.default_rng(0)
    others: list[float] = []
    for _ in range(ROUNDINGS):
        rounded = {name: _rounded(generator, each) for name, each in point.feeds.items()}
        gradients = point.probe.at(rounded).gradients
        others.append(
            float(sum((gradients[name] * each).sum() for name, each in direction.items()))
        )
    return max(abs(other - reverse) for other in others)


def _rounded(generator: np.random.Generator, numbers: Array) -> Array:
    if not np.issubdtype(numbers.dtype, np.floating):
        return numbers
    unit = np.finfo(np.float64).eps
    return np.asarray(numbers * (1 + unit * generator.integers(-4, 5, numbers.shape)))


def _quotient(low: Mapping[str, Array], high: Mapping[str, Array], width: float) -> float:
    return (float(high[LOSS]) - float(low[LOSS])) / width


def _decides_as(left: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Whether the same choice was made at every kink."""
    return all(
        left[name] is right[name] or np.array_equal(left[name], right[name])
        for name in left
        if name.startswith(DECISION)
    )
