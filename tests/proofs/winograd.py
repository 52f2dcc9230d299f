"""Winograd's transforms, of any number m of outputs whose matrices satisfy the lemma.

For o < m, i < m + 2 and t < 3, with the matrices of `winograd_matrices`,

    sum_e output[o, e] input[e, i] kernel[e, t] = [i = o + t]
"""

from fractions import Fraction
from math import prod

from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS, TAPS
from meganeura_dsl.symbolic.size import Size
from tests.proofs.primitive_meanings import Meaning
from tests.proofs.reals import Element, Index, Real, total, within
from tests.proofs.tensors import Scope, Shape, Tensor, require

Matrix = list[list[Fraction]]


def exact_matrices(outputs: int) -> dict[str, Matrix]:
    """The matrices in fractions."""
    points = [Fraction(point) for point in POINTS[outputs]]
    data, kernel, output = [], [], []
    for point in points:
        rest = [other for other in points if other != point]
        data.append([*_coefficients(rest), Fraction(0)])
        scale = prod(point - other for other in rest)
        kernel.append([point**tap / scale for tap in range(TAPS)])
        output.append([point**place for place in range(outputs)])
    data.append(_coefficients(points))
    kernel.append([Fraction(tap == TAPS - 1) for tap in range(TAPS)])
    output.append([Fraction(place == outputs - 1) for place in range(outputs)])
    return {
        "input": data,
        "kernel": kernel,
        "output": [list(row) for row in zip(*output, strict=True)],
    }


def lemma_holds(outputs: int, matrices: dict[str, Matrix]) -> bool:
    """True if the lemma holds for these matrices."""
    size = outputs + TAPS - 1
    return all(
        sum(
            matrices["output"][o][e] * matrices["input"][e][i] * matrices["kernel"][e][t]
            for e in range(size)
        )
        == (i == o + t)
        for o in range(outputs)
        for i in range(size)
        for t in range(TAPS)
    )


def _coefficients(roots: list[Fraction]) -> list[Fraction]:
    """The polynomial of these roots, from its constant on."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [
            high - root * low for high, low in zip(shifted, [*found, Fraction(0)], strict=True)
        ]
    return found


def _tiles(length: Size, m: Size) -> Size:
    return (length - 1) // m + 1


def _split(number: Size, down: Size, across: Size) -> tuple[Size, Size, Size]:
    """The image, row and column of a tile."""
    image, row = number // (down * across), number // across
    return image, row - down * (row // down), number - across * row


def _both(name: str, first: Index, second: Index) -> Real:
    return Element(name, first) * Element(name, second)


def _place(element: Size, m: Size) -> tuple[Size, Size]:
    row = element // (m + 2)
    return row, element - (m + 2) * row


def winograd_input(scope: Scope, x: Tensor, m: Size, padding: Shape) -> Tensor:
    """The tiles of an image with zeros around it, transformed: [elements, c, tiles]."""
    require(x.rank == 4 and len(padding) == 2, "an image")
    n, c, *spatial = x.shape
    for size, around in zip(spatial, padding, strict=True):
        scope.at_least(size + 2 * around, TAPS)
    down, across = (
        _tiles(size + 2 * p - TAPS + 1, m) for size, p in zip(spatial, padding, strict=True)
    )

    def at(index: Index) -> Real:
        element, channel, tile = index
        (e, f), (image, row, column) = _place(element, m), _split(tile, down, across)

        def term(k: Index) -> Real:
            y, z = row * m + k[0] - padding[0], column * m + k[1] - padding[1]
            seen = x.at((image, channel, y, z)) * within(y, spatial[0]) * within(z, spatial[1])
            return _both("input", (e, k[0]), (f, k[1])) * seen

        return total((m + 2, m + 2), term)

    return Tensor(x.dtype, ((m + 2) * (m + 2), c, n * down * across), at)


def winograd_kernel(scope: Scope, w: Tensor, m: Size, mirrored: bool) -> Tensor:
    """The kernel, or its mirror image, transformed: [elements, k, c]."""
    require(w.rank == 4, "a kernel")
    scope.same_shape(w.shape[2:], (TAPS, TAPS))

    def at(index: Index) -> Real:
        element, k, c = index
        e, f = _place(element, m)

        def term(taps: Index) -> Real:
            seen = tuple(TAPS - 1 - tap for tap in taps) if mirrored else taps
            return _both("kernel", (e, taps[0]), (f, taps[1])) * w.at((k, c, *seen))

        return total((TAPS, TAPS), term)

    return Tensor(w.dtype, ((m + 2) * (m + 2), *w.shape[:2]), at)


def winograd_output(
    scope: Scope, products: Tensor, m: Size, images: Size, spatial: Shape
) -> Tensor:
    """Products [elements, k, tiles] as images [n, k, *spatial]."""
    down, across = (_tiles(size, m) for size in spatial)
    require(products.rank == 3, "products of elements and tiles")
    scope.same_shape(
        (products.shape[0], products.shape[2]), ((m + 2) * (m + 2), images * down * across)
    )

    def at(index: Index) -> Real:
        n, k, y, z = index
        tile = (n * down + y // m) * across + z // m
        o, p = y - m * (y // m), z - m * (z // m)

        def term(e: Index) -> Real:
            return _both("output", (o, e[0]), (p, e[1])) * products.at(
                (e[0] * (m + 2) + e[1], k, tile)
            )

        return total((m + 2, m + 2), term)

    return Tensor(products.dtype, (images, products.shape[1], *spatial), at)


def winograd_output_gradient(scope: Scope, dy: Tensor, m: Size) -> Tensor:
    """The adjoint of `winograd_output`: products [elements, k, tiles]."""
    require(dy.rank == 4, "images")
    n, k, *spatial = dy.shape
    down, across = (_tiles(size, m) for size in spatial)

    def at(index: Index) -> Real:
        element, channel, tile = index
        (e, f), (image, row, column) = _place(element, m), _split(tile, down, across)

        def term(o: Index) -> Real:
            y, z = row * m + o[0], column * m + o[1]
            seen = dy.at((image, channel, y, z)) * within(y, spatial[0]) * within(z, spatial[1])
            return _both("output", (o[0], e), (o[1], f)) * seen

        return total((m, m), term)

    return Tensor(dy.dtype, ((m + 2) * (m + 2), k, n * down * across), at)


def winograd_kernel_gradient(scope: Scope, products: Tensor, m: Size) -> Tensor:
    """The adjoint of `winograd_kernel`: [k, c, 3, 3]."""
    require(products.rank == 3, "products of elements")
    scope.same(products.shape[0], (m + 2) * (m + 2))

    def at(index: Index) -> Real:
        k, c, *taps = index

        def term(e: Index) -> Real:
            return _both("kernel", (e[0], taps[0]), (e[1], taps[1])) * products.at(
                (e[0] * (m + 2) + e[1], k, c)
            )

        return total((m + 2, m + 2), term)

    return Tensor(products.dtype, (*products.shape[1:], TAPS, TAPS), at)


MEANINGS: dict[str, Meaning] = {
    "WinogradInput": winograd_input,
    "WinogradKernel": winograd_kernel,
    "WinogradKernelGradient": winograd_kernel_gradient,
    "WinogradOutput": winograd_output,
    "WinogradOutputGradient": winograd_output_gradient,
}
