"""A fused op is its expansion: in type, in value, and in gradient."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, NotDifferentiableError, TypeRuleError, Value
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Input, Mul, Sum
from meganeura_dsl.ir.ops.fused import (
    FUSED_OPS,
    Activation,
    ActivationGradient,
    Attention,
    AttentionGradient,
    CrossEntropy,
    CrossEntropyGradient,
    Dequantize,
    Fused,
    FusedConv,
    FusedMatMul,
    FusedWinogradOutput,
    LogSoftmax,
    Norm,
    NormInputGradient,
    NormWeightGradient,
    Rotate,
    ScaledNorm,
    SoftCrossEntropy,
    SoftCrossEntropyGradient,
    Softmax,
    SoftmaxGradient,
    Standardize,
    StandardizeGradient,
    SwiGLU,
    Variance,
    WinogradInput,
    WinogradKernel,
    WinogradKernelGradient,
    WinogradOutput,
    WinogradOutputGradient,
)
from meganeura_dsl.ir.ops.fused.activation import ActivationKind
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.symbolic.assumptions import Unproved
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.expand_fused import expand_fused
from tests.folded import each_of
from tests.gradients import assert_same, fed, weighted_loss

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Case:
    """A fused op and the shapes of its operands.

    `labels` is the one that holds classes, `words` the one that holds packed numbers.
    """

    op: Fused
    shapes: Shapes
    labels: int | None = None
    words: int | None = None

    def __str__(self) -> str:
        return f"{self.op}-{self.shapes}"

    def types(self) -> list[TensorType]:
        return [TensorType(self._dtype(place), shape) for place, shape in enumerate(self.shapes)]

    def _dtype(self, place: int) -> DType:
        if place == self.words:
            return DType.U32
        return DType.I32 if place == self.labels else DType.F32

    def arrays(self) -> list[Array]:
        generator = np.random.default_rng(crc32(str(self).encode()))
        return [self._drawn(generator, of) for of in self.types()]

    @staticmethod
    def _drawn(generator: np.random.Generator, of: TensorType) -> Array:
        shape = concrete_shape(of.shape)
        if of.dtype is DType.U32:
            return generator.integers(0, 2**32, shape, np.uint32)
        if of.dtype is DType.I32:
            return np.asarray(generator.integers(-1, 3, shape), np.int32)
        return generator.normal(size=shape)


def _activations() -> list[Case]:
    kinds = ("relu", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh")
    cases = [Case(Activation(kind), (shape,)) for kind in kinds for shape in ((3, 5), ())]
    return cases + [Case(ActivationGradient(kind), ((3, 5), (3, 5))) for kind in kinds]


def _contractions() -> list[Case]:
    square = ((1, 1), (1, 1), (1, 1), 1)
    strided = ((2, 1), (1, 0), (1, 2), 2)
    line = ((2,), (1,), (1,), 1)
    return [
        *(
            Case(
                FusedMatMul(transpose_left=left, transpose_right=right, epilogue="none"),
                ((3, 3), (3, 3), (3,)),
            )
            for left in (False, True)
            for right in (False, True)
        ),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=False, epilogue="gelu"),
            ((2, 1, 5), (5, 3), (3,)),
        ),
        Case(SwiGLU(), ((3, 4), (3, 4))),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=True, epilogue="relu"),
            ((4,), (3, 4), (3,)),
        ),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=False, epilogue="silu"),
            ((2, 3, 4), (2, 4, 5), (5,)),
        ),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=True, epilogue="relu"),
            ((1, 4), (3, 4), (3,), (1, 3)),
        ),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=False, epilogue="none"),
            ((2, 3, 4), (4, 2), (2,), (2, 3, 2)),
        ),
        Case(
            FusedMatMul(transpose_left=False, transpose_right=False, epilogue="silu"),
            ((2, 3), (3, 4), (4,), (2, 4)),
        ),
        Case(FusedConv(*square, "relu"), ((2, 3, 5, 4), (4, 3, 3, 3), (4,))),
        Case(FusedConv(*strided, "none"), ((1, 4, 5, 7), (6, 2, 3, 3), (6,))),
        Case(FusedConv(*line, "gelu"), ((2, 2, 9), (3, 2, 3), (3,))),
        Case(FusedConv(*square, "relu"), ((1, 2, 3, 3), (2, 2, 3, 3), (2,), (1, 2, 3, 3))),
        Case(FusedConv(*line, "silu"), ((1, 2, 9), (3, 2, 3), (3,), (1, 3, 5))),
        Case(FusedConv(*line, "none"), ((1, 2, 9), (3, 2, 3), (3,), (1, 3, 5))),
    ]


def _norms() -> list[Case]:
    return [
        Case(Variance((1,)), ((3, 5),)),
        Case(Variance((0, 2, 3)), ((2, 3, 4, 1),)),
        *(Case(Standardize((1,), 1e-5, centred=centred), ((1, 6),)) for centred in (True, False)),
        Case(Standardize((0, 2), 1e-3, centred=True), ((2, 3, 4),)),
        *(
            Case(StandardizeGradient((0, 2), 1e-3, centred), ((2, 3, 4), (2, 3, 4)))
            for centred in (True, False)
        ),
        Case(Norm((2,), 1e-5, (2,)), ((2, 3, 6), (6,), (6,))),
        Case(Norm((0, 2, 3), 1e-5, (1,)), ((2, 3, 4, 5), (3,), (3,))),
        Case(Norm((1, 2), 1e-5, (1,)), ((2, 3, 4), (3,), (3,))),
        *(
            Case(NormInputGradient(axes, 1e-3, (1,), centred), ((2, 3, 4), (3,), (2, 3, 4)))
            for centred in (True, False)
            for axes in ((0, 2), (2,), (1, 2))
        ),
        *(
            Case(NormWeightGradient((1,), 1e-3, (1,), centred), ((3, 6), (3, 6)))
            for centred in (True, False)
        ),
        *(Case(ScaledNorm((1,), 1e-6, (1,), centred), ((3, 7), (7,))) for centred in (True, False)),
    ]


def _softmaxes() -> list[Case]:
    return [
        *(Case(op(axis), ((3, 4),)) for op in (Softmax, LogSoftmax) for axis in (0, 1)),
        Case(SoftmaxGradient(1), ((2, 5), (2, 5))),
        Case(CrossEntropy(), ((5, 3), (5,)), labels=1),
        Case(CrossEntropy(), ((2, 4, 3), (2, 4)), labels=1),
        Case(CrossEntropyGradient(), ((5, 3), (5,), (5,)), labels=1),
        *(Case(SoftCrossEntropy(), (shape, shape)) for shape in ((5, 3), (2, 4, 1), (4,))),
        Case(SoftCrossEntropyGradient(), ((5, 3), (5, 3), (5,))),
    ]


def _attentions() -> list[Case]:
    same = ((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4))
    wide = ((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6))
    shared = ((2, 6, 4, 3), (2, 2, 4, 3), (2, 2, 4, 5))
    flat = ((4, 3, 2), (1, 2, 2), (1, 2, 3))
    return [
        case
        for form, shapes in (
            (Attention(0.5, causal=True), same),
            (Attention(0.3, causal=False), wide),
            (Attention(1.0, causal=False), ((2, 1, 3), (2, 1, 3), (2, 1, 2))),
            (Attention(1.0, causal=True), ((2, 4, 3), (2, 4, 3), (2, 4, 2))),
            (Attention(0.5, causal=True, window=1), same),
            (Attention(0.5, causal=True, window=2), same),
            (Attention(0.5, causal=True, window=3, shared=3), shared),
            (Attention(0.7, causal=False, shared=4), flat),
        )
        for masked in (False, True)
        for case in _attention(form, shapes, masked=masked)
    ]


def _attention(op: Attention, shapes: Shapes, *, masked: bool) -> Iterator[Case]:
    """Attention and its gradient, for operands of these shapes."""
    q, k, v = shapes
    rows = q[:-1]
    mask = ((*rows, k[-2]),) if masked else ()
    yield Case(op, (*shapes, *mask))
    yield Case(op.gradient, (*shapes, (*rows, v[-1]), rows, rows, *mask))


def _winograd() -> list[Case]:
    return [
        Case(WinogradInput(2, (1, 1)), ((2, 3, 5, 4),)),
        Case(WinogradInput(4, (0, 2)), ((1, 1, 3, 9),)),
        Case(WinogradInput(4, (2, 1)), ((3, 2, 1, 1),)),
        *(
            Case(WinogradKernel(m, mirrored=mirrored), ((3, 2, 3, 3),))
            for m, mirrored in ((2, True), (4, False))
        ),
        Case(WinogradOutput(2, 2, (3, 5)), ((16, 3, 12),)),
        Case(WinogradOutput(4, 1, (1, 8)), ((36, 1, 2),)),
        Case(FusedWinogradOutput(4, 2, (4, 5), "relu"), ((36, 3, 4), (3,))),
        Case(FusedWinogradOutput(2, 1, (1, 1), "none"), ((16, 2, 1), (2,))),
        Case(FusedWinogradOutput(2, 1, (3, 3), "gelu"), ((16, 2, 4), (2,), (1, 2, 3, 3))),
        Case(WinogradOutputGradient(2), ((2, 3, 5, 4),)),
        Case(WinogradOutputGradient(4), ((1, 2, 9, 1),)),
        *(Case(WinogradKernelGradient(m), (((m + 2) ** 2, 3, 2),)) for m in (2, 4)),
    ]


def _rotations() -> list[Case]:
    shapes = ((3, 2, 5, 6), (5, 3)), ((4, 2), (4, 1)), ((1, 1, 8), (1, 4))
    return [Case(Rotate(), (x, table, table)) for x, table in shapes]


def _quantized() -> list[Case]:
    return [
        Case(Dequantize((3, 8), 8), ((3, 2), (3, 1)), words=0),
        Case(Dequantize((2, 3, 5), 8), ((2, 4), (2, 3)), words=0),
        Case(Dequantize((2, 12), 4), ((2, 2), (2, 4)), words=0),
        Case(Dequantize((1, 1), 4), ((1, 1), (1, 1)), words=0),
    ]


CASES = (
    *_activations(),
    *_contractions(),
    *_norms(),
    *_softmaxes(),
    *_rotations(),
    *_quantized(),
    *_attentions(),
    *_winograd(),
)
HAVE_NO_GRADIENT = (
    ActivationGradient,
    StandardizeGradient,
    NormInputGradient,
    NormWeightGradient,
    SoftmaxGradient,
    CrossEntropyGradient,
    SoftCrossEntropyGradient,
    AttentionGradient,
    Dequantize,
    FusedWinogradOutput,
    WinogradInput,
    WinogradKernel,
    WinogradKernelGradient,
    WinogradOutput,
    WinogradOutputGradient,
)
cases = each_of("case", CASES)
Make = Callable[[Builder, Sequence[Value]], tuple[Value, ...]]


def fused(case: Case) -> Make:
    return lambda build, operands: build.add_all(case.op, *operands)


def run(case: Case, make: Make) -> list[Array]:
    build = Builder()
    operands = [
        build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(case.types())
    ]
    made = make(build, operands)
    graph = build.graph({str(index): each for index, each in enumerate(made)})
    verify(graph)
    feeds = {f"x{place}": array for place, array in enumerate(case.arrays())}
    return list(evaluate(graph, feeds, Precision.DOUBLE).outputs.values())


def gradients(case: Case, make: Make, used: slice = slice(None)) -> list[Array]:
    """The gradients of a weighted sum of the results in `used`."""
    build = Builder()
    operands = [
        build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(case.types())
    ]
    loss = weighted_loss(build, make(build, operands)[used])
    wrt = [operand for operand in operands if operand.type.dtype.is_float]
    found = differentiate(build, loss, wrt)
    graph = build.graph({str(place): each for place, each in enumerate(found)})
    verify(graph)
    feeds = {f"x{place}": array for place, array in enumerate(case.arrays())}
    return list(evaluate(graph, fed(graph, feeds), Precision.DOUBLE).outputs.values())


def test_every_fused_op_has_a_case() -> None:
    assert {type(case.op) for case in CASES} == set(FUSED_OPS)


@cases
def test_the_value_is_that_of_the_expansion(case: Case) -> None:
    pairs = zip(run(case, fused(case)), run(case, case.op.expand_all), strict=True)
    for found, wanted in pairs:
        assert_same(found, wanted, 1e-11, 1e-11)


@pytest.mark.parametrize("kind", ["relu", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh"])
def test_kinks_and_far_ends_are_those_of_the_expansion(kind: ActivationKind) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 40.0, -40.0])
    build = Builder()
    operands = [build.add(Input(f"x{i}", DType.F32, x.shape)) for i in range(2)]
    pairs = {
        "value": (Activation(kind), operands[:1]),
        "slope": (ActivationGradient(kind), operands),
    }
    fused = {f"{n} fused": build.add(op, *taken) for n, (op, taken) in pairs.items()}
    spelt = {name: op.expand(build, taken) for name, (op, taken) in pairs.items()}
    feeds = {"x0": x, "x1": np.full(x.shape, 3.0)}
    found = evaluate(build.graph({**fused, **spelt}), feeds, Precision.DOUBLE).outputs
    for name in pairs:
        assert_same(found[f"{name} fused"], found[name], 1e-12, 1e-12)


@cases
def test_the_expansion_is_made_of_primitives(case: Case) -> None:
    build = Builder()
    operands = [
        build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(case.types())
    ]
    results = case.op.expand_all(build, operands)
    graph = build.graph({str(index): each for index, each in enumerate(results)})
    assert not any(isinstance(value.op, Fused) for value in graph.values)


@cases
def test_the_gradient_is_that_of_the_expansion(case: Case) -> None:
    if isinstance(case.op, HAVE_NO_GRADIENT):
        with pytest.raises(NotDifferentiableError):
            gradients(case, fused(case))
        return
    alone = (slice(0, 1), slice(1, 2)) if case.op.multiple_results else ()
    for used in (slice(None), *alone):
        expected = gradients(case, case.op.expand_all, used)
        for found, wanted in zip(gradients(case, fused(case), used), expected, strict=True):
            assert_same(found, wanted, 1e-9, 1e-9)


@cases
def test_a_device_without_f32_gives_the_same_type_for_f16(case: Case) -> None:
    types = [of.with_dtype(DType.F16) if of.dtype is DType.F32 else of for of in case.types()]
    build = Builder()
    operands = [build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(types)]
    results, expanded = build.add_all(case.op, *operands), case.op.expand_all(build, operands)
    assert [each.type for each in results] == [each.type for each in expanded]


@cases
def test_work_is_counted(case: Case) -> None:
    build = Builder()
    operands = [
        build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(case.types())
    ]
    out = build.add(case.op, *operands)
    assert case.op.flops(case.types(), out.type) >= np.prod(concrete_shape(out.type.shape))


def test_operands_that_do_not_fit_are_refused() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    bias = build.add(Input("bias", DType.F32, (2,)))
    with pytest.raises((TypeRuleError, Unproved)):
        build.add(
            FusedMatMul(transpose_left=False, transpose_right=True, epilogue="none"),
            x,
            x,
            build.add(Input("b", DType.F32, (3,))),
        )
    with pytest.raises((TypeRuleError, Unproved)):
        build.add(Norm((1,), 1e-5, (1,)), x, bias, bias)
    with pytest.raises(TypeRuleError):
        build.add(Attention(1.0, causal=False), x, x, x)
    q, k = (
        build.add(Input(name, DType.F32, (heads, 3, 2))) for name, heads in (("q", 4), ("k", 2))
    )
    for wrong in (
        Attention(1.0, causal=True),
        Attention(1.0, causal=True, shared=4),
        Attention(1.0, causal=True, window=-1, shared=2),
        Attention(1.0, causal=False, window=2, shared=2),
    ):
        with pytest.raises((TypeRuleError, Unproved)):
            build.add(wrong, q, k, k)
    with pytest.raises((TypeRuleError, Unproved)):
        build.add(Attention(1.0, causal=True, shared=2), q, k, k, q)
    with pytest.raises((TypeRuleError, Unproved)):
        build.add(Rotate(), x, x, x)
    with pytest.raises(TypeRuleError):
        build.add(Rotate(), x, bias, bias)
    with pytest.raises(TypeRuleError):
        build.add(CrossEntropy(), x, bias)
    words = build.add(Input("words", DType.U32, (2, 2)))
    for wrong in (Dequantize((2, 16), 4), Dequantize((2, 8), 3), Dequantize((3, 8), 8)):
        with pytest.raises(TypeRuleError):
            build.add(wrong, words, build.add(Input("s", DType.F32, (2, 3))))
    with pytest.raises((TypeRuleError, Unproved)):
        build.add(SoftCrossEntropy(), x, bias)


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_of_a_whole_row_counts_for_nothing(causal: bool) -> None:  # noqa: FBT001
    """In single precision too, where -1e9 + log(3) is -1e9: the fused gradient is the plain one."""
    random = np.random.default_rng(0)
    feeds = {
        name: random.normal(size=(1, 3, 2)).astype(np.float32) for name in ("q", "k", "v", "w")
    }
    feeds["mask"] = np.zeros((1, 3, 3), np.float32)
    feeds["mask"][0, 0] = -1e9
    found = []
    for fused in (False, True):
        build = Builder()
        x = {name: build.add(Input(name, DType.F32, a.shape)) for name, a in feeds.items()}
        op, operands = Attention(0.5, causal), [x[name] for name in ("q", "k", "v", "mask")]
        mean = build.add(op, *operands) if fused else op.expand(build, operands)[0]
        loss = build.add(Sum((0, 1, 2)), build.add(Mul(), mean, x["w"]))
        slopes = differentiate(build, loss, operands)
        graph = build.graph(dict(zip("qkvm", slopes, strict=True)))
        found += [evaluate(each, feeds).outputs for each in (graph, expand_fused(graph))]
    for other in found[1:]:
        for name, slope in found[0].items():
            np.testing.assert_allclose(other[name], slope, 1e-5, 1e-6, err_msg=name)
    assert np.abs(found[0]["v"]).max() > 0.1
