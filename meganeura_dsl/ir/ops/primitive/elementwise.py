"""One number in, one number out: ops whose operands and result have one shape."""

from dataclasses import dataclass
from typing import ClassVar, Literal, assert_never

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.erf import DERIVATIVE_AT_ZERO, erf
from meganeura_dsl.ir.ops.type_rules import (
    ANYTHING,
    FLOATS,
    NUMBERS,
    SIGNED,
    require_dtype,
    require_same_type,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = [
    "Abs",
    "Add",
    "Binary",
    "Cast",
    "Compare",
    "Cos",
    "Div",
    "Erf",
    "Exp",
    "Expm1",
    "Floor",
    "Log",
    "Log1p",
    "Logistic",
    "Maximum",
    "Minimum",
    "Mul",
    "Neg",
    "Round",
    "Sin",
    "Sqrt",
    "StopGradient",
    "Sub",
    "Tanh",
    "Unary",
    "Where",
]

Cotangents = tuple[Value | None, ...]
Relation = Literal["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(frozen=True)
class Unary(Op, abstract=True):
    """An op of one operand whose result has the operand's type."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    builtin: ClassVar[str] = ""
    """The function of the language that is this op; empty where there is none."""
    accepts: ClassVar[frozenset[DType]] = FLOATS

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, self.accepts)
        return x


@dataclass(frozen=True)
class Neg(Unary):
    """The negative of x."""

    element_cost = ElementCost.SIMPLE
    accepts = SIGNED

    def evaluate(self, x: Array) -> Array:
        return np.negative(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (build.add(Neg(), cotangent),)


@dataclass(frozen=True)
class Abs(Unary):
    """|x|, whose slope at 0 is taken to be 0."""

    builtin = "abs"
    element_cost = ElementCost.SIMPLE
    accepts = SIGNED

    def evaluate(self, x: Array) -> Array:
        return np.abs(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d|x| = sign(x)
        (x,) = out.operands
        zero = full(build, x.type, 0)
        negative = build.add(Compare("lt"), x, zero)
        positive = build.add(Compare("gt"), x, zero)
        below = build.add(Where(), negative, build.add(Neg(), cotangent), zero)
        return (build.add(Where(), positive, cotangent, below),)

    def branch_index(self, build: Builder, out: Value) -> Value:
        (x,) = out.operands
        return build.add(Compare("gt"), x, full(build, x.type, 0))


@dataclass(frozen=True)
class Exp(Unary):
    """The power x of e."""

    builtin = "exp"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.exp(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (build.add(Mul(), cotangent, out),)


@dataclass(frozen=True)
class Log(Unary):
    """The natural logarithm of x."""

    builtin = "log"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.log(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d log(x) = 1 / x
        return (build.add(Div(), cotangent, out.operands[0]),)


@dataclass(frozen=True)
class Log1p(Unary):
    """log(1 + x), which keeps its digits where x is near 0."""

    builtin = "log1p"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.log1p(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d log(1 + x) = 1 / (1 + x)
        (x,) = out.operands
        return (build.add(Div(), cotangent, build.add(Add(), full(build, x.type, 1), x)),)


@dataclass(frozen=True)
class Expm1(Unary):
    """exp(x) - 1, which keeps its digits where x is near 0."""

    builtin = "expm1"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.expm1(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # Not out + 1, which is 0 from x = -17 on in single precision.
        return (build.add(Mul(), cotangent, build.add(Exp(), out.operands[0])),)


@dataclass(frozen=True)
class Logistic(Unary):
    """1 / (1 + exp(-x)), which does not overflow, and keeps its digits where it is near 0."""

    builtin = "logistic"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        near = np.exp(-np.abs(x))
        return np.where(x <= 0, near, 1) / (1 + near)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # Not out (1 - out), which is 0 from x = 17 on in single precision.
        other = build.add(Logistic(), build.add(Neg(), out.operands[0]))
        return (build.add(Mul(), cotangent, build.add(Mul(), out, other)),)


@dataclass(frozen=True)
class Sqrt(Unary):
    """The square root of x."""

    builtin = "sqrt"
    element_cost = ElementCost.ROOT

    def evaluate(self, x: Array) -> Array:
        return np.sqrt(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d sqrt(x) = 1 / (2 sqrt(x))
        return (build.add(Div(), cotangent, build.add(Add(), out, out)),)


@dataclass(frozen=True)
class Sin(Unary):
    """The sine of x."""

    builtin = "sin"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.sin(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (build.add(Mul(), cotangent, build.add(Cos(), out.operands[0])),)


@dataclass(frozen=True)
class Cos(Unary):
    """The cosine of x."""

    builtin = "cos"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.cos(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d cos(x) = -sin(x)
        slope = build.add(Neg(), build.add(Sin(), out.operands[0]))
        return (build.add(Mul(), cotangent, slope),)


@dataclass(frozen=True)
class Tanh(Unary):
    """The hyperbolic tangent of x."""

    builtin = "tanh"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return np.tanh(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d tanh(x) = 1 - tanh(x)**2
        slope = build.add(Sub(), full(build, out.type, 1), build.add(Mul(), out, out))
        return (build.add(Mul(), cotangent, slope),)


@dataclass(frozen=True)
class Erf(Unary):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""

    builtin = "erf"
    element_cost = ElementCost.TRANSCENDENTAL

    def evaluate(self, x: Array) -> Array:
        return erf(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d erf(x) = 2 / sqrt(pi) exp(-x**2)
        (x,) = out.operands
        bell = build.add(Exp(), build.add(Neg(), build.add(Mul(), x, x)))
        slope = build.add(Mul(), full(build, x.type, DERIVATIVE_AT_ZERO), bell)
        return (build.add(Mul(), cotangent, slope),)


@dataclass(frozen=True)
class Floor(Unary):
    """The greatest whole number that is not above x. Its slope is 0 where it has one."""

    builtin = "floor"
    element_cost = ElementCost.SIMPLE

    def evaluate(self, x: Array) -> Array:
        return np.floor(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (None,)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return out


@dataclass(frozen=True)
class Round(Unary):
    """The nearest whole number, the even one of two. Its slope is 0 where it has one."""

    builtin = "round"
    element_cost = ElementCost.SIMPLE

    def evaluate(self, x: Array) -> Array:
        return np.rint(x)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (None,)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return out


@dataclass(frozen=True)
class StopGradient(Unary):
    """x, as a constant for differentiation."""

    traits = frozenset({Trait.ELEMENTWISE, Trait.VIEW})
    element_cost = (
        ElementCost.SIMPLE
    )  # a result that is an operand too is copied to memory of its own
    accepts = ANYTHING

    def evaluate(self, x: Array) -> Array:
        return x

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (None,)


@dataclass(frozen=True)
class Binary(Op, abstract=True):
    """An op of two operands of one type, which is its result's type too."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.ELEMENTWISE})
    builtin: ClassVar[str] = ""
    """The function of the language that is this op; empty where there is none."""
    accepts: ClassVar[frozenset[DType]] = NUMBERS

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        require_dtype(self, a, self.accepts)
        require_same_type(self, facts, a, b)
        return a


@dataclass(frozen=True)
class Add(Binary):
    """The sum of a and b."""

    element_cost = ElementCost.SIMPLE

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.add(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return cotangent, cotangent


@dataclass(frozen=True)
class Sub(Binary):
    """The difference of a and b."""

    element_cost = ElementCost.SIMPLE

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.subtract(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return cotangent, build.add(Neg(), cotangent)


@dataclass(frozen=True)
class Mul(Binary):
    """The product of a and b."""

    element_cost = ElementCost.SIMPLE

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        a, b = out.operands
        return build.add(Mul(), cotangent, b), build.add(Mul(), cotangent, a)


@dataclass(frozen=True)
class Div(Binary):
    """The quotient of a and b."""

    element_cost = ElementCost.ROOT
    accepts = FLOATS

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.divide(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d(a / b) = da / b - (a / b) db / b
        share = build.add(Div(), cotangent, out.operands[1])
        return share, build.add(Neg(), build.add(Mul(), share, out))


@dataclass(frozen=True)
class Maximum(Binary):
    """The larger of a and b. Where they are equal, each takes half of the cotangent."""

    builtin = "maximum"
    element_cost = ElementCost.SIMPLE

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.maximum(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        a, b = out.operands
        return _share(build, cotangent, Compare("lt"), a, b)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return build.add(Compare("gt"), *out.operands)


@dataclass(frozen=True)
class Minimum(Binary):
    """The smaller of a and b. Where they are equal, each takes half of the cotangent."""

    builtin = "minimum"
    element_cost = ElementCost.SIMPLE

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.minimum(a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        a, b = out.operands
        return _share(build, cotangent, Compare("gt"), a, b)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return build.add(Compare("gt"), *out.operands)


def _share(build: Builder, cotangent: Value, loses: "Compare", a: Value, b: Value) -> Cotangents:
    """All to what is chosen, half where both are, and all to each where one is NaN."""
    zero = full(build, cotangent.type, 0)
    half = build.add(Mul(), full(build, cotangent.type, 0.5), cotangent)
    chosen = build.add(Where(), build.add(Compare("eq"), a, b), half, cotangent)
    return (
        build.add(Where(), build.add(loses, a, b), zero, chosen),
        build.add(Where(), build.add(loses, b, a), zero, chosen),
    )


@dataclass(frozen=True)
class Compare(Op):
    """A bool for each element: true where a relation holds; bools are only equal or not."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.SIMPLE
    kind: Relation

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        require_same_type(self, facts, a, b)
        if a.dtype is DType.BOOL and self.kind not in ("eq", "ne"):
            raise TypeRuleError(f"{title(self)} finds no order among bools")
        return a.with_dtype(DType.BOOL)

    def evaluate(self, a: Array, b: Array) -> Array:
        match self.kind:
            case "eq":
                return np.equal(a, b)
            case "ne":
                return np.not_equal(a, b)
            case "lt":
                return np.less(a, b)
            case "le":
                return np.less_equal(a, b)
            case "gt":
                return np.greater(a, b)
            case "ge":
                return np.greater_equal(a, b)
            case _:
                assert_never(self.kind)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return out


@dataclass(frozen=True)
class Where(Op):
    """a where the condition holds, b elsewhere. What is not chosen cannot spoil the result."""

    operands = Operands(("condition", "a", "b"))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.SIMPLE

    def infer(
        self, facts: Facts, condition: TensorType, a: TensorType, b: TensorType
    ) -> TensorType:
        require_dtype(self, condition, (DType.BOOL,))
        require_same_type(self, facts, a, b)
        require_same_type(self, facts, condition, a.with_dtype(DType.BOOL))
        return a

    def evaluate(self, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        condition = out.operands[0]
        zero = full(build, out.type, 0)
        return (
            None,
            build.add(Where(), condition, cotangent, zero),
            build.add(Where(), condition, zero, cotangent),
        )


@dataclass(frozen=True)
class Cast(Op):
    """x in another element type. Floats truncate towards zero; to bool is `x != 0`."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.SIMPLE
    dtype: DType

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array) -> Array:
        match self.dtype:
            case DType.F32 | DType.F16:
                return x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)
            case DType.I32:
                return _as_integer(x, np.int32)
            case DType.U32:
                return _as_integer(x, np.uint32)
            case DType.BOOL:
                return np.not_equal(x, 0)
            case _:
                assert_never(self.dtype)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        (x,) = out.operands
        return (build.add(Cast(x.type.dtype), cotangent) if x.type.dtype.is_float else None,)

    def branch_index(self, build: Builder, out: Value) -> Value | None:
        (x,) = out.operands
        return out if x.type.dtype.is_float and not out.type.dtype.is_float else None


UNARY: tuple[type[Unary], ...] = (
    Neg,
    Abs,
    Exp,
    Expm1,
    Log,
    Log1p,
    Logistic,
    Sqrt,
    Sin,
    Cos,
    Tanh,
    Erf,
    Floor,
    Round,
    StopGradient,
)
BINARY: tuple[type[Binary], ...] = (Add, Sub, Mul, Div, Maximum, Minimum)
OPS: tuple[type[Op], ...] = (*UNARY, *BINARY, Compare, Where, Cast)


def _as_integer(x: Array, target: "type[np.int32 | np.uint32]") -> Array:
    if not np.issubdtype(x.dtype, np.floating):
        return x.astype(target)
    # Beyond the target's range floats saturate and NaN is 0, so that no machine may differ.
    limits = np.iinfo(target)
    inside = np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max)
    return inside.astype(target)
