"""The functions the language starts from. Everything else is written in the language itself."""

from inspect import cleandoc

from meganeura_dsl.elaborate.builtins.builtin_call import Builtin
from meganeura_dsl.elaborate.builtins.builtin_constant import constant
from meganeura_dsl.elaborate.builtins.builtin_creation import full, random_normal, random_uniform
from meganeura_dsl.elaborate.builtins.builtin_gradient import grad
from meganeura_dsl.elaborate.builtins.builtin_indexing import (
    argmax,
    argmin,
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
from meganeura_dsl.elaborate.builtins.builtin_movement import (
    concat,
    expand,
    insert_axis,
    pad,
    rearrange,
    repeat,
    reverse,
)
from meganeura_dsl.elaborate.builtins.builtin_ragged import of_ragged
from meganeura_dsl.elaborate.builtins.builtin_show import show
from meganeura_dsl.elaborate.builtins.builtin_sizes import (
    is_integer,
    length,
    product_of_axes,
    rank,
    shape_of,
    size_of,
    truncated,
)
from meganeura_dsl.elaborate.builtins.builtin_weights import on_weights, sum_of_weights, weights
from meganeura_dsl.elaborate.builtins.builtin_windows import conv, conv_transpose, window_max
from meganeura_dsl.elaborate.builtins.initial_values import initial_call
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.primitive.cumulative import Accumulation
from meganeura_dsl.ir.ops.primitive.gather_scatter import Extreme
from meganeura_dsl.ir.types import DType

ACCUMULATIONS: dict[Accumulation, str] = {
    "sum": "sum",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
}
EXTREMES: dict[Extreme, str] = {"max": "largest", "min": "smallest"}
GEOMETRY = ("stride", "pad", "dilation", "groups")


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
    "show": Builtin(
        "show(x, name)",
        "x, which runs and trainings show by this name, in quotes.",
        show,
        ("name",),
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
    "argmin": Builtin(
        "argmin(x, axis=-1)",
        "The index of the smallest element along an axis, the first of equals.",
        argmin,
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
        rearrange,
        leading=2,
    ),
    "expand": Builtin(
        "expand(x, [c] -> [n, c])",
        "x repeated along the axes that are new on the right.",
        expand,
        leading=2,
    ),
    "insert_axis": Builtin(
        "insert_axis(x, axis, size)",
        "x repeated along a new axis.",
        insert_axis,
        ("axis", "size"),
    ),
    "repeat": Builtin(
        "repeat(x, axis, times)",
        "Each slice along an axis `times` times in a row.",
        repeat,
        ("axis", "times"),
    ),
    "concat": Builtin(
        "concat(a, b, ..., axis=1)",
        "The tensors, or those of a list, joined along an axis, which has to be named.",
        concat,
        ("axis",),
        leading=None,
    ),
    "pad": Builtin(
        "pad(x, axis, before=0, after=0)",
        "x with zeros before and after it along an axis.",
        pad,
        ("axis", "before", "after"),
    ),
    "reverse": Builtin("reverse(x, axis)", "x in reverse order along an axis.", reverse, ("axis",)),
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
    "example_of": Builtin(
        "example_of(size)",
        "i32[size], the example of each row of a ragged size `each size of batch`.",
        of_ragged("example_of"),
        ("size",),
        leading=0,
    ),
    "offsets": Builtin(
        "offsets(size)",
        "i32[batch + 1], the first row of each example of a ragged size, and the number of all.",
        of_ragged("offsets"),
        ("size",),
        leading=0,
    ),
    "one_hot": Builtin(
        "one_hot(ids, classes)",
        "1 at the position that each id gives along a new last axis, and 0 elsewhere.",
        one_hot,
        ("classes",),
    ),
    "zeros": Builtin(
        "zeros([n, d])", "A tensor of zeros; without brackets, an initial value.", full
    ),
    "ones": Builtin("ones([n, d])", "A tensor of ones; without brackets, an initial value.", full),
    "full": Builtin(
        "full([n, d], value)",
        "A tensor of one number everywhere.",
        full,
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
        random_uniform,
    ),
    "random_normal": Builtin(
        "random_normal([n, d])",
        "Normal with mean 0 and variance 1, other numbers at each step of a training.",
        random_normal,
    ),
    "conv": Builtin(
        "conv(x, weight, stride=1, pad=0, dilation=1, groups=1)",
        "The convolution of x: [n, c_in, ...s] with weight: [c, c_in // groups, ...k].",
        conv,
        GEOMETRY,
        leading=2,
    ),
    "conv_transpose": Builtin(
        "conv_transpose(x, weight, stride=1, pad=0, dilation=1, groups=1, output_pad=0)",
        "The transposed convolution, with weight: [c_in, c // groups, ...k].",
        conv_transpose,
        (*GEOMETRY, "output_pad"),
        leading=2,
    ),
    "window_max": Builtin(
        "window_max(x, k, stride=k, pad=0)",
        "The largest element of each window of x: [n, c, ...s].",
        window_max,
        ("k", "stride", "pad"),
    ),
    "rank": Builtin("rank(x)", "The number of axes.", rank),
    "size": Builtin("size(x, axis)", "The size of an axis.", size_of, ("axis",)),
    "shape": Builtin("shape(x)", "The list of all sizes.", shape_of),
    "is_integer": Builtin("is_integer(x)", "Whether the element type is an integer.", is_integer),
    "len": Builtin("len(list)", "The number of items of a list.", length),
    "product": Builtin("product(axes)", "The product of a list of sizes.", product_of_axes),
    "int": Builtin("int(x)", "A number of the configuration, truncated.", truncated),
}
