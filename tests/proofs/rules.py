"""Proofs of rewrite rules: of every instance of its pattern, what a rule states of it holds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from meganeura_verify.terms import Term, is_op, parsed

from meganeura_dsl.symbolic.size import Size, dim
from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, Rule
from tests.proofs.choices import Extent
from tests.proofs.equality import difference
from tests.proofs.instances import Solver, apply, signature
from tests.proofs.polynomials import Polynomial
from tests.proofs.reals import Real, fresh
from tests.proofs.tables import STEERING, meaning_of
from tests.proofs.tensors import IllTypedError, Scope, Tensor, constant
from tests.proofs.terms import (
    Instance,
    NotBoundError,
    Type,
    Value,
    as_real,
    bound_to,
    equal_values,
    evaluate,
)
from tests.proofs.worlds import NotShownError, World

_WITH_CONSUMER = ("bare", "biased")
"""Tables whose first column is an operand of a consumer, which only steers."""


class NotProvedError(Exception):
    """A rule is not shown to be right, and where not."""


@dataclass(frozen=True)
class Claim:
    """Two tensors that a rule says are equal."""

    instance: Instance
    world: World
    left: Tensor
    right: Tensor


def claims(rule: Rule, extent: Extent) -> Iterator[Claim]:
    """The claims of a rule, of every instance; raises `NotProvedError` where one is ill typed."""
    count = 0
    for dtypes in (("f32",), ("f32", "i32", "bool")):
        for instance in Solver(extent, dtypes).instances(rule.when):
            count += 1
            yield from _claims_of(rule, instance)
        if count:
            return
    raise NotProvedError("its pattern has no instance")


def _claims_of(rule: Rule, instance: Instance) -> Iterator[Claim]:
    scope = Scope(instance.world, "show")
    try:
        match rule:
            case Rewrite():
                (term,) = parsed(rule.becomes)
                e = bound_to(instance, "e")
                made = build(scope, instance, term)
                yield _claim(scope, instance, e, made)
            case Fact():
                for term in parsed(rule.then):
                    yield from _stated(scope, instance, term)
    except (IllTypedError, NotShownError, NotBoundError) as error:
        raise NotProvedError(f"{type(error).__name__} {error}: {shown(instance)}") from error


def _claim(scope: Scope, instance: Instance, left: Tensor, right: Tensor) -> Claim:
    scope.same_type(left, right)
    return Claim(instance, instance.world, left, right)


def _stated(scope: Scope, instance: Instance, term: Term) -> Iterator[Claim]:
    """The claims of a row that a fact states."""
    table, *arguments = term
    if table == "set":
        (table, *first), second = arguments[0], arguments[1]
        if table in STEERING:
            return
        arguments = [*first, *second[1:]]
    if table in STEERING or table == "beside":
        return
    values: dict[str, Value] = {}
    for place, each in enumerate(arguments):
        if (
            isinstance(each, tuple)
            or each in instance.bound
            or table not in _WITH_CONSUMER
            or place
        ):
            values[f"column {place}"] = build(scope, instance, each)
    instance = replace(instance, bound={**instance.bound, **values})
    if table == "number":
        e, value = values["column 0"], as_real(values["column 1"])
        yield _claim(scope, instance, e, constant(value, e.dtype, e.shape))
        return
    pending = meaning_of(table, tuple(f"column {place}" for place in range(len(arguments))))
    while pending:
        progress = False
        for atom in pending:
            try:
                found = list(_atom_holds(scope, instance, atom))
            except NotBoundError:
                continue
            instance = found[0]
            yield from found[1:]
            pending.remove(atom)
            progress = True
            break
        if not progress:
            raise NotBoundError(f"{pending}")


def _atom_holds(scope: Scope, instance: Instance, atom: Value) -> Iterator[Value]:
    match atom:
        case "equal", left, right:
            try:
                value = evaluate(instance, right)
                pattern = left
            except NotBoundError:
                value, pattern = evaluate(instance, left), right
            yield _matches(scope, instance, pattern, value)
        case "node", name, op, arguments:
            *inside, of = arguments
            values = [evaluate(instance, each) for each in inside]
            count = signature(op).count
            assert count is not None
            made = apply(scope, op, values[:count], values[count:])
            instance = _matches(scope, instance, of, Type(made.dtype, made.shape))
            if name in instance.bound:
                yield instance
                yield _claim(scope, instance, bound_to(instance, name), made)
            else:
                yield replace(instance, bound={**instance.bound, name: made})
        case _:
            raise TypeError(f"{atom} is no part of a meaning")


def _matches(scope: Scope, instance: Instance, pattern: Term, value: Value) -> Instance:
    """The instance with new variables bound; what is known must be shown to be equal."""
    try:
        known = evaluate(instance, pattern)
    except NotBoundError:
        if isinstance(pattern, tuple) and pattern[0] == "T":
            instance = _matches(scope, instance, pattern[1], value.dtype)
            return _matches(scope, instance, pattern[2], value.shape)
        return equal_values(instance, pattern, value)
    same_values(scope, known, value)
    return instance


def same_values(scope: Scope, left: Value, right: Value) -> None:
    """Two values are shown to be equal."""
    match left, right:
        case Type(), Type():
            if left.dtype != right.dtype:
                raise IllTypedError(f"{left.dtype} and {right.dtype}")
            scope.same_shape(left.shape, right.shape)
        case tuple(), tuple():
            scope.same_shape(left, right)
        case ((bool() | str()), _):
            if left != right:
                raise IllTypedError(f"{left} and {right}")
        case _:
            scope.same(left, right)


def build(scope: Scope, instance: Instance, term: Term) -> Value:
    """The value of a term whose ops are applied; a type that it names has to be the result's."""
    if isinstance(term, str) or not term[1:]:
        return evaluate(instance, term)
    head, *rest = term
    values = [build(scope, instance, each) for each in rest]
    if not is_op(term):
        names = {f"argument {place}": value for place, value in enumerate(values)}
        inside = replace(instance, bound={**instance.bound, **names})
        return evaluate(inside, (head, *names))
    count = signature(head).count
    *inside, of = values
    operands = inside[:count] if count is not None else inside[0]
    made = apply(scope, head, operands, inside[count if count is not None else 1 :])
    same_values(scope, Type(made.dtype, made.shape), of)
    return made


def prove(claim: Claim) -> Polynomial:
    """The rest of the difference of a claim's two sides, for all sizes; empty where it holds."""
    world, index = indexed(claim.world, claim.left)
    left, right = claim.left.at(index), claim.right.at(index)
    return difference(world, left, right, claim.instance.numbers)


def indexed(world: World, of: Tensor) -> tuple[World, tuple[Size, ...]]:
    """An index of a tensor, and the world with its range."""
    index: list[Size] = []
    for size in map(world.normal, of.shape):
        name = fresh("i")
        index.append(0 if size == 1 else dim(name))
        world = world.with_range(name, size)
    return world, tuple(index)


def prove_rule(rule: Rule, extent: Extent, most: int | None = None) -> list[Claim]:
    """The claims of a rule, all of which hold; raises `NotProvedError`.

    All of them are well typed; no more than `most` are proved, of instances of all kinds.
    """
    found = list(claims(rule, extent))
    if most is not None and len(found) > most:
        found = [found[(place + 1) * len(found) // most - 1] for place in range(most)]
    for claim in found:
        rest = prove(claim)
        if rest.terms:
            raise NotProvedError(f"{rest.text[:300]} is left: {shown(claim.instance)}")
    return found


def shown(instance: Instance) -> str:
    """The types and fields of an instance."""

    def text(value: Value) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype}[{', '.join(str(instance.world.normal(s)) for s in value.shape)}]"
        return str(value)

    return ", ".join(
        f"{name} {text(value)}"
        for name, value in instance.bound.items()
        if "_" not in name and not isinstance(value, Real)
    )
