"""Products with what follows them: a bias, a residual, an activation, while they are at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.activation import Activation, Epilogue, finish, finish_value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, others
from meganeura_dsl.ir.ops.primitive.contraction import Conv, Convolution, MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add
from meganeura_dsl.ir.ops.type_rules import require_same_type
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["FusedConv", "FusedMatMul"]


class FusedProduct(Fused, abstract=True):
    """epilogue(product + bias + residual), the bias along one axis of the product."""

    traits = frozenset({Trait.CONTRACTION})
    epilogue: Epilogue

    @property
    def product(self) -> MatMul | Conv:
        """The product alone."""
        raise NotImplementedError

    def bias_axis(self, rank: int) -> int:
        """The axis of a product of this rank that the bias lies along."""
        raise NotImplementedError

    def infer(
        self, facts: Facts, a: TensorType, b: TensorType, bias: TensorType, *residual: TensorType
    ) -> TensorType:
        result = self.product.infer(facts, a, b)
        size = result.shape[self.bias_axis(result.rank)]
        require_same_type(self, facts, bias, result.with_shape((size,)))
        for each in residual:
            require_same_type(self, facts, each, result)
        return result

    def evaluate(self, a: Array, b: Array, bias: Array, *residual: Array) -> Array:
        product = self.product.evaluate(a, b)
        behind = product.ndim - 1 - self.bias_axis(product.ndim)
        return finish(self.epilogue, sum(residual, product + bias.reshape(-1, *(1,) * behind)))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        a, b, _, *residual = out.operands
        back = self._before_epilogue(build, out, cotangent)
        to_a, to_b = self.product.pullback(build, build.add(self.product, a, b), back)
        along = others((self.bias_axis(out.type.rank),), out.type.rank)
        return to_a, to_b, build.add(Sum(along), back), *(back for _ in residual)

    def _before_epilogue(self, build: Builder, out: Value, cotangent: Value) -> Value:
        """The cotangent of what the epilogue was given; the product is computed again for it."""
        if self.epilogue == "none":
            return cotangent
        plain = replace(self, epilogue="none")
        finished = build.add(Activation(self.epilogue), build.add(plain, *out.operands))
        (back,) = finished.op.pullback(build, finished, cotangent)
        assert back is not None
        return back

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        a, b, *rest = operands
        product = build.add(self.product, a, b)
        axis = self.bias_axis(product.type.rank)
        return finish_value(build, self.epilogue, plus(build, product, axis, *rest))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        return self.product.flops(operands[:2], result)


@dataclass(frozen=True)
class FusedMatMul(FusedProduct):
    """epilogue(a @ b + bias + residual), the bias along the last axis."""

    operands = Operands(("a", "b", "bias"), optional=("residual",))
    transpose_left: bool
    transpose_right: bool
    epilogue: Epilogue

    @property
    def product(self) -> MatMul:
        return MatMul(self.transpose_left, self.transpose_right)

    def bias_axis(self, rank: int) -> int:
        return rank - 1


@dataclass(frozen=True)
class FusedConv(FusedProduct, Convolution):
    """epilogue(conv(x, w) + bias + residual), the bias along the channels."""

    operands = Operands(("x", "w", "bias"), optional=("residual",))
    epilogue: Epilogue

    @property
    def product(self) -> Conv:
        return Conv(self.stride, self.padding, self.dilation, self.groups)

    def bias_axis(self, rank: int) -> int:
        return 1


OPS: tuple[type[Op], ...] = (FusedMatMul, FusedConv)


def plus(build: Builder, x: Value, axis: int, bias: Value, *residual: Value) -> Value:
    """X and a bias along one of its axes, and a residual if there is one, in primitives."""
    total = build.add(Add(), x, build.add(Broadcast(x.type.shape, (axis,)), bias))
    for each in residual:
        total = build.add(Add(), total, each)
    return total
