"""Proofs of pullbacks: each is the adjoint of the derivative of its op.

The pullback of an op makes a graph. It is read by the same formulas of elements as rules are, and
compared, element by element, with

    gradient[i] = sum over o of cotangent[o] d out[o] / d x[i]

for all sizes, where these are symbols; else at the sizes, with an unknown for each element.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.primitive.erf import DERIVATIVE_AT_ZERO
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size, dim
from tests.proofs.equality import rest_of
from tests.proofs.exact import attributes, meaning
from tests.proofs.normal_form import Normal
from tests.proofs.polynomials import EMPTY, ONE, Atom, Polynomial, Term, product_of, single
from tests.proofs.reals import Number, fresh
from tests.proofs.rules import indexed
from tests.proofs.tensors import Scope, Tensor, unknown
from tests.proofs.worlds import World

Gradients = Sequence[Value | None]
Spoil = Callable[[Builder, Gradients, Sequence[Value]], Gradients]
"""A change to what a pullback gave, from the builder, its results and the operands of the op."""
Variable = Callable[[Atom], Polynomial | None]
"""The derivative of a factor that is what one derives by, or another unknown; None of others."""


@dataclass(frozen=True)
class Pulled:
    """An op that is applied, and what its pullback gives for cotangents of its float results."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    cotangents: tuple[Value | None, ...]
    gradients: tuple[Value | None, ...]


def pulled_back(
    op: Op, types: Sequence[TensorType], known: Facts, spoil: Spoil | None = None
) -> Pulled:
    """The op of operands x0, x1 and so on, and its pullback of cotangents dy0, dy1 and so on."""
    build = Builder(known)
    operands = tuple(build.add(Input(f"x{k}", of.dtype, of.shape)) for k, of in enumerate(types))
    results = build.add_all(op, *operands)
    cotangents = tuple(
        build.add(Input(f"dy{k}", each.type.dtype, each.type.shape))
        if each.type.dtype.is_float
        else None
        for k, each in enumerate(results)
    )
    several = op.multiple_results
    back = op.pullback(build, *((results, cotangents) if several else (results[0], cotangents[0])))
    spoilt = back if spoil is None else spoil(build, back, operands)
    return Pulled(operands, results, cotangents, tuple(spoilt))


def rests(
    op: Op, types: Sequence[TensorType], facts: Sequence[Compare] = (), spoil: Spoil | None = None
) -> Iterator[Polynomial]:
    """The rest, for all sizes, of each gradient less the adjoint; empty where it is right.

    Terms that two numbers have to be equal for are left out: the rest holds almost everywhere.
    """
    known, world = Facts(), World()
    for each in facts:
        known = known.assume(each)
        found = world.where_at_least(each.left, each.right)
        assert found is not None
        world = found
    pulled = pulled_back(op, types, known, spoil)
    scope = Scope(world)
    pairs = [
        (read(scope, each), read(scope, dy))
        for each, dy in zip(pulled.results, pulled.cotangents, strict=True)
        if dy is not None
    ]
    floats = {f"x{place}" for place, each in enumerate(types) if each.dtype.is_float}
    for place, (x, gradient) in enumerate(zip(pulled.operands, pulled.gradients, strict=True)):
        if x.type.dtype.is_float:
            got = gradient and read(scope, gradient)
            for rest in _rests(scope, pairs, read(scope, x), f"x{place}", got):
                kept = {
                    each: value for each, value in rest.terms.items() if not _is_rare(each, floats)
                }
                yield Polynomial(kept)


def _rests(
    scope: Scope, pairs: Sequence[tuple[Tensor, Tensor]], x: Tensor, name: str, got: Tensor | None
) -> Iterator[Polynomial]:
    world, index = indexed(scope.world, x)
    normal = Normal(world)
    rest = EMPTY if got is None else normal.of(got.at(index))
    for y, dy in pairs:
        places = tuple(dim(fresh("o")) for _ in y.shape)
        sizes = [normal.size(size) for size in y.shape]
        normal.ranges |= {str(place): size for place, size in zip(places, sizes, strict=True)}
        out = normal.of(y.at(places))
        wanted = normal.product(
            normal.of(dy.at(places)), derivative(normal, out, _element(normal, name, index))
        )
        for place, size in zip(places, sizes, strict=True):
            wanted = normal.over("sum", str(place), size, wanted)
        rest = rest - wanted
        for each in sorted(atoms_in(out, "max"), key=lambda atom: atom.text):
            yield rest_of(world, derivative(normal, out, _only(each)))
    yield rest_of(world, rest)


def _is_rare(term: Term, floats: Collection[str]) -> bool:
    """True if a term is 0 but where what depends on a float operand is 0."""
    return any(
        not {each.name for each in atoms_in(atom.inside, "element")}.isdisjoint(floats)
        for atom, _ in term.factors
        if atom.kind == "zero" and atom.inside is not None
    )


def read(scope: Scope, value: Value) -> Tensor:
    """A value of a graph as a tensor of all sizes."""
    op, dtype = value.op, value.type.dtype.value
    if isinstance(op, Input):
        return unknown(op.name, dtype, value.type.shape)
    operands = [read(scope, each) for each in value.operands]
    return meaning(op, len(operands))(scope, *operands, *attributes(op, value.index))


# --- derivatives ----------------------------------------------------------------------------------


def derivative(normal: Normal, x: Polynomial, by: Variable) -> Polynomial:
    """The derivative by a variable, where there is one."""
    result = EMPTY
    for each, value in x.terms.items():
        term = normal.with_other_names(each) if each.bound else each
        for atom, power in term.factors:
            slope = _of_atom(normal, atom, by)
            if not slope.terms:
                continue
            left = product_of({**dict(term.factors), atom: power - 1})
            part = normal.product(Polynomial({left: value * power}), slope)
            for bound, size in term.bound:
                part = normal.over("sum", bound, size, part)
            result = result + part
    return result


def atoms_in(x: Polynomial, kind: str) -> set[Atom]:
    """The factors of a kind, within others too."""
    found = set[Atom]()
    for term in x.terms:
        for atom, _ in term.factors:
            if atom.kind == kind:
                found.add(atom)
            elif atom.inside is not None:
                found |= atoms_in(atom.inside, kind)
    return found


def _element(normal: Normal, name: str, index: tuple[Size, ...]) -> Variable:
    """An element of a tensor; the largest of several numbers is a variable for itself.

    That the result does not depend on it is proved too.
    """

    def slope(atom: Atom) -> Polynomial | None:
        if atom.kind == "max":
            return EMPTY
        if atom.kind != "element":
            return None
        if atom.name != name:
            return EMPTY
        places = zip(atom.sizes, index, strict=True)
        conditions = [normal.condition("==", one - other) for one, other in places]
        return reduce(normal.product, conditions, ONE)

    return slope


def _only(variable: Atom) -> Variable:
    """One factor, where all others are constants."""

    def slope(atom: Atom) -> Polynomial | None:
        if atom == variable:
            return ONE
        return EMPTY if atom.kind in ("max", "element") else None

    return slope


def _of_atom(normal: Normal, atom: Atom, by: Variable) -> Polynomial:
    known = by(atom)
    if known is not None:
        return known
    if atom.inside is None or atom.kind not in ("exp", "base", "function"):
        return EMPTY  # steps, which have slope 0 wherever they have one, and sizes
    inner = derivative(normal, atom.inside, by)
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
