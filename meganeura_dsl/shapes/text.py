"""Sizes for people: what `show` writes reads back as a size of the language, apart from `ceil`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meganeura_dsl.work import spend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meganeura_dsl.shapes.polynomial import Atom, Dim, Floor, Monomial, Size


def show(size: Size) -> str:
    """The size as one would write it: `2*d`, `(h - 1)//stride + 1`, `ceil(h/32)`, `d % heads`."""
    if isinstance(size, int):
        return str(size)
    spend(2 * len(size.terms))
    first, *others = sorted(_terms(size), key=_place)
    text = f"-{first.product}" if first.is_negative else first.alone
    for term in others:
        text += f" - {term.alone}" if term.is_negative else f" + {term.alone}"
    return text


class _Term(NamedTuple):
    """A term to be written."""

    is_negative: bool
    amount: int
    degree: int
    factors: tuple[str, ...]

    @property
    def product(self) -> str:
        """The term as a factor of a product."""
        number = (str(self.amount),) if self.amount != 1 or not self.factors else ()
        return "*".join(number + self.factors)

    @property
    def alone(self) -> str:
        """The term between `+` and `-`, where a quotient needs no parentheses."""
        text = self.product
        is_quotient = len(self.factors) == 1 and text.startswith("(") and text.endswith(")")
        return text[1:-1] if is_quotient else text


def _place(term: _Term) -> tuple[bool, bool, int, list[str]]:
    """First what is added, then what is taken off, constants last."""
    names = [factor.lstrip("(") for factor in term.factors]
    return term.is_negative, not names, -term.degree, names


def _terms(size: Size) -> Iterator[_Term]:
    """The terms of a size, with remainders written as such."""
    if isinstance(size, int):
        if size:
            yield _Term(size < 0, abs(size), 0, ())
        return
    for floor in size.floors():
        times, rest = _without_remainder(size, floor)
        if times != 0:
            remainder = f"({_operand(floor.numerator)} % {_operand(floor.denominator)})"
            for term in _terms(times):
                yield term._replace(degree=term.degree + 1, factors=(*term.factors, remainder))
            yield from _terms(rest)
            return
    for monomial, amount in size.terms.items():
        yield _Term(amount < 0, abs(amount), len(monomial), _factors(monomial))


def _without_remainder(size: Dim, floor: Floor) -> tuple[Size, Size]:
    """How often the remainder `A - Q*floor(A/Q)` shortens the size, and what else there is."""
    share, rest = size.split(floor)
    times = -share // floor.denominator
    left = rest - times * floor.numerator
    is_exact = times * floor.denominator == -share
    if is_exact and _length(times) + _length(left) < _length(size):
        return times, left
    return 0, size


def _length(size: Size) -> int:
    return int(size != 0) if isinstance(size, int) else len(size.terms)


def _factors(monomial: Monomial) -> tuple[str, ...]:
    """The factors of a product, each with its power."""
    powers = {atom: monomial.count(atom) for atom in monomial}
    return tuple(_factor(atom) + (f"**{n}" if n > 1 else "") for atom, n in powers.items())


def _factor(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    above, below = atom.numerator, atom.denominator
    if isinstance(below, int) and not isinstance(above, int):
        raised = above - (below - 1)
        if not isinstance(raised, int) and () not in raised.terms:
            return f"ceil({_operand(raised)}/{below})"
    return f"({_operand(above)}//{_operand(below)})"


def _operand(size: Size) -> str:
    text = show(size)
    return f"({text})" if any(mark in text for mark in " */-") else text
