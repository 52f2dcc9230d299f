"""Declarations of op classes are complete, and agree with their references."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import pairwise

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Op, Value
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import OPS, Add, Binary, Input, Mul, Unary
from meganeura_dsl.ir.ops.fused import FUSED_OPS, Activation, Attention, Fused
from meganeura_dsl.ir.ops.primitive import elementwise
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.transforms.egraph.encoding.schema import Constructor, constructors
from tests.folded import each_of
from tests.samples import SAMPLES, Sample

EVERY = (*OPS, *FUSED_OPS)
VECTOR = TensorType(DType.F32, (3,))
Inferred = TensorType | tuple[TensorType, ...]


# --- nothing is left out --------------------------------------------------------------------------


def test_an_op_that_declares_nothing_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="`Bare` does not declare operands, traits, element_cost, "):

        class Bare(Op):
            """Says nothing."""


@pytest.mark.parametrize("left_out", ["element_cost", "evaluate"])
def test_an_elementwise_op_has_no_default_cost_and_no_default_reference(left_out: str) -> None:
    body = {"element_cost": ElementCost.SIMPLE, "evaluate": lambda _, x: x}
    type("Whole", (Unary,), dict(body))
    del body[left_out]
    with pytest.raises(TypeError, match=f"`Partial` does not declare {left_out}$"):
        type("Partial", (Unary,), body)


@pytest.mark.parametrize("trait", [Trait.CONTRACTION, Trait.ATTENTION, Trait.TRANSFORM])
def test_what_computes_more_than_once_with_an_element_counts_its_arithmetic(trait: Trait) -> None:
    body = {
        "operands": Operands(("a", "b")),
        "traits": frozenset({trait}),
        "element_cost": ElementCost.LOAD,
        "infer": lambda _, __, a, b: a or b,
        "evaluate": lambda _, a, b: a + b,
    }
    with pytest.raises(TypeError, match=r"`Product` does not declare flops$"):
        type("Product", (Op,), body)
    type("Product", (Op,), body | {"flops": lambda _, __, ___: 1})


@pytest.mark.parametrize("op", [Attention, Activation])
@pytest.mark.parametrize("left_out", ["expand", "flops", "operands", "infer", "evaluate"])
def test_a_fused_op_has_an_expansion_and_counts_its_arithmetic(
    op: type[Fused], left_out: str
) -> None:
    """One of them counts what it does, the other what it does with an element."""
    body = {"traits": op.traits, **vars(op)}
    type("Whole", (Fused,), dict(body))
    for name in (left_out, f"{left_out}_per_element"):
        body.pop(name, None)
    with pytest.raises(TypeError, match=f"`Partial` does not declare.* .*{left_out}"):
        type("Partial", (Fused,), body)


@each_of("op", EVERY, ids=lambda op: op.__name__)
def test_the_type_rule_takes_the_operands_declared(op: type[Op]) -> None:
    _, _, *given = signature(op.infer).parameters.values()
    named = [each for each in given if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if any(each.kind is Parameter.VAR_POSITIONAL for each in given):
        assert len(named) <= len(op.operands.required)
        assert len(op.operands.names) > len(named) or op.operands.variadic
    else:
        assert len(named) == len(op.operands.required)
        assert op.operands.counts == (len(named),)
        assert not op.operands.variadic


# --- the declaration is what counts ---------------------------------------------------------------


def test_a_decorator_around_a_type_rule_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def around(infer: Callable[..., Inferred]) -> Callable[..., Inferred]:
        def decorated(*arguments: object) -> Inferred:
            return infer(*arguments)

        return decorated

    made: Callable[[], dict[str, Constructor]] = constructors.__wrapped__
    before = made()
    for op in EVERY:
        monkeypatch.setattr(op, "infer", around(op.infer))
    assert made() == before
    assert before["Maximum"].sorts == ("Op", "Op", "Type")
    assert Mul().infer(Facts(), VECTOR, VECTOR) == VECTOR


def test_a_constructor_has_the_number_of_the_result_where_there_are_several() -> None:
    form = ("f64", "bool", "i64", "i64")
    assert constructors()["Attention"].sorts == (*("Op",) * 3, *form, "i64", "Type")
    assert constructors()["Attention_mask"].sorts == (*("Op",) * 4, *form, "i64", "Type")
    assert constructors()["MaxPool"].sorts == ("Op", *("Ints",) * 3, "i64", "Type")
    assert constructors()["MaxPoolSelect"].sorts == ("Op", "Op", *("Ints",) * 3, "Type")


def test_there_is_a_constructor_for_each_number_of_operands() -> None:
    arities = {each.name: each.arity for each in constructors().values()}
    assert (arities["Attention"], arities["Attention_mask"]) == (3, 4)
    assert (arities["FusedConv"], arities["FusedConv_residual"]) == (3, 4)
    assert arities["Concat"] is None
    assert (arities["AttentionGradient"], arities["AttentionGradient_mask"]) == (6, 7)
    assert not {"MatMul_residual", "AttentionGradient_rows"} & arities.keys()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_operands_is_refused(count: int) -> None:
    build = Builder()
    operands = [build.add(Input(f"x{place}", DType.F32, (3,))) for place in range(count)]
    with pytest.raises(TypeError, match=f"`Add` takes a, b, not {count}"):
        build.add(Add(), *operands)
    value = Value(count, Add(), tuple(operands), VECTOR)
    with pytest.raises(GraphError, match=f"ill formed: it takes a, b, not {count} operands"):
        verify(Graph((*operands, value), {"y": value}))


def test_operands_are_shown_as_they_are_given() -> None:
    operands = Operands(("x", "w"), optional=("bias", "residual"))
    assert str(operands) == "x, w, [bias], [residual]"
    assert [operands.accepts(count) for count in range(6)] == [False, False, *[True] * 3, False]
    assert str(Operands(variadic="parts")) == "parts..."
    assert all(map(Operands(variadic="parts").accepts, range(9)))
    assert str(Operands()) == "nothing"


# --- traits are true ------------------------------------------------------------------------------


def _of(trait: Trait) -> list[Sample]:
    return [sample for sample in SAMPLES if trait in sample.op.traits]


def _run(sample: Sample, *operands: Array) -> Array:
    return np.asarray(sample.op.evaluate(*operands))


def _numbered(sample: Sample) -> list[Array]:
    """Operands no two elements of which are the same, and none of which is 0."""
    sizes = [operand.size for operand in sample.operands]
    starts = np.cumsum([1, *sizes])
    return [
        np.arange(start, start + operand.size).reshape(operand.shape)
        for start, operand in zip(starts, sample.operands, strict=False)
    ]


@pytest.mark.parametrize("sample", _of(Trait.VIEW), ids=lambda sample: sample.name)
def test_a_view_has_one_operand_and_no_element_of_its_own(sample: Sample) -> None:
    (x,) = _numbered(sample)
    assert set(_run(sample, x).flat) <= set(x.flat)


@pytest.mark.parametrize("sample", _of(Trait.MOVEMENT), ids=lambda sample: sample.name)
def test_movement_computes_nothing(sample: Sample) -> None:
    operands = _numbered(sample)
    given = {0}.union(*(operand.flat for operand in operands))
    assert set(_run(sample, *operands).flat) <= given
    assert sample.op.element_cost is ElementCost.FREE


@each_of("sample", _of(Trait.ELEMENTWISE), ids=lambda sample: sample.name)
def test_an_elementwise_op_reads_the_elements_at_its_own_index(sample: Sample) -> None:
    whole = _run(sample, *sample.operands)
    for index in np.ndindex(whole.shape):
        alone = _run(sample, *(operand[index] for operand in sample.operands))
        np.testing.assert_array_equal(alone, whole[index])


def test_every_primitive_that_moves_or_computes_in_place_says_which() -> None:
    inlined = {Trait.MOVEMENT, Trait.ELEMENTWISE, Trait.GATHER, Trait.GENERATOR}
    for op in OPS:
        kinds = op.traits - {Trait.VIEW}
        assert len(kinds) == 1
        assert (op.element_cost is ElementCost.FREE) == bool(
            kinds & {Trait.MOVEMENT, Trait.GENERATOR}
        )
        assert kinds <= inlined or op.element_cost is ElementCost.LOAD


# --- kinks ----------------------------------------------------------------------------------------


def _pieces(op: Op, *operands: Array) -> Array | None:
    """Returns the piece of an op that each element is on."""
    build = Builder()
    given = [build.add(Input(f"x{n}", DType.F32, x.shape)) for n, x in enumerate(operands)]
    chosen = op.branch_index(build, build.add(op, *given))
    if chosen is None:
        return None
    feeds = {f"x{place}": operand for place, operand in enumerate(operands)}
    graph = build.graph({"chosen": chosen})
    return evaluate(graph, feeds, Precision.DOUBLE).outputs["chosen"]


@dataclass(frozen=True)
class Line:
    """An op along a line through 0, or through equal operands."""

    op: Op
    operands: tuple[Array, ...]

    def __str__(self) -> str:
        return type(self.op).__name__


def _lines() -> Iterator[Line]:
    positive = np.linspace(0.5, 4.51, 2006)
    for op in elementwise.UNARY:
        with np.errstate(invalid="ignore", divide="ignore"):
            everywhere = np.isfinite(op().evaluate(np.array([-1.0]))).all()
        yield Line(op(), (np.linspace(-4.011, 4.019, 4016) if everywhere else positive,))
    for op in elementwise.BINARY:
        yield Line(op(), (np.linspace(-0.991, 3.019, 2006), np.full(2006, 1.0)))


@pytest.mark.parametrize("line", list(_lines()), ids=str)
def test_where_a_slope_jumps_another_piece_was_chosen(line: Line) -> None:
    """So no op with a kink may forget to say so."""
    numbers = np.asarray(line.op.evaluate(*line.operands))
    slopes = np.diff(numbers) / 2e-3
    jumps = np.abs(np.diff(slopes)) > 0.3
    pieces = _pieces(line.op, *line.operands)
    chosen = np.zeros(numbers.shape) if pieces is None else pieces
    for place in np.flatnonzero(jumps):
        assert len(set(chosen[place : place + 3])) > 1
    kinked = {"Abs", "Floor", "Maximum", "Minimum", "Round"}
    assert bool(jumps.any()) == (str(line) in kinked)
    changes = sum(before != after for before, after in pairwise(chosen))
    assert bool(changes) == (str(line) in kinked)


def test_binary_and_unary_ops_are_listed_as_such() -> None:
    assert {op for op in OPS if issubclass(op, Unary)} == set(elementwise.UNARY)
    assert {op for op in OPS if issubclass(op, Binary)} == set(elementwise.BINARY)
