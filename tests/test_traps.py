"""The page of mistakes names tests that exist."""

import re
from functools import cache
from pathlib import Path

from tests.folded import each_of

ROOT = Path(__file__).parents[1]
NAMED = sorted(
    set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/testing.md").read_text()))
)


def test_mistakes_are_named() -> None:
    assert len(NAMED) > 30


@cache
def defined_in(file: str) -> frozenset[str]:
    """Names of the functions at the top level of a file; to parse the files takes 10 s."""
    return frozenset(re.findall(r"^def (\w+)\(", (ROOT / file).read_text(), re.MULTILINE))


@each_of(("file", "test"), NAMED)
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert test in defined_in(file)
