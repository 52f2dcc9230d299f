"""Differences of outputs from the expected ones, and errors in one line."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.graph import Array

ALLOWED = 1e-4
"""The largest difference of an output, in units of its largest element or of 1."""
ROUNDED = 1e-2
"""The largest where the reference itself is so far from its result in double precision."""


PART = 1 << 20
"""Elements that are compared at once, in double precision."""


def distance(given: Array, wanted: Array) -> float:
    """The largest difference, in units of the largest number; NaN where only one has NaN or inf."""
    largest, scale = 0.0, 1.0
    given, wanted = given.reshape(-1), wanted.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, wanted.size, PART):
            part = slice(start, start + PART)
            one, other = given[part].astype(np.float64), wanted[part].astype(np.float64)
            known = np.isfinite(other)
            if not np.array_equal(one[~known], other[~known], equal_nan=True):
                return float("nan")
            difference = np.abs(one[known] - other[known]).max(initial=0)
            largest = float(np.maximum(largest, difference))
            scale = max(scale, float(np.abs(other[known]).max(initial=0)))
    return largest / scale


def untold(runs: Sequence[Mapping[str, Array]]) -> dict[str, str]:
    """The outputs that a comparison says nothing about, and what they are in all runs.

    That is one number everywhere, or nothing but NaN and infinities.
    """
    found: dict[str, str] = {}
    for name in runs[0] if runs else ():
        numbers = set[float]()
        for run in runs:
            values = run[name].reshape(-1)
            finite = values[np.isfinite(values)]
            numbers.update(finite[:1].tolist())
            numbers.update(finite[finite != finite[0]][:1].tolist() if finite.size else ())
        if len(numbers) < 2:
            found[name] = f"{numbers.pop():.6g}" if numbers else "NaN or infinite"
    return found


def allowed(
    difference: float,
    name: str,
    reference: Mapping[str, Array],
    exact: Callable[[], Mapping[str, Array]],
    least: float = ALLOWED,
) -> float:
    """Returns the tolerance of an output that differs so much from that of the reference.

    That is `least`, or twice the distance of the reference from what `exact` computes in double
    precision. A model that magnifies the roundings of its values has no single result in single
    precision: what is as near to the exact one as the reference is right.
    """
    if difference <= least:
        return least
    return max(least, min(2 * rounding(name, reference, exact), ROUNDED))


def rounding(
    name: str, reference: Mapping[str, Array], exact: Callable[[], Mapping[str, Array]]
) -> float:
    """The distance of an output of the reference from that in double precision, 0 if unknown."""
    try:
        found = distance(reference[name], exact()[name])
    except MemoryError:
        return 0.0
    return found if np.isfinite(found) else 0.0


def first_line(error: Exception) -> str:
    """The beginning of what an error says."""
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
