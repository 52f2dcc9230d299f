"""Messages whose subject is other, more or less than in their pages.

Of a problem of each code and of each of its fields there are the messages in which the field is
empty, one, or many, or a flag is turned. `problem_variants.snap` has some of them, and a checksum
of those of each hundred of codes. Whatever changes the words, the cure or the list of one of them
is seen there, whether or not it was meant.

`python -m tests.problem_variants` writes the file anew; read the difference before you keep it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast, get_type_hints

from meganeura_dsl.diagnostics.problem import Problem, Sink
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check
from tests.literate import SPEC, read
from tests.snapshots import Snapshot, Text
from tests.spec_examples import EXAMPLES

SLOW = ("E0330",)
"""Pages whose programs take long to refuse."""
LIBRARY_LINE = re.compile(r"(?<=nn\.mgn|ss\.mgn):\d+")
"""A line of the standard library."""
MANY = 30
"""Of what a message lists."""


SHOWN = (
    *("E01: E0101 expected", "E01: E0122 is_size", "E02: E0201 nearest", "E02: E0202 known"),
    *("E02: E0220 found", "E03: E0301 axes", "E03: E0308 example", "E03: E0311 fact"),
    *("E03: E0323 count", "E05: E0510 known", "E05: E0540 missing", "E05: E0554 largest"),
    *("E05: E0560 unknown", "E06: E0613 columns", "N00: N0005 is_above"),
)
"""The messages that are shown whole."""


def texts() -> Iterator[Text]:
    """Of a problem of each code its message, and those of its variants."""
    found = {**_of_programs(), **EXAMPLES}
    for code, problem in sorted(found.items()):
        yield Text(code[:3], f"{code} the page", _said(problem))
        for name, variants in _variants(problem):
            yield Text(code[:3], f"{code} {name}", "\n\n".join(map(_said, variants)))


def _of_programs() -> dict[str, Problem]:
    """The first problem of each code that the pages of errors cause."""
    with _collected() as found:
        for path in sorted((SPEC / "errors").glob("E*.md")):
            if path.stem not in (*EXAMPLES, *SLOW):
                page = read(path)
                for program in page.programs:
                    check(program.source, page.load)
    by_code: dict[str, Problem] = {}
    for problem in found:
        by_code.setdefault(problem.code, problem)
    return by_code


@contextmanager
def _collected() -> Iterator[list[Problem]]:
    """The problems that are told while the block runs."""
    found: list[Problem] = []
    add = Sink.add

    def noted(sink: Sink, problem: Problem) -> None:
        found.append(problem)
        add(sink, problem)

    Sink.add = noted  # pyright: ignore[reportAttributeAccessIssue] - for this block
    try:
        yield found
    finally:
        Sink.add = add


def _variants(problem: Problem) -> Iterator[tuple[str, list[Problem]]]:
    """Of each field that can be varied the problems in which it is."""
    if not is_dataclass(problem):
        return
    hints = get_type_hints(type(problem))
    for field in fields(problem):
        values = list(_others(getattr(problem, field.name)))
        if type(None) in getattr(hints[field.name], "__args__", ()):
            values.append(None)
        if values:
            yield field.name, [_with(problem, field.name, value) for value in values]


def _with(problem: Problem, name: str, value: object) -> Problem:
    return cast("Problem", replace(cast("Any", problem), **{name: value}))


def _others(value: object) -> Iterator[object]:
    """Other values of the same type."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (-1, 0, 1, 2, 1_234_567)
        case str():
            yield from ("", "x", f"{value} and more")
        case tuple():
            items = cast("tuple[object, ...]", value)
            yield from (items[:1], items[:2], items + items)
            if items:
                yield tuple(_numbered(items[n % len(items)], n) for n in range(MANY))
            yield ()
        case _:
            return


def _numbered(item: object, number: int) -> object:
    return f"{item}{number}" if isinstance(item, str) else item


def _said(problem: Problem) -> str:
    try:
        return LIBRARY_LINE.sub("", render(problem.report(), colour=False))
    except (
        ArithmeticError,
        AssertionError,
        LookupError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        return type(error).__name__


SNAPSHOT = Snapshot("tests.problem_variants", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
