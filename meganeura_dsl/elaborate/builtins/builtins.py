"""The functions the language starts from. Everything else is written in the language itself."""

import zlib
from inspect import cleandoc
from math import pi

from meganeura_dsl.elaborate.builtins.builtin_call import Builtin, BuiltinCall
from meganeura_dsl.elaborate.builtins.builtin_constant import constant
from meganeura_dsl.elaborate.builtins.builtin_gradient import grad
from meganeura_dsl.elaborate.builtins.builtin_indexing import (
    argmax,
    argsort,
    cumulative,
    gather,
    iota,
    linear_recurrence,
    one_hot,
    roll,
    scatter_add,
    scatter_extreme,
    sort,
    top_k,
)
from meganeura_dsl.elaborate.builtins.builtin_math import (
    BINARY,
    UNARY,
    convert,
    fold_all,
    fold_any,
    fold_max,
    fold_mean,
    fold_min,
    fold_sum,
    fold_variance,
    pair,
    reduction,
    sign,
    stop_gradient,
    unary,
    where,
)
from meganeura_dsl.elaborate.builtins.builtin_weights import on_weights, sum_of_weights, weights
from meganeura_dsl.elaborate.builtins.initial_values import initial_call
from meganeura_dsl.elaborate.scope.scope import Frame, UndecidableError
from meganeura_dsl.elaborate.typecheck import tensor_arithmetic
from meganeura_dsl.elaborate.typecheck.shape_patterns import Rearranger
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    Opaque,
    Pattern,
    Tensor,
    TensorList,
    is_number,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.primitive.cumulative import Accumulation
from meganeura_dsl.ir.ops.primitive.gather_scatter import Extreme
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.assumptions import Compare, Unproved
from meganeura_dsl.symbolic.size import Dim, Size, product

ACCUMULATIONS: dict[Accumulation, str] = {
    "sum": "sum",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
}
EXTREMES: dict[Extreme, str] = {"max": "largest", "min": "smallest"}
GEOMETRY = ("stride", "pad", "dilation", "groups")


# --- movement ------------------------------------------------------------------------------------


def _mover(call: BuiltinCall) -> tuple[Rearranger, Tensor]:
    pattern = call.option(1, "pattern")
    if not isinstance(pattern, Pattern):
        raise call.fault("needs a pattern")
    return Rearranger(call.frame, call.span, pattern), call.tensor(0)


def _rearrange(call: BuiltinCall) -> ElabValue:
    mover, value = _mover(call)
    return mover.rearrange(value)


def _expand(call: BuiltinCall) -> ElabValue:
    mover, value = _mover(call)
    return mover.expand(value)


def _insert_axis(call: BuiltinCall) -> ElabValue:
    value = call.tensor(0)
    axis = call.axis(call.option(1, "axis"), value.type.rank + 1)
    shape = (*value.type.shape[:axis], call.size(2, "size"), *value.type.shape[axis:])
    return tensor_arithmetic.broadcast(
        call.frame, call.span, value, shape, tuple(i for i in range(len(shape)) if i != axis)
    )


def _repeat(call: BuiltinCall) -> ElabValue:
    """Each slice along an axis `times` times in a row."""
    value = call.tensor(0)
    axis, times = call.axis(call.option(1, "axis"), value.type.rank), call.size(2, "times")
    before, size, after = (
        value.type.shape[:axis],
        value.type.shape[axis],
        value.type.shape[axis + 1 :],
    )
    spread = (*before, size, times, *after)
    kept = tuple(index for index in range(len(spread)) if index != axis + 1)
    repeated = tensor_arithmetic.broadcast(call.frame, call.span, value, spread, kept)
    return call.add(ops.Reshape((*before, size * times, *after)), repeated)


def _concat(call: BuiltinCall) -> ElabValue:
    operands = [
        tensor
        for index, value in enumerate(call.arguments)
        if value != []
        for tensor in (value.items if isinstance(value, TensorList) else (call.tensor(index),))
    ]
    if not operands:
        raise call.fault("needs at least one tensor")
    axis = call.named.get("axis")
    if axis is None:
        raise call.fault("needs `axis`")
    together = tensor_arithmetic.promoted(call.frame, call.span, *operands)
    return call.add(ops.Concat(call.axis(axis, operands[0].type.rank)), *together)


def _pad(call: BuiltinCall) -> ElabValue:
    value = call.tensor(0)
    rank = value.type.rank
    axis = call.axis(call.option(1, "axis"), rank)
    low, high = call.size(2, "before", 0), call.size(3, "after", 0)
    lows = tuple(low if index == axis else 0 for index in range(rank))
    highs = tuple(high if index == axis else 0 for index in range(rank))
    return call.add(ops.Pad(lows, highs, (0,) * rank), value)


def _reverse(call: BuiltinCall) -> ElabValue:
    value = call.tensor(0)
    return call.add(ops.Reverse((call.axis(call.option(1, "axis"), value.type.rank),)), value)


# --- creation -----------------------------------------------------------------------------------


def _full(call: BuiltinCall) -> ElabValue:
    value = call.option(1, "value", {"zeros": 0.0, "ones": 1.0}.get(call.name))
    if not is_number(value):
        raise call.wrong("a number", value)
    return tensor_arithmetic.scalar(call.frame, call.span, value, DType.F32, call.shape(0, "shape"))


def _random_uniform(call: BuiltinCall) -> ElabValue:
    """Uniform on [0, 1)."""
    return _uniform(call, call.shape(0, "shape"))


def _random_normal(call: BuiltinCall) -> ElabValue:
    """Normal with mean 0 and variance 1: sqrt(-2 log(u)) cos(2 pi v) for uniform u and v.

    G. Box and M. Muller, "A note on the generation of random normal deviates", 1958. 1 - u is in
    (0, 1], so that its logarithm is a number.
    """
    frame, span, shape = call.frame, call.span, call.shape(0, "shape")
    one, minus_two, turn = (
        tensor_arithmetic.scalar(frame, span, number, DType.F32, shape)
        for number in (1.0, -2.0, 2 * pi)
    )
    positive = call.add(ops.Sub(), one, _uniform(call, shape))
    radius = call.add(ops.Sqrt(), call.add(ops.Mul(), minus_two, call.add(ops.Log(), positive)))
    angle = call.add(ops.Mul(), turn, _uniform(call, shape))
    return call.add(ops.Mul(), radius, call.add(ops.Cos(), angle))


def _uniform(call: BuiltinCall, shape: Shape) -> Tensor:
    """A random word scaled by 2**-32, kept below 1 where f32 would round up."""
    frame = call.frame
    counter = _counter(call)
    bits = call.add(ops.RandomBits(_stream(frame), shape), counter)
    real = tensor_arithmetic.cast(frame, call.span, bits, DType.F32)
    scale = tensor_arithmetic.scalar(frame, call.span, 2.0**-32, DType.F32, shape)
    largest = tensor_arithmetic.scalar(frame, call.span, 1 - 2.0**-24, DType.F32, shape)
    return call.add(ops.Minimum(), call.add(ops.Mul(), real, scale), largest)


def _counter(call: BuiltinCall) -> Tensor:
    """(seed, step), or within a scan two words that are drawn from them for each round."""
    state = call.frame.state
    if state.body.counter is None:
        state.body.counter = call.add(ops.Input(COUNTER, DType.U32, (2,)))
    counter = state.body.counter
    for scan in state.scans.values():
        if scan.key is None:
            drawn = ops.RandomBits(_stream(call.frame), (scan.rounds, 2))
            scan.key = scan.region.slice(call.add(drawn, counter), 0, backward=False)
        counter = scan.key
    return counter


def _stream(frame: Frame) -> int:
    """A number for each draw, from its layer's path and its rank there: no two draws share one."""
    count = frame.state.body.streams.get(frame.path, 0)
    frame.state.body.streams[frame.path] = count + 1
    return zlib.crc32(f"{frame.path}#{count}".encode())


# --- contractions --------------------------------------------------------------------------------


def _conv(call: BuiltinCall) -> ElabValue:
    x, weight = tensor_arithmetic.promoted(call.frame, call.span, call.tensor(0), call.tensor(1))
    rank = x.type.rank - 2
    return call.add(ops.Conv(*_geometry(call, rank)), x, weight)


def _conv_transpose(call: BuiltinCall) -> ElabValue:
    x, weight = tensor_arithmetic.promoted(call.frame, call.span, call.tensor(0), call.tensor(1))
    rank = x.type.rank - 2
    stride, padding, dilation, groups = _geometry(call, rank)
    kernel = weight.type.shape[2:]
    extra = call.sizes(6, "output_pad", rank, 0)
    try:
        for more, by in zip(extra, stride, strict=True):
            call.frame.facts.require(Compare(">=", more, 0), "`output_pad` is not below 0")
            call.frame.facts.require(Compare("<", more, by), "`output_pad` is below the stride")
    except Unproved as error:
        raise call.frame.refused(call.span, error) from error
    spatial = tuple(
        (size - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for size, s, p, d, k, e in zip(  # a kernel of another rank is refused by the op
            x.type.shape[2:], stride, padding, dilation, kernel, extra, strict=False
        )
    )
    return call.add(ops.ConvInputGradient(stride, padding, dilation, groups, spatial), weight, x)


def _geometry(call: BuiltinCall, rank: int) -> tuple[Shape, Shape, Shape, Size]:
    return (
        call.sizes(2, "stride", rank, 1),
        call.sizes(3, "pad", rank, 0),
        call.sizes(4, "dilation", rank, 1),
        call.size(5, "groups", 1),
    )


def _window_max(call: BuiltinCall) -> ElabValue:
    x = call.tensor(0)
    rank = x.type.rank - 2
    window = call.sizes(1, "k", rank)
    has_stride = len(call.arguments) > 2 or "stride" in call.named
    stride = call.sizes(2, "stride", rank) if has_stride else window
    return call.add(ops.MaxPool(window, stride, call.sizes(3, "pad", rank, 0)), x)


# --- facts about tensors -------------------------------------------------------------------------


def _rank(call: BuiltinCall) -> ElabValue:
    return call.tensor(0).type.rank


def _size_of(call: BuiltinCall) -> ElabValue:
    value = call.tensor(0)
    return value.type.shape[call.axis(call.option(1, "axis"), value.type.rank)]


def _shape_of(call: BuiltinCall) -> ElabValue:
    return Axes(call.tensor(0).type.shape)


def _is_integer(call: BuiltinCall) -> ElabValue:
    return call.tensor(0).type.dtype.is_integer


def _length(call: BuiltinCall) -> ElabValue:
    value = call.option(0, "list")
    if isinstance(value, list | Axes):
        return len(value)
    if isinstance(value, TensorList):
        return len(value.items)
    if isinstance(value, Dim):
        raise UndecidableError("`len` needs the list the configuration gives")
    raise call.wrong("a list", value)


def _product(call: BuiltinCall) -> ElabValue:
    value = call.option(0, "axes")
    if isinstance(value, Dim):
        raise UndecidableError("`product` needs the list the configuration gives")
    return product(call.shape(0, "axes"))


def _whole(call: BuiltinCall) -> ElabValue:
    value = call.option(0, "x")
    if isinstance(value, Dim | Opaque):
        raise UndecidableError("a size is rounded from a number the configuration gives")
    if isinstance(value, int | float):
        return int(value)
    raise call.wrong("a number", value)


def _first_line(op: Op) -> str:
    return cleandoc(op.__doc__ or "").partition("\n")[0]


BUILTINS: dict[str, Builtin] = {
    **{
        name: Builtin(f"{name}(x)", _first_line(op), on_weights(unary))
        for name, op in UNARY.items()
    },
    **{
        name: Builtin(f"{name}(a, b)", _first_line(op), on_weights(pair(op)), leading=2)
        for name, op in BINARY.items()
    },
    "where": Builtin(
        "where(condition, then, otherwise)",
        "`then` where the condition holds, `otherwise` elsewhere, element by element.",
        where,
        leading=3,
    ),
    "sign": Builtin("sign(x)", "-1, 0 or 1, without a slope.", on_weights(sign)),
    "stop_gradient": Builtin(
        "stop_gradient(x)", "x, as a constant for differentiation.", on_weights(stop_gradient)
    ),
    "weights": Builtin(
        "weights(layer)",
        "All trained parameters of a layer as one value, which `grad` may be taken by.",
        weights,
    ),
    "grad": Builtin(
        "grad(scalar, x)",
        "The gradient of a scalar with respect to the name x, a value of the shape of x.",
        grad,
        leading=2,
    ),
    **{
        dtype.value: Builtin(f"{dtype.value}(x)", f"x as `{dtype.value}`.", convert(dtype))
        for dtype in DType
    },
    "sum": Builtin(
        "sum(x, axes...)",
        "The sum over some axes, or all.",
        sum_of_weights(reduction(fold_sum)),
        leading=None,
    ),
    "mean": Builtin(
        "mean(x, axes...)",
        "The mean over some axes, or all; of bools, the fraction that is true.",
        reduction(fold_mean),
        leading=None,
    ),
    "max": Builtin(
        "max(x, axes...)", "The largest element over some axes.", reduction(fold_max), leading=None
    ),
    "min": Builtin(
        "min(x, axes...)", "The smallest element over some axes.", reduction(fold_min), leading=None
    ),
    "variance": Builtin(
        "variance(x, axes...)",
        "The biased variance over some axes.",
        reduction(fold_variance),
        leading=None,
    ),
    "any": Builtin(
        "any(x, axes...)",
        "Whether one of the bools over some axes holds.",
        reduction(fold_any),
        leading=None,
    ),
    "all": Builtin(
        "all(x, axes...)",
        "Whether all of the bools over some axes hold.",
        reduction(fold_all),
        leading=None,
    ),
    "argmax": Builtin(
        "argmax(x, axis=-1)",
        "The index of the largest element along an axis, the first of equals.",
        argmax,
        ("axis",),
    ),
    "sort": Builtin(
        "sort(x, axis=-1, descending=false)",
        "Two results: the elements along an axis in order, and the i32 position of each before.",
        sort,
        ("axis", "descending"),
    ),
    "argsort": Builtin(
        "argsort(x, axis=-1, descending=false)",
        "The i32 positions of the elements along an axis in order; equal ones stay as they are.",
        argsort,
        ("axis", "descending"),
    ),
    "top_k": Builtin(
        "top_k(x, k, axis=-1)",
        "Two results: the k largest elements along an axis in order, and their i32 positions.",
        top_k,
        ("k", "axis"),
    ),
    **{
        f"cum{kind}": Builtin(
            f"cum{kind}(x, axis)",
            f"The {meaning} of all elements up to each along an axis.",
            cumulative(kind),
            ("axis",),
        )
        for kind, meaning in ACCUMULATIONS.items()
    },
    "linear_recurrence": Builtin(
        "linear_recurrence(a, b, axis)",
        "h with h[t] = a[t] h[t - 1] + b[t] along an axis, where h[-1] = 0.",
        linear_recurrence,
        ("axis",),
        leading=2,
    ),
    "rearrange": Builtin(
        "rearrange(x, [a, b * c] -> [c, a, b])",
        "x with its axes split, joined, permuted.",
        _rearrange,
        leading=2,
    ),
    "expand": Builtin(
        "expand(x, [c] -> [n, c])",
        "x repeated along the axes that are new on the right.",
        _expand,
        leading=2,
    ),
    "insert_axis": Builtin(
        "insert_axis(x, axis, size)",
        "x repeated along a new axis.",
        _insert_axis,
        ("axis", "size"),
    ),
    "repeat": Builtin(
        "repeat(x, axis, times)",
        "Each slice along an axis `times` times in a row.",
        _repeat,
        ("axis", "times"),
    ),
    "concat": Builtin(
        "concat(a, b, ..., axis=1)",
        "The tensors, or those of a list, joined along an axis, which has to be named.",
        _concat,
        ("axis",),
        leading=None,
    ),
    "pad": Builtin(
        "pad(x, axis, before=0, after=0)",
        "x with zeros before and after it along an axis.",
        _pad,
        ("axis", "before", "after"),
    ),
    "reverse": Builtin(
        "reverse(x, axis)", "x in reverse order along an axis.", _reverse, ("axis",)
    ),
    "roll": Builtin(
        "roll(x, axis, by)",
        "x moved by some positions along an axis, round its end; `by` may be a tensor i32[].",
        roll,
        ("axis", "by"),
    ),
    "gather": Builtin(
        "gather(table, ids, axis=0, batch=0)",
        "The slices of a table that integer ids pick along an axis; the first axes are common.",
        gather,
        ("axis", "batch"),
        leading=2,
    ),
    "scatter_add": Builtin(
        "scatter_add(ids, updates, size, axis=0, batch=0)",
        "The slices of `updates` added at the positions that ids give along a new axis of `size`.",
        scatter_add,
        ("size", "axis", "batch"),
        leading=2,
    ),
    **{
        f"scatter_{kind}": Builtin(
            f"scatter_{kind}(ids, updates, size, empty, axis=0, batch=0)",
            f"As `scatter_add`, with the {word} of what meets, and `empty` where nothing does.",
            scatter_extreme(kind),
            ("size", "empty", "axis", "batch"),
            leading=2,
        )
        for kind, word in EXTREMES.items()
    },
    "iota": Builtin("iota(size)", "i32[size], counting from 0.", iota, ("size",), leading=0),
    "one_hot": Builtin(
        "one_hot(ids, classes)",
        "1 at the position that each id gives along a new last axis, and 0 elsewhere.",
        one_hot,
        ("classes",),
    ),
    "zeros": Builtin(
        "zeros([n, d])", "A tensor of zeros; without brackets, an initial value.", _full
    ),
    "ones": Builtin("ones([n, d])", "A tensor of ones; without brackets, an initial value.", _full),
    "full": Builtin(
        "full([n, d], value)",
        "A tensor of one number everywhere.",
        _full,
        ("shape", "value"),
        leading=0,
    ),
    "constant": Builtin(
        "constant([[1.0, 2.0], [3.0, 4.0]])",
        "A tensor of listed numbers: i32 if all are whole, bool of `true` and `false`, else f32.",
        constant,
    ),
    "uniform": Builtin(
        "uniform(bound)",
        "An initial value: uniform on [-bound, bound).",
        initial_call,
        ("bound",),
        leading=0,
    ),
    "normal": Builtin(
        "normal(std)", "An initial value: normal with mean 0.", initial_call, ("std",), leading=0
    ),
    "kaiming_uniform": Builtin(
        "kaiming_uniform()",
        "An initial value: uniform within 1 / sqrt(fan_in), He et al. (2015) with a = sqrt(5).",
        initial_call,
        leading=0,
    ),
    "sinusoids": Builtin(
        "sinusoids()",
        "An initial value: sines and cosines of positions, as in Whisper.",
        initial_call,
        leading=0,
    ),
    "random_uniform": Builtin(
        "random_uniform([n, d])",
        "Uniform on [0, 1), other numbers at each step of a training.",
        _random_uniform,
    ),
    "random_normal": Builtin(
        "random_normal([n, d])",
        "Normal with mean 0 and variance 1, other numbers at each step of a training.",
        _random_normal,
    ),
    "conv": Builtin(
        "conv(x, weight, stride=1, pad=0, dilation=1, groups=1)",
        "The convolution of x: [n, c_in, ...s] with weight: [c, c_in // groups, ...k].",
        _conv,
        GEOMETRY,
        leading=2,
    ),
    "conv_transpose": Builtin(
        "conv_transpose(x, weight, stride=1, pad=0, dilation=1, groups=1, output_pad=0)",
        "The transposed convolution, with weight: [c_in, c // groups, ...k].",
        _conv_transpose,
        (*GEOMETRY, "output_pad"),
        leading=2,
    ),
    "window_max": Builtin(
        "window_max(x, k, stride=k, pad=0)",
        "The largest element of each window of x: [n, c, ...s].",
        _window_max,
        ("k", "stride", "pad"),
    ),
    "rank": Builtin("rank(x)", "The number of axes.", _rank),
    "size": Builtin("size(x, axis)", "The size of an axis.", _size_of, ("axis",)),
    "shape": Builtin("shape(x)", "The list of all sizes.", _shape_of),
    "is_integer": Builtin("is_integer(x)", "Whether the element type is an integer.", _is_integer),
    "len": Builtin("len(list)", "The number of items of a list.", _length),
    "product": Builtin("product(axes)", "The product of a list of sizes.", _product),
    "int": Builtin("int(x)", "A number of the configuration, truncated.", _whole),
}
