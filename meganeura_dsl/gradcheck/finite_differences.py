"""Slopes by finite differences, and whether reverse mode agrees with them.

Along a direction d, with D(h) = (f(x + h d) - f(x - h d)) / 2h, the slope is (4 D(h) - D(2h)) / 3,
whose error falls with the fourth power of h (L. Richardson, 1911). |D(h) - D(2h)| says how far the
slope itself may be off; f's rounding, divided by h, says how much of it is noise. Reverse mode is
rounded as well: a norm of equal numbers magnifies that 300 times, eight norms 300 times each. Where
the two disagree, the numbers are rounded otherwise, and what that changes is noise.

At a special point, such as 0, each side has its own slope, from q(h) = (f(x + h d) - f(x)) / h
for h, 2h and 4h on that side. Where the two sides agree the function is smooth, and reverse mode
has to give their slope, although ops inside may have kinks there. Where they differ there is a
kink, and reverse mode has to give a number between them (a subgradient) if one element of each
op crosses it. Where several cross at once, as the examples of a batch do, each op chooses for
itself, and the sum of their choices need not lie between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from meganeura_dsl.gradcheck.probe import DECISION, LOSS, MAGNITUDE, Point
from meganeura_dsl.ir.graph import Array

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
"""Tensors up to which each is moved along its own direction."""
TOGETHER = 2
"""Directions in which all tensors of a larger model are moved."""
SOME = 3
"""Tensors of a larger model that are moved alone as well."""
SPECIAL = ((24, 24), (2000, 8))
"""Numbers in all tensors together, and how many of so many are moved at a special point."""
SPECIAL_OF_MANY = 3
"""The number of special points to move if there are more."""

Direction = Mapping[str, Array]


@dataclass(frozen=True)
class Slope:
    """The slopes of both ways of differentiation along one direction, named by `where`."""

    where: str
    reverse: float
    differences: float
    scale: float
    """The sum of the magnitudes of the terms of the slope."""
    allowed: float

    @property
    def error(self) -> float:
        """The distance of the two, relative to the terms; 0 where noise hides it."""
        is_known = self.allowed <= 2 * TOLERANCE * self.scale
        return abs(self.reverse - self.differences) / self.scale if is_known else 0.0

    @property
    def is_decided(self) -> bool:
        """True if a gradient that is off by a thousandth of the terms would have been seen.

        A slope that is 0 in both ways decides nothing.
        """
        return not self.allowed > WORTHLESS * max(self.scale, abs(self.differences))

    @property
    def agrees(self) -> bool:
        """True if the two are as near as the differences are exact; what is infinite is not."""
        is_near = abs(self.reverse - self.differences) <= self.allowed
        return is_near and isfinite(self.reverse)


@dataclass(frozen=True)
class SidedSlope:
    """The slopes on both sides of a special point, and what reverse mode says there."""

    where: str
    reverse: float
    left: float
    right: float
    allowed: float
    is_alone: bool
    """True if no op crosses a kink of its own in more than one element."""

    @property
    def is_kink(self) -> bool:
        """True if the two sides differ."""
        return abs(self.right - self.left) > self.allowed

    @property
    def agrees(self) -> bool:
        """True if reverse mode gives the slope, or at a kink a number between the two."""
        if not isfinite(self.reverse):
            return False
        if self.is_kink and not self.is_alone:
            return True
        low, high = sorted((self.left, self.right))
        return low - self.allowed <= self.reverse <= high + self.allowed


def sided_slopes(point: Point, seed: int) -> Iterator[SidedSlope]:
    """The slopes on both sides of a point along single elements, where both have one."""
    for where, direction in _elements(point, np.random.default_rng(seed)):
        slope = _sided(point, where, direction, STEPS)
        if slope is not None and not slope.agrees and not slope.is_kink:
            wider = _sided(point, where, direction, WIDER_STEPS)
            slope = wider if wider is not None and wider.agrees else slope
        if slope is not None:
            yield slope


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


def _elements(point: Point, generator: np.random.Generator) -> Iterator[tuple[str, Direction]]:
    """Directions along single elements: all of a few, some of many."""
    sizes = {name: gradient.size for name, gradient in point.gradients.items()}
    total = sum(sizes.values())
    count = next((some for most, some in SPECIAL if total <= most), SPECIAL_OF_MANY)
    places = [(name, place) for name, size in sizes.items() for place in range(min(size, count))]
    if total > count:
        names = generator.choice(list(sizes), count).tolist()
        places = [(name, int(generator.integers(sizes[name]))) for name in names]
    for name, place in dict.fromkeys(places):
        shape = point.gradients[name].shape
        index = np.unravel_index(place, shape)
        unit = np.zeros(shape)
        unit[index] = 1.0
        element = f"{name}[{', '.join(map(str, index))}]" if index else name
        yield f"{element} at {float(point.feeds[name][index]):g}", {name: unit}


def _sided(
    point: Point, where: str, direction: Direction, steps: Sequence[float]
) -> SidedSlope | None:
    """The slopes on both sides; None where one has none, or none that is exact enough."""
    reverse = _along(point.gradients, direction)
    here = point.moved({}, 0)
    for step in steps:
        sides = [_side(point, direction, here, sign * step) for sign in (-1, 1)]
        found = [side for side in sides if side is not None]
        if len(found) < len(sides):
            continue
        (left, far_left, below), (right, far_right, above) = found
        scale = max(abs(left), abs(right), abs(reverse) if isfinite(reverse) else 0.0)
        noise = 4 * ROUNDING * (float(here[MAGNITUDE]) + LEAST) / step
        allowed = TOLERANCE * scale + 10 * max(far_left, far_right) + noise
        crossed = _crossed(below, above)
        if not crossed and isfinite(reverse):
            allowed += 10 * _noise_of_reverse(point, direction, reverse)
        if allowed <= WORTHLESS * scale:
            return SidedSlope(where, reverse, left, right, allowed, max(crossed, default=1) == 1)
    return None


def _along(gradients: Mapping[str, Array], direction: Direction) -> float:
    """The slope that gradients give along a direction, of what it moves alone."""
    moved = ((gradients[name], each, each != 0) for name, each in direction.items())
    return float(sum((gradient[which] * each[which]).sum() for gradient, each, which in moved))


def _side(
    point: Point, direction: Direction, here: Mapping[str, Array], step: float
) -> tuple[float, float, Mapping[str, Array]] | None:
    """The slope on one side, how far it may be off, and the decisions there; None at a kink."""
    values = [point.moved(direction, times * step) for times in (1, 2, 4)]
    if not all(_decides_as(values[0], each) for each in values[1:]):
        return None
    first, second, fourth = (
        _quotient(here, each, times * step) for each, times in zip(values, (1, 2, 4), strict=True)
    )
    near, far = 2 * first - second, 2 * second - fourth
    if not isfinite(near) or not isfinite(far):
        return None
    return near + (near - far) / 3, abs(near - far), values[0]


def _crossed(left: Mapping[str, Array], right: Mapping[str, Array]) -> list[int]:
    """Returns the number of elements in which each kink decides differently on the two sides."""
    counts = [
        int(np.count_nonzero(left[name] != right[name]))
        for name in left
        if name.startswith(DECISION) and left[name] is not right[name]
    ]
    return [count for count in counts if count]


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
        slope = (4 * near - far) / 3
        known = max(scale, abs(slope), noise / WORTHLESS)
        if not isfinite(reverse) or allowed <= WORTHLESS * known:
            return Slope(where, reverse, slope, scale, allowed)
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
    """Returns the difference of reverse mode from itself for differently rounded inputs."""
    others = [
        float(sum((gradients[name] * each).sum() for name, each in direction.items()))
        for gradients in point.rounded_gradients
    ]
    return max(abs(other - reverse) for other in others)


def _quotient(low: Mapping[str, Array], high: Mapping[str, Array], width: float) -> float:
    return (float(high[LOSS]) - float(low[LOSS])) / width


def _decides_as(left: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """True if the same choice was made at every kink."""
    return all(
        left[name] is right[name] or np.array_equal(left[name], right[name])
        for name in left
        if name.startswith(DECISION)
    )
