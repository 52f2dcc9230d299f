"""Sizes for people: what `show` writes reads back as a size of the language, apart from `ceil`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meganeura_dsl.shapes.dim import Atom, Dim, Floor, Monomial, Size


def show(size: Size) -> str:
    """The size as one would write it: `2*d`, `h//2`, `(h - 1)//stride + 1`, `ceil(h/32)`."""
    if isinstance(size, int):
        return str(size)
    text = ""
    for monomial, coefficient in sorted(size.terms.items(), key=_place):
        text += _term(monomial, coefficient, first=not text)
    return text


def _place(term: tuple[Monomial, int]) -> tuple[bool, bool, int, tuple[str, ...]]:
    """What is added goes before what is taken off, and a constant after what varies."""
    monomial, coefficient = term
    return coefficient < 0, not monomial, -len(monomial), tuple(map(_factor, monomial))


def _term(monomial: Monomial, coefficient: int, first: bool) -> str:
    sign = "-" if coefficient < 0 else "+"
    lead = sign.strip("+") if first else f" {sign} "
    factors = [_power(atom, monomial.count(atom)) for atom in dict.fromkeys(monomial)]
    if abs(coefficient) != 1 or not factors:
        factors.insert(0, str(abs(coefficient)))
    if len(factors) == 1 and monomial and lead != "-":
        return lead + _alone(monomial, factors[0])
    return lead + "*".join(factors)


def _alone(monomial: Monomial, factor: str) -> str:
    """A floor that is a whole term needs no parentheses."""
    only = monomial[0]
    return factor if len(monomial) > 1 or isinstance(only, str) else _floor(only)


def _power(atom: Atom, exponent: int) -> str:
    return _factor(atom) + (f"**{exponent}" if exponent > 1 else "")


def _factor(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    text = _floor(atom)
    return text if text.startswith("ceil(") and _ceiling(atom) is not None else f"({text})"


def _floor(floor: Floor) -> str:
    below = _operand(floor.denominator)
    raised = _ceiling(floor)
    if raised is not None:
        return f"ceil({_operand(raised)}/{below})"
    return f"{_operand(floor.numerator)}//{below}"


def _ceiling(floor: Floor) -> Size | None:
    """The A for which the floor is ceil(A / constant), if there is one."""
    numerator, denominator = floor.numerator, floor.denominator
    if isinstance(numerator, int) or not isinstance(denominator, int):
        return None
    if numerator.terms.get((), 0) != denominator - 1:
        return None
    return numerator - (denominator - 1)


def _operand(size: Size) -> str:
    text = show(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"
