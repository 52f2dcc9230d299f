"""Products with what follows them: a bias, a residual, an activation, while they are at hand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Value
from meganeura_dsl.ir.ops.fused.activation import Activation, Epilogue, finish, finish_value
from meganeura_dsl.ir.ops.fused.base import Fused, elements
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, others
from meganeura_dsl.ir.ops.primitive.contraction import Conv, Convolution, MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add
from meganeura_dsl.ir.ops.type_rules import concrete_shape, require_same_type
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class FusedMatMul(Fused):
    """epilogue(a @ b + bias), the bias along the last axis."""

    transpose_left: bool
    transpose_right: bool
    epilogue: Epilogue

    @property
    def product(self) -> MatMul:
        """The product alone."""
        return MatMul(self.transpose_left, self.transpose_right)

    def infer(self, facts: Facts, a: TensorType, b: TensorType, bias: TensorType) -> TensorType:
        result = self.product.infer(facts, a, b)
        require_same_type(self, facts, bias, result.with_shape(result.shape[-1:]))
        return result

    def evaluate(self, a: Array, b: Array, bias: Array) -> Array:
        return finish(self.epilogue, self.product.evaluate(a, b) + bias)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        plain = FusedMatMul(self.transpose_left, self.transpose_right, "none")
        back = _before_epilogue(build, plain, self.epilogue, out, cotangent)
        a, b, _ = out.operands
        to_a, to_b = self.product.pullback(build, build.add(self.product, a, b), back)
        return to_a, to_b, _sum_but(build, back, out.type.rank - 1)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        a, b, bias = operands
        total = _plus_bias(build, build.add(self.product, a, b), bias, -1)
        return finish_value(build, self.epilogue, total)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        return _matmul_flops(self.product, operands, result)


@dataclass(frozen=True)
class FusedMatMulAdd(Fused):
    """epilogue(a @ b + bias + residual), the bias along the last axis."""

    transpose_left: bool
    transpose_right: bool
    epilogue: Epilogue

    @property
    def product(self) -> MatMul:
        """The product alone."""
        return MatMul(self.transpose_left, self.transpose_right)

    def infer(
        self,
        facts: Facts,
        a: TensorType,
        b: TensorType,
        bias: TensorType,
        residual: TensorType,
    ) -> TensorType:
        result = self.product.infer(facts, a, b)
        require_same_type(self, facts, bias, result.with_shape(result.shape[-1:]))
        require_same_type(self, facts, residual, result)
        return result

    def evaluate(self, a: Array, b: Array, bias: Array, residual: Array) -> Array:
        return finish(self.epilogue, self.product.evaluate(a, b) + bias + residual)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        plain = FusedMatMulAdd(self.transpose_left, self.transpose_right, "none")
        back = _before_epilogue(build, plain, self.epilogue, out, cotangent)
        a, b, _, _ = out.operands
        to_a, to_b = self.product.pullback(build, build.add(self.product, a, b), back)
        return to_a, to_b, _sum_but(build, back, out.type.rank - 1), back

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        a, b, bias, residual = operands
        total = _plus_bias(build, build.add(self.product, a, b), bias, -1)
        return finish_value(build, self.epilogue, build.add(Add(), total, residual))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        return _matmul_flops(self.product, operands, result)


@dataclass(frozen=True)
class FusedConv(Convolution, Fused):
    """epilogue(conv(x, w) + bias), the bias along the channels."""

    epilogue: Epilogue

    @property
    def product(self) -> Conv:
        """The convolution alone."""
        return Conv(self.stride, self.padding, self.dilation, self.groups)

    def infer(self, facts: Facts, x: TensorType, w: TensorType, bias: TensorType) -> TensorType:
        result = self.product.infer(facts, x, w)
        require_same_type(self, facts, bias, result.with_shape(result.shape[1:2]))
        return result

    def evaluate(self, x: Array, w: Array, bias: Array) -> Array:
        return finish(self.epilogue, self.product.evaluate(x, w) + _along_channels(bias, x))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        plain = FusedConv(self.stride, self.padding, self.dilation, self.groups, "none")
        back = _before_epilogue(build, plain, self.epilogue, out, cotangent)
        x, w, _ = out.operands
        to_x, to_w = self.product.pullback(build, build.add(self.product, x, w), back)
        return to_x, to_w, _sum_but(build, back, 1)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, w, bias = operands
        total = _plus_bias(build, build.add(self.product, x, w), bias, 1)
        return finish_value(build, self.epilogue, total)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        return _conv_flops(operands, result)


@dataclass(frozen=True)
class FusedConvAdd(Convolution, Fused):
    """epilogue(conv(x, w) + bias + residual), the bias along the channels."""

    epilogue: Epilogue

    @property
    def product(self) -> Conv:
        """The convolution alone."""
        return Conv(self.stride, self.padding, self.dilation, self.groups)

    def infer(
        self,
        facts: Facts,
        x: TensorType,
        w: TensorType,
        bias: TensorType,
        residual: TensorType,
    ) -> TensorType:
        result = self.product.infer(facts, x, w)
        require_same_type(self, facts, bias, result.with_shape(result.shape[1:2]))
        require_same_type(self, facts, residual, result)
        return result

    def evaluate(self, x: Array, w: Array, bias: Array, residual: Array) -> Array:
        total = self.product.evaluate(x, w) + _along_channels(bias, x) + residual
        return finish(self.epilogue, total)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        plain = FusedConvAdd(self.stride, self.padding, self.dilation, self.groups, "none")
        back = _before_epilogue(build, plain, self.epilogue, out, cotangent)
        x, w, _, _ = out.operands
        to_x, to_w = self.product.pullback(build, build.add(self.product, x, w), back)
        return to_x, to_w, _sum_but(build, back, 1), back

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, w, bias, residual = operands
        total = _plus_bias(build, build.add(self.product, x, w), bias, 1)
        return finish_value(build, self.epilogue, build.add(Add(), total, residual))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        return _conv_flops(operands, result)


def _before_epilogue(
    build: Builder, plain: Fused, epilogue: Epilogue, out: Value, cotangent: Value
) -> Value:
    """The cotangent of what the epilogue was given; the product is computed again for it."""
    if epilogue == "none":
        return cotangent
    finished = build.add(Activation(epilogue), build.add(plain, *out.operands))
    (back,) = finished.op.pullback(build, finished, cotangent)
    assert back is not None
    return back


def _plus_bias(build: Builder, x: Value, bias: Value, axis: int) -> Value:
    spread = build.add(Broadcast(x.type.shape, (axis % x.type.rank,)), bias)
    return build.add(Add(), x, spread)


def _sum_but(build: Builder, x: Value, axis: int) -> Value:
    return build.add(Sum(others((axis,), x.type.rank)), x)


def _along_channels(bias: Array, x: Array) -> Array:
    return np.reshape(bias, (-1, *(1,) * (x.ndim - 2)))


def _matmul_flops(product: MatMul, operands: Sequence[TensorType], result: TensorType) -> int:
    rows = concrete_shape(operands[1].shape)
    return 2 * elements(result) * (rows[-1] if product.transpose_right else rows[-2])


def _conv_flops(operands: Sequence[TensorType], result: TensorType) -> int:
    return 2 * elements(result) * (elements(operands[1]) // concrete_shape(result.shape)[1])
