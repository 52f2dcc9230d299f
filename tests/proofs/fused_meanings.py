"""The fused ops as compositions of primitives, and the gradients that some of them have as ops."""

from meganeura_dsl.symbolic.size import Size, product
from tests.proofs.convolution_meanings import MEANINGS as CONVOLUTIONS
from tests.proofs.convolution_meanings import conv
from tests.proofs.primitive_meanings import (
    MEANINGS as PRIMITIVES,
)
from tests.proofs.primitive_meanings import (
    Meaning,
    add,
    both,
    broadcast,
    choose,
    concat,
    cut,
    divide_by,
    each,
    largest,
    matmul,
    multiply,
    root,
    subtract,
    sum_over,
)
from tests.proofs.reals import (
    NOTHING,
    ONE,
    Function,
    Index,
    Real,
    Whole,
    compare,
    number,
    over,
    where,
)
from tests.proofs.tensors import Field, Scope, Tensor, constant, others, require
from tests.proofs.winograd import MEANINGS as WINOGRAD
from tests.proofs.winograd import winograd_output

HIDDEN = number(-(10**30))
HALF = number(0.5)
CUBIC, ROOT_OF_TWO_OVER_PI, ROOT_OF_HALF = map(number, (0.044715, 0.7978845608028654, 2**-0.5))
BELL = number(0.3989422804014327)
"""1 / sqrt(2 pi)."""


def activated(x: Real, kind: str) -> Real:
    """An activation of one number."""
    match kind:
        case "none":
            return x
        case "relu":
            return where(compare("le", x, NOTHING), NOTHING, x)
        case "sigmoid":
            return Function("logistic", x)
        case "softplus":
            near = Function("exp", where(compare("le", x, NOTHING), x, -x))
            return Function("log1p", near) + activated(x, "relu")
        case "silu":
            return x * Function("logistic", x)
        case "gelu":
            return HALF * x * (ONE + Function("erf", x * ROOT_OF_HALF))
        case "gelu_tanh":
            return HALF * x * (ONE + Function("tanh", _inner(x)))
        case _:
            raise ValueError(f"no activation {kind}")


def slope(x: Real, kind: str) -> Real:
    """The derivative of an activation, as `ActivationGradient` documents it."""
    s = Function("logistic", x)
    match kind:
        case "relu":
            return ONE - compare("le", x, NOTHING)
        case "sigmoid":
            return s * Function("logistic", -x)
        case "softplus":
            return s
        case "silu":
            return s * (ONE + x * (ONE - s))
        case "gelu":
            phi = HALF * (ONE + Function("erf", x * ROOT_OF_HALF))
            return phi + x * BELL * Function("exp", -HALF * x * x)
        case "gelu_tanh":
            value = Function("tanh", _inner(x))
            inner = ROOT_OF_TWO_OVER_PI * (ONE + Whole(3) * CUBIC * x * x)
            return HALF * (ONE + value + x * (ONE - value * value) * inner)
        case _:
            raise ValueError(f"no activation {kind}")


def _inner(x: Real) -> Real:
    return ROOT_OF_TWO_OVER_PI * (x + CUBIC * x * x * x)


def activation(scope: Scope, x: Tensor, kind: str) -> Tensor:
    return each(x, lambda e: activated(e, kind))


def activation_gradient(scope: Scope, x: Tensor, dy: Tensor, kind: str) -> Tensor:
    return both(scope, x, dy, lambda e, d: slope(e, kind) * d)


def swiglu(scope: Scope, gate: Tensor, value: Tensor) -> Tensor:
    return multiply(scope, activation(scope, gate, "silu"), value)


def mean(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean along axes."""
    count = Whole(product(x.shape[axis] for axis in axes))
    return each(sum_over(scope, x, axes), lambda e: e / count)


def spread(scope: Scope, x: Tensor, like: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The numbers that a reduction leaves, repeated along its axes."""
    return broadcast(scope, x, like.shape, others(axes, like.rank))


def centred(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """X - mean(x)."""
    return subtract(scope, x, spread(scope, mean(scope, x, axes), x, axes))


def variance(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    moved = centred(scope, x, axes)
    return mean(scope, multiply(scope, moved, moved), axes)


def _root_of_mean_square(scope: Scope, x: Tensor, axes: tuple[int, ...], eps: Real) -> Tensor:
    square = mean(scope, multiply(scope, x, x), axes)
    return spread(scope, each(square, lambda e: root(e + eps)), x, axes)


def standardize(
    scope: Scope, x: Tensor, axes: tuple[int, ...], eps: Real, is_centred: bool
) -> Tensor:
    moved = centred(scope, x, axes) if is_centred else x
    return divide_by(scope, moved, _root_of_mean_square(scope, moved, axes, eps))


def standardize_gradient(
    scope: Scope, x: Tensor, dy: Tensor, axes: tuple[int, ...], eps: Real, is_centred: bool
) -> Tensor:
    moved = centred(scope, x, axes) if is_centred else x
    scale = _root_of_mean_square(scope, moved, axes, eps)
    y = divide_by(scope, moved, scale)
    along = spread(scope, mean(scope, multiply(scope, dy, y), axes), x, axes)
    part = multiply(scope, y, along)
    if is_centred:
        part = add(scope, part, spread(scope, mean(scope, dy, axes), x, axes))
    return divide_by(scope, subtract(scope, dy, part), scale)


def scaled_norm(
    scope: Scope,
    x: Tensor,
    w: Tensor,
    axes: tuple[int, ...],
    eps: Real,
    kept: tuple[int, ...],
    is_centred: bool,
) -> Tensor:
    along = broadcast(scope, w, x.shape, kept)
    return multiply(scope, standardize(scope, x, axes, eps, is_centred), along)


def norm(
    scope: Scope,
    x: Tensor,
    w: Tensor,
    b: Tensor,
    axes: tuple[int, ...],
    eps: Real,
    kept: tuple[int, ...],
) -> Tensor:
    along = broadcast(scope, b, x.shape, kept)
    return add(scope, scaled_norm(scope, x, w, axes, eps, kept, True), along)


def norm_input_gradient(
    scope: Scope,
    x: Tensor,
    w: Tensor,
    dy: Tensor,
    axes: tuple[int, ...],
    eps: Real,
    kept: tuple[int, ...],
    is_centred: bool,
) -> Tensor:
    scaled = multiply(scope, dy, broadcast(scope, w, x.shape, kept))
    return standardize_gradient(scope, x, scaled, axes, eps, is_centred)


def norm_weight_gradient(
    scope: Scope,
    x: Tensor,
    dy: Tensor,
    axes: tuple[int, ...],
    eps: Real,
    kept: tuple[int, ...],
    is_centred: bool,
) -> Tensor:
    y = standardize(scope, x, axes, eps, is_centred)
    return sum_over(scope, multiply(scope, dy, y), others(kept, x.rank))


def shifted(scope: Scope, x: Tensor, axis: int) -> Tensor:
    """X - max(x) along an axis."""
    return subtract(scope, x, spread(scope, largest(scope, x, (axis,)), x, (axis,)))


def softmax(scope: Scope, x: Tensor, axis: int) -> Tensor:
    powers = each(shifted(scope, x, axis), lambda e: Function("exp", e))
    whole = spread(scope, sum_over(scope, powers, (axis,)), x, (axis,))
    return divide_by(scope, powers, whole)


def log_softmax(scope: Scope, x: Tensor, axis: int) -> Tensor:
    y = shifted(scope, x, axis)
    powers = each(y, lambda e: Function("exp", e))
    whole = each(sum_over(scope, powers, (axis,)), lambda e: Function("log", e))
    return subtract(scope, y, spread(scope, whole, x, (axis,)))


def softmax_gradient(scope: Scope, y: Tensor, dy: Tensor, axis: int) -> Tensor:
    level = sum_over(scope, multiply(scope, y, dy), (axis,))
    return multiply(scope, y, subtract(scope, dy, spread(scope, level, y, (axis,))))


def _picked(logits: Tensor, labels: Tensor) -> Tensor:
    require(labels.dtype == "i32", "labels are classes")
    return logits.with_elements(lambda i: compare("eq", labels.at(i[:-1]), Whole(i[-1])), "bool")


def cross_entropy(scope: Scope, logits: Tensor, labels: Tensor) -> Tensor:
    scope.same_shape(logits.shape[:-1], labels.shape)
    last = logits.rank - 1
    logs = log_softmax(scope, logits, last)
    nothing = constant(NOTHING, logits.dtype, logits.shape)
    kept = choose(scope, _picked(logits, labels), logs, nothing)
    return each(sum_over(scope, kept, (last,)), lambda e: -e)


def cross_entropy_gradient(scope: Scope, logits: Tensor, labels: Tensor, dy: Tensor) -> Tensor:
    last = logits.rank - 1
    picked = _picked(logits, labels).with_elements(_picked(logits, labels).at, logits.dtype)
    known = spread(scope, sum_over(scope, picked, (last,)), logits, (last,))
    share = multiply(scope, softmax(scope, logits, last), known)
    return multiply(scope, subtract(scope, share, picked), spread(scope, dy, logits, (last,)))


def soft_cross_entropy(scope: Scope, logits: Tensor, labels: Tensor) -> Tensor:
    last = logits.rank - 1
    logs = log_softmax(scope, logits, last)
    return each(sum_over(scope, multiply(scope, labels, logs), (last,)), lambda e: -e)


def soft_cross_entropy_gradient(scope: Scope, logits: Tensor, labels: Tensor, dy: Tensor) -> Tensor:
    last = logits.rank - 1
    whole = spread(scope, sum_over(scope, labels, (last,)), logits, (last,))
    share = multiply(scope, softmax(scope, logits, last), whole)
    return multiply(scope, subtract(scope, share, labels), spread(scope, dy, logits, (last,)))


def rotate(scope: Scope, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    require(x.rank >= 2 and cosine.rank == 2, "what is turned")
    rows, half = cosine.shape
    scope.same_shape(x.shape[-2:], (rows, 2 * half))
    first, second = halves(scope, x, half)
    axes = (x.rank - 2, x.rank - 1)
    c, s = (broadcast(scope, table, first.shape, axes) for table in (cosine, sine))
    left = subtract(scope, multiply(scope, first, c), multiply(scope, second, s))
    right = add(scope, multiply(scope, second, c), multiply(scope, first, s))
    return concat(scope, left, right, x.rank - 1)


def halves(scope: Scope, x: Tensor, half: Size) -> tuple[Tensor, Tensor]:
    """The first and the second half of the last axis."""
    *rest, width = x.shape
    scope.same(width, 2 * half)
    zeros, ones = (0,) * x.rank, (1,) * x.rank
    first = cut(scope, x, zeros, (*rest, half), ones)
    return first, cut(scope, x, (*zeros[:-1], half), (*rest, 2 * half), ones)


def hides(window: int | Size, row: Size, column: Size) -> Real:
    """1 where a column is ahead of its row, or behind it by the window or more if that is not 0."""
    ahead = compare("gt", Whole(column), Whole(row))
    if window == 0:
        return ahead
    behind = compare("ge", Whole(row - column), Whole(window))
    return ahead + behind - ahead * behind


def scores(
    scope: Scope, q: Tensor, k: Tensor, scale: Real, causal: bool, window: Size, *mask: Tensor
) -> Tensor:
    """The scores of every query with every key, hidden ones being very low."""
    require(q.rank > 2, "attention over batches")
    found = each(matmul(scope, q, k, False, True), lambda e: e * scale)
    for tensor in mask:
        found = add(scope, found, tensor)
    if not causal:
        require(window == 0, "a window of what is not causal")
        return found
    scope.same(*found.shape[-2:])
    plain = found
    return found.with_elements(lambda i: where(hides(window, i[-2], i[-1]), HIDDEN, plain.at(i)))


def repeated(x: Tensor, times: Size) -> Tensor:
    """Each head of [..., heads, rows, width] so many times in a row."""
    axis = x.rank - 3
    shape = (*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :])
    return Tensor(x.dtype, shape, lambda i: x.at((*i[:axis], i[axis] // times, *i[axis + 1 :])))


def attention(scope: Scope, q: Tensor, k: Tensor, v: Tensor, *rest: Field) -> Tensor:
    """The first result of attention; the others are not looked at."""
    *mask, scale, causal, window, shared, result = rest
    require(q.rank == k.rank == v.rank > 2, "attention over batches")
    if shared != 1:
        k, v = repeated(k, shared), repeated(v, shared)
    found = scores(scope, q, k, scale, causal, window, *mask)
    if result == 1:
        return _rows(scope, found)
    return matmul(scope, softmax(scope, found, q.rank - 1), v, False, False)


def _rows(scope: Scope, found: Tensor) -> Tensor:
    last = found.rank - 1
    powers = each(shifted(scope, found, last), lambda e: Function("exp", e))
    logs = each(sum_over(scope, powers, (last,)), lambda e: Function("log", e))
    return add(scope, largest(scope, found, (last,)), logs)


def attention_gradient(
    scope: Scope,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dy: Tensor,
    rows: Tensor,
    level: Tensor,
    *rest: Field,
) -> Tensor:
    """One of dq, dk, dv and the gradient of a mask."""
    *mask, scale, causal, window, shared, result = rest
    if shared != 1:
        k, v = repeated(k, shared), repeated(v, shared)
    found = scores(scope, q, k, scale, causal, window, *mask)
    last = q.rank - 1
    if mask:
        weights = softmax(scope, found, last)
    else:
        weights = each(
            subtract(scope, found, spread(scope, rows, found, (last,))),
            lambda e: Function("exp", e),
        )
    inner = subtract(scope, matmul(scope, dy, v, False, True), spread(scope, level, found, (last,)))
    slopes = multiply(scope, weights, inner)
    scaled = each(slopes, lambda e: scale * e)
    return [
        lambda: matmul(scope, scaled, k, False, False),
        lambda: _over_shared(matmul(scope, scaled, q, True, False), shared),
        lambda: _over_shared(matmul(scope, weights, dy, True, False), shared),
        lambda: slopes,
    ][result]()


def _over_shared(x: Tensor, times: Size) -> Tensor:
    """The sum over each so many heads in a row."""
    if times == 1:
        return x
    axis = x.rank - 3
    shape = (*x.shape[:axis], x.shape[axis] // times, *x.shape[axis + 1 :])

    def at(index: Index) -> Real:
        first = index[axis] * times
        return over("sum", times, lambda k: x.at((*index[:axis], first + k, *index[axis + 1 :])))

    return Tensor(x.dtype, shape, at)


def fused_matmul(scope: Scope, a: Tensor, b: Tensor, bias: Tensor, *rest: Field) -> Tensor:
    *residual, left, right, kind = rest
    product = matmul(scope, a, b, left, right)
    return _finished(scope, product, product.rank - 1, bias, residual, kind)


def fused_conv(scope: Scope, x: Tensor, w: Tensor, bias: Tensor, *rest: Field) -> Tensor:
    *residual, stride, padding, dilation, groups, kind = rest
    product = conv(scope, x, w, stride, padding, dilation, groups)
    return _finished(scope, product, 1, bias, residual, kind)


def _finished(
    scope: Scope, x: Tensor, axis: int, bias: Tensor, residual: list[Tensor], kind: str
) -> Tensor:
    found = add(scope, x, broadcast(scope, bias, x.shape, (axis,)))
    for tensor in residual:
        found = add(scope, found, tensor)
    return activation(scope, found, kind)


def fused_winograd_output(scope: Scope, products: Tensor, bias: Tensor, *rest: Field) -> Tensor:
    """The images with a bias along the channels, a residual and an activation."""
    *residual, m, images, spatial, kind = rest
    found = winograd_output(scope, products, m, images, spatial)
    return _finished(scope, found, 1, bias, residual, kind)


def affine(scope: Scope, x: Tensor, s: Tensor, b: Tensor) -> Tensor:
    """X s + b, along the channels."""
    require(x.rank >= 2, "channels")
    s, b = (broadcast(scope, each_, x.shape, (1,)) for each_ in (s, b))
    return add(scope, multiply(scope, x, s), b)


MEANINGS: dict[str, Meaning] = {
    **PRIMITIVES,
    "Activation": activation,
    "ActivationGradient": activation_gradient,
    "SwiGLU": swiglu,
    "Variance": variance,
    "Standardize": standardize,
    "StandardizeGradient": standardize_gradient,
    "ScaledNorm": scaled_norm,
    "Norm": norm,
    "NormInputGradient": norm_input_gradient,
    "NormWeightGradient": norm_weight_gradient,
    "Softmax": softmax,
    "SoftmaxGradient": softmax_gradient,
    "LogSoftmax": log_softmax,
    "CrossEntropy": cross_entropy,
    "CrossEntropyGradient": cross_entropy_gradient,
    "SoftCrossEntropy": soft_cross_entropy,
    "SoftCrossEntropyGradient": soft_cross_entropy_gradient,
    "Rotate": rotate,
    "Attention": attention,
    "Attention_mask": attention,
    "AttentionGradient": attention_gradient,
    "AttentionGradient_mask": attention_gradient,
    "FusedMatMul": fused_matmul,
    "FusedMatMul_residual": fused_matmul,
    "FusedConv": fused_conv,
    "FusedConv_residual": fused_conv,
    **CONVOLUTIONS,
    **WINOGRAD,
    "FusedWinogradOutput": fused_winograd_output,
    "FusedWinogradOutput_residual": fused_winograd_output,
}
