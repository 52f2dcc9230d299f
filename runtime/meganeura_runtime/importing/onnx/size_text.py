"""Sizes as they are written in a program."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meganeura_dsl.symbolic.polynomial import Atom, Floor, terms_of
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.code import Level


class UnnamedSizeError(Exception):
    """A size speaks of another that has no name here."""


@dataclass(frozen=True)
class SizeScope:
    """Names of sizes in a block: the symbols that it knows, and names of whole sizes."""

    symbols: frozenset[str]
    named: Mapping[Dim, str] = field(default_factory=dict[Dim, str])

    def text(self, size: Size, level: Level = Level.PIPE) -> str:
        """A size as an expression of at least a level; raises `UnnamedSizeError`."""
        if isinstance(size, int):
            return str(size) if size >= 0 or level <= Level.SIGN else f"({size})"
        known = self.named.get(size)
        if known is not None:
            return known
        text, found = self._sum(size)
        return text if found >= level else f"({text})"

    def _sum(self, size: Dim) -> tuple[str, Level]:
        terms = sorted(terms_of(size).items(), key=lambda term: (term[1] < 0, not term[0]))
        if len(terms) == 1:
            monomial, count = terms[0]
            return self._term(monomial, count)
        text = ""
        for monomial, count in terms:
            part, level = self._term(monomial, abs(count) if text else count)
            part = part if level >= Level.PRODUCT else f"({part})"
            text += f" {'-' if count < 0 else '+'} {part}" if text else part
        return text, Level.SUM

    def _term(self, monomial: tuple[Atom, ...], count: int) -> tuple[str, Level]:
        if not monomial:
            return str(count), Level.ATOM if count >= 0 else Level.SIGN
        is_product = len(monomial) > 1 or count != 1
        factors = [self._factor(atom) for atom in monomial]
        if is_product:
            factors = [f"({each})" if " // " in each else each for each in factors]
        if count != 1:
            factors.insert(0, str(count))
        text = " * ".join(factors)
        if len(factors) > 1:
            return text, Level.PRODUCT
        return text, Level.PRODUCT if " // " in text else Level.ATOM

    def _factor(self, atom: Atom) -> str:
        if isinstance(atom, Floor):
            upper = self.text(atom.numerator, Level.PRODUCT)
            return f"{upper} // {self.text(atom.denominator, Level.SIGN)}"
        if atom not in self.symbols:
            raise UnnamedSizeError(atom)
        return atom
