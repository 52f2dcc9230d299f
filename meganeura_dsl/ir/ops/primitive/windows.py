"""Sliding windows over the trailing axes of [n, c, *spatial]: their sizes, and their elements."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.type_rules import title
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Facts

ELEMENTS_AT_ONCE = 1 << 23


def output_shape(
    op: Op,
    facts: Facts,
    spatial: Shape,
    window: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Shape:
    """Returns the windows that fit.

    (s + 2 p - d (k - 1) - 1) // stride + 1, provably one or more.
    """
    result: Shape = ()
    for s, k, step, p, d in zip(spatial, window, stride, padding, dilation, strict=True):
        padded, reach = s + 2 * p, d * (k - 1) + 1
        facts.require(Compare(">=", padded, reach), f"the window of {title(op)} fits its input")
        result = (*result, (padded - reach) // step + 1)
    return result


@dataclass(frozen=True)
class Windows:
    """The windows of one geometry, in numbers. A tap is one place in a window."""

    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def count(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the number of windows along each axis."""
        axes = zip(spatial, self.window, self.stride, self.padding, self.dilation, strict=True)
        return tuple((s + 2 * p - d * (k - 1) - 1) // step + 1 for s, k, step, p, d in axes)

    def padded(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of spatial axes with the padding around them."""
        return tuple(s + 2 * p for s, p in zip(spatial, self.padding, strict=True))

    def pad(self, x: Array, value: float) -> Array:
        """Put the padding around the spatial axes of x [n, c, *spatial]."""
        if not any(self.padding):
            return x
        padded = np.full((*x.shape[:2], *self.padded(x.shape[2:])), value, x.dtype)
        self.unpad(padded)[...] = x
        return padded

    def unpad(self, padded: Array) -> Array:
        """Inverts `pad`: removes the padding."""
        ends = zip(self.padding, padded.shape[2:], strict=True)
        return padded[(..., *(slice(p, size - p) for p, size in ends))]

    def taps(self, spatial: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap, in row-major order, and where it meets the padded spatial axes."""
        counts = self.count(spatial)
        for tap in product(*map(range, self.window)):
            axes = zip(tap, self.dilation, self.stride, counts, strict=True)
            yield tap, tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in axes)

    def rows(self, x: Array) -> Array:
        """The elements each window sees: [n, *count, *window, c], as a view of padded x.

        Channels stand last: what is copied together is long, and is read as it lies.
        """
        padded = np.zeros((x.shape[0], *self.padded(x.shape[2:]), x.shape[1]), x.dtype)
        self.unpad(channels_first(padded))[...] = x
        sample, *steps, channel = padded.strides
        forward = (step * s for step, s in zip(steps, self.stride, strict=True))
        inside = (step * d for step, d in zip(steps, self.dilation, strict=True))
        return np.lib.stride_tricks.as_strided(
            padded,
            (x.shape[0], *self.count(x.shape[2:]), *self.window, x.shape[1]),
            (sample, *forward, *inside, channel),
            writeable=False,
        )

    def add_rows(self, rows: Array, spatial: tuple[int, ...]) -> Array:
        """The adjoint of `rows`: [n, *count, *window, c] added up into [n, c, *spatial]."""
        total = np.zeros((rows.shape[0], *self.padded(spatial), rows.shape[-1]), rows.dtype)
        for tap, position in self.taps(spatial):
            total[(slice(None), *position)] += rows[(..., *tap, slice(None))]
        return self.unpad(channels_first(total))

    def batches(self, shape: tuple[int, ...]) -> Iterator[slice]:
        """Runs of samples whose columns together stay small."""
        samples, channels, *spatial = shape
        each = channels * prod(self.window) * prod(self.count(tuple(spatial)))
        length = max(1, ELEMENTS_AT_ONCE // each)
        for start in range(0, samples, length):
            yield slice(start, min(start + length, samples))


def channels_last(x: Array) -> Array:
    """[n, c, *spatial] as [n, *spatial, c]."""
    return x.transpose(0, *range(2, x.ndim), 1)


def channels_first(x: Array) -> Array:
    """[n, *spatial, c] as [n, c, *spatial]."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))
