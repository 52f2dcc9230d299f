"""Functions of one element, or of elements at the same place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Limits, Tensor
from meganeura_runtime.importing.onnx.constant_arithmetic import CASTS, converted
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import ARRAYS, Known, Node, Value, element_of
from meganeura_runtime.importing.onnx.onnx_file import type_name
from meganeura_runtime.importing.onnx.small_integers import (
    SMALL,
    limits_of,
    with_limits,
    wrapped,
)

Entry = Callable[[Node], Sequence[Value | None] | None]


def _function(callee: str) -> Entry:
    """A built-in function of the language."""

    def entry(node: Node) -> list[Value | None]:
        return [node.build.elementwise(callee, floats(node, 0))]

    return entry


def _log(node: Node) -> list[Value | None]:
    """`log(1 + x)` is `log1p(x)`, and what is a logarithm of a layer is computed at once."""
    build, x = node.build, floats(node, 0)
    built, less = build.applied(x), build.with_number(x, "+")
    if built is not None and built.callee in LOGARITHMS:
        return [build.add(replace(built, callee=LOGARITHMS[built.callee]), x.dtype, x.shape)]
    if less is not None and less[1] == 1:
        return [build.elementwise("log1p", Tensor(less[0], x.type))]
    return [build.elementwise("log", x)]


LOGARITHMS: Mapping[str, str] = {"sigmoid": "log_sigmoid", "softmax": "log_softmax"}
"""Layers whose logarithm keeps digits where their result rounds to 0 or 1."""


def _subtract(node: Node) -> list[Value | None]:
    """`exp(x) - 1` is `expm1(x)`."""
    a, b = node.operand(0), node.operand(1)
    built = node.build.applied(a) if isinstance(a, Tensor) and b == 1 else None
    if isinstance(a, Tensor) and built is not None and built.callee == "exp":
        return [node.build.elementwise("expm1", replace(a, id=built.source))]
    return [_arithmetic(node, "-", a, b)]


def floats(node: Node, index: int) -> Tensor:
    """An operand, which must be of floats."""
    x = node.tensor(index)
    if not x.dtype.is_float:
        raise UnsupportedNodeError(f"it is applied to {x.dtype.value}")
    return x


def _of(make: Callable[[Builder, Tensor], Tensor]) -> Entry:
    """A formula of one operand."""

    def entry(node: Node) -> list[Value | None]:
        return [make(node.build, floats(node, 0))]

    return entry


def multiply(node: Node) -> list[Value | None]:
    """The product of two operands."""
    return [_arithmetic(node, "*", node.operand(0), node.operand(1))]


def _binary(operator: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        return [_arithmetic(node, operator, node.operand(0), node.operand(1))]

    return entry


def _arithmetic(
    node: Node, operator: str, a: "Tensor | float | Dim", b: "Tensor | float | Dim"
) -> Tensor:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = node.tensor(0)
    return node.build.binary(operator, a, b)


def _several(combine: Callable[[Builder, Tensor, Tensor], Tensor]) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        total, *rest = node.tensors()
        for each in rest:
            total = combine(node.build, total, each)
        return [total]

    return entry


def divide(node: Node) -> list[Value | None]:
    """The quotient of two operands; of whole numbers it is cut off."""
    a, b = node.operand(0), node.operand(1)
    dtype = next((each.dtype for each in (a, b) if isinstance(each, Tensor)), DType.F32)
    if dtype.is_float:
        return [_arithmetic(node, "/", a, b)]
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and b != 0 and not _is_negative(b):
        # Whole numbers are truncated in ONNX and rounded down here.
        down = node.build.binary("//", a, b)
        if dtype is DType.U32:
            return [down]
        positive = node.build.binary("//", node.build.negative(a), b)
        is_below = node.build.binary("<", a, 0)
        return [node.build.where(is_below, node.build.negative(positive), down)]
    raise UnsupportedNodeError("whole numbers are divided by numbers that are no constant")


def _is_negative(number: object) -> bool:
    return isinstance(number, int | float) and number < 0


def _mod(node: Node) -> list[Value | None] | None:
    a, b, build = node.operand(0), node.operand(1), node.build
    dtype = next((each.dtype for each in (a, b) if isinstance(each, Tensor)), DType.F32)
    if dtype.is_float:
        if not node.attribute("fmod", 0):
            raise UnsupportedNodeError("the remainder of floats has the sign of the divisor")
        first, second = _two(node)
        whole = _truncated(build, build.binary("/", first, second))
        return [build.binary("-", first, build.binary("*", second, whole))]
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and b != 0 and not _is_negative(b):
        if node.attribute("fmod", 0) and dtype is not DType.U32:
            raise UnsupportedNodeError("the remainder has the sign of the dividend")
        return [build.binary("%", a, b)]
    raise UnsupportedNodeError("whole numbers are divided by numbers that are no constant")


def _two(node: Node) -> tuple[Tensor, Tensor]:
    return node.tensor(0), node.tensor(1)


def _truncated(build: Builder, x: Tensor) -> Tensor:
    size = build.elementwise("floor", build.elementwise("abs", x))
    return build.binary("*", build.elementwise("sign", x), size)


def _compare(operator: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        a, b = node.operand(0), node.operand(1)
        if (isinstance(a, Tensor) and a.dtype is DType.BOOL) or (
            isinstance(b, Tensor) and b.dtype is DType.BOOL
        ):
            a, b = node.tensor(0), node.tensor(1)
        return [_arithmetic(node, operator, a, b)]

    return entry


def _logic(operator: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        a, b = _two(node)
        if a.dtype is not DType.BOOL or b.dtype is not DType.BOOL:
            raise UnsupportedNodeError("it is applied to numbers")
        return [node.build.binary(operator, a, b)]

    return entry


def _not(node: Node) -> list[Value | None]:
    return [node.build.inverted(node.tensor(0))]


def _extreme(callee: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        if len(node.inputs) == 2:
            a, b = node.operand(0), node.operand(1)
            if isinstance(a, Tensor) or isinstance(b, Tensor):
                return [node.build.pair(callee, a, b)]
        total, *rest = node.tensors()
        for each in rest:
            total = node.build.pair(callee, total, each)
        return [total]

    return entry


def _mean(node: Node) -> list[Value | None]:
    total, *rest = node.tensors()
    for each in rest:
        total = node.build.binary("+", total, each)
    return [node.build.binary("/", total, float(len(rest) + 1)) if rest else total]


def _power(node: Node) -> list[Value | None]:
    build, x, k = node.build, node.tensor(0), node.operand(1)
    if not x.dtype.is_float:
        return [_whole_power(node, x, k)]
    if isinstance(k, int | float):
        if (float(k).is_integer() and abs(k) <= 64) or k in (0.5, -0.5):
            return [build.power(x, k)]
        return [build.elementwise("exp", build.binary("*", build.elementwise("log", x), float(k)))]
    exponent = node.tensor(1)
    exponent = build.cast(exponent, x.dtype)
    # |x| ** k, with the sign of x where k is odd
    size = build.elementwise("log", build.elementwise("abs", x))
    result = build.elementwise("exp", build.binary("*", exponent, size))
    half = build.binary("*", exponent, 0.5)
    is_odd = build.binary("!=", half, build.elementwise("floor", half))
    is_below = build.binary("<", *build.aligned(x, build.binary("*", result, 0.0)))
    flips = build.binary("and", *build.aligned(is_below, is_odd))
    signed = build.where(flips, build.negative(result), result)
    return [build.where(build.binary("==", exponent, 0.0), 1.0, signed)]


def _whole_power(node: Node, x: Tensor, k: object) -> Tensor:
    if not isinstance(k, int | float) or not 1 <= k <= 8 or not float(k).is_integer():
        raise UnsupportedNodeError("whole numbers are raised to what is no small constant")
    total = x
    for _ in range(int(k) - 1):
        total = node.build.binary("*", total, x)
    return total


def where(node: Node) -> list[Value | None]:
    """One of two operands for each element."""
    condition, build = node.tensor(0), node.build
    sides = [node.value(index) for index in (1, 2)]
    if any(each.dtype is DType.BOOL for each in sides):
        return [build.where(condition, node.tensor(1), node.tensor(2))]
    shown = [
        each.numbers[0]
        if isinstance(each, Known) and each.array.size == 1 and _is_usual(each.numbers[0])
        else node.tensor(index)
        for index, each in zip((1, 2), sides, strict=True)
    ]
    if not any(isinstance(each, Tensor) for each in shown):
        shown[0] = node.tensor(1)
    longest = max((each.rank for each in sides), default=0)
    if longest > max(each.rank for each in (condition, *shown) if isinstance(each, Tensor)):
        shown = [node.tensor(1), node.tensor(2)]
    return [build.where(condition, shown[0], shown[1])]


def _is_usual(number: Size) -> bool:
    return isinstance(number, Dim) or bool(np.isfinite(number))


def _cast(node: Node) -> list[Value | None]:
    number, known = node.attribute("to", 0), node.value(0)
    x, to = node.tensor(0), CASTS.get(number)
    if number in SMALL:
        return [_small(node, x, SMALL[number])]
    if to is None or to == np.float64:
        raise UnsupportedNodeError(f"the language has no elements of type {type_name(number)}")
    levels = node.build.floats.get(x.id)
    if levels is not None and element_of(to) is levels.dtype:
        return [levels]
    built = node.build.cast(x, element_of(to))
    if isinstance(known, Known) and known.is_symbolic and known.array.size == 1:
        node.build.sizes[built.id] = known.numbers[0]
    return [built]


def _small(node: Node, x: Tensor, limits: Limits) -> Value:
    """Numbers in a type of few bits; those that it has not wrap around, as they do in NumPy."""
    build, before = node.build, limits_of(node.build, node.value(0))
    built = build.cast(x, DType.I32)
    if x.dtype is not DType.BOOL and (before is None or before != limits):
        built = wrapped(node, built, limits)
    return with_limits(build, built, limits)


def _cast_like(node: Node) -> list[Value | None]:
    known, like = node.value(0), node.value(1).dtype
    limits = limits_of(node.build, node.value(1))
    if limits is not None:
        return [_small(node, node.tensor(0), limits)]
    if isinstance(known, Known) and not known.is_symbolic:
        return [Known(converted(known.array, np.dtype(ARRAYS[like])), like)]
    return [node.build.cast(node.tensor(0), node.value(1).dtype)]


def _negative(node: Node) -> list[Value | None]:
    return [node.build.negative(node.tensor(0))]


def _absolute(node: Node) -> list[Value | None]:
    x, build = node.tensor(0), node.build
    if x.dtype.is_float or x.dtype is DType.I32:
        return [build.elementwise("abs", x)]
    return [x]


def _clip(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    low = node.attributes.get("min") if "min" in node.attributes else None
    high = node.attributes.get("max") if "max" in node.attributes else None
    if low is None and node.has(1):
        low = _limit(node, 1)
    if high is None and node.has(2):
        high = _limit(node, 2)
    if low is not None and _matters(low, -3.4e38):
        x = _at_least(build, x, low)
    if high is not None and _matters(high, 3.4e38):
        x = _at_most(build, x, high)
    return [x]


def _at_least(build: Builder, x: Tensor, low: "Tensor | float") -> Tensor:
    """The larger of two, whose slope is 1 where x is `low`, as that of `clamp` is in PyTorch."""
    if not x.dtype.is_float or isinstance(low, Tensor):
        return build.pair("maximum", x, low)
    return build.where(build.binary("<", x, low), low, x)


def _at_most(build: Builder, x: Tensor, high: "Tensor | float") -> Tensor:
    """The smaller of two, whose slope is 1 where x is `high`."""
    if not x.dtype.is_float or isinstance(high, Tensor):
        return build.pair("minimum", x, high)
    return build.where(build.binary(">", x, high), high, x)


def _limit(node: Node, index: int) -> "Tensor | float":
    found = node.value(index)
    if isinstance(found, Tensor) or found.array.size != 1 or found.is_symbolic:
        return node.tensor(index)
    return node.tensor(index) if found.is_parameter else found.array.reshape(-1)[0].item()


def _matters(limit: "Tensor | float", largest: float) -> bool:
    return isinstance(limit, Tensor) or abs(limit) < abs(largest)


def attribute(node: Node, name: str, default: float) -> float:
    """Returns an attribute, rounded to 32 bits."""
    return float(np.float32(node.attribute(name, default)))


def _reciprocal(build: Builder, x: Tensor) -> Tensor:
    return build.binary("/", 1.0, x)


def _ceil(build: Builder, x: Tensor) -> Tensor:
    return build.negative(build.elementwise("floor", build.negative(x)))


def _sinh(build: Builder, x: Tensor) -> Tensor:
    up, down = build.elementwise("expm1", x), build.elementwise("expm1", build.negative(x))
    return build.binary("*", build.binary("-", up, down), 0.5)


def _cosh(build: Builder, x: Tensor) -> Tensor:
    up, down = build.elementwise("exp", x), build.elementwise("exp", build.negative(x))
    return build.binary("*", build.binary("+", up, down), 0.5)


def _tan(build: Builder, x: Tensor) -> Tensor:
    return build.binary("/", build.elementwise("sin", x), build.elementwise("cos", x))


def _asinh(build: Builder, x: Tensor) -> Tensor:
    # |x| + sqrt(x^2 + 1) is one more than |x| + x^2 / (1 + sqrt(x^2 + 1)).
    size, square = build.elementwise("abs", x), build.binary("*", x, x)
    root = build.elementwise("sqrt", build.binary("+", square, 1.0))
    more = build.binary("/", square, build.binary("+", root, 1.0))
    grown = build.elementwise("log1p", build.binary("+", size, more))
    return build.binary("*", build.elementwise("sign", x), grown)


def _acosh(build: Builder, x: Tensor) -> Tensor:
    less = build.binary("-", x, 1.0)
    root = build.elementwise("sqrt", build.binary("*", less, build.binary("+", x, 1.0)))
    return build.elementwise("log1p", build.binary("+", less, root))


def _atanh(build: Builder, x: Tensor) -> Tensor:
    up, down = build.elementwise("log1p", x), build.elementwise("log1p", build.negative(x))
    return build.binary("*", build.binary("-", up, down), 0.5)


def _softsign(build: Builder, x: Tensor) -> Tensor:
    return build.binary("/", x, build.binary("+", build.elementwise("abs", x), 1.0))


def _is_nan(build: Builder, x: Tensor) -> Tensor:
    return build.binary("!=", x, x)


def _is_infinite(node: Node) -> list[Value | None]:
    build, x = node.build, floats(node, 0)
    largest = float(np.finfo(np.float16 if x.dtype is DType.F16 else np.float32).max)
    above, below = build.binary(">", x, largest), build.binary("<", x, -largest)
    positive, negative = node.attribute("detect_positive", 1), node.attribute("detect_negative", 1)
    if positive and negative:
        return [build.binary("or", above, below)]
    if positive or negative:
        return [above if positive else below]
    return [build.binary("and", above, below)]


def _exclusive_or(node: Node) -> list[Value | None]:
    a, b = _two(node)
    return [node.build.binary("!=", a, b)]


def _identity(node: Node) -> list[Value | None]:
    return [node.value(0)]


def _dropout(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    training = node.number(2, 0.0) if len(node.inputs) > 2 else 0
    ratio = node.number(1, 0.5) if len(node.inputs) > 1 else 0.5
    if training and ratio:
        raise UnsupportedNodeError("it drops at random")
    mask = node.build.filled(1, DType.BOOL, x.shape) if node.wants(1) else None
    return [x, mask]


def _sign(node: Node) -> list[Value | None]:
    return [node.build.elementwise("sign", node.tensor(0))]


FUNCTIONS = ("Exp", "Sqrt", "Sin", "Cos", "Tanh", "Erf", "Floor", "Round")
"""Ops that are functions of the same name."""
OPS: Mapping[str, Entry] = {
    **{name: _function(name.lower()) for name in FUNCTIONS},
    "Neg": _negative, "Abs": _absolute, "Sign": _sign,
    "Log": _log, "Add": _binary("+"), "Sub": _subtract, "Mod": _mod,
    "Pow": _power, "Sum": _several(lambda build, a, b: build.binary("+", a, b)), "Mean": _mean,
    "Max": _extreme("maximum"), "Min": _extreme("minimum"), "Clip": _clip,
    "Equal": _compare("=="), "Less": _compare("<"), "LessOrEqual": _compare("<="),
    "Greater": _compare(">"), "GreaterOrEqual": _compare(">="),
    "And": _logic("and"), "Or": _logic("or"), "Xor": _exclusive_or, "Not": _not,
    "Cast": _cast, "CastLike": _cast_like, "Identity": _identity, "Dropout": _dropout,
    "Reciprocal": _of(_reciprocal), "Ceil": _of(_ceil), "Sinh": _of(_sinh), "Cosh": _of(_cosh),
    "Tan": _of(_tan), "Asinh": _of(_asinh), "Acosh": _of(_acosh), "Atanh": _of(_atanh),
    "Softsign": _of(_softsign), "IsNaN": _of(_is_nan), "IsInf": _is_infinite,
}  # fmt: skip
"""The translation of each op."""
