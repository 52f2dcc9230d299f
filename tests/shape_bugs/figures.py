"""The outcomes of all cases, as `outcomes.txt` has them, and the figures of docs/yardsticks.md."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.shape_bugs.cases import COLLECTIONS, FOLDER, Outcome, heads

FILE = FOLDER / "outcomes.txt"
LEFT_OUT = FOLDER / "left_out.toml"
COLUMNS = (
    "collection", "programs", "of these wrong", "reported", "at the mistake", "first cure right",
    "only the author knows", "mended and accepted", "left out",
)  # fmt: skip


@dataclass(frozen=True)
class Omission:
    """A program of a collection that is no case here."""

    collection: str
    name: str
    why: str


def omissions() -> tuple[Omission, ...]:
    """All programs that are left out, with the reason."""
    found = tomllib.loads(LEFT_OUT.read_text())
    return tuple(
        Omission(collection, name, why)
        for collection, each in found.items()
        for name, why in each.items()
    )


def recorded() -> tuple[Outcome, ...]:
    """The outcomes that the file has."""
    return tuple(Outcome(*line.split(", ")) for line in FILE.read_text().splitlines())


def record(outcomes: Sequence[Outcome]) -> None:
    """Writes the file."""
    FILE.write_text("".join(f"{each}\n" for each in outcomes))


def tables(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """All lines that the page has of these outcomes."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    left = Counter(each.collection for each in omissions())
    for collection in COLLECTIONS:
        those = [each for each in outcomes if each.case.startswith(f"{collection}/")]
        yield _row(collection, those, left[collection])
    yield from ("", "| program | message | reported | first cure |", "|---|---|---|---|")
    for each in outcomes:
        if each.code != "-" and (each.place, each.cure) != ("there", "right"):
            yield f"| `tests/shape_bugs/{each.case}` | {each.code} | {each.place} | {_why(each)} |"
    yield from ("", "| collection | program | why |", "|---|---|---|")
    for each in omissions():
        yield f"| `{each.collection}` | {each.name} | {each.why} |"


def _why(outcome: Outcome) -> str:
    """The judgement of a first cure, with the reason where only the author knows it."""
    if outcome.cure != "asked":
        return outcome.cure
    return heads(FOLDER / outcome.case / "wrong.mgn")["unknown"]


def _row(collection: str, outcomes: Sequence[Outcome], left: int) -> str:
    wrong = [each for each in outcomes if each.code != "-"]
    told = [each for each in wrong if each.code != "silent"]
    counts = (
        len(outcomes),
        len(wrong),
        len(told),
        sum(each.place == "there" for each in told),
        sum(each.cure == "right" for each in told),
        sum(each.cure == "asked" for each in told),
        sum(each.right == "accepted" for each in outcomes),
        left,
    )
    return f"| `{collection}` | {' | '.join(map(str, counts))} |"
