"""Activations as one op each, and their slopes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Literal, assert_never

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.elementwise import (
    Add,
    Compare,
    Erf,
    Exp,
    Log1p,
    Logistic,
    Mul,
    Neg,
    Sub,
    Tanh,
    Where,
)
from meganeura_dsl.ir.ops.primitive.erf import erf
from meganeura_dsl.ir.ops.type_rules import FLOATS, require_dtype, require_same_type
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Activation", "ActivationGradient", "SwiGLU"]

ActivationKind = Literal["relu", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh"]
SmoothKind = Literal["sigmoid", "softplus", "silu", "gelu", "gelu_tanh"]
Epilogue = Literal["none", "relu", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh"]

INVERSE_ROOT_OF_TWO = 2**-0.5
ROOT_OF_TWO_OVER_PI = 0.7978845608028654
CUBIC = 0.044715


@dataclass(frozen=True)
class Activation(Fused):
    """One of the activations of the standard library.

    relu max(x, 0), its slope at 0 being 0; sigmoid s(x) = 1 / (1 + exp(-x)); softplus
    log(1 + exp(x)); silu x s(x); gelu x Phi(x); gelu_tanh
    0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))).
    """

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    flops_per_element = 4
    kind: ActivationKind

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        return x

    def evaluate(self, x: Array) -> Array:
        match self.kind:
            case "relu":
                return np.where(x <= 0, 0, x)
            case "sigmoid":
                return _sigmoid(x)
            case "softplus":
                return np.log1p(np.exp(-np.abs(x))) + np.where(x <= 0, 0, x)
            case "silu":
                return x * _sigmoid(x)
            case "gelu":
                return 0.5 * x * (1 + erf(x * INVERSE_ROOT_OF_TWO))
            case "gelu_tanh":
                return 0.5 * x * (1 + np.tanh(_inner(x)))
            case _:
                assert_never(self.kind)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (build.add(ActivationGradient(self.kind), out.operands[0], cotangent),)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (x,) = operands
        match self.kind:
            case "relu":
                zero = full(build, x.type, 0)
                return build.add(Where(), build.add(Compare("le"), x, zero), zero, x)
            case "sigmoid":
                return build.add(Logistic(), x)
            case "softplus":
                below, near = _nearness(build, x)
                cut = build.add(Where(), below, full(build, x.type, 0), x)
                return build.add(Add(), build.add(Log1p(), near), cut)
            case "silu":
                return build.add(Mul(), x, build.add(Logistic(), x))
            case "gelu":
                scaled = build.add(Mul(), x, full(build, x.type, INVERSE_ROOT_OF_TWO))
                return _half_of(build, x, build.add(Erf(), scaled))
            case "gelu_tanh":
                return _half_of(build, x, build.add(Tanh(), _inner_value(build, x)))
            case _:
                assert_never(self.kind)


@dataclass(frozen=True)
class ActivationGradient(Fused):
    """An activation's slope at x times the cotangent.

    relu' = 1 above 0; sigmoid' = s(x) s(-x); softplus' = s; silu' = s (1 + x (1 - s));
    gelu' = Phi(x) + x phi(x).
    """

    operands = Operands(("x", "cotangent"))
    traits = frozenset({Trait.ELEMENTWISE})
    flops_per_element = 8
    kind: ActivationKind

    def infer(self, facts: Facts, x: TensorType, cotangent: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        require_same_type(self, facts, x, cotangent)
        return x

    def evaluate(self, x: Array, cotangent: Array) -> Array:
        match self.kind:
            case "relu":
                return np.where(x <= 0, 0, cotangent)
            case "sigmoid":
                return cotangent * (_sigmoid(x) * _sigmoid(-x))
            case "softplus":
                return cotangent * _sigmoid(x)
            case "silu":
                value = _sigmoid(x)
                return cotangent * value * (1 + x * (1 - value))
            case "gelu":
                bell = np.exp(-0.5 * x * x) / sqrt(2 * pi)
                return cotangent * (0.5 * (1 + erf(x * INVERSE_ROOT_OF_TWO)) + x * bell)
            case "gelu_tanh":
                value = np.tanh(_inner(x))
                slope = ROOT_OF_TWO_OVER_PI * (1 + 3 * CUBIC * x * x)
                return cotangent * 0.5 * (1 + value + x * (1 - value * value) * slope)
            case _:
                assert_never(self.kind)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, cotangent = operands
        if self.kind == "relu":
            zero = full(build, x.type, 0)
            return build.add(Where(), build.add(Compare("le"), x, zero), zero, cotangent)
        return build.add(Mul(), cotangent, self._slope(build, self.kind, x))

    def _slope(self, build: Builder, kind: SmoothKind, x: Value) -> Value:
        def number(value: float) -> Value:
            return full(build, x.type, value)

        def times(*factors: Value) -> Value:
            first, *rest = factors
            for each in rest:
                first = build.add(Mul(), first, each)
            return first

        def plus(a: Value, b: Value) -> Value:
            return build.add(Add(), a, b)

        match kind:
            case "sigmoid":
                other = build.add(Logistic(), build.add(Neg(), x))
                return times(build.add(Logistic(), x), other)
            case "softplus":
                return build.add(Logistic(), x)
            case "silu":
                value = build.add(Logistic(), x)
                left = build.add(Sub(), number(1), value)
                return times(value, plus(number(1), times(x, left)))
            case "gelu":
                phi = plus(number(1), build.add(Erf(), times(x, number(INVERSE_ROOT_OF_TWO))))
                bell = build.add(Exp(), build.add(Neg(), times(number(0.5), x, x)))
                return plus(times(number(0.5), phi), times(x, number(1 / sqrt(2 * pi)), bell))
            case "gelu_tanh":
                value = build.add(Tanh(), _inner_value(build, x))
                bent = build.add(Sub(), number(1), times(value, value))
                slope = plus(number(1), times(number(3 * CUBIC), x, x))
                wing = times(x, bent, number(ROOT_OF_TWO_OVER_PI), slope)
                return times(number(0.5), plus(plus(number(1), value), wing))
            case _:
                assert_never(kind)


@dataclass(frozen=True)
class SwiGLU(Fused):
    """silu(gate) times value (Shazeer, 2020)."""

    operands = Operands(("gate", "value"))
    traits = frozenset({Trait.ELEMENTWISE})
    flops_per_element = 5

    def infer(self, facts: Facts, gate: TensorType, value: TensorType) -> TensorType:
        require_dtype(self, gate, FLOATS)
        require_same_type(self, facts, gate, value)
        return gate

    def evaluate(self, gate: Array, value: Array) -> Array:
        return gate * _sigmoid(gate) * value

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        gate, value = out.operands
        to_gate = build.add(Mul(), cotangent, value)
        return (
            build.add(ActivationGradient("silu"), gate, to_gate),
            build.add(Mul(), cotangent, build.add(Activation("silu"), gate)),
        )

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        gate, value = operands
        return build.add(Mul(), Activation("silu").expand(build, (gate,)), value)


OPS: tuple[type[Op], ...] = (Activation, ActivationGradient, SwiGLU)


def finish(epilogue: Epilogue, x: Array) -> Array:
    """An epilogue on an array."""
    return x if epilogue == "none" else Activation(epilogue).evaluate(x)


def finish_value(build: Builder, epilogue: Epilogue, x: Value) -> Value:
    """An epilogue in primitives."""
    return x if epilogue == "none" else Activation(epilogue).expand(build, (x,))


def _sigmoid(x: Array) -> Array:
    return Logistic().evaluate(x)


def _nearness(build: Builder, x: Value) -> tuple[Value, Value]:
    """Returns two values: a bool that is true where x <= 0, and exp(-|x|)."""
    below = build.add(Compare("le"), x, full(build, x.type, 0))
    size = build.add(Where(), below, x, build.add(Neg(), x))
    return below, build.add(Exp(), size)


def _inner(x: Array) -> Array:
    return ROOT_OF_TWO_OVER_PI * (x + CUBIC * x**3)


def _inner_value(build: Builder, x: Value) -> Value:
    cube = build.add(Mul(), x, build.add(Mul(), x, x))
    bent = build.add(Mul(), full(build, x.type, CUBIC), cube)
    whole = build.add(Add(), x, bent)
    return build.add(Mul(), full(build, x.type, ROOT_OF_TWO_OVER_PI), whole)


def _half_of(build: Builder, x: Value, curve: Value) -> Value:
    half = build.add(Mul(), full(build, x.type, 0.5), x)
    return build.add(Mul(), half, build.add(Add(), full(build, x.type, 1), curve))
