"""Convolution and its two adjoints as formulas of elements."""

from meganeura_dsl.symbolic.polynomial import divide
from meganeura_dsl.symbolic.size import Size, dim
from tests.proofs.primitive_meanings import FLOATS, Meaning, product_of
from tests.proofs.reals import Condition, Index, Real, fresh, total, within
from tests.proofs.tensors import Scope, Shape, Tensor, require


def windows(
    scope: Scope, spatial: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    """The number of windows that fit along each axis, one at least."""
    require(len(stride) == len(padding) == len(dilation) == len(spatial), "axes of windows")
    require(len(kernel) == len(spatial) > 0, "axes of a kernel")
    shape: list[Size] = []
    for size, taps, step, around, apart in zip(
        spatial, kernel, stride, padding, dilation, strict=True
    ):
        scope.at_least(step, 1)
        scope.at_least(around, 0)
        scope.at_least(apart, 1)
        free = size + 2 * around - apart * (taps - 1) - 1
        scope.at_least(free, 0)
        shape.append(free // step + 1)
    return tuple(shape)


def conv(
    scope: Scope, x: Tensor, w: Tensor, stride: Shape, padding: Shape, dilation: Shape, groups: Size
) -> Tensor:
    require(x.dtype == w.dtype and x.dtype in FLOATS and x.rank == w.rank > 2, "a convolution")
    spatial = windows(scope, x.shape[2:], w.shape[2:], stride, padding, dilation)
    outputs, depth, *kernel = w.shape
    each_group = grouped(scope, outputs, groups)
    scope.same(x.shape[1], depth * groups)

    def at(index: Index) -> Real:
        n, output, *places = index

        def term(k: Index) -> Real:
            c, *taps = k
            seen = _seen(places, taps, stride, padding, dilation)
            inside = product_of(*map(within, seen, x.shape[2:]))
            channel = output // each_group * depth + c
            return x.at((n, channel, *seen)) * w.at((output, c, *taps)) * inside

        return total((depth, *kernel), term)

    return Tensor(x.dtype, (x.shape[0], outputs, *spatial), at)


def conv_input_gradient(
    scope: Scope,
    w: Tensor,
    dy: Tensor,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: Size,
    spatial: Shape,
) -> Tensor:
    """The sum over outputs, windows and taps that see a place."""
    outputs, depth, *kernel = w.shape
    made = windows(scope, spatial, tuple(kernel), stride, padding, dilation)
    each_group = grouped(scope, outputs, groups)
    scope.same_shape(dy.shape[1:], (outputs, *made))

    def at(index: Index) -> Real:
        n, channel, *places = index

        def term(k: Index) -> Real:
            o, *rest = k
            taps, seen_from = rest[: len(kernel)], rest[len(kernel) :]
            seen = _seen(seen_from, taps, stride, padding, dilation)
            meets = (Condition("==", a - b) for a, b in zip(seen, places, strict=True))
            same_group = Condition("==", o // each_group - channel // depth)
            c = channel - depth * (channel // depth)
            return w.at((o, c, *taps)) * dy.at((n, o, *seen_from)) * product_of(same_group, *meets)

        return total((outputs, *kernel, *dy.shape[2:]), term)

    return Tensor(w.dtype, (dy.shape[0], depth * groups, *spatial), at)


def conv_weight_gradient(
    scope: Scope,
    x: Tensor,
    dy: Tensor,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: Size,
    kernel: Shape,
) -> Tensor:
    """The sum over images and windows of what a tap sees."""
    made = windows(scope, x.shape[2:], kernel, stride, padding, dilation)
    scope.same_shape(dy.shape, (x.shape[0], dy.shape[1], *made))
    each_group = grouped(scope, dy.shape[1], groups)
    depth = grouped(scope, x.shape[1], groups)

    def at(index: Index) -> Real:
        output, c, *taps = index

        def term(k: Index) -> Real:
            n, *places = k
            seen = _seen(places, taps, stride, padding, dilation)
            inside = product_of(*map(within, seen, x.shape[2:]))
            channel = output // each_group * depth + c
            return dy.at((n, output, *places)) * x.at((n, channel, *seen)) * inside

        return total((x.shape[0], *dy.shape[2:]), term)

    return Tensor(x.dtype, (dy.shape[1], depth, *kernel), at)


def grouped(scope: Scope, channels: Size, groups: Size) -> Size:
    """The channels of each group, which all have as many."""
    scope.at_least(groups, 1)
    quotient, rest = divide(scope.world.normal(channels), scope.world.normal(groups))
    if rest == 0:
        return quotient
    if scope.mode == "show":
        scope.same(channels, groups * (channels // groups))
        return channels // groups
    share = dim(fresh("share"))
    scope.same(channels, groups * share)
    return share


def _seen(
    places: Index | list[Size],
    taps: Index | list[Size],
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Index:
    """Where the taps of windows fall."""
    axes = zip(places, taps, stride, padding, dilation, strict=True)
    return tuple(place * by + tap * apart - around for place, tap, by, around, apart in axes)


MEANINGS: dict[str, Meaning] = {
    "Conv": conv,
    "ConvInputGradient": conv_input_gradient,
    "ConvWeightGradient": conv_weight_gradient,
}
