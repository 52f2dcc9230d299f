"""The cases of ops whose pullbacks are proved: an op, and the types of its operands."""

from collections.abc import Iterator
from dataclasses import dataclass

from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import fused
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Size, dim

N, M, K, H, C, D, S, P, U, V = map(dim, "nmkhcdspuv")


@dataclass(frozen=True)
class Case:
    """An op with operands of symbolic sizes, and what is known of them."""

    name: str
    op: Op
    types: tuple[TensorType, ...]
    facts: tuple[Compare, ...] = ()


def of(*shape: Size, dtype: DType = DType.F32) -> TensorType:
    """A type."""
    return TensorType(dtype, shape)


def cases() -> Iterator[Case]:
    """Every case."""
    plain = of(N, M)
    names = ("Neg", "Abs", "Exp", "Expm1", "Log", "Log1p", "Logistic", "Sqrt", "Sin", "Cos", "Tanh")
    for name in (*names, "Erf", "Floor", "Round"):
        yield Case(name, getattr(ops, name)(), (plain,))
    for name in ("Add", "Sub", "Mul", "Div"):
        yield Case(name, getattr(ops, name)(), (plain, plain))
    yield Case("Where", ops.Where(), (of(N, M, dtype=DType.BOOL), plain, plain))
    yield Case("Sum", ops.Sum((0, 2)), (of(N, M, K),))
    yield Case("Broadcast", ops.Broadcast((N, M, K), (0, 2)), (of(N, K),))
    yield Case("Reshape", ops.Reshape((N * M, K)), (of(N, M, K),))
    yield Case("Transpose", ops.Transpose((2, 0, 1)), (of(N, M, K),))
    yield Case("Reverse", ops.Reverse((1,)), (plain,))
    inside = (Compare(">=", V, U + 1), Compare(">=", N, V))
    yield Case("Slice", ops.Slice((U, 0), (V, M), (1, 1)), (plain,), inside)
    yield Case("Pad", ops.Pad((U, 0), (V, 0), (0, 0)), (plain,))
    yield Case("Concat", ops.Concat(1), (plain, of(N, K), of(N, C)))
    for left in (False, True):
        for right in (False, True):
            a, b = of(*((K, N) if left else (N, K))), of(*((M, K) if right else (K, M)))
            yield Case(f"MatMul {left} {right}", ops.MatMul(left, right), (a, b))
    yield Case("MatMul stacked", ops.MatMul(), (of(C, N, K), of(C, K, M)))
    yield Case("MatMul of one matrix", ops.MatMul(), (of(C, N, K), of(K, M)))
    fits = (Compare(">=", H + 2 * P, D * (K - 1) + 1),)
    yield Case("Conv", ops.Conv((S,), (P,), (D,), 1), (of(N, C, H), of(M, C, K)), fits)
    yield Case("Gather", ops.Gather(0), (plain, of(K, dtype=DType.I32)))
    yield Case("ScatterAdd", ops.ScatterAdd(0, N), (of(K, dtype=DType.I32), of(K, M)))
    for backward in (False, True):
        yield Case(f"Cumulative {backward}", ops.Cumulative("sum", 1, backward), (plain,))
    for kind in ("relu", "sigmoid", "silu", "gelu", "gelu_tanh"):
        yield Case(f"Activation {kind}", fused.Activation(kind), (plain,))
    yield Case("SwiGLU", fused.SwiGLU(), (plain, plain))
    for centred in (False, True):
        yield Case(f"Standardize {centred}", fused.Standardize((1,), 0.125, centred), (plain,))
        scaled = fused.ScaledNorm((1,), 0.125, (1,), centred)
        yield Case(f"ScaledNorm {centred}", scaled, (plain, of(M)))
    yield Case("Norm", fused.Norm((1,), 0.125, (1,)), (plain, of(M), of(M)))
    yield Case("Softmax", fused.Softmax(1), (plain,))
    yield Case("LogSoftmax", fused.LogSoftmax(1), (plain,))
    yield Case("SoftCrossEntropy", fused.SoftCrossEntropy(), (plain, plain))
    yield Case("CrossEntropy", fused.CrossEntropy(), (plain, of(N, dtype=DType.I32)))
    heads = (of(N, H, D), of(N, K, D), of(N, K, M))
    yield Case("Attention", fused.Attention(0.125, causal=False), heads)
