"""Shapes as patterns, against which the shapes of tensors are matched."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import UnknownName
from meganeura_dsl.elaborate.problems.pattern_cures import new_name_answer
from meganeura_dsl.elaborate.scope.new_symbols import new_symbol
from meganeura_dsl.elaborate.scope.scope import MODES, Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.values import Axes, is_size
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.assumptions import Compare, Proved, Verdict
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, Size, dim, show
from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Mismatch(Exception):
    """A shape does not match a pattern at `axis` (None: the number of axes differs)."""

    axis: int | None
    wanted: Size | None
    found: Size | None
    verdict: Verdict | None
    unknown: str = ""
    """The symbol in `wanted` for what the axis was to say, if it was to say something."""
    entry: ast.Expression | None = None
    """The entry of the pattern, where it waited for others."""

    @property
    def factor(self) -> Size | None:
        """The size of which the wanted one is a multiple, if nothing else says how many times."""
        if not self.unknown or self.wanted is None:
            return None
        times = dim(self.unknown)
        factor = self.wanted // times
        is_free = self.unknown not in variables_of(factor)
        return factor if is_free and factor * times == self.wanted else None

    @property
    def wanted_text(self) -> str:
        """The words for the wanted size, in names that the program has."""
        if self.factor is not None:
            return f"a multiple of {show(self.factor)}"
        if self.unknown and self.entry is not None:
            return f"`{self.entry.span.text}` of a whole number"
        return "" if self.wanted is None else show(self.wanted)


class Binder:
    """Matches shapes against patterns in a frame, binding names that are new.

    A whole call is matched at once: first every plain name and rest, then the composite sizes, so
    that the order of the inputs does not matter.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._later: list[tuple[ast.Expression, Size, int]] = []

    def match(self, pattern: ast.Pattern, shape: Shape) -> None:
        """Bind the plain names of one pattern; composite sizes wait for `finish`."""
        for axis, entry, found in spread(pattern, shape):
            if isinstance(entry, ast.Rest):
                assert isinstance(found, Axes)
                self._bind_rest(entry, found, axis)
            else:
                assert not isinstance(found, Axes)
                self._bind_entry(entry, found, axis)

    def finish(self) -> None:
        """Check or solve every composite size."""
        for entry, found, axis in self._later:
            try:
                self._settle(entry, found, axis)
            except Mismatch as mismatch:
                raise replace(mismatch, entry=entry) from mismatch
        self._later.clear()

    def _bind_rest(self, entry: ast.Rest, found: Axes, axis: int) -> None:
        known = self.frame.names.get(entry.name)
        if known is None:
            self.frame.names[entry.name] = found
            return
        if not isinstance(known, Axes) or len(known) != len(found):
            raise Mismatch(None, None, None, None)
        for offset, (wanted, size) in enumerate(zip(known, found, strict=True)):
            self._demand(wanted, size, axis + offset)

    def _bind_entry(self, entry: ast.Expression, found: Size, axis: int) -> None:
        if isinstance(entry, ast.Name) and entry.text not in self.frame.names:
            self.frame.names[entry.text] = found
        elif isinstance(entry, ast.Integer):
            self._demand(entry.value, found, axis)
        else:
            self._later.append((entry, found, axis))

    def _settle(self, entry: ast.Expression, found: Size, axis: int) -> None:
        unknown = [name for name in size_names(entry) if name not in self.frame.names]
        if len(unknown) != 1:
            self._demand(self._size_of(entry, unknown), found, axis)
            return
        name = unknown[0]
        symbol = new_symbol(name, self.frame, found)
        self.frame.names[name] = dim(symbol)
        wanted = self._size(entry)
        del self.frame.names[name]
        if symbol not in variables_of(wanted):  # the configuration chose a size without it
            self._demand(wanted, found, axis)
            return
        solved = self.frame.facts.solve_for(wanted, symbol, found)
        if solved is None:
            known = self._known_factor(wanted, symbol)
            verdict = (
                None if known is None else self.frame.facts.decide(Compare("==", found % known, 0))
            )
            raise Mismatch(axis, wanted, found, verdict, symbol)
        self.frame.names[name] = solved

    def _known_factor(self, wanted: Size, symbol: str) -> Size | None:
        factor = wanted // dim(symbol)
        if factor == 0 or (isinstance(factor, Dim) and symbol in factor.variables()):
            return None
        return factor

    def _size_of(self, entry: ast.Expression, unknown: Sequence[str]) -> Size:
        """The size of an entry in which several names may be new, which none of them can be."""
        try:
            return self._size(entry)
        except ProblemError as error:
            problem = error.problem
            if not isinstance(problem, UnknownName) or problem.name not in unknown:
                raise
            sizes = [name for name, value in self.frame.names.items() if is_size(value)]
            answer = new_name_answer(unknown, sizes, entry.span.text)
            raise ProblemError(replace(problem, foreign=answer)) from None

    def _size(self, entry: ast.Expression) -> Size:
        size = self.frame.evaluate(entry)
        if not is_size(size):
            raise Mismatch(None, None, None, None)
        return size

    def _demand(self, wanted: Size, found: Size, axis: int) -> None:
        verdict = equal(self.frame, wanted, found)
        if not isinstance(verdict, Proved):
            raise Mismatch(axis, wanted, found, verdict)


def spread(
    pattern: ast.Pattern, shape: Shape
) -> list[tuple[int, "ast.Expression | ast.Rest", Size | Axes]]:
    """Each entry of a pattern beside the axis, or for a rest the axes, it stands for."""
    rests = sum(isinstance(entry, ast.Rest) for entry in pattern.entries)
    spare = len(shape) - (len(pattern.entries) - rests)
    if spare < 0 or (rests == 0 and spare != 0):
        raise Mismatch(None, None, None, None)
    placed: list[tuple[int, ast.Expression | ast.Rest, Size | Axes]] = []
    axis = 0
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            placed.append((axis, entry, Axes(shape[axis : axis + spare])))
            axis += spare
        else:
            placed.append((axis, entry, shape[axis]))
            axis += 1
    return placed


def size_names(entry: ast.Expression) -> list[str]:
    """The names a size expression reads, each once, leaving out the functions it calls.

    In the condition of a choice `training` is no size.
    """
    match entry:
        case ast.Name(text=text):
            return [text]
        case ast.Unary(operand=operand):
            return size_names(operand)
        case ast.Binary(left=left, right=right):
            return list(dict.fromkeys([*size_names(left), *size_names(right)]))
        case ast.Call(arguments=arguments):
            parts = [arg.value for arg in arguments if not isinstance(arg.value, ast.Rearrangement)]
            return list(dict.fromkeys(name for part in parts for name in size_names(part)))
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            asked = [name for name in size_names(condition) if name not in MODES]
            return list(dict.fromkeys([*asked, *size_names(then), *size_names(otherwise)]))
        case ast.Subscript(base=base):
            return size_names(base)
        case _:
            return []


def size_names_of(pattern: ast.Pattern) -> list[str]:
    """The names that the axes of a pattern read."""
    entries = (each for each in pattern.entries if not isinstance(each, ast.Rest))
    return [name for each in entries for name in size_names(each)]


@lru_cache(maxsize=1024)
def solved_names(block: ast.Block) -> tuple[str, ...]:
    """The sizes that a call of a block solves for, as in `c + k`; none of them is an axis."""
    entries = [
        each for item in block.inputs for each in item.type.shape.entries
        if not isinstance(each, ast.Rest)
    ]  # fmt: skip
    known = {each.name for each in block.parameters}
    known.update(each.text for each in entries if isinstance(each, ast.Name))
    names = (name for each in entries for name in size_names(each))
    return tuple(dict.fromkeys(name for name in names if name not in known))


def pattern_text(pattern: ast.Pattern) -> str:
    """A pattern as it was written, on one line."""
    return " ".join(pattern.span.text.split())
