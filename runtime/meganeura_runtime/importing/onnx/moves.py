"""Rearrangements as data, so that one behind another is one."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Dim, Size, product
from meganeura_runtime.importing.onnx.code import Level, Piece, listed, size_piece


@dataclass(frozen=True)
class Fixed:
    """A factor of an axis that is a size."""

    size: Size
    order: int
    """The number of this one among several equal ones."""


Factor = int | Fixed
"""A part of an axis: one that is named by a number, or one that is a size."""
Pattern = tuple[tuple[Factor, ...], ...]
"""The factors of each axis; an axis of size 1 has none."""


@dataclass(frozen=True)
class Move:
    """`source -> target` of a rearrangement."""

    source: Pattern
    target: Pattern

    @property
    def axes(self) -> int:
        """The number of named axes."""
        return len({each for axis in self.source for each in axis if isinstance(each, int)})

    @property
    def is_nothing(self) -> bool:
        """True if everything stays where it is."""
        return self.source == self.target

    def then(self, other: "Move") -> "Move | None":
        """This one and then another as one, None if neither only names what the other splits."""
        pairs = list(zip(self.target, other.source, strict=True))
        if any(bool(first) != bool(second) for first, second in pairs):
            return None
        both: Move | None = None
        if all(_is_plain(second) for _, second in pairs):
            known = {second[0]: first for first, second in pairs if second}
            both = Move(self.source, _replaced(other.target, known))
        elif all(_is_plain(first) for first, _ in pairs):
            given = {first[0]: second for first, second in pairs if first}
            both = Move(_replaced(self.source, given), other.target)
        return both if both is not None and both.is_unambiguous else None

    @property
    def before_swap(self) -> "Move | None":
        """The one that swaps the last two axes after it makes this, if this turns those around."""
        if len(self.target) < 2:
            return None
        *rest, row, column = self.target
        order = [factor for axis in self.source for factor in axis]
        if not row or not column or order.index(row[0]) < order.index(column[0]):
            return None
        return Move(self.source, (*rest, column, row))

    @property
    def is_unambiguous(self) -> bool:
        """True if no two axes are written in the same way."""
        sizes = [each.size for axis in self.source for each in axis if isinstance(each, Fixed)]
        return len(set(sizes)) == len(sizes)

    def shape(self, of: Shape) -> Shape:
        """The shape that this makes of one that its source matches."""
        sizes: dict[Factor, Size] = {}
        for axis, size in zip(self.source, of, strict=True):
            fixed = [each for each in axis if isinstance(each, Fixed)]
            sizes.update({each: each.size for each in fixed})
            named = [each for each in axis if isinstance(each, int)]
            if len(named) == 1:
                sizes[named[0]] = size // product(each.size for each in fixed)
        return tuple(product(sizes[each] for each in axis) for axis in self.target)

    def pieces(self, letters: Sequence[str]) -> tuple[Piece, ...]:
        """The pattern with names of axes."""
        names: dict[int, str] = {}
        for axis in self.source:
            for each in axis:
                if isinstance(each, int):
                    names.setdefault(each, letters[len(names)])
        sides = (_written(self.source, names), _written(self.target, names))
        return ("[", *sides[0], "] -> [", *sides[1], "]")


def _is_plain(axis: tuple[Factor, ...]) -> bool:
    return len(axis) == 0 or (len(axis) == 1 and isinstance(axis[0], int))


def _replaced(pattern: Pattern, known: "dict[Factor, tuple[Factor, ...]]") -> Pattern:
    return tuple(
        tuple(part for each in axis for part in known.get(each, (each,))) for axis in pattern
    )


def _written(pattern: Pattern, names: dict[int, str]) -> tuple[Piece, ...]:
    axes: list[tuple[Piece, ...]] = []
    for axis in pattern:
        pieces: list[Piece] = []
        for each in axis:
            pieces += [" * "] if pieces else []
            level = Level.ATOM if len(axis) > 1 else Level.PIPE
            pieces.append(names[each] if isinstance(each, int) else size_piece(each.size, level))
        axes.append(tuple(pieces) or ("1",))
    return listed(axes)


def split_and_joined(groups: Sequence[tuple[Shape, Shape]]) -> Move:
    """The rearrangement of runs of axes, where one of each pair of runs is a single axis."""
    source: list[tuple[Factor, ...]] = []
    target: list[tuple[Factor, ...]] = []
    for at, (left, right) in enumerate(groups):
        first = 100 * at
        if not left or not right:  # axes of size 1
            source += [()] * len(left)
            target += [()] * len(right)
        elif len(right) == 1:
            names = [first + index for index in range(len(left))]
            source += [(each,) for each in names]
            target.append(tuple(names))
        else:
            factors = _factors(right, first)
            source.append(tuple(factors))
            target += [(each,) for each in factors]
    return Move(tuple(source), tuple(target))


def _factors(sizes: Shape, first: int) -> list[Factor]:
    """The factors of an axis that is split: sizes, but for one that is solved for."""
    symbols = [index for index, size in enumerate(sizes) if isinstance(size, Dim)]
    solved = symbols[-1] if symbols else len(sizes) - 1
    return [
        first + index if index == solved else Fixed(size, first + index)
        for index, size in enumerate(sizes)
    ]
