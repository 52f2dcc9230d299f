"""The type rules for all sizes at once: what holds of names holds of every number."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from meganeura_dsl.ir.graph import Body, Builder, Op, TypeRuleError, Value, rebuild
from meganeura_dsl.ir.ops import (
    OPS,
    Abs,
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Cumulative,
    Div,
    DynamicSlice,
    DynamicUpdate,
    Erf,
    FloorDivide,
    Gather,
    Input,
    Iota,
    LinearRecurrence,
    Log,
    MatMul,
    Maximum,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Mul,
    Neg,
    Pad,
    Parameter,
    RandomBits,
    ReduceMax,
    Remainder,
    Reshape,
    Reverse,
    Scan,
    ScatterAdd,
    ScatterExtreme,
    Slice,
    Sort,
    Sqrt,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.fused.norm import Norm, NormWeightGradient, ScaledNorm
from meganeura_dsl.ir.ops.fused.softmax import LogSoftmax, Softmax
from meganeura_dsl.ir.ops.fused.standardize import Standardize
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Region
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic import conditions
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from meganeura_dsl.symbolic.size import Dim, Size, dim, evaluate, substitute
from meganeura_dsl.transforms.autodiff import differentiate
from tests.folded import each_of

VARIABLES = "cdghknpsw"
C, D, G, H, K, N, P, S, W = map(dim, VARIABLES)
COPRIME = dict(zip(VARIABLES, (2, 1, 3, 31, 5, 4, 2, 3, 41), strict=True))
EQUAL = dict(zip(VARIABLES, (1, 1, 1, 6, 2, 6, 1, 2, 6), strict=True))


def f32(*shape: Size) -> TensorType:
    return TensorType(DType.F32, shape)


def i32(*shape: Size) -> TensorType:
    return TensorType(DType.I32, shape)


def bools(*shape: Size) -> TensorType:
    return TensorType(DType.BOOL, shape)


def fits(size: Size, padding: Size, window: Size) -> conditions.Compare:
    """A window fits into a padded axis."""
    return conditions.Compare(">=", size + 2 * padding, window)


@dataclass(frozen=True)
class Rule:
    """An op on operands with named sizes, the facts it needs, and the shape it gives."""

    op: Op
    operands: tuple[TensorType, ...]
    shape: Shape
    facts: tuple[conditions.Condition, ...] = ()


OUT = ((H + 2 * P - K) // S + 1, (W + 2 * P - K) // S + 1)
GEOMETRY = ((S, S), (P, P), (1, 1), G)
FIT = (fits(H, P, K), fits(W, P, K))
POOL = ((K, K), (S, S), (0, 0))
POOL_OUT = ((H - K) // S + 1, (W - K) // S + 1)
POOL_FIT = (fits(H, 0, K), fits(W, 0, K))
CENTRED = ((2 * P + 1,) * 2, (S, S), (P, P))
CENTRED_OUT = ((H - 1) // S + 1, (W - 1) // S + 1)


def _powers() -> Scan:
    """H = h w + x[t], C times."""
    build = Builder()
    start, xs, w = (
        build.add(Input(name, DType.F32, shape))
        for name, shape in (("h", (N, H)), ("x", (C, N, H)), ("w", (H, H)))
    )
    region = Region(build, C)
    h = region.leaf(start.type)
    product = build.add(MatMul(), h, w)
    after = build.add(Add(), product, region.slice(xs, 0, backward=False))
    attributes, _ = region.close([Carry(h, start, after)], [], backward=False)
    return Scan(*attributes)


RULES = (
    Rule(Input("x", DType.F32, (N, H)), (), (N, H)),
    Rule(Parameter("w", DType.F32, (C, 3), "param"), (), (C, 3)),
    Rule(Constant(N * H, DType.F32), (), ()),
    Rule(Iota(2 * N), (), (2 * N,)),
    Rule(RandomBits(0, (N, H)), (TensorType(DType.U32, (2,)),), (N, H)),
    *(Rule(op, (f32(N, H),), (N, H)) for op in (Neg(), Abs(), Log(), Sqrt(), Tanh(), Erf())),
    *(Rule(op, (f32(N, H),) * 2, (N, H)) for op in (Add(), Sub(), Mul(), Div(), Maximum())),
    Rule(Add(), (f32(H), f32(H // 2 + (H + 1) // 2)), (H,)),
    Rule(Compare("lt"), (i32(N), i32(N)), (N,)),
    Rule(Where(), (bools(N), f32(N), f32(N)), (N,)),
    Rule(Cast(DType.I32), (f32(N),), (N,)),
    Rule(Sum((0, 2)), (f32(N, C, H),), (C,)),
    Rule(Broadcast((N, C, H), (1,)), (f32(C),), (N, C, H)),
    Rule(ReduceMax((1,)), (f32(N, C, H),), (N, H)),
    Rule(ArgMax(1), (f32(N, C),), (N,)),
    Rule(Reshape((N, G, C, H)), (f32(N, G * C, H),), (N, G, C, H)),
    Rule(Reshape((N * H, C)), (f32(N, H, C),), (N * H, C)),
    Rule(Transpose((0, 2, 1)), (f32(N, C, H),), (N, H, C)),
    Rule(Slice((0, 1), (N, H + 1), (1, 1)), (f32(N, H + 1),), (N, H)),
    Rule(Slice((0,), (H,), (2,)), (f32(H),), ((H + 1) // 2,)),
    Rule(Slice((1,), (H + 1,), (3,)), (f32(H + 2),), ((H + 2) // 3,)),
    Rule(Pad((P, 0), (K, 1), (0, 2)), (f32(N, H),), (N + P + K, 3 * H - 1)),
    Rule(Concat(1), (f32(N, C), f32(N, K), f32(N, 1)), (N, C + K + 1)),
    Rule(Reverse((0,)), (f32(N),), (N,)),
    Rule(Gather(0), (f32(K, C), i32(N, H)), (N, H, C)),
    Rule(ScatterAdd(1, K), (i32(N), f32(C, N, H)), (C, K, H)),
    Rule(Gather(3, 1), (f32(N, C, H, K, W), i32(N, S, G)), (N, C, H, S, G, W)),
    Rule(ScatterAdd(2, K, 1), (i32(N, S), f32(N, C, S, W)), (N, C, K, W)),
    Rule(ScatterExtreme("max", 1, K), (i32(N), f32(C, N, H)), (C, K, H)),
    Rule(ScatterExtreme("min", 2, K, 1), (i32(N, S), f32(N, C, S, W)), (N, C, K, W)),
    Rule(DynamicSlice((N, 1)), (f32(N + C, H), i32(), i32()), (N, 1)),
    Rule(DynamicUpdate(), (f32(N + C, H), f32(C, H), i32(), i32()), (N + C, H)),
    Rule(FloorDivide(K), (i32(N),), (N,)),
    Rule(Remainder(K), (i32(N),), (N,)),
    Rule(Cumulative("sum", 1), (f32(N, C),), (N, C)),
    Rule(Cumulative("prod", 0, backward=True), (f32(N, C),), (N, C)),
    Rule(Cumulative("max", 1), (f32(N, C),), (N, C)),
    Rule(LinearRecurrence(1), (f32(N, C), f32(N, C)), (N, C)),
    Rule(Sort(1), (f32(N, C, H),), (N, C, H)),
    Rule(MatMul(), (f32(N, H, K), f32(N, K, W)), (N, H, W)),
    Rule(MatMul(transpose_left=True), (f32(K, H), f32(K, W)), (H, W)),
    Rule(MatMul(transpose_right=True), (f32(N, H, K), f32(C, K)), (N, H, C)),
    Rule(MatMul(), (f32(K), f32(K, C)), (C,)),
    Rule(Conv(*GEOMETRY), (f32(N, G * C, H, W), f32(G * D, C, K, K)), (N, G * D, *OUT), FIT),
    Rule(
        Conv((2, 2), (1, 1), (1, 1), 1),
        (f32(N, 3, H, W), f32(C, 3, 3, 3)),
        (N, C, (H + 1) // 2, (W + 1) // 2),
    ),
    Rule(
        ConvInputGradient(*GEOMETRY, (H, W)),
        (f32(G * D, C, K, K), f32(N, G * D, *OUT)),
        (N, G * C, H, W),
        FIT,
    ),
    Rule(
        ConvWeightGradient(*GEOMETRY, (K, K)),
        (f32(N, G * C, H, W), f32(N, G * D, *OUT)),
        (G * D, C, K, K),
        FIT,
    ),
    Rule(MaxPool(*POOL), (f32(N, C, H, W),), (N, C, *POOL_OUT), POOL_FIT),
    Rule(
        MaxPoolGradient(*POOL, (H, W)),
        (i32(N, C, *POOL_OUT), f32(N, C, *POOL_OUT)),
        (N, C, H, W),
        POOL_FIT,
    ),
    Rule(
        MaxPoolSelect(*POOL),
        (i32(N, C, *POOL_OUT), f32(N, C, H, W)),
        (N, C, *POOL_OUT),
        POOL_FIT,
    ),
    Rule(MaxPool(*CENTRED), (f32(N, C, H, W),), (N, C, *CENTRED_OUT)),
    Rule(_powers(), (f32(N, H), f32(C, N, H), f32(H, H)), (N, H)),
)


def _name(rule: Rule) -> str:
    return f"{type(rule.op).__name__}-{','.join(map(str, rule.operands))}"


def _facts(rule: Rule) -> Facts:
    facts = Facts()
    for fact in rule.facts:
        facts = facts.assume(fact)
    return facts


def _bound(attribute: object, values: Mapping[str, Size]) -> object:
    match attribute:
        case Dim():
            return substitute(attribute, values)
        case tuple():
            return tuple(_bound(each, values) for each in attribute)
        case TensorType():
            return attribute.with_shape(tuple(substitute(size, values) for size in attribute.shape))
        case Body():
            build = Builder()

            def again(value: Value, operands: tuple[Value, ...]) -> Value:
                given = {each.name: getattr(value.op, each.name) for each in fields(value.op)}
                bound = {name: _bound(each, values) for name, each in given.items()}
                return build.add(replace(value.op, **bound), *operands)

            return Body(rebuild(attribute.graph, build, again))
        case _:
            return attribute


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_the_rule_gives_the_shape(rule: Rule) -> None:
    for inferred in rule.op.result_types(_facts(rule), *rule.operands):
        assert list(map(str, inferred.shape)) == list(map(str, rule.shape))


@each_of("values", [COPRIME, EQUAL], ids=["coprime", "equal"])
@each_of("rule", RULES, ids=_name)
def test_numbers_give_what_names_give(rule: Rule, values: Mapping[str, int]) -> None:
    symbolic = rule.op.result_types(_facts(rule), *rule.operands)
    attributes = {
        each.name: _bound(getattr(rule.op, each.name), values) for each in fields(rule.op)
    }
    operands: list[Any] = [_bound(operand, values) for operand in rule.operands]
    concrete = replace(rule.op, **attributes).result_types(Facts(), *operands)
    assert concrete == tuple(
        each.with_shape(tuple(evaluate(size, values) for size in each.shape)) for each in symbolic
    )


DIFFERENTIABLE = [
    rule
    for rule in RULES
    if rule.operands and rule.op.result_types(_facts(rule), *rule.operands)[0].dtype is DType.F32
]


@each_of("rule", DIFFERENTIABLE, ids=_name)
def test_a_gradient_has_the_type_of_its_operand_for_all_sizes(rule: Rule) -> None:
    build = Builder(_facts(rule))
    operands = [
        build.add(Input(f"operand.{index}", each.dtype, each.shape))
        for index, each in enumerate(rule.operands)
    ]
    out = build.add(rule.op, *operands)
    seed = build.add(Input("seed", DType.F32, out.type.shape))
    floats = [operand for operand in operands if operand.type.dtype.is_float]
    for operand, gradient in zip(floats, differentiate(build, out, floats, seed), strict=True):
        assert gradient.type.dtype is operand.type.dtype
        build.facts.require_same_shape(gradient.type.shape, operand.type.shape, "gradient")


def test_every_op_with_sizes_has_a_rule_for_all_sizes() -> None:
    pointwise = {op for op in OPS if not fields(op)}
    assert set(OPS) - pointwise <= {type(rule.op) for rule in RULES}


ILL_RANKED: tuple[tuple[Op, tuple[TensorType, ...], str], ...] = (
    (Add(), (f32(3), f32(3, 1)), "one shape"),
    (Add(), (f32(3), i32(3)), "one element type"),
    (Add(), (bools(3), bools(3)), "f32 or f16 or i32 or u32"),
    (Div(), (i32(3), i32(3)), "takes f32 or f16, not i32"),
    (Compare("lt"), (bools(3), bools(3)), "no order among bools"),
    (Where(), (f32(3), f32(3), f32(3)), "takes bool"),
    (Sum((1, 0)), (f32(3, 5),), "axes"),
    (Sum((2,)), (f32(3, 5),), "axes"),
    (Norm((1,), 0.1, (2,)), (f32(3, 5), f32(5), f32(5)), "axes"),
    (ScaledNorm((1,), 0.1, (2,), centred=True), (f32(3, 5), f32(5)), "axes"),
    (NormWeightGradient((1,), 0.1, (2,), centred=True), (f32(3, 5), f32(3, 5)), "axes"),
    (Broadcast((3, 5), (0,)), (f32(3, 5),), "`axes`"),
    (Broadcast((3, 3), (1, 0)), (f32(3, 3),), "axes"),
    (Broadcast((3, 3), (1, 1)), (f32(3, 3),), "axes"),
    (Broadcast((3,), (1,)), (f32(3),), "axes"),
    (Reverse((1, 0)), (f32(3, 3),), "axes"),
    (Reverse((-1,)), (f32(3, 3),), "axes"),
    (ReduceMax((0, 0)), (f32(3, 3),), "axes"),
    (ArgMax(1), (f32(3),), "axes"),
    (Gather(1), (f32(3), i32(3)), "axes"),
    (LinearRecurrence(1), (f32(3), f32(3)), "axes"),
    (Concat(1), (f32(3), f32(3)), "axes"),
    (Softmax(1), (f32(3),), "axes"),
    (LogSoftmax(-1), (f32(3),), "axes"),
    (Standardize((1, 0), 0.1, centred=True), (f32(3, 3),), "axes"),
    (Transpose((0, 0)), (f32(3, 5),), "no permutation"),
    (Slice((0,), (3,), (1,)), (f32(3, 5),), "`start`"),
    (Concat(0), (), "at least one operand"),
    (Concat(0), (f32(3), f32(3, 5)), "one rank, not of 1 and 2 axes"),
    (Gather(0), (f32(3), f32(3)), "takes i32 or u32"),
    (ScatterAdd(1, 3), (i32(3), f32(3)), "has no"),
    (Gather(0, 1), (f32(3), i32(3)), "no 1 axes in common"),
    (Gather(1, -1), (f32(3, 3), i32(3)), "no -1 axes in common"),
    (DynamicSlice((2,)), (f32(3), f32()), "takes a start"),
    (DynamicSlice((2,)), (f32(3),), "not none"),
    (DynamicUpdate(), (f32(3), i32(2), i32()), "one element type"),
    (FloorDivide(2), (f32(3),), "takes i32 or u32"),
    (Cumulative("sum", 1), (f32(3),), "axes"),
    (Cumulative("sum", 0), (bools(3),), "f32 or f16 or i32 or u32"),
    (LinearRecurrence(0), (i32(3), i32(3)), "takes f32 or f16"),
    (Sort(2), (f32(3),), "axes"),
    (MatMul(), (f32(3, 5), f32(5)), "cannot multiply"),
    (MatMul(), (f32(5, 3), f32(2, 3, 5)), "cannot multiply"),
    (MatMul(transpose_left=True), (f32(2, 3, 5), f32(3, 2)), "transposes"),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, 5, 5), f32(1, 1, 3, 3)), "over 1 axes"),
    (Conv((1, 1), (0,), (1, 1), 1), (f32(1, 1, 5, 5), f32(1, 1, 3, 3)), "`padding`"),
    (Conv((), (), (), 1), (f32(1, 1), f32(1, 1)), "at least one axis"),
    (MaxPool((2,), (2,), (0,)), (f32(3, 5),), "spatial"),
    (RandomBits(-1, (3,)), (TensorType(DType.U32, (2,)),), "stream"),
    (RandomBits(0, (3,)), (i32(2),), "counter"),
)


@each_of(("op", "operands", "words"), ILL_RANKED, ids=lambda each: str(each)[:60])
def test_ranks_and_element_types_are_refused(
    op: Op, operands: tuple[TensorType, ...], words: str
) -> None:
    with pytest.raises(TypeRuleError, match=words):
        op.infer(Facts(), *operands)


LEAST: tuple[tuple[Op, tuple[TensorType, ...], str, object], ...] = (
    (Slice((0,), (3,), (1,)), (f32(5),), "start", (-1,)),
    (Slice((0,), (3,), (1,)), (f32(5),), "step", (0,)),
    (Pad((0,), (0,), (0,)), (f32(3),), "low", (-1,)),
    (Pad((0,), (0,), (0,)), (f32(3),), "high", (-1,)),
    (Pad((0,), (0,), (0,)), (f32(3),), "interior", (-1,)),
    (Broadcast((3, 1), (0,)), (f32(3),), "shape", (3, 0)),
    (Reshape((1, 1)), (f32(1),), "shape", (-1, -1)),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, 5), f32(1, 1, 3)), "stride", (0,)),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, 5), f32(1, 1, 3)), "padding", (-1,)),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, 5), f32(1, 1, 3)), "dilation", (0,)),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, 5), f32(1, 1, 3)), "groups", 0),
    (ConvWeightGradient((1,), (0,), (1,), 1, (1,)), (f32(1, 1, 5), f32(1, 1, 5)), "kernel", (0,)),
    (MaxPool((1,), (1,), (0,)), (f32(1, 1, 5),), "window", (0,)),
    (MaxPool((1,), (1,), (0,)), (f32(1, 1, 5),), "stride", (0,)),
    (MaxPool((1,), (1,), (0,)), (f32(1, 1, 5),), "padding", (-1,)),
    (FloorDivide(1), (i32(3),), "divisor", 0),
    (Remainder(1), (i32(3),), "divisor", 0),
    (Iota(1), (), "size", 0),
    (RandomBits(0, (1,)), (TensorType(DType.U32, (2,)),), "shape", (0,)),
    (Input("x", DType.F32, (1,)), (), "shape", (0,)),
    (Parameter("x", DType.F32, (1,), "param"), (), "shape", (0,)),
    (ScatterAdd(0, 1), (i32(3), f32(3)), "size", 0),
    (ScatterExtreme("max", 0, 1), (i32(3), f32(3)), "size", 0),
    (DynamicSlice((1,)), (f32(3), i32()), "sizes", (0,)),
)
"""An op whose attribute is as small as it may be, and the next smaller one."""


@pytest.mark.parametrize(
    ("op", "operands", "name", "smaller"), LEAST, ids=lambda each: str(each)[:60]
)
def test_attributes_have_a_least_value(
    op: Op, operands: tuple[TensorType, ...], name: str, smaller: object
) -> None:
    op.result_types(Facts(), *operands)
    changes: dict[str, Any] = {name: smaller}
    with pytest.raises(Unproved, match=f"`{name}` of .* is at least|at least 1"):
        replace(op, **changes).result_types(Facts(), *operands)


UNPROVABLE: tuple[tuple[Op, tuple[TensorType, ...], str], ...] = (
    (Add(), (f32(N), f32(C)), "one shape"),
    (Add(), (f32(N), f32(1)), "one shape"),
    (Reshape((N, N)), (f32(N * C),), "number of elements"),
    (Reshape((-N, -C)), (f32(N * C),), "at least 1"),
    (Broadcast((N, C), (0,)), (f32(C),), "sizes of its operand"),
    (Slice((0,), (N - 1,), (1,)), (f32(N),), "at least one element"),
    (Slice((0,), (N + 1,), (1,)), (f32(N),), "within"),
    (Pad((-1,), (0,), (0,)), (f32(N),), "`low`"),
    (Concat(0), (f32(N, C), f32(N, H)), "one axis only"),
    (Gather(1, 1), (f32(N, K), i32(C)), "ids for each table"),
    (ScatterExtreme("max", 0, N - 1), (i32(C), f32(C)), "`size`"),
    (DynamicSlice((N,)), (f32(C), i32()), "fits into each axis"),
    (DynamicUpdate(), (f32(N), f32(N + 1), i32()), "fits into each axis"),
    (FloorDivide(N - 1), (i32(C),), "`divisor`"),
    (MatMul(), (f32(N, C), f32(H, N)), "sums over one size"),
    (MatMul(), (f32(N, 2, 3), f32(C, 3, 2)), "leading axes"),
    (Conv((1,), (0,), (1,), 1), (f32(1, 1, H), f32(1, 1, 3)), "fits"),
    (Conv((0,), (0,), (1,), 1), (f32(1, 1, 3), f32(1, 1, 3)), "`stride`"),
    (Conv((1,), (0,), (1,), 2), (f32(1, 4, 3), f32(3, 2, 3)), "divide"),
    (Conv((1,), (0,), (1,), 2), (f32(1, 4, 3), f32(4, 4, 3)), "its own channels"),
    (MaxPool((3,), (2,), (2,)), (f32(1, 1, 9),), "half"),
    (MaxPoolGradient((2,), (2,), (0,), (8,)), (i32(1, 1, 5), f32(1, 1, 5)), "one shape"),
    (MaxPoolGradient((2,), (2,), (0,), (8,)), (i32(1, 2, 4), f32(1, 1, 4)), "one shape"),
    (MaxPoolSelect((2,), (2,), (0,)), (i32(1, 1, 5), f32(1, 1, 8)), "one shape"),
    (Input("x", DType.F32, (N - 1,)), (), "at least 1"),
)


@pytest.mark.parametrize(("op", "operands", "words"), UNPROVABLE, ids=lambda each: str(each)[:60])
def test_sizes_that_cannot_be_shown_are_refused(
    op: Op, operands: tuple[TensorType, ...], words: str
) -> None:
    with pytest.raises(Unproved, match=words):
        op.infer(Facts(), *operands)
