"""Sizes and indices: equations that are solved, inequalities, and the range of each index."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.polynomial import Atom, Floor, common_monomial, divide, terms_of
from meganeura_dsl.symbolic.size import Dim, Size, dim, rebuild, substitute
from tests.proofs.reals import fresh


class NotShownError(Exception):
    """A condition on sizes that a type rule asks for does not follow."""


@dataclass(frozen=True)
class World:
    """Sizes are at least 1, but for those in `least`; an index is at least 0 and below its size."""

    least: Mapping[str, int] = field(default_factory=dict[str, int])
    solved: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """Sizes and indices that equations have replaced."""
    known: tuple[Compare, ...] = ()
    """Inequalities."""
    ranges: Mapping[str, Size] = field(default_factory=dict[str, Size])
    products: tuple[tuple[Dim, Size], ...] = ()
    """Products of sizes that equations have replaced."""

    def normal(self, size: Size) -> Size:
        """The size with what is solved replaced, and floors taken that the ranges tell."""
        if isinstance(size, int):
            return size
        while not size.variables().isdisjoint(self.solved):
            size = substitute(size, self.solved)
            if isinstance(size, int):
                return size
        for monomial, value in self.products:
            share, rest = divide(size, monomial)
            size = share * value + rest
        if isinstance(size, int):
            return size
        return rebuild(size, self._factor) if size.floors() else size

    def _factor(self, atom: str | Floor) -> Size:
        if isinstance(atom, str):
            return dim(atom)
        above, below = self.normal(atom.numerator), self.normal(atom.denominator)
        above, below = self._reduced(above, below)
        found = above // below
        if not isinstance(found, Dim) or len(found.terms) > 1 or not found.floors():
            return found
        (floor,) = found.floors()
        above, below = floor.numerator, floor.denominator
        return 0 if self.is_plain(above) and self.is_plain(below - 1 - above) else found

    def _reduced(self, above: Size, below: Size) -> tuple[Size, Size]:
        """(P h + r) // (Q h) = P // Q where 0 <= r < h."""
        for name in common_monomial(terms_of(below)) if isinstance(below, Dim) else ():
            if isinstance(name, str):
                share, rest = divide(above, dim(name))
                if self.is_plain(rest) and self.is_plain(dim(name) - 1 - rest):
                    return self._reduced(share, divide(below, dim(name))[0])
        return above, below

    def is_plain(self, size: Size) -> bool:
        """True if an integer is at least 0 by its form: each index at its worst, sizes as signs."""
        if isinstance(size, int):
            return size >= 0
        without = self._without_remainders(size)
        if without != size:
            return self.is_plain(without)
        for name in sorted(size.variables() & self.ranges.keys()):
            size = self._at_worst(size, name)
            if isinstance(size, int):
                return size >= 0
            if name in size.variables():
                return False
        return self._is_signed(size) or any(
            self._is_signed(size - each.left) for each in self.known
        )

    def _is_signed(self, size: Size) -> bool:
        """True if no term is negative where each variable is what it exceeds its least value by."""
        if isinstance(size, int):
            return size >= 0
        sizes = {monomial: value for monomial, value in terms_of(size).items() if monomial}
        if all(len(each) == 1 and isinstance(each[0], str) for each in sizes):
            least = sum(v * self.least.get(str(name), 1) for (name,), v in sizes.items())
            least += terms_of(size).get((), 0)
            return least >= 0 and all(value >= 0 for value in sizes.values())
        floors = {floor: fresh("floor") for floor in size.floors()}
        known = {each.left for each in self.known} if floors else set()
        for each in floors:
            above = each.numerator
            if not (above in known or self._is_signed(above)) or not self._is_signed(
                each.denominator
            ):
                return False

        def moved(atom: Atom) -> Size:
            if isinstance(atom, str):
                return dim(atom) + self.least.get(atom, 1)
            return dim(floors[atom])

        return all(value >= 0 for value in terms_of(rebuild(size, moved)).values())

    def _without_remainders(self, size: Dim) -> Size:
        """A lower bound of an integer, in which n % d = n - d (n // d) is 0 or d - 1."""
        for floor in size.floors():
            above, below = floor.numerator, floor.denominator
            quotient = above // below
            share, _ = divide(size, quotient)
            times, left = divide(-share, below)
            if left != 0 or times == 0:
                continue
            rest = size - times * (above - below * quotient)
            if self._is_signed(times):
                return rest
            if self._is_signed(-times):
                return rest + times * (below - 1)
        return size

    def _at_worst(self, size: Dim, name: str) -> Size:
        """A lower bound of an integer, in which an index has the end of its range that gives it."""
        last = self.ranges[name] - 1
        for floor in size.floors():
            if name not in floor.variables():
                continue
            share, rest = divide(size, floor.numerator // floor.denominator)
            above, below = floor.numerator, floor.denominator
            if name in _names(share) | _names(below) or not self._is_signed(below):
                return size
            slope, _ = divide(above, dim(name))
            rising = self._is_signed(slope)
            if not rising and not self._is_signed(-slope):
                return size
            grows = self._is_signed(share)
            if not grows and not self._is_signed(-share):
                return size
            place = 0 if rising == grows else last
            worst = share * (substitute(above, {name: place}) // below) + rest
            if isinstance(worst, int):
                return worst
            size = worst
        share, rest = divide(size, dim(name))
        if name in _names(share) or name in _names(rest):
            return size
        if self._is_signed(share):
            return rest
        return share * last + rest if self._is_signed(-share) else size

    def shows(self, size: Size) -> bool:
        """True if an integer is shown to be at least 0."""
        size = self.normal(size)
        if self.is_plain(size):
            return True
        if isinstance(size, int) or not (self.known or size.floors()):
            return False
        return self.facts(size).proves(Compare(">=", size, 0))

    def facts(self, about: Size = 0) -> Facts:
        """The same for the prover of sizes, with the ranges of the indices in `about`."""
        facts, indices = Facts(), _names(about) & self.ranges.keys()
        for name, least in {**self.least, **dict.fromkeys(sorted(indices), 0)}.items():
            facts = facts.with_lower_bound(name, least)
        for each in self.known:
            facts = facts.assume(each)
        for name in sorted(indices):
            facts = facts.assume(Compare("<=", dim(name), self.ranges[name] - 1))
        return facts

    def require_equal(self, left: Size, right: Size) -> None:
        """Raise `NotShownError` unless two sizes are shown to be equal."""
        difference = self.normal(left - right)
        if difference != 0 and not (self.shows(difference) and self.shows(-difference)):
            raise NotShownError(f"{self.normal(left)} == {self.normal(right)}")

    def require_at_least(self, left: Size, right: Size) -> None:
        """Raise `NotShownError` unless a size is shown to be at least another."""
        if not self.shows(left - right):
            raise NotShownError(f"{self.normal(left)} >= {self.normal(right)}")

    def with_range(self, name: str, size: Size) -> "World":
        """The same with an index that is new."""
        return replace(self, ranges={**self.ranges, name: size})

    def with_least(self, names: Iterable[str], least: int) -> "World":
        """The same where these sizes are at least `least` in place of 1."""
        return replace(self, least={**self.least, **dict.fromkeys(names, least)})

    def where_at_least(self, left: Size, right: Size) -> "World | None":
        """The worlds where one integer is at least another; None if there is none."""
        size = self.normal(left - right)
        if self.shows(size):
            return self
        if self.shows(-size - 1):
            return None
        world = replace(self, known=(*self.known, Compare(">=", size, 0)))
        if _names(size) & self.ranges.keys():
            return world
        for name in sorted(_names(size), reverse=True):
            share, rest = size.split(name) if isinstance(size, Dim) else (0, size)
            least = self.least.get(name, 1)
            if share == 1 and self.is_plain(-rest - least):  # name = -rest + what is above it
                above = fresh("above")
                return self.with_least((above,), 0)._where(name, dim(above) - rest)
        return world._without_nothing(_names(size))

    def _without_nothing(self, names: Iterable[str]) -> "World | None":
        """The world where sizes that may be 0, and can be nothing else, are 0."""
        world: World | None = self
        for name in sorted(names):
            if world and world.least.get(name, 1) == 0 and world.shows(-dim(name)):
                world = world._where(name, 0)
        return world

    def where_equal(self, left: Size, right: Size) -> "World | None":
        """The worlds where two integers are equal; None if there is none."""
        size = self._without_common_factor(self.normal(left - right))
        if isinstance(size, int):
            return self if size == 0 else None
        if self.shows(size - 1) or self.shows(-size - 1):
            return None
        for sign in (1, -1):
            if self._is_signed(sign * size) and not size.variables() & self.ranges.keys():
                return self._where_nothing(sign * size)
        for name in sorted(size.variables(), reverse=True):
            share, rest = size.split(name)
            if share in (1, -1) and name not in _names(rest):
                return self._where(name, -share * rest)
        for floor in size.floors():
            above, below = floor.numerator, floor.denominator
            if (above - below * (above // below)) in (size, -size) and self.shows(above):
                share = fresh("share")
                least = 1 if self.shows(above - 1) else 0
                return self.with_least((share,), least).where_equal(above, below * dim(share))
        lead = max(size.terms, key=lambda monomial: sorted(map(str, monomial), reverse=True))
        if size.terms[lead] in (1, -1):
            whole = Dim({lead: 1})
            rest = whole - size.terms[lead] * size
            return replace(self, products=(*self.products, (whole, rest)))
        both = Compare(">=", size, 0), Compare(">=", -size, 0)
        return replace(self, known=(*self.known, *both))._without_nothing(_names(size))

    def _where_nothing(self, size: Size) -> "World | None":
        """The world where a sum of what is not negative is 0."""
        moved = substitute(
            size, {name: dim(name) + self.least.get(name, 1) for name in _names(size)}
        )
        for monomial in terms_of(moved):
            if len(monomial) == 1 and isinstance(monomial[0], str):
                world = self._where(monomial[0], self.least.get(monomial[0], 1))
                return world and world.where_equal(size, 0)
        if () in terms_of(moved):
            return None
        both = Compare(">=", size, 0), Compare(">=", -size, 0)
        return replace(self, known=(*self.known, *both))

    def _without_common_factor(self, size: Size) -> Size:
        """The size divided by the sizes, none of them 0, that all of its terms have as a factor."""
        for atom in common_monomial(size.terms) if isinstance(size, Dim) else ():
            if isinstance(atom, str) and atom not in self.ranges and self.least.get(atom, 1) > 0:
                size, _ = divide(size, dim(atom))
        return size

    def _where(self, name: str, value: Size) -> "World | None":
        changed = {name: value}
        kept = tuple(each for each in self.known if name not in _names(each.left))
        moved = (each.left for each in self.known if name in _names(each.left))
        solved = {
            **{key: substitute(size, changed) for key, size in self.solved.items()},
            **changed,
        }
        again = [(whole, size) for whole, size in self.products if name in _names(whole - size)]
        products = tuple(each for each in self.products if each not in again)
        world: World | None = replace(self, solved=solved, known=kept, products=products)
        if name in self.ranges:
            world = world.where_at_least(self.ranges[name] - 1, value)
        world = world and world.where_at_least(
            value, self.least.get(name, 0 if name in self.ranges else 1)
        )
        for each in moved:
            world = world and world.where_at_least(substitute(each, changed), 0)
        for whole, size in again:
            world = world and world.where_equal(whole, size)
        return world


def _names(size: Size) -> frozenset[str]:
    return size.variables() if isinstance(size, Dim) else frozenset()
