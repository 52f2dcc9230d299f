"""What was found to be fastest on an adapter: data that a plan is made with, and the file of it.

A file speaks of one adapter with one driver, and of one version of this program; it holds what was
found for contractions by their names, whatever model they were found in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from meganeura_dsl import __version__
from meganeura_dsl.bounded import TooLongError, read_bytes
from meganeura_dsl.graph.core import Graph
from meganeura_dsl.graph.text import format_graph
from meganeura_runtime.kernels.limits import DeviceLimits
from meganeura_runtime.kernels.way import PLANNED, Fusing, Way

VERSION = 1
LONGEST = 16
"""Mebibytes of a file of choices: of many thousand contractions."""


class ChoicesError(Exception):
    """A file that holds no choices for this adapter; says why."""


@dataclass(frozen=True)
class Choices:
    """Ways to compute contractions; `name` says where they are from."""

    name: str = ""
    ways: Mapping[str, Way] = field(default_factory=dict[str, Way])
    fusings: Mapping[str, Fusing] = field(default_factory=dict[str, Fusing])
    """By the names of whole steps."""

    def fusing_of(self, graph: Graph) -> Fusing:
        """How the values of a graph share kernels."""
        return self.fusings.get(step_name(graph), PLANNED) if self.fusings else PLANNED


UNTUNED = Choices()


def step_name(graph: Graph) -> str:
    """What a whole graph is known by: its ops, attributes, shapes and names, not its places."""
    lines = (line.partition("  # ")[0] for line in format_graph(graph).splitlines())
    return sha256("\n".join(lines).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Place:
    """What choices hold for: an adapter, its driver, and the compiler whose kernels were timed."""

    adapter: str
    driver: str
    compiler: str = __version__

    @property
    def file_name(self) -> str:
        """A name that no other place has."""
        digest = sha256(json.dumps([self.adapter, self.driver, self.compiler]).encode())
        words = "-".join("".join(c if c.isalnum() else " " for c in self.adapter.lower()).split())
        return f"{words[:40]}-{digest.hexdigest()[:12]}.json"


@dataclass(frozen=True)
class Found:
    """The best way that was found, and the seconds of one run, with it and before."""

    way: Way
    seconds: float
    before: float


@dataclass(frozen=True)
class Knowledge:
    """All that was found for one place."""

    ways: Mapping[str, Found] = field(default_factory=dict[str, Found])
    fusings: Mapping[str, Fusing] = field(default_factory=dict[str, Fusing])


@dataclass(frozen=True)
class ChoicesFile:
    """A file, as data."""

    place: Place
    found: dict[str, Found]
    fusings: dict[str, Fusing] = field(default_factory=dict[str, Fusing])
    version: Literal[1] = VERSION


@cache
def _adapter() -> TypeAdapter[ChoicesFile]:
    return TypeAdapter(ChoicesFile)


def read_found(path: Path, place: Place) -> Knowledge:
    """What was found for a place; raises `ChoicesError`, and `FileNotFoundError`."""
    try:
        written = read_bytes(path, LONGEST)
        content = _adapter().validate_json(written)
    except FileNotFoundError:
        raise
    except (OSError, TooLongError) as error:
        raise ChoicesError(f"{path} cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise ChoicesError(f"{path} holds no choices: {first['msg']}") from None
    if content.place != place:
        raise ChoicesError(f"{path} is of {content.place.adapter}, {content.place.driver}")
    return Knowledge(content.found, content.fusings)


def read_choices(path: Path, place: Place, limits: DeviceLimits) -> Choices:
    """The choices for a place, without what its limits forbid."""
    known = read_found(path, place)
    ways = {name: one.way for name, one in known.ways.items() if is_possible(one.way, limits)}
    fusings = {name: one for name, one in known.fusings.items() if one.is_sensible}
    shown = {name: str(each) for name, each in sorted({**ways, **fusings}.items())}
    digest = sha256(json.dumps(shown).encode())
    return Choices(f"{path.name} ({digest.hexdigest()[:8]})", ways, fusings)


def is_possible(way: Way, limits: DeviceLimits) -> bool:
    """Whether kernels can be written in a way, and an adapter can run them."""
    if way.parts < 1 or (way.rows is not None and not (0 < way.rows <= MOST_ROWS and limits.lanes)):
        return False
    tile = way.tile
    if tile is None:
        return True
    sizes = (tile.rows, tile.columns, tile.terms, tile.rows_each, tile.columns_each)
    return (
        all(0 < size <= MOST_ROWS and size & (size - 1) == 0 for size in sizes)
        and tile.is_even
        and tile.bytes <= limits.workgroup_bytes
        and tile.lanes <= limits.invocations
    )


MOST_ROWS = 256
"""Rows or columns of a tile; more would not fit the registers of any adapter."""


def content_of(place: Place, known: Knowledge) -> str:
    """The text of a file."""
    ways, fusings = dict(sorted(known.ways.items())), dict(sorted(known.fusings.items()))
    return _adapter().dump_json(ChoicesFile(place, ways, fusings), indent=1).decode()
