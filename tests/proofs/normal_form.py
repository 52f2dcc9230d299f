"""The normal form of real expressions: equal where they are equal as polynomials, for all sizes.

Sums are linear and are brought outside, where an index that a condition fixes is put in its place,
and one that a condition bounds runs as far. Of the functions this uses

    exp(a + b) = exp(a) exp(b)    exp(log a) = a    sqrt(a) = a^(1/2)    tanh, sin, erf are odd
    logistic(x) = 1 / (1 + exp(-x))    [a > 0] + [-a > 0] + [a = 0] = 1
    |a| = a [a > 0] - a [-a > 0]

and nothing else of what they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import factorial

from meganeura_dsl.symbolic.polynomial import divide, terms_of
from meganeura_dsl.symbolic.size import Size, dim, substitute
from tests.proofs.factors import (
    ROOT_OF_HALF,
    alone,
    common_factor,
    divisors,
    is_contradictory,
    is_turned,
    moved,
    number,
    raised,
    without,
)
from tests.proofs.polynomials import (
    CONDITIONS,
    EMPTY,
    INDICATORS,
    ONE,
    Atom,
    Bound,
    Polynomial,
    Term,
    constant,
    names_of,
    product_of,
    single,
    sum_of,
    text_of,
)
from tests.proofs.reals import (
    Condition,
    Element,
    Function,
    Number,
    Over,
    Plus,
    Positive,
    Power,
    Real,
    Times,
    Whole,
    Zero,
    fresh,
)
from tests.proofs.worlds import World

WINOGRAD = ("output", "input", "kernel")
"""The matrices of Winograd's transforms."""
_ODD = ("tanh", "sin", "erf")
_MANY = 5
"""Bound indices whose every order is tried for the least text."""


class Normal:
    """Brings expressions into normal form in a world of sizes, and numbers that have a value."""

    def __init__(self, world: World, numbers: Mapping[str, Real] | None = None) -> None:
        self.world = world
        self.numbers = numbers or {}
        self.ranges: dict[str, Size] = dict(world.ranges)

    # --- expressions ------------------------------------------------------------------------------

    def of(self, x: Real) -> Polynomial:
        """The normal form of an expression."""
        match x:
            case Whole(size):
                return self.whole(size)
            case Number(value):
                return number(value)
            case Element(name, ()) if name in self.numbers:
                return self.of(self.numbers[name])
            case Element(name, index):
                return single(Atom("element", name, tuple(map(self.size, index))))
            case Plus(left, right):
                return self.of(left) + self.of(right)
            case Times(left, right):
                return self.product(self.of(left), self.of(right))
            case Power(base, exponent):
                return self.power(self.of(base), exponent)
            case Function(name, argument):
                return self.function(name, self.of(argument))
            case Over(kind, index, size, body):
                size = self.size(size)
                self.ranges[index] = size
                return self.over(kind, index, size, self.of(body))
            case Condition(operator, size):
                return self.condition(operator, size)
            case Positive(argument):
                return self.positive(self.of(argument))
            case Zero(argument):
                return self.zero(self.of(argument))
            case _:
                raise TypeError(f"{x!r} is no expression")

    def size(self, size: Size) -> Size:
        """A size or an index in normal form."""
        return replace(self.world, ranges=self.ranges).normal(size)

    def whole(self, size: Size) -> Polynomial:
        """An integer as a real number."""
        found: list[tuple[Term, Fraction]] = []
        for monomial, value in terms_of(self.size(size)).items():
            powers: dict[Atom, Fraction] = {}
            for each in monomial:
                alone = dim(each) if isinstance(each, str) else each.numerator // each.denominator
                atom = Atom("whole", "", (alone,))
                powers[atom] = powers.get(atom, Fraction(0)) + 1
            found.append((product_of(powers), Fraction(value)))
        return sum_of(found)

    # --- arithmetic -------------------------------------------------------------------------------

    def product(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """The product, powers of a sum that are natural numbers multiplied out."""
        for one, other in ((left, right), (right, left)):
            if one.constant is not None:
                return self.settled(other.scaled(one.constant))
        parts: list[tuple[Term, Fraction]] = []
        for first, value in left.terms.items():
            for other, factor in right.terms.items():
                bound, powers = first.bound, dict(first.factors)
                both = first.bound and other.bound
                second = self.with_other_names(other) if both else other
                for atom, power in second.factors:
                    powers[atom] = powers.get(atom, Fraction(0)) + power
                term = product_of(powers, bound + second.bound)
                parts += self._expanded(term, value * factor)
        return self.settled(sum_of(parts))

    def _expanded(self, term: Term, value: Fraction) -> list[tuple[Term, Fraction]]:
        for atom, power in term.factors:
            if atom.kind == "base" and power >= 1 and atom.inside is not None:
                rest = {each: its for each, its in term.factors if each != atom}
                left = Polynomial({product_of({**rest, atom: power - 1}, term.bound): value})
                return list(self.product(left, atom.inside).terms.items())
            if atom == ROOT_OF_HALF and power >= 2:
                rest = {**dict(term.factors), atom: power - 2}
                return self._expanded(product_of(rest, term.bound), value / 2)
        return [(term, value)]

    def power(self, x: Polynomial, exponent: Fraction) -> Polynomial:
        """A power of a normal form."""
        if exponent.denominator == 1 and exponent >= 0:
            result = ONE
            for _ in range(int(exponent)):
                result = self.product(result, x)
            return result
        if not x.terms:
            return single(Atom("base", inside=x), exponent)
        if exponent.denominator != 1:
            if len(x.terms) == 1:
                ((term, value),) = x.terms.items()
                if value == 1 and not term.bound and len(term.factors) == 1:
                    ((atom, power),) = term.factors
                    if (power == 1 and atom.kind not in INDICATORS) or atom.kind in ("exp", "base"):
                        return single(atom, power * exponent)
            return single(Atom("base", inside=x), exponent)
        common, value = common_factor(x)
        rest = self.product(x.scaled(1 / value), alone(raised(common, Fraction(-1))))
        outside = Polynomial({raised(common, exponent): value ** int(exponent)})
        return (
            outside
            if rest == ONE
            else self.product(outside, single(Atom("base", inside=rest), exponent))
        )

    def over(self, kind: str, index: str, size: Size, body: Polynomial) -> Polynomial:
        """A reduction over 0 <= index < size."""
        if kind == "sum":
            terms = body.terms.items()
            return self.settled(
                sum_of((Term((*term.bound, (index, size)), term.factors), v) for term, v in terms)
            )
        if size == 1:
            return self.substituted(body, {index: 0})
        if index not in body.names and kind == "max":
            return body
        name = f"@{body.height + 1}.0"
        self.ranges[name] = size
        return single(Atom(kind, name, (size,), self.substituted(body, {index: dim(name)})))

    # --- functions --------------------------------------------------------------------------------

    def function(self, name: str, x: Polynomial) -> Polynomial:
        """A function of a normal form."""
        match name:
            case "exp":
                return self._exp(x)
            case "log1p":
                return self.function("log", x + ONE)
            case "expm1":
                return self._exp(x) - ONE
            case "logistic":
                return self.power(self._exp(x.scaled(Fraction(-1))) + ONE, Fraction(-1))
            case "sqrt":
                return self.power(x, Fraction(1, 2))
            case "abs":
                above, below = self.positive(x), self.positive(x.scaled(Fraction(-1)))
                return self.product(x, above - below)
            case "log" if x == ONE:
                return EMPTY
            case _ if name in (*_ODD, "cos"):
                if not x.terms:
                    return ONE if name == "cos" else EMPTY
                sign = Fraction(1 if x.ordered[0][1] > 0 else -1)
                inside = Atom("function", name, inside=x.scaled(sign))
                return single(inside).scaled(sign if name in _ODD else Fraction(1))
            case _:
                return single(Atom("function", name, inside=x))

    def _exp(self, x: Polynomial) -> Polynomial:
        """The product of exp(term)^coefficient, and of a for each log a."""
        result = ONE
        for term, value in x.ordered:
            ((atom, power), *others) = term.factors or ((Atom("none"), Fraction(0)),)
            is_log = (atom.kind, atom.name, power) == ("function", "log", 1)
            if is_log and not others and not term.bound and atom.inside is not None:
                factor = self.power(atom.inside, value)
            else:
                factor = single(Atom("exp", inside=Polynomial({term: Fraction(1)})), value)
            result = self.product(result, factor)
        return result

    def positive(self, x: Polynomial) -> Polynomial:
        """1 where x > 0, in terms of the x whose first coefficient is 1."""
        if x.constant is not None:
            return constant(int(x.constant > 0))
        first = x.ordered[0][1]
        scaled = x.scaled(1 / abs(first))
        if first > 0:
            return single(Atom("positive", inside=scaled))
        other = scaled.scaled(Fraction(-1))
        return ONE - single(Atom("positive", inside=other)) - self.zero(other)

    def zero(self, x: Polynomial) -> Polynomial:
        """1 where x = 0, of the x whose first coefficient is 1."""
        if x.constant is not None:
            return constant(int(x.constant == 0))
        return single(Atom("zero", inside=x.scaled(1 / x.ordered[0][1])))

    def condition(self, operator: str, size: Size) -> Polynomial:
        """A condition on an integer, 1 or 0 where the ranges of indices tell."""
        size = self.size(size)
        truth = self._truth(operator, size)
        if truth is not None:
            return constant(int(truth))
        if operator == "==" and text_of(-size) < text_of(size):
            size = -size
        return single(Atom(operator, sizes=(size,)))

    def _truth(self, operator: str, size: Size) -> bool | None:
        if operator == "==" and size == 0:
            return True
        if self._is_plain(-size - 1) or (operator == "==" and self._is_plain(size - 1)):
            return False
        return True if operator == ">=" and self._is_plain(size) else None

    def _is_plain(self, size: Size) -> bool:
        return replace(self.world, ranges=self.ranges).is_plain(size)

    # --- substitution -----------------------------------------------------------------------------

    def substituted(self, x: Polynomial, values: Mapping[str, Size]) -> Polynomial:
        """The normal form where indices are replaced by integers."""
        if x.names.isdisjoint(values):
            return x
        result = EMPTY
        for each, value in x.terms.items():
            if each.names.isdisjoint(values):
                result = result + Polynomial({each: value})
                continue
            term = self.with_other_names(each) if each.bound else each
            part = constant(value)
            for atom, power in term.factors:
                part = self.product(part, self._substituted(atom, power, values))
            for name, size in term.bound:
                part = self.over("sum", name, self.size(substitute(size, values)), part)
            result = result + part
        return result

    def _substituted(self, atom: Atom, power: Fraction, values: Mapping[str, Size]) -> Polynomial:
        if atom.names.isdisjoint(values):
            return single(atom, power)
        sizes = tuple(self.size(substitute(size, values)) for size in atom.sizes)
        match atom.kind, atom.inside:
            case "element", _:
                return single(Atom("element", atom.name, sizes), power)
            case "whole", _:
                return self.power(self.whole(sizes[0]), power)
            case (("==" | ">="), _):
                return self.condition(atom.kind, sizes[0])
            case (("max" | "prod"), Polynomial() as inside):
                name = fresh("k")
                self.ranges[name] = sizes[0]
                body = self.substituted(inside, {**values, atom.name: dim(name)})
                return self.power(self.over(atom.kind, name, sizes[0], body), power)
            case "base", Polynomial() as inside:
                return self.power(self.substituted(inside, values), power)
            case "exp", Polynomial() as inside:
                return self.power(self._exp(self.substituted(inside, values)), power)
            case "function", Polynomial() as inside:
                return self.power(self.function(atom.name, self.substituted(inside, values)), power)
            case "positive", Polynomial() as inside:
                return self.positive(self.substituted(inside, values))
            case "zero", Polynomial() as inside:
                return self.zero(self.substituted(inside, values))
            case _:
                raise TypeError(f"{atom.text} is no factor")

    def with_other_names(self, term: Term) -> Term:
        """The term with new names for its bound indices."""
        names = {name: fresh("k") for name, _ in term.bound}
        bound = tuple((names[name], size) for name, size in term.bound)
        self.ranges.update(bound)
        renamed = {name: dim(other) for name, other in names.items()}
        factors = ((self._renamed(atom, renamed), power) for atom, power in term.factors)
        return product_of(dict(factors), bound)

    def _renamed(self, atom: Atom, names: Mapping[str, Size]) -> Atom:
        """The atom with other names for indices, of the same ranges."""
        if atom.names.isdisjoint(names):
            return atom
        sizes = tuple(substitute(size, names) for size in atom.sizes)
        if atom.kind == "==" and text_of(-sizes[0]) < text_of(sizes[0]):
            sizes = (-sizes[0],)
        return Atom(
            atom.kind, atom.name, sizes, atom.inside and self._all_renamed(atom.inside, names)
        )

    def _all_renamed(self, x: Polynomial, names: Mapping[str, Size]) -> Polynomial:
        terms = (
            (
                product_of(
                    {self._renamed(atom, names): power for atom, power in term.factors}, term.bound
                ),
                value,
            )
            for term, value in x.terms.items()
        )
        return sum_of(terms)

    # --- sums -------------------------------------------------------------------------------------

    def settled(self, x: Polynomial) -> Polynomial:
        """The terms with their sums as short as conditions let them be, bound indices named."""
        result = EMPTY
        for term, value in x.terms.items():
            if not term.bound and not any(atom.kind in INDICATORS for atom, _ in term.factors):
                result = result + Polynomial({term: value})
                continue
            changed = self._step(term) or self._reflected(term)
            result = result + (
                Polynomial({self._named(term): value}) if changed is None else changed.scaled(value)
            )
        return result

    def _step(self, term: Term) -> Polynomial | None:
        """One simplification of a term; None where there is none."""
        self.ranges.update(term.bound)
        if is_contradictory(term):
            return EMPTY
        conditions = [atom for atom, _ in term.factors if atom.kind in CONDITIONS]
        for atom in conditions:
            found = self.condition(atom.kind, atom.sizes[0])
            if found.constant is not None or found != single(atom):
                return self.product(alone(without(term, atom)), found)
        for atom in conditions:
            for other in conditions:
                if atom.kind == "==" and other.kind == ">=" and self._follows(atom, other):
                    return self.settled(alone(without(term, other)))
                if atom.kind == other.kind == ">=" and atom != other:
                    if self._is_plain(other.sizes[0] - atom.sizes[0]):
                        return self.settled(alone(without(term, other)))
                    if self._is_plain(-1 - atom.sizes[0] - other.sizes[0]):
                        return EMPTY
        return (
            self._fixed(term, conditions)
            or self._shortened(term, conditions)
            or self._transformed(term)
            or self._parted(term)
            or self._merged(term)
            or self._unused(term)
        )

    def _follows(self, equal: Atom, least: Atom) -> bool:
        """True if an inequality is plain where an equation holds."""
        (one,), (other,) = equal.sizes, least.sizes
        return self._is_plain(other - one) or self._is_plain(other + one)

    def _reflected(self, term: Term) -> Polynomial | None:
        """A sum over k < n is one over n - 1 - k: the one of the two whose text is the least."""
        for name, count in term.bound:
            atoms = [atom for atom, _ in term.factors if is_turned(atom, name)]
            if not atoms:
                continue
            turned = {name: count - 1 - dim(name)}
            factors = {
                atom: power
                for each, its in term.factors
                for atom, power in self._substituted(each, its, turned).ordered[0][0].factors
            }
            other = product_of(factors, term.bound)
            if self._named(other).text < self._named(term).text:
                return self._bound_again(term, term.bound, turned)
        return None

    def _fixed(self, term: Term, conditions: list[Atom]) -> Polynomial | None:
        """sum_k [k = p] f(k) = f(p) where 0 <= p < n; sum_ab [a n + b = p] f(a, b) likewise."""
        sizes = dict(term.bound)
        fixed = [
            (atom, name, -share * rest)
            for atom in conditions
            if atom.kind == "=="
            for name in sizes
            for share, rest in [divide(atom.sizes[0], dim(name))]
            if share in (1, -1) and name not in names_of(rest)
        ]
        if fixed:  # the one, if there is one, that is always within its range
            atom, name, place = min(
                fixed,
                key=lambda each: (
                    not self._is_plain(sizes[each[1]] - 1 - each[2]) or not self._is_plain(each[2])
                ),
            )
            return self._placed(term, atom, {name: place}, (place, sizes[name]))
        for atom in conditions:
            if atom.kind != "==":
                continue
            (size,) = atom.sizes
            for inner, width in term.bound:
                step, rest = divide(size, dim(inner))
                if step not in (1, -1) or inner in names_of(rest):
                    continue
                for outer, count in term.bound:
                    share, place = divide(rest, dim(outer))
                    if share == step * width and outer not in names_of(place):
                        place = -step * place
                        values = {outer: place // width, inner: place % width}
                        return self._placed(term, atom, values, (place, count * sizes[inner]))
        return None

    def _placed(
        self, term: Term, atom: Atom, values: Mapping[str, Size], within: tuple[Size, Size]
    ) -> Polynomial:
        place, count = within
        bound = tuple(each for each in term.bound if each[0] not in values)
        first, last = self.condition(">=", place), self.condition(">=", count - 1 - place)
        return self._bound_again(without(term, atom), bound, values, self.product(first, last))

    def _bound_again(
        self, term: Term, bound: Bound, values: Mapping[str, Size], result: Polynomial = ONE
    ) -> Polynomial:
        """The factors under other sums, with `values` of indices that may depend on the bound."""
        for atom, power in term.factors:
            result = self.product(result, self._substituted(atom, power, values))
        for name, size in bound:
            result = self.over("sum", name, size, result)
        return result

    def _shortened(self, term: Term, conditions: list[Atom]) -> Polynomial | None:
        """A sum over k < n where k >= p begins there, and one where k <= p ends there."""
        indices = self.ranges.keys()
        for name, count in term.bound:
            if count == 1:
                return self._ranging(term, None, name, 1, 0)
            for atom in conditions:
                if atom.kind != ">=":
                    continue
                share, rest = divide(atom.sizes[0], dim(name))
                if share not in (1, -1) or not names_of(rest).isdisjoint(indices):
                    continue
                if share == 1 and self._is_plain(-rest) and self._is_plain(count + rest):
                    return self._ranging(term, atom, name, count + rest, -rest)
                if share == -1 and self._is_plain(rest + 1) and self._is_plain(count - rest - 1):
                    return self._ranging(term, atom, name, rest + 1, 0)
        return None

    def _ranging(
        self, term: Term, atom: Atom | None, name: str, count: Size, start: Size
    ) -> Polynomial:
        """The sum where an index runs from `start` on, `count` times."""
        if count == 0:
            return EMPTY
        rest = term if atom is None else without(term, atom)
        bound = tuple(each for each in term.bound if each[0] != name)
        if count == 1:
            return self._bound_again(rest, bound, {name: start})
        other = fresh("k")
        self.ranges[other] = count
        return self._bound_again(rest, (*bound, (other, count)), {name: dim(other) + start})

    def _parted(self, term: Term) -> Polynomial | None:
        """A sum over n m places, of which the quotient by m is read, is one over n and over m."""
        for name, count in term.bound:
            for atom, _ in term.factors:
                for inner in divisors(atom, name):
                    outer, left = divide(count, inner)
                    if left != 0 or inner == 1 or outer in (0, 1):
                        continue
                    first, second = fresh("k"), fresh("k")
                    self.ranges.update({first: outer, second: inner})
                    kept = tuple(each for each in term.bound if each[0] != name)
                    bound = (*kept, (first, outer), (second, inner))
                    place = dim(first) * inner + dim(second)
                    return self._bound_again(term, bound, {name: place})
        return None

    def _merged(self, term: Term) -> Polynomial | None:
        """A sum over a < n and b < m of what depends on a m + b alone is one over n m places."""
        for outer, count in term.bound:
            for inner, width in term.bound:
                if inner == outer or not any(outer in atom.names for atom, _ in term.factors):
                    continue
                other = fresh("k")
                self.ranges[other] = count * width
                place = {inner: dim(other) - width * dim(outer)}
                factors = [(moved(atom, place), power) for atom, power in term.factors]
                if any(atom.names & {outer, inner} for atom, _ in factors):
                    continue
                bound = tuple(each for each in term.bound if each[0] not in (outer, inner))
                merged = product_of(dict(factors), (*bound, (other, count * width)))
                return self._bound_again(merged, merged.bound, {})
        return None

    def _transformed(self, term: Term) -> Polynomial | None:
        """sum_e output[o, e] input[e, i] kernel[e, t] = [i = o + t], by the lemma of `winograd`."""
        for name, _ in term.bound:
            parts = [atom for atom, _ in term.factors if name in atom.names]
            names = {atom.name: atom.sizes for atom in parts if atom.kind == "element"}
            if len(parts) == 3 and names.keys() == set(WINOGRAD):
                o, i, t = names["output"][0], names["input"][1], names["kernel"][1]
                rest = Term(
                    tuple(each for each in term.bound if each[0] != name),
                    tuple(each for each in term.factors if each[0] not in parts),
                )
                return self.product(alone(rest), self.condition("==", i - o - t))
        return None

    def _unused(self, term: Term) -> Polynomial | None:
        """A sum over an index that nothing depends on is a product."""
        for name, count in term.bound:
            if not any(name in atom.names for atom, _ in term.factors):
                bound = tuple(each for each in term.bound if each[0] != name)
                return self.product(alone(Term(bound, term.factors)), self.whole(count))
        return None

    def _named(self, term: Term) -> Term:
        """The term with the names of bound indices that make its text the least."""
        if not term.bound:
            return term
        height, best = term.height, None
        orders = [term.bound]
        if len(term.bound) <= _MANY and factorial(len(term.bound)) > 1:
            orders = list(permutations(term.bound))
        for order in orders:
            names = {name: dim(f"@{height}.{place}") for place, (name, _) in enumerate(order)}
            bound: Bound = tuple((f"@{height}.{n}", size) for n, (_, size) in enumerate(order))
            factors = {self._renamed(atom, names): power for atom, power in term.factors}
            named = product_of(factors, bound)
            if best is None or named.text < best.text:
                best = named
        assert best is not None
        self.ranges.update(best.bound)
        return best
