"""What the points of a program tell while it runs (`scripts/condition_points.py`)."""

import builtins
import mmap
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any, TypeVar, cast

from condition_points import Kind

T = TypeVar("T")
COUNTABLE = frozenset({int, set, frozenset, tuple, list, dict, str})


class Watch:
    """What all processes saw: a byte of each point, in a file that they share."""

    def __init__(self, seen: Path) -> None:
        with seen.open("r+b") as stream:
            self.seen = mmap.mmap(stream.fileno(), 0)

    def install(self) -> None:
        """Put the functions that watched modules call where they are found."""
        for kind in Kind:
            setattr(builtins, f"__{kind.value}__", getattr(self, kind.value))

    def outcome(self, point: int, value: T) -> T:
        """A condition is read, or a value that has no truth."""
        if self.seen[point] & 3 != 3:
            try:
                self.seen[point] |= 2 if value else 1
            except ValueError:
                """An array is neither true nor false."""
        return value

    def decides(self, point: int, conjunction: bool, value: T, rest: Callable[[], object]) -> T:  # noqa: FBT001 - as it is written
        """An operand ends `and` or `or`; the rest is asked what it would have said."""
        if not self.seen[point] & 1 and bool(value) is not conjunction:
            try:
                alone = bool(rest()) is conjunction
            except Exception:  # noqa: BLE001 - what cannot be asked is guarded by the operand
                alone = True
            self.seen[point] |= 3 if alone else 2
        return value

    def order(self, point: int, name: str, left: Any, right: Any) -> object:
        """Two sides are compared."""
        if self.seen[point] & 7 != 7:
            try:
                self.seen[point] |= 2 if left == right else 1 if left < right else 4
            except ValueError:
                """An array is compared by its elements."""
        return getattr(operator, name)(left, right)

    def extreme(self, point: int, name: str, left: Any, right: Any) -> object:
        """The smaller or larger of two is taken."""
        self.seen[point] |= 4 if left == right else 1 if left < right else 2
        return getattr(builtins, name)(left, right)

    def rounds(self, point: int, several: Iterable[T]) -> Iterable[T]:
        """A loop begins."""
        if self.seen[point] & 4:
            return several
        if isinstance(several, Sized):
            self.seen[point] |= 1 << min(len(several), 2)
            return several
        return self._counted(point, several)

    def _counted(self, point: int, several: Iterable[T]) -> Iterator[T]:
        count = 0
        for each in several:
            count += 1
            if count < 3:
                self.seen[point] |= 1 << count
            yield each
        if not count:
            self.seen[point] |= 1

    def result(self, point: int, name: str, left: Any, right: Any) -> object:
        """A sum, product, quotient, rest or union is made."""
        value = getattr(operator, name)(left, right)
        if self.seen[point] & 15 != 15 and {type(left), type(value)} <= COUNTABLE:
            rest = name == "floordiv" and value * right != left
            self.seen[point] |= 8 | (value != left) | (value != right) << 1 | rest << 2
        return value

    def one_of(self, point: int, how: str, value: Any, several: Any) -> bool:
        """A value is looked for among some, or one of some patterns was met."""
        if how == "met":
            self.seen[point] |= 1 << value
            return True
        if how == "in":
            if found := value in several:
                self.seen[point] |= 1 << several.index(value)
            return found
        classes = cast("Sequence[type]", several.__args__)
        fitting = [at for at, each in enumerate(classes) if isinstance(value, each)]
        if len(fitting) == 1:
            self.seen[point] |= 1 << fitting[0]
        return bool(fitting)
