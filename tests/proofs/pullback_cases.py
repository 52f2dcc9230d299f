"""The cases of ops whose pullbacks are proved: an op, and the types of its operands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import fused
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Size, dim
from tests.proofs.loop_cases import loops

N, M, K, H, C, D, S, P, U, V = map(dim, "nmkhcdspuv")


@dataclass(frozen=True)
class Case:
    """An op, the types of its operands, and what is known of their sizes.

    Operands that are integers are `given` where sizes are numbers.
    """

    name: str
    op: Op
    types: tuple[TensorType, ...]
    facts: tuple[Compare, ...] = ()
    given: Mapping[int, Any] = field(default_factory=dict[int, Any])
    orders: Literal["", "elements", "elements and 0"] = ""
    """The numbers that are compared, where the op is proved for each order of them."""

    @property
    def is_general(self) -> bool:
        """True if the sizes are symbols."""
        return not all(isinstance(size, int) for each in self.types for size in each.shape)


def of(*shape: Size, dtype: DType = DType.F32) -> TensorType:
    """A type."""
    return TensorType(dtype, shape)


def cases(compared: int = 3) -> Iterator[Case]:
    """Every case; of most ops that go by order, so many elements are compared."""
    yield from _elementwise()
    yield from _moves()
    yield from _products()
    yield from _fused()
    yield from _attentions()
    yield from _along_axes()
    yield from _orders(compared)


def _elementwise() -> Iterator[Case]:
    plain = of(N, M)
    names = ("Neg", "Abs", "Exp", "Expm1", "Log", "Log1p", "Logistic", "Sqrt", "Sin", "Cos", "Tanh")
    for name in (*names, "Erf", "Floor", "Round"):
        yield Case(name, getattr(ops, name)(), (plain,))
    for name in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum"):
        yield Case(name, getattr(ops, name)(), (plain, plain))
    yield Case("Where", ops.Where(), (of(N, M, dtype=DType.BOOL), plain, plain))
    yield Case("Cast", ops.Cast(DType.F16), (plain,))


def _moves() -> Iterator[Case]:
    plain = of(N, M)
    yield Case("Sum", ops.Sum((0, 2)), (of(N, M, K),))
    yield Case("Broadcast", ops.Broadcast((N, M, K), (0, 2)), (of(N, K),))
    yield Case("Reshape", ops.Reshape((N * M, K)), (of(N, M, K),))
    yield Case("Reshape that splits", ops.Reshape((2, 3, 4)), (of(6, 4),))
    yield Case("Reshape that splits and joins", ops.Reshape((3, 4)), (of(2, 6),))
    yield Case("Transpose", ops.Transpose((2, 0, 1)), (of(N, M, K),))
    yield Case("Reverse", ops.Reverse((1,)), (plain,))
    inside = (Compare(">=", V, U + 1), Compare(">=", N, V))
    yield Case("Slice", ops.Slice((U, 0), (V, M), (1, 1)), (plain,), inside)
    yield Case("Slice with steps", ops.Slice((1, 0), (6, 4), (2, 3)), (of(7, 5),))
    yield Case("Pad", ops.Pad((U, 0), (V, 0), (0, 0)), (plain,))
    yield Case("Pad with gaps", ops.Pad((1, 0), (2, 0), (1, 2)), (of(3, 2),))
    yield Case("Concat", ops.Concat(1), (plain, of(N, K), of(N, C)))
    yield Case("Gather", ops.Gather(0), (plain, of(K, dtype=DType.I32)))
    yield Case("Gather in batches", ops.Gather(1, 1), (of(N, M, K), of(N, C, dtype=DType.I32)))
    yield Case("ScatterAdd", ops.ScatterAdd(0, N), (of(K, dtype=DType.I32), of(K, M)))
    batched = (of(N, C, dtype=DType.I32), of(N, C, K))
    yield Case("ScatterAdd in batches", ops.ScatterAdd(1, M, 1), batched)
    starts = (of(dtype=DType.I32),) * 2
    fits = (Compare(">=", N, U), Compare(">=", M, V))
    yield Case("DynamicSlice", ops.DynamicSlice((U, V)), (plain, *starts), fits)
    yield Case("DynamicUpdate", ops.DynamicUpdate(), (plain, of(U, V), *starts), fits)


def _products() -> Iterator[Case]:
    for left in (False, True):
        for right in (False, True):
            a, b = of(*((K, N) if left else (N, K))), of(*((M, K) if right else (K, M)))
            turned = ("left" * left, "right" * right)
            name = " and ".join(filter(None, turned))
            yield Case(f"MatMul {name and f'{name} transposed'}", ops.MatMul(left, right), (a, b))
    yield Case("MatMul stacked", ops.MatMul(), (of(C, N, K), of(C, K, M)))
    yield Case("MatMul of one matrix", ops.MatMul(), (of(C, N, K), of(K, M)))
    sizes = (of(N, K), of(M, K), of(M), of(N, M))
    for kind in ("none", "relu", "gelu"):
        yield Case(f"FusedMatMul {kind}", fused.FusedMatMul(False, True, kind), sizes)
    for kind in ("sigmoid", "silu", "gelu_tanh"):
        op = fused.FusedMatMul(False, False, kind)
        yield Case(f"FusedMatMul {kind}", op, (*(of(1, 1),) * 2, of(1), of(1, 1)))
    fits = (Compare(">=", H + 2 * P, D * (K - 1) + 1),)
    yield Case(
        "Conv along one axis", ops.Conv((S,), (P,), (D,), 1), (of(N, C, H), of(M, C, K)), fits
    )
    geometry = ((2, 1), (1, 0), (1, 2), 2)
    x, w, dy = of(1, 2, 3, 3), of(2, 1, 2, 2), of(1, 2, 2, 1)
    yield Case("Conv of images in groups", ops.Conv(*geometry), (x, w))
    yield Case("ConvInputGradient of images", ops.ConvInputGradient(*geometry, (3, 3)), (w, dy))
    yield Case("ConvWeightGradient of images", ops.ConvWeightGradient(*geometry, (2, 2)), (x, dy))
    image, kernel = of(1, 2, 2, 2), of(2, 1, 2, 1)
    fused_conv = fused.FusedConv((2, 1), (1, 0), (1, 2), 2, "silu")
    yield Case("FusedConv of images, silu", fused_conv, (image, kernel, of(2), of(1, 2, 2, 2)))


def _fused() -> Iterator[Case]:
    plain = of(N, M)
    for kind in ("relu", "sigmoid", "silu", "gelu", "gelu_tanh"):
        yield Case(f"Activation {kind}", fused.Activation(kind), (plain,))
    yield Case("SwiGLU", fused.SwiGLU(), (plain, plain))
    yield Case("Variance", fused.Variance((1,)), (of(2, 4),))
    for centred in (False, True):
        name = "centred" if centred else "not centred"
        yield Case(f"Standardize {name}", fused.Standardize((1,), 0.125, centred), (plain,))
        scaled = fused.ScaledNorm((1,), 0.125, (1,), centred)
        yield Case(f"ScaledNorm {name}", scaled, (plain, of(M)))
    yield Case("Norm", fused.Norm((1,), 0.125, (1,)), (plain, of(M), of(M)))
    yield Case("Softmax", fused.Softmax(1), (plain,))
    yield Case("LogSoftmax", fused.LogSoftmax(1), (plain,))
    yield Case("SoftCrossEntropy", fused.SoftCrossEntropy(), (plain, plain))
    yield Case("CrossEntropy", fused.CrossEntropy(), (plain, of(N, dtype=DType.I32)))
    yield Case("Rotate", fused.Rotate(), (of(2, 3, 4), of(3, 2), of(3, 2)))


def _attentions() -> Iterator[Case]:
    heads = (of(N, H, D), of(N, K, D), of(N, K, M))
    yield Case("Attention", fused.Attention(0.125, causal=False), heads)
    yield Case("Attention with a mask", fused.Attention(0.125, causal=False), (*heads, of(N, H, K)))
    one = (of(1, 3, 1), of(1, 3, 1), of(1, 3, 1))
    yield Case("Attention causal", fused.Attention(0.125, causal=True), one)
    yield Case("Attention in a window", fused.Attention(0.125, causal=True, window=2), one)
    masked = fused.Attention(0.125, causal=True)
    yield Case("Attention causal with a mask", masked, (*(of(1, 2, 1),) * 3, of(1, 2, 2)))
    shared = (of(2, 2, 1), of(1, 2, 1), of(1, 2, 1))
    yield Case("Attention of shared heads", fused.Attention(0.125, causal=True, shared=2), shared)


def _along_axes() -> Iterator[Case]:
    for backward in (False, True):
        name = "backward" if backward else "forward"
        yield Case(f"Cumulative sum {name}", ops.Cumulative("sum", 1, backward), (of(N, M),))
        yield Case(f"Cumulative prod {name}", ops.Cumulative("prod", 1, backward), (of(2, 4),))
        recurrence = ops.LinearRecurrence(1, backward)
        yield Case(f"LinearRecurrence {name}", recurrence, (of(2, 4), of(2, 4)))
    for name, loop, types in loops():
        yield Case(name, loop, types)


def _orders(compared: int) -> Iterator[Case]:
    few = of(compared)
    for name in ("Maximum", "Minimum"):
        pair = (of(1), of(1))
        yield Case(name, getattr(ops, name)(), pair, orders="elements")
    yield Case("ReduceMax", ops.ReduceMax((0,)), (few,), orders="elements")
    for descending in (False, True):
        name = "Sort descending" if descending else "Sort"
        yield Case(name, ops.Sort(0, descending), (few,), orders="elements")
    for kind in ("max", "min"):
        for backward in (False, True):
            name = f"Cumulative {kind} {'backward' if backward else 'forward'}"
            yield Case(name, ops.Cumulative(kind, 0, backward), (few,), orders="elements")
        ids = of(*few.shape, dtype=DType.I32)
        scatter = ops.ScatterExtreme(kind, 0, 3)
        given = {0: [1, 2, 1, 1][:compared]}
        name = f"ScatterExtreme {kind}"
        yield Case(name, scatter, (ids, few), given=given, orders="elements")
    line, square = ((2,), (1,), (1,)), ((2, 2), (2, 1), (1, 0))
    yield Case("MaxPool", ops.MaxPool(*line), (of(1, 1, 3),), orders="elements")
    yield Case("MaxPool of images", ops.MaxPool(*square), (of(1, 1, 2, 2),), orders="elements")
    indices, dy = of(1, 1, 2, 1, dtype=DType.I32), of(1, 1, 2, 1)
    chosen = {0: [[[[3], [1]]]]}
    gradient = ops.MaxPoolGradient(*square, (2, 2))
    yield Case("MaxPoolGradient", gradient, (indices, dy), given=chosen)
    select = ops.MaxPoolSelect(*square)
    yield Case("MaxPoolSelect", select, (indices, of(1, 1, 2, 2)), given=chosen)
    for kind in ("softplus", "relu"):
        activation = fused.Activation(kind)
        name = f"Activation {kind} by sign"
        yield Case(name, activation, (of(1),), orders="elements and 0")
