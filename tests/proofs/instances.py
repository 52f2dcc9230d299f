"""The instances of a rule, from its own text: every rank, all axes, sizes as symbols.

A pattern is solved from its unknown tensors up. What it leaves open is chosen in every way that its
type rules and conditions allow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from meganeura_verify.terms import Atom, Term, atoms_of

from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.transforms.egraph.encoding.schema import constructors
from tests.proofs.choices import Extent, symbols, values_of
from tests.proofs.fused_meanings import MEANINGS
from tests.proofs.reals import Element, Whole, fresh
from tests.proofs.tables import meaning_of
from tests.proofs.tensors import (
    IllTypedError,
    Scope,
    Tensor,
    constant,
    unknown,
)
from tests.proofs.terms import (
    Instance,
    NotBoundError,
    Type,
    Value,
    as_real,
    bound_to,
    equal,
    equal_values,
    evaluate,
    tested,
)
from tests.proofs.virtual_ops import VIRTUAL

ELEMENTWISE = frozenset(
    ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "Compare", "Where", "SwiGLU")
)


@dataclass(frozen=True)
class Signature:
    """The operands and fields of an op; `count` is None where a vector holds the operands."""

    count: int | None
    fields: tuple[str, ...]


def signature(op: str) -> Signature:
    """The signature of an op, by the name of its constructor."""
    if op in VIRTUAL:
        return Signature(VIRTUAL[op][0], VIRTUAL[op][1])
    known = constructors()[op]
    result = ("result",) if known.op.multiple_results else ()
    return Signature(known.arity, (*(name for name, _ in known.fields), *result))


class Solver:
    """Solves patterns; `dtypes` are those of tensors that a pattern leaves open."""

    def __init__(self, extent: Extent, dtypes: Sequence[str] = ("f32",)) -> None:
        self.extent = extent
        self.dtypes = dtypes

    def instances(self, when: str) -> Iterator[Instance]:
        """Every instance of a pattern."""
        atoms: list[Atom] = []
        for atom in atoms_of(when):
            if atom[0] == "row" and atom[1] != "number":
                atoms += meaning_of(atom[1], atom[2])
            elif atom[0] != "value":
                atoms.append(atom)
        yield from self._solved(Instance(), tuple(atoms))

    def _solved(self, instance: Instance, pending: tuple[Atom, ...]) -> Iterator[Instance]:
        if not pending:
            yield instance
            return
        for may_choose in (False, True):
            for place, atom in enumerate(pending):
                rest = (*pending[:place], *pending[place + 1 :])
                try:
                    found = self._settle(instance, atom, rest, may_choose)
                except NotBoundError:
                    continue
                except IllTypedError:
                    return
                for each, left in found:
                    yield from self._solved(each, left)
                return
        for each in self._guesses(instance, pending):
            yield from self._solved(each, pending)

    def _settle(
        self, instance: Instance, atom: Atom, rest: tuple[Atom, ...], may_choose: bool
    ) -> Iterator[tuple[Instance, tuple[Atom, ...]]]:
        """The instances where an atom holds; raises `NotBoundError` where it is too early."""
        match atom:
            case "equal", left, right:
                return iter([(equal(instance, left, right), rest)])
            case "test", operator, left, right:
                return iter([(tested(instance, operator, left, right), rest)])
            case "row", "number", (name, value):
                tensor = bound_to(instance, name)
                return iter([(self._number(instance, tensor, value), rest)])
            case "node", name, op, arguments:
                return self._node(instance, name, op, arguments, rest, may_choose)
            case _:
                raise TypeError(f"{atom} is no atom")

    def _number(self, instance: Instance, tensor: Tensor, value: Term) -> Instance:
        """A tensor that has one number everywhere: made as one, or shown to be one."""
        index = tuple(symbols(Scope(instance.world), tensor.rank, "i"))
        return equal_values(instance, value, tensor.at(index))

    def _node(
        self,
        instance: Instance,
        name: str,
        op: str,
        arguments: tuple[Term, ...],
        rest: tuple[Atom, ...],
        may_choose: bool,
    ) -> Iterator[tuple[Instance, tuple[Atom, ...]]]:
        form = signature(op)
        count = 1 if form.count is None else form.count
        operands: list[Tensor] = []
        for term in arguments[:count]:
            found = evaluate(instance, term)
            operands += found if isinstance(found, list) else [found]
        *fields, of = arguments[count:]
        known = self._given(instance, op, form.fields, fields, of)
        if op in ("Broadcast", "Reshape") and "shape" not in known:
            known |= _demanded(instance, name, rest)
        if len(known) < len(form.fields) and not may_choose:
            raise NotBoundError(op)
        return self._results(instance, name, op, operands, known, (fields, of), rest)

    def _results(
        self,
        instance: Instance,
        name: str,
        op: str,
        operands: list[Tensor],
        known: dict[str, Value],
        terms: tuple[Sequence[Term], Term],
        rest: tuple[Atom, ...],
    ) -> Iterator[tuple[Instance, tuple[Atom, ...]]]:
        """The instances where an op is well typed, for each choice of its fields."""
        for each, chosen in self._chosen(instance, op, signature(op).fields, operands, known):
            try:
                made = self._made(each, name, op, operands, chosen, *terms)
            except IllTypedError:
                continue
            yield made, rest

    def _given(
        self, instance: Instance, op: str, names: Sequence[str], terms: Sequence[Term], of: Term
    ) -> dict[str, Value]:
        """The fields that are known already, also from the type of the result."""
        known: dict[str, Value] = {}
        for name, term in zip(names, terms, strict=True):
            try:
                known[name] = evaluate(instance, term)
            except NotBoundError:
                continue
        try:
            result = evaluate(instance, of)
        except NotBoundError:
            return known
        if op in ("Broadcast", "Reshape"):
            known.setdefault("shape", result.shape)
        if op == "Cast":
            known.setdefault("dtype", result.dtype)
        return known

    def _chosen(
        self,
        instance: Instance,
        op: str,
        names: Sequence[str],
        operands: list[Tensor],
        known: dict[str, Value],
    ) -> Iterator[tuple[Instance, dict[str, Value]]]:
        missing = next((name for name in names if name not in known), None)
        if missing is None:
            yield instance, known
            return
        scope = Scope(instance.world)
        for value in values_of(scope, op, missing, operands, known, self.extent):
            further = replace(instance, world=scope.world)
            scope.world = instance.world
            yield from self._chosen(further, op, names, operands, {**known, missing: value})

    def _made(
        self,
        instance: Instance,
        name: str,
        op: str,
        operands: list[Tensor],
        chosen: dict[str, Value],
        fields: Sequence[Term],
        of: Term,
    ) -> Instance:
        names = signature(op).fields
        for each, term in zip(names, fields, strict=True):
            instance = equal_values(instance, term, chosen[each])
        scope = Scope(instance.world)
        result = apply(scope, op, operands, [chosen[each] for each in names])
        instance = replace(instance, world=scope.world)
        instance = equal_values(instance, of, Type(result.dtype, result.shape))
        return equal_values(instance, name, result)

    def _guesses(self, instance: Instance, pending: tuple[Atom, ...]) -> Iterator[Instance]:
        """The instances where one more unknown tensor has a rank."""
        defined = {atom[1] for atom in pending if atom[0] == "node"}
        for _, _, op, arguments in (atom for atom in pending if atom[0] == "node"):
            count = signature(op).count
            if count is None:
                items = _vectors(pending).get(arguments[0], {})
                if all(each in instance.bound or each not in defined for each in items.values()):
                    yield from self._vector(instance, arguments[0], pending)
                    return
                continue
            missing = [
                each
                for each in arguments[:count]
                if each not in instance.bound and each not in defined
            ]
            if not missing:
                continue
            known = [instance.bound[each] for each in arguments[:count] if each in instance.bound]
            yield from self._of_ranks(instance, missing[0], op, known, pending)
            return
        for atom in pending:
            if atom[0] == "row" and atom[2][0] not in instance.bound and atom[2][0] not in defined:
                yield from self._of_ranks(instance, atom[2][0], "", [], pending)
                return
        for atom in pending:
            for term in atom[1:]:
                if isinstance(term, tuple) and term[0] == "type" and term[1] not in instance.bound:
                    yield from self._of_ranks(instance, term[1], "", [], pending)
                    return
        raise NotBoundError(f"nothing to go on with: {pending}")

    def _of_ranks(
        self,
        instance: Instance,
        name: str,
        op: str,
        known: list[Tensor],
        pending: tuple[Atom, ...],
    ) -> Iterator[Instance]:
        like = known[-1] if op in ELEMENTWISE and known else None
        for rank in [like.rank] if like else self.extent.ranks:
            for dtype in (
                [like.dtype] if like and (op != "Where" or len(known) > 1) else self.dtypes
            ):
                scope = Scope(instance.world)
                shape = like.shape if like else symbols(scope, rank, "n")
                each = replace(instance, world=scope.world)
                yield _with_tensor(each, name, Type(dtype, shape), pending)

    def _vector(
        self, instance: Instance, name: str, pending: tuple[Atom, ...]
    ) -> Iterator[Instance]:
        """The operands of an op that takes any number, as equations name them."""
        items = _vectors(pending).get(name, {})
        try:
            found = [evaluate(instance, items[place]) for place in range(len(items))]
        except NotBoundError:
            scope_names = [items[place] for place in range(len(items))]
            missing = [each for each in scope_names if each not in instance.bound]
            yield from self._of_ranks(instance, missing[0], "", [], pending)
            return
        yield replace(instance, bound={**instance.bound, name: found})


def _demanded(instance: Instance, name: str, pending: Sequence[Atom]) -> dict[str, Value]:
    """The shape of an operand of an elementwise op, where another operand has one."""
    for atom in pending:
        match atom:
            case "node", _, op, arguments if op in ELEMENTWISE and name in arguments:
                operands = arguments[: signature(op).count]
                for other in operands:
                    found = instance.bound.get(other)
                    if isinstance(found, Tensor) and name in operands:
                        return {"shape": found.shape}
            case _:
                pass
    return {}


def _vectors(pending: Sequence[Atom]) -> dict[str, dict[int, str]]:
    """The operands that equations `(= a (vec-get parts 0))` name, by their vectors."""
    found: dict[str, dict[int, str]] = {}
    for atom in pending:
        match atom:
            case "equal", str(item), ("vec-get", str(vector), str(place)) if place.isdigit():
                found.setdefault(vector, {})[int(place)] = item
            case _:
                pass
    return found


def _with_tensor(instance: Instance, name: str, of: Type, pending: Sequence[Atom]) -> Instance:
    """A tensor of which nothing is known, or that a row says to be one number everywhere."""
    for atom in pending:
        match atom:
            case "row", "number", (str(number_of), value) if number_of == name:
                try:
                    real = evaluate(instance, value)
                except NotBoundError:
                    unknown_size = dim(fresh(f"{value}"))
                    real = Element(fresh(str(value))) if of.dtype == "f32" else Whole(unknown_size)
                    instance = equal_values(instance, value, real)
                tensor = constant(as_real(real), of.dtype, of.shape)
                return replace(instance, bound={**instance.bound, name: tensor})
            case _:
                pass
    tensor = unknown(fresh(name), of.dtype, of.shape)
    return replace(instance, bound={**instance.bound, name: tensor})


def apply(scope: Scope, op: str, operands: Sequence[Tensor], fields: Sequence[Value]) -> Tensor:
    """The result of an op."""
    meaning = VIRTUAL[op][2] if op in VIRTUAL else MEANINGS[op]
    values = [as_real(each) if isinstance(each, float | Fraction) else each for each in fields]
    return meaning(scope, *operands, *values)
