"""Winograd's form of 3 x 3 convolutions, for devices that have kernels of its transforms.

A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2015: F(m x m, 3 x 3)
computes tiles of m x m outputs with (m + 2)**2 products in place of 9 m**2. Whether that pays for
its transforms is for the cost to say. A fact `(tile m most least)` says that the device has m, how
large a tensor may be in bytes, and how many tiles are worth a product. Without one, no rule here
matches.

The form is bilinear, so the gradient in the kernel is the adjoint of its parts. The gradient in
the input is a convolution with the mirrored kernel, its channels changed about.
"""

from collections.abc import Iterable

from meganeura_dsl.transforms.egraph.rules.rule import Rewrite, RuleSet

_ONCE = "(vec-of 1 1)"
_GEOMETRY = f"{_ONCE} p {_ONCE} 1"
_SIZES = "(tile m most least) (= places (* (+ m 2) (+ m 2)))"


def _kernel(shape: str) -> str:
    """A pattern: the shape is one of nine taps, from c to k channels."""
    return (
        f"(= k (vec-get {shape} 0)) (= c (vec-get {shape} 1))"
        f" (= (vec-get {shape} 2) 3) (= (vec-get {shape} 3) 3)"
    )


def _tiles(shape: str) -> str:
    """A pattern: images of so many outputs, which are neither too many tiles nor too few."""
    return (
        f"(= n (vec-get {shape} 0)) (= h (vec-get {shape} 2)) (= v (vec-get {shape} 3))"
        " (= tiles (* n (* (/ (+ h (- m 1)) m) (/ (+ v (- m 1)) m))))"
        " (<= (* 4 (* places (* tiles (max c k)))) most) (>= tiles least)"
    )


def _transformed(x: str, padding: str, channels: str) -> str:
    return f'(WinogradInput {x} m {padding} (T "f32" (vec-of places {channels} tiles)))'


_KERNEL = '(WinogradKernel w m {mirrored} (T "f32" (vec-of places k c)))'
_FORWARD = (
    f"(MatMul {_KERNEL.format(mirrored='false')} {_transformed('x', 'p', 'c')} false false"
    ' (T "f32" (vec-of places k tiles)))'
)
_SEEN = f'{_SIZES} (= t (T "f32" st)) (= (type w) (T "f32" sw)) {_kernel("sw")} {_tiles("st")}'


def _convolutions() -> Iterable[Rewrite]:
    for name, formula, op, others, built in (
        ("winograd", "output(kernel(w) input(x))", "Conv", "", "WinogradOutput"),
        (
            "winograd-bias",
            "f(output(kernel(w) input(x)) + bias)",
            "FusedConv",
            "b",
            "FusedWinogradOutput",
        ),
        (
            "winograd-residual",
            "f(output(kernel(w) input(x)) + bias + residual)",
            "FusedConv_residual",
            "b y",
            "FusedWinogradOutput_residual",
        ),
    ):
        kind = "kind" if others else ""
        yield Rewrite(
            name,
            formula,
            f"(= e ({op} x w {others} {_GEOMETRY} {kind} t)) {_SEEN}",
            f"({built} {_FORWARD} {others} m n (vec-of h v) {kind} t)",
        )


WINOGRAD = RuleSet(
    "winograd",
    (
        *_convolutions(),
        Rewrite(
            "winograd-input-gradient",
            "output(mirrored kernel(w)^T input(dy)), with a padding of 2 - p",
            f"(= e (ConvInputGradient w dy {_GEOMETRY} _ t)) {_SEEN}"
            " (= p0 (vec-get p 0)) (= p1 (vec-get p 1)) (<= p0 2) (<= p1 2)",
            f"(WinogradOutput (MatMul {_KERNEL.format(mirrored='true')}"
            f" {_transformed('dy', '(vec-of (- 2 p0) (- 2 p1))', 'k')} true false"
            ' (T "f32" (vec-of places c tiles))) m n (vec-of h v) t)',
        ),
        Rewrite(
            "winograd-weight-gradient",
            "kernel'(output'(dy) input(x)^T), ' being the adjoint",
            f'(= e (ConvWeightGradient x dy {_GEOMETRY} _ t)) {_SIZES} (= t (T "f32" sw))'
            f' {_kernel("sw")} (= (type dy) (T "f32" sy)) {_tiles("sy")}',
            "(WinogradKernelGradient (MatMul (WinogradOutputGradient dy m"
            f' (T "f32" (vec-of places k tiles))) {_transformed("x", "p", "c")} false true'
            ' (T "f32" (vec-of places k c))) m t)',
        ),
    ),
    ("(relation tile (i64 i64 i64))",),
)
