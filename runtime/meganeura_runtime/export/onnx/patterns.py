"""Compound functions of ONNX, found in the primitives that the standard layers are written in.

A pattern is recognized where the primitives compute exactly the function, element for element; what
is written in another way stays primitives, which mean the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose, pi, prod, sqrt

from meganeura_dsl.ir.graph import Graph, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Conv,
    Cos,
    Div,
    Erf,
    Exp,
    Log,
    Log1p,
    MatMul,
    Minimum,
    Mul,
    Neg,
    Parameter,
    RandomBits,
    ReduceMax,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import product
from meganeura_runtime.export.onnx.emitter import Attribute
from meganeura_runtime.export.onnx.functions import NORMAL, RANDOM_SINCE, UNIFORM

ROUNDING = 1e-6
"""The relative tolerance of a program's constant against that of the function."""


@dataclass(frozen=True)
class Match:
    """A node of ONNX that is the value of several primitives."""

    op_type: str
    operands: tuple[Value, ...]
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    absorbed: tuple[Value, ...] = ()
    """Contractions that become part of the node."""


Pattern = Callable[[Value], Match | None]


def find(value: Value, opset: int, uses: Mapping[int, int]) -> Match | None:
    """The function that a value is the result of, if it is one of the opset.

    `uses` has how often each value is read, by its id: a contraction that others read too is not
    computed a second time.
    """
    for pattern, since in PATTERNS.get(type(value.op), ()):
        if opset >= since:
            found = pattern(value)
            if found is not None and all(uses[each.id] == 1 for each in found.absorbed):
                return found
    return None


def find_all(graph: Graph, opset: int) -> dict[int, Match]:
    """The functions of an opset that values of a graph are the result of, by their ids."""
    uses = Counter(operand.id for value in graph.values for operand in value.operands)
    uses.update(value.id for value in graph.roots)
    found = ((value.id, find(value, opset, uses)) for value in graph.values)
    return {number: match for number, match in found if match is not None}


def needed(graph: Graph, matches: Mapping[int, Match]) -> list[Value]:
    """The values that outputs need where functions stand for their parts."""
    wanted = {value.id for value in graph.outputs.values()}
    order: list[Value] = []
    for value in reversed(graph.values):
        if value.id in wanted:
            order.append(value)
            match = matches.get(value.id)
            wanted |= {each.id for each in (match.operands if match else value.operands)}
    return order[::-1]


# --- parts ---------------------------------------------------------------------------------------


def _args(value: Value, op: type[Op]) -> tuple[Value, ...]:
    """The operands of a value of this op; none if it is of another."""
    return value.operands if type(value.op) is op else ()


def _swapped(value: Value, op: type[Op]) -> Iterator[tuple[Value, Value]]:
    """Both orders of the operands of a commutative op."""
    match _args(value, op):
        case (a, b):
            yield a, b
            yield b, a
        case _:
            pass


def _number(value: Value) -> float | None:
    """The number that every element of a value is."""
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    op = value.op
    if isinstance(op, Constant) and isinstance(op.value, int | float):
        return float(op.value)
    return None


def _is(value: Value, number: float) -> bool:
    found = _number(value)
    return found is not None and isclose(found, number, rel_tol=ROUNDING)


def _scaled(value: Value, number: float) -> Value | None:
    """Returns x if the value is x times a number, else None."""
    return next((x for c, x in _swapped(value, Mul) if _is(c, number)), None)


def _increased(value: Value, number: float) -> Value | None:
    """Returns x if the value is x plus a number, else None."""
    return next((x for c, x in _swapped(value, Add) if _is(c, number)), None)


def _along(value: Value, axes: Sequence[int]) -> Value | None:
    """Returns x if the value is x broadcast along exactly these axes, else None."""
    op = value.op
    if not isinstance(op, Broadcast):
        return None
    rest = tuple(axis for axis in range(value.type.rank) if axis not in axes)
    return value.operands[0] if op.axes == rest else None


def _mean(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """Returns x and axes if the value is the mean of x along them, else None."""
    match _args(value, Div):
        case (total, count) if isinstance(total.op, Sum):
            (x,) = total.operands
            while isinstance(count.op, Broadcast):
                (count,) = count.operands
            reduced = product(x.type.shape[axis] for axis in total.op.axes)
            if isinstance(count.op, Constant) and count.op.value == reduced:
                return x, total.op.axes
        case _:
            pass
    return None


# --- patterns ------------------------------------------------------------------------------------


def _relu(value: Value) -> Match | None:
    condition, zero, x = value.operands
    match condition.op:
        case Compare(kind="le") if _number(zero) == 0:
            a, b = condition.operands
            return Match("Relu", (x,)) if a is x and _number(b) == 0 else None
        case _:
            return None


def _minus_size(value: Value, below: Value) -> Value | None:
    """`x` of where(x <= 0, x, -x), of which `below` is the condition."""
    match _args(value, Where):
        case (condition, x, other) if condition is below and below.op == Compare("le"):
            a, b = below.operands
            return x if a is x and _number(b) == 0 and _args(other, Neg) == (x,) else None
        case _:
            return None


def _softplus(value: Value) -> Match | None:
    """log1p(exp(-|x|)) + relu(x)."""
    for logarithm, cut in _swapped(value, Add):
        for near in _args(logarithm, Log1p):
            relu = _relu(cut) if isinstance(cut.op, Where) else None
            for size in _args(near, Exp) if relu else ():
                if relu and _minus_size(size, cut.operands[0]) is relu.operands[0]:
                    return Match("Softplus", relu.operands)
    return None


def _gelu(value: Value) -> Match | None:
    for half, grown in _swapped(value, Mul):
        x, inner = _scaled(half, 0.5), _increased(grown, 1.0)
        if x is None or inner is None:
            continue
        match _args(inner, Erf):
            case (scaled,) if _scaled(scaled, sqrt(0.5)) is x:
                return Match("Gelu", (x,), {"approximate": "none"})
            case _:
                pass
        match _args(inner, Tanh):
            case (scaled,) if _is_tanh_argument(scaled, x):
                return Match("Gelu", (x,), {"approximate": "tanh"})
            case _:
                pass
    return None


def _is_tanh_argument(value: Value, x: Value) -> bool:
    """True if a value is sqrt(2/pi) (x + 0.044715 x^3)."""
    total = _scaled(value, sqrt(2 / pi))
    for first, second in _swapped(total, Add) if total else ():
        cube = _scaled(second, 0.044715)
        if first is x and cube is not None and _power(cube, x) == 3:
            return True
    return False


def _power(value: Value, x: Value) -> int:
    """The power of `x` that a value is, 0 if it is none."""
    if value is x:
        return 1
    match _args(value, Mul):
        case (a, b):
            left, right = _power(a, x), _power(b, x)
            return left + right if left and right else 0
        case _:
            return 0


def _softmax(value: Value) -> Match | None:
    exponential, spread = value.operands
    for axis in _last_first(value):
        total = _along(spread, [axis])
        if total is None or total.op != Sum((axis,)) or total.operands[0] is not exponential:
            continue
        match _args(exponential, Exp):
            case (shifted,):
                x = _minus_maximum(shifted, axis)
                return None if x is None else Match("Softmax", (x,), {"axis": axis})
            case _:
                return None
    return None


def _log_softmax(value: Value) -> Match | None:
    shifted, spread = value.operands
    for axis in _last_first(value):
        logarithm = _along(spread, [axis])
        for total in _args(logarithm, Log) if logarithm else ():
            if total.op != Sum((axis,)) or _args(total.operands[0], Exp) != (shifted,):
                continue
            x = _minus_maximum(shifted, axis)
            return None if x is None else Match("LogSoftmax", (x,), {"axis": axis})
    return None


def _minus_maximum(value: Value, axis: int) -> Value | None:
    """`x` of x - max(x, axis)."""
    match _args(value, Sub):
        case (x, spread):
            largest = _along(spread, [axis])
            if largest is not None and isinstance(largest.op, StopGradient):
                (largest,) = largest.operands
            if largest is None or largest.op != ReduceMax((axis,)):
                return None
            return x if largest.operands == (x,) else None
        case _:
            return None


def _last_first(value: Value) -> Iterator[int]:
    return reversed(range(value.type.rank))


def _layer_norm(value: Value) -> Match | None:
    last = value.type.rank - 1
    before = [*range(last)]
    for product_, shift in _swapped(value, Add):
        bias = _along(shift, before)
        for normal, spread in _swapped(product_, Mul) if bias else ():
            weight = _along(spread, before)
            match _args(normal, Div):
                case (centered, deviation) if weight and bias:
                    found = _normalized(centered, deviation, last)
                    if found is not None:
                        x, eps = found
                        attributes: dict[str, Attribute] = {"axis": -1, "epsilon": eps}
                        return Match("LayerNormalization", (x, weight, bias), attributes)
                case _:
                    pass
    return None


def _normalized(centered: Value, deviation: Value, axis: int) -> tuple[Value, float] | None:
    """`x` and eps, where the arguments are x - mean(x) and sqrt(mean((x - mean(x))^2) + eps)."""
    match _args(centered, Sub):
        case (x, spread):
            middle = _along(spread, [axis])
            if middle is None or _mean(middle) != (x, (axis,)):
                return None
        case _:
            return None
    root = _along(deviation, [axis])
    for variance in _args(root, Sqrt) if root else ():
        for number, of_squares in _swapped(variance, Add):
            eps, mean = _number(number), _mean(of_squares)
            if eps is None or mean is None or mean[1] != (axis,):
                continue
            if _args(mean[0], Mul) == (centered, centered):
                return x, eps
    return None


def _batch_norm(value: Value) -> Match | None:
    rest = [axis for axis in range(value.type.rank) if axis != 1]
    for product_, shift in _swapped(value, Add):
        bias = _along(shift, rest)
        for centered, spread in _swapped(product_, Mul) if bias else ():
            scale = _along(spread, rest)
            match _args(centered, Sub), _args(scale, Div) if scale else ():
                case (x, moved), (weight, root):
                    mean = _along(moved, rest)
                    for variance in _args(root, Sqrt) if mean else ():
                        for number, var in _swapped(variance, Add):
                            eps = _number(number)
                            if eps is not None and mean and bias:
                                operands = (x, weight, bias, mean, var)
                                return Match("BatchNormalization", operands, {"epsilon": eps})
                case _:
                    pass
    return None


def kept_shares(training: Graph) -> dict[str, float]:
    """Returns the share of each state that a step keeps: `a` of `update s = a * s + b * y`."""
    found: dict[str, float] = {}
    for name, value in training.updates.items():
        for product_, _ in _swapped(value, Add):
            for share, state in _swapped(product_, Mul):
                number = _number(share)
                is_own = isinstance(state.op, Parameter) and state.op.name == name
                if number is not None and is_own:
                    found[name] = number
    return found


def with_momentum(match: Match, kept: Mapping[str, float]) -> Match:
    """A batch norm that says how much of its mean a training step keeps."""
    if match.op_type != "BatchNormalization":
        return match
    mean = match.operands[3].op
    share = kept.get(mean.name) if isinstance(mean, Parameter) else None
    return (
        match
        if share is None
        else replace(match, attributes=match.attributes | {"momentum": share})
    )


def _biased(value: Value) -> Match | None:
    """A convolution or a product of matrices with a bias of its channels."""
    for x, spread in _swapped(value, Add):
        op = x.op
        if isinstance(op, Conv):
            bias = _along(spread, [axis for axis in range(value.type.rank) if axis != 1])
            if bias is not None:
                return Match("Conv", (*x.operands, bias), absorbed=(x,))
        if isinstance(op, MatMul) and x.operands[0].type.rank == x.operands[1].type.rank == 2:
            bias = _along(spread, [0])
            a, b = x.operands
            turned = op.transpose_right
            if isinstance(b.op, Transpose):
                (b,), turned = b.operands, not turned
            if bias is not None:
                flags: dict[str, Attribute] = {
                    "transA": int(op.transpose_left),
                    "transB": int(turned),
                }
                return Match("Gemm", (a, b, bias), flags, (x,))
    return None


def _reduce_mean(value: Value) -> Match | None:
    found = _mean(value)
    return None if found is None else Match("ReduceMean", (found[0],), {"axes": found[1]})


def _average_pool(value: Value) -> Match | None:
    """A depthwise convolution whose weights are all one part of the window."""
    op, (x, w) = value.op, value.operands
    assert isinstance(op, Conv)
    kernel = w.type.shape[2:]
    numbers = [size for size in kernel if isinstance(size, int)]
    is_depthwise = op.groups == x.type.shape[1] == w.type.shape[0]
    is_dense = all(size == 1 for size in op.dilation)
    if len(numbers) < len(kernel) or not is_depthwise or not is_dense:
        return None
    fits = all(
        isinstance(padding, int) and padding < size
        for padding, size in zip(op.padding, numbers, strict=True)
    )
    return Match("AveragePool", (x,)) if fits and _is(w, 1 / prod(numbers)) else None


def _uniform(value: Value) -> Match | None:
    """`random_uniform`: words scaled by 2**-32, and kept below 1."""
    for scaled, largest in _swapped(value, Minimum):
        real = _scaled(scaled, 2.0**-32) if _number(largest) == 1 - 2.0**-24 else None
        for bits in _args(real, Cast) if real is not None else ():
            if isinstance(bits.op, RandomBits) and value.type.dtype is DType.F32:
                return Match(UNIFORM, bits.operands, {"stream": bits.op.stream})
    return None


def _normal(value: Value) -> Match | None:
    """`random_normal`: sqrt(-2 log(1 - u)) cos(2 pi v)."""
    for radius, cosine in _swapped(value, Mul):
        for squared in _args(radius, Sqrt):
            logarithm = _scaled(squared, -2.0)
            for positive in _args(logarithm, Log) if logarithm is not None else ():
                for angle in _args(cosine, Cos):
                    turn = _scaled(angle, 2 * pi)
                    found = None if turn is None else _normal_of(positive, turn)
                    if found is not None:
                        return found
    return None


def _normal_of(positive: Value, turn: Value) -> Match | None:
    match _args(positive, Sub):
        case (one, uniform) if _number(one) == 1:
            first, second = _uniform(uniform), _uniform(turn)
            if first is None or second is None or first.operands != second.operands:
                return None
            streams = {"stream": first.attributes["stream"], "second": second.attributes["stream"]}
            return Match(NORMAL, first.operands, streams)
        case _:
            return None


PATTERNS: dict[type[Op], tuple[tuple[Pattern, int], ...]] = {
    Where: ((_relu, 1),),
    Minimum: ((_uniform, RANDOM_SINCE),),
    Mul: ((_gelu, 20), (_normal, RANDOM_SINCE)),
    Div: ((_softmax, 13), (_reduce_mean, 13)),
    Sub: ((_log_softmax, 13),),
    Add: ((_softplus, 1), (_layer_norm, 17), (_batch_norm, 15), (_biased, 13)),
    Conv: ((_average_pool, 13),),
}
"""The patterns that end in an op, the largest first, and the opset that first has each."""
