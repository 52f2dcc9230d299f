"""The cases that wait for the night: `make test` leaves them out, `make nightly` runs them.

A test waits where others show the same by day: with smaller models, fewer processes, other shapes
of the same kernel. Every room of the source keeps tests by day, and so does every kind of fault.

`nightly.toml` names them: whole tests and files, and of a parametrized test the cases that run by
day, or the ones that wait, whichever are fewer. A case is named by its id, in which `*` stands for
any characters. Cases are chosen for what they cover or take, never by their number. A name without
a case is an error.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TypedDict, cast

Cases = Mapping[str, Sequence[str]]
"""Names of cases by their test."""


class Tables(TypedDict):
    """Content of `nightly.toml`."""

    nightly: list[str]
    by_day: dict[str, list[str]]
    by_night: dict[str, list[str]]


_TABLES = cast("Tables", tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
NIGHTLY: tuple[str, ...] = tuple(_TABLES["nightly"])
"""Files and tests in tests/ that run at night alone."""
BY_DAY: Cases = _TABLES["by_day"]
"""Tests of which these cases alone run by day."""
BY_NIGHT: Cases = _TABLES["by_night"]
"""Tests of which these cases run at night alone."""


def is_nightly(name: str) -> bool:
    """True if a folder, a file, a test or a case of one runs at night alone."""
    if is_named(name, NIGHTLY):
        return True
    test, _, case = name.partition("[")
    if test in BY_DAY:
        return bool(case) and not is_case(case[:-1], BY_DAY[test])
    return test in BY_NIGHT and bool(case) and is_case(case[:-1], BY_NIGHT[test])


def is_case(case: str, names: Iterable[str]) -> bool:
    """True if an id of a case is among names, in which `*` stands for any characters."""
    return any(fnmatchcase(case, name.replace("[", "[[]")) for name in names)


def without_cases(names: Iterable[str]) -> list[str]:
    """The names of `BY_DAY` and `BY_NIGHT` that are no case, given all cases of some tests."""
    cases: dict[str, list[str]] = {}
    for name in names:
        test, _, case = name.partition("[")
        if test in BY_DAY or test in BY_NIGHT:
            cases.setdefault(test, []).append(case[:-1])
    return [
        f"{test}[{name}]"
        for test, found in cases.items()
        for name in (*BY_DAY.get(test, ()), *BY_NIGHT.get(test, ()))
        if not any(is_case(case, [name]) for case in found)
    ]


def is_named(name: str, names: tuple[str, ...]) -> bool:
    """True if a test, whatever its parameters, its file or a folder of it is among `names`."""
    return _is_named(name.partition("[")[0], names)


@cache
def _is_named(test: str, names: tuple[str, ...]) -> bool:
    path, separator, _ = test.partition("::")
    above = [path, *map(str, PurePosixPath(path).parents)]
    if separator:
        parts = test.split("::")
        above += ["::".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return not set(above).isdisjoint(names)
