"""Sliding windows over the trailing axes of [n, c, *spatial]: their sizes, and their elements."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from meganeura_dsl.graph.core import Array, Op
from meganeura_dsl.numerics import np
from meganeura_dsl.ops.rules import title
from meganeura_dsl.shapes.solve import Compare, Facts
from meganeura_dsl.shapes.tensor import Shape

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
    """How many windows fit: (s + 2 p - d (k - 1) - 1) // stride + 1, provably at least one."""
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
        """How many windows there are along each axis."""
        axes = zip(spatial, self.window, self.stride, self.padding, self.dilation, strict=True)
        return tuple((s + 2 * p - d * (k - 1) - 1) // step + 1 for s, k, step, p, d in axes)

    def pad(self, x: Array, value: float) -> Array:
        """Put the padding around the spatial axes of x [n, c, *spatial]."""
        if not any(self.padding):
            return x
        around = ((0, 0), (0, 0), *((p, p) for p in self.padding))
        return np.pad(x, around, constant_values=value)

    def unpad(self, padded: Array) -> Array:
        """What `pad` put the padding around."""
        ends = zip(self.padding, padded.shape[2:], strict=True)
        return padded[(..., *(slice(p, size - p) for p, size in ends))]

    def taps(self, spatial: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap, in row-major order, and where it meets the padded spatial axes."""
        counts = self.count(spatial)
        for tap in product(*map(range, self.window)):
            axes = zip(tap, self.dilation, self.stride, counts, strict=True)
            yield tap, tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in axes)

    def columns(self, x: Array) -> Array:
        """The elements all windows see: [c, *window, n, *count], as a view of padded x."""
        padded = self.pad(x, 0)
        reach = tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.window, strict=True))
        rank = len(self.window)
        views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, rank + 2)))
        steps = (slice(None, None, step) for step in (*self.stride, *self.dilation))
        views = views[(slice(None), slice(None), *steps)]
        spatial, window = range(2, rank + 2), range(rank + 2, 2 * rank + 2)
        return views.transpose(1, *window, 0, *spatial)

    def add_columns(self, columns: Array, spatial: tuple[int, ...]) -> Array:
        """The adjoint of `columns`: [c, *window, n, *count] added up into [n, c, *spatial]."""
        channels, samples = columns.shape[0], columns.shape[1 + len(self.window)]
        shape = tuple(s + 2 * p for s, p in zip(spatial, self.padding, strict=True))
        total = np.zeros((samples, channels, *shape), columns.dtype)
        for tap, place in self.taps(spatial):
            total[(..., *place)] += np.swapaxes(columns[(slice(None), *tap)], 0, 1)
        return self.unpad(total)

    def batches(self, shape: tuple[int, ...]) -> Iterator[slice]:
        """Runs of samples whose columns together stay small."""
        samples, channels, *spatial = shape
        each = channels * int(np.prod(self.window)) * int(np.prod(self.count(tuple(spatial))))
        length = max(1, ELEMENTS_AT_ONCE // each)
        for start in range(0, samples, length):
            yield slice(start, min(start + length, samples))
