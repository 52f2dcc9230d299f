"""Programs that are just right, and the same ones where one thing is just wrong.

The files in `boundaries` have of each its name, what stands for `EDGE` in the program that is
proved and in the one that is refused, with the codes of its refusals, and the program.
"""

from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source

PAIRS = dict(
    each.split("\n", 1)
    for file in sorted(Path(__file__).with_name("boundaries").glob("*.txt"))
    for each in file.read_text(encoding="utf-8").split("## ")[1:]
)


def codes(text: str) -> list[str]:
    """The codes of all that is said about a program."""
    return [each.code for each in pipeline.check(Source("net.mgn", text), lambda _: None).reports]


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_just_right_is_proved_and_what_is_just_wrong_is_refused(name: str) -> None:
    edges, text = PAIRS[name].split("\n", 1)
    right, wrong, refusals = edges.split(" | ")
    assert codes(text.replace("EDGE", right)) == []
    assert codes(text.replace("EDGE", wrong)) == refusals.split()
