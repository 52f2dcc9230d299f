"""What an elaboration has declared: parameters, and layers whose parameters nobody has asked for.

In a check a network repeats its layers. Those of a repeated layer are kept as what the layer holds,
under its path, until one of them is asked for by name, or all of them in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meganeura_dsl.startup.deferred_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
    from meganeura_dsl.elaborate.scope.postponed import Postponed

Entry = tuple[str, "ParameterInfo | Held"]
"""A parameter with its name, or what a layer holds with what its names begin with."""


@dataclass(frozen=True, eq=False)
class Held:
    """The parameters of a layer, in order, by their names inside of it."""

    entries: tuple[Entry, ...]
    postponed: tuple[Postponed[Any], ...]
    """The first values of its own parameters that depend on what symbols stand for."""
    count: int
    is_settled: bool
    """Whether all first values are known."""

    @staticmethod
    def of(entries: Iterable[Entry], postponed: Iterable[Postponed[Any]]) -> Held:
        """What a layer holds that declared these."""
        kept, left = tuple(entries), tuple(postponed)
        settled = not left and all(map(_is_settled, kept))
        return Held(kept, left, sum(map(_count, kept)), settled)

    def parameters(self, prefix: str) -> list[tuple[str, ParameterInfo]]:
        """Each parameter, by its name behind the prefix."""
        found: list[tuple[str, ParameterInfo]] = []
        for name, entry in self.entries:
            if isinstance(entry, Held):
                found += entry.parameters(prefix + name)
            else:
                found.append((prefix + name, entry))
        return found

    def all_postponed(self, prefix: str) -> list[tuple[str, Postponed[Any]]]:
        """Each first value that is not known, by the name of its parameter behind the prefix."""
        if self.is_settled:
            return []
        found = [(prefix + each.parameter, each) for each in self.postponed]
        for name, entry in self.entries:
            if isinstance(entry, Held):
                found += entry.all_postponed(prefix + name)
        return found


def _is_settled(entry: Entry) -> bool:
    return not isinstance(entry[1], Held) or entry[1].is_settled


def _count(entry: Entry) -> int:
    return entry[1].count if isinstance(entry[1], Held) else 1


class Declared:
    """Parameters by name, in the order of their declaration."""

    def __init__(self, infos: dict[str, ParameterInfo] | None = None) -> None:
        self._infos = dict(infos or {})
        self._entries: list[Entry] = list(self._infos.items())
        self._held: dict[str, Held] = {}
        self._around: set[str] = set()
        """What names begin with, of those that were looked at."""
        self._seen = 0
        self._is_ordered = True
        self.count = len(self._infos)
        """How many there are."""

    def find(self, name: str) -> ParameterInfo | None:
        """The parameter of a name, unless it is in a layer that `holder` names."""
        return self._infos.get(name)

    def add(self, name: str, info: ParameterInfo) -> None:
        """One more parameter."""
        self._infos[name] = info
        self._entries.append((name, info))
        self.count += 1

    def holder(self, name: str) -> str | None:
        """What the names of the layer begin with that may hold a parameter of this name."""
        if not self._held:
            return None
        return next((each for each in _beginnings(name) if each in self._held), None)

    def may_hold(self, prefix: str) -> bool:
        """Whether no name so far can be one that begins so."""
        for name, _ in self._entries[self._seen :]:
            self._around.update(_beginnings(name))
        self._seen = len(self._entries)
        return prefix not in self._around and self.holder(prefix) is None

    def hold(self, prefix: str, held: Held) -> None:
        """The parameters of a layer, for which `may_hold` is true."""
        self._held[prefix] = held
        self._entries.append((prefix, held))
        self.count += held.count

    def open(self, prefix: str) -> Held:
        """Know the parameters of a layer by their names from here on."""
        held = self._held.pop(prefix)
        found = [(name, info._replace(name=name)) for name, info in held.parameters(prefix)]
        self._infos.update(found)
        self._entries[(at := self._entries.index((prefix, held))) : at + 1] = found
        self._seen = 0
        self._is_ordered = False
        return held

    @property
    def unopened(self) -> tuple[str, ...]:
        """What the names of layers begin with that were not opened."""
        return tuple(self._held)

    def infos(self) -> dict[str, ParameterInfo]:
        """All parameters by name, in order, once every layer is open."""
        assert not self._held
        if not self._is_ordered:
            self._infos = {name: info for name, info in self._entries if not isinstance(info, Held)}
            self._is_ordered = True
        return self._infos

    def since(self, count: int) -> list[Entry]:
        """What was declared since there were `count` parameters."""
        number, left = len(self._entries), self.count - count
        while left > 0:
            number -= 1
            left -= _count(self._entries[number])
        while number > 0 and left == 0 and _count(self._entries[number - 1]) == 0:
            number -= 1
        return self._entries[number:]


def _beginnings(name: str) -> Iterator[str]:
    """What a name is inside of: `a.b.c` of nothing, `a.` and `a.b.`, and `a.b.` of itself too."""
    yield ""
    at = name.find(".")
    while at >= 0:
        yield name[: at + 1]
        at = name.find(".", at + 1)
