"""Proofs of pullbacks: each is the adjoint of the derivative of its op, for all sizes.

The pullback of an op makes a graph whose sizes are symbols. It is read by the same formulas of
elements as rules are, and compared, element by element, with

    gradient[i] = sum over o of cotangent[o] d out[o] / d x[i]
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import Constant, Input
from meganeura_dsl.ir.ops.primitive.erf import DERIVATIVE_AT_ZERO
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name
from tests.proofs.equality import rest_of
from tests.proofs.fused_meanings import MEANINGS
from tests.proofs.normal_form import Normal
from tests.proofs.polynomials import EMPTY, ONE, Atom, Polynomial, product_of, single
from tests.proofs.reals import Number, fresh, number
from tests.proofs.rules import indexed
from tests.proofs.tensors import Scope, Tensor, unknown
from tests.proofs.worlds import World

Spoil = Callable[[Builder, Sequence[Value | None], Sequence[Value]], Sequence[Value | None]]
"""A change to what a pullback gave, from the builder, its results and the operands of the op."""


def rests(
    op: Op, types: Sequence[TensorType], facts: Sequence[Compare] = (), spoil: Spoil | None = None
) -> list[Polynomial]:
    """The difference of each gradient from the adjoint of the derivative; empty if it is right."""
    known, world = Facts(), World()
    for each in facts:
        known = known.assume(each)
        found = world.where_at_least(each.left, each.right)
        assert found is not None
        world = found
    build = Builder(known)
    operands = [build.add(Input(f"x{k}", of.dtype, of.shape)) for k, of in enumerate(types)]
    outs = build.add_all(op, *operands)
    cotangent = build.add(Input("dy", outs[0].type.dtype, outs[0].type.shape))
    several = op.multiple_results
    given = (cotangent, *(None for _ in outs[1:])) if several else cotangent
    back = op.pullback(build, outs if several else outs[0], given)
    back = back if spoil is None else spoil(build, back, operands)
    scope = Scope(world)
    y, dy = read(scope, outs[0]), read(scope, cotangent)
    return [
        _rest(scope, y, dy, read(scope, x), f"x{place}", gradient and read(scope, gradient))
        for place, (x, gradient) in enumerate(zip(operands, back, strict=True))
        if x.type.dtype.is_float
    ]


def _rest(
    scope: Scope, y: Tensor, dy: Tensor, x: Tensor, name: str, gradient: Tensor | None
) -> Polynomial:
    world, index = indexed(scope.world, x)
    normal = Normal(world)
    places = tuple(dim(fresh("o")) for _ in y.shape)
    sizes = [normal.size(size) for size in y.shape]
    normal.ranges |= {str(place): size for place, size in zip(places, sizes, strict=True)}
    slope = derivative(normal, normal.of(y.at(places)), name, index)
    wanted = normal.product(normal.of(dy.at(places)), slope)
    for place, size in zip(places, sizes, strict=True):
        wanted = normal.over("sum", str(place), size, wanted)
    got = EMPTY if gradient is None else normal.of(gradient.at(index))
    return rest_of(world, got - wanted)


def read(scope: Scope, value: Value) -> Tensor:
    """A value of a graph as a tensor of all sizes."""
    op, dtype = value.op, value.type.dtype.value
    if isinstance(op, Input):
        return unknown(op.name, dtype, value.type.shape)
    operands = [read(scope, each) for each in value.operands]
    chosen = [getattr(op, each.name) for each in fields(op)]
    if isinstance(op, Constant):
        chosen[0] = number(int(op.value) if isinstance(op.value, bool) else op.value)
    chosen = [
        each.value if isinstance(each, Enum) else number(each) if isinstance(each, float) else each
        for each in chosen
    ]
    chosen += [value.index] if op.multiple_results else []
    return MEANINGS[constructor_name(type(op), len(operands))](scope, *operands, *chosen)


def derivative(normal: Normal, x: Polynomial, name: str, index: tuple[Size, ...]) -> Polynomial:
    """The derivative by an element of a tensor, where there is one."""
    result = EMPTY
    for each, value in x.terms.items():
        term = normal.with_other_names(each) if each.bound else each
        for atom, power in term.factors:
            slope = _of_atom(normal, atom, name, index)
            if not slope.terms:
                continue
            left = product_of({**dict(term.factors), atom: power - 1})
            part = normal.product(Polynomial({left: value * power}), slope)
            for bound, size in term.bound:
                part = normal.over("sum", bound, size, part)
            result = result + part
    return result


def _of_atom(normal: Normal, atom: Atom, name: str, index: tuple[Size, ...]) -> Polynomial:
    if atom.kind == "element" and atom.name == name:
        places = zip(atom.sizes, index, strict=True)
        conditions = [normal.condition("==", one - other) for one, other in places]
        return reduce(normal.product, conditions, ONE)
    if atom.inside is None or atom.kind not in ("exp", "base", "function"):
        return EMPTY  # of a largest number that is subtracted, no gradient is asked
    inner = derivative(normal, atom.inside, name, index)
    if not inner.terms or atom.kind == "base":
        return inner
    outer = single(atom) if atom.kind == "exp" else _slope(normal, atom, atom.inside)
    return normal.product(outer, inner)


def _slope(normal: Normal, atom: Atom, x: Polynomial) -> Polynomial:
    """The derivative of a function at x."""
    minus = Fraction(-1)
    match atom.name:
        case "log":
            return normal.power(x, minus)
        case "sin":
            return normal.function("cos", x)
        case "cos":
            return normal.function("sin", x).scaled(minus)
        case "tanh":
            return ONE - single(atom, 2)
        case "erf":
            bell = normal.function("exp", normal.product(x, x).scaled(minus))
            return normal.product(normal.of(Number(Fraction(repr(DERIVATIVE_AT_ZERO)))), bell)
        case "floor" | "round":
            return EMPTY
        case _:
            raise ValueError(f"no derivative of {atom.name}")
