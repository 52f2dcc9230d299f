"""The table of proved rules in the documents."""

from collections.abc import Sequence
from pathlib import Path

from meganeura_dsl.transforms.egraph.rules.rule import Rule
from tests.proofs.rules import Claim
from tests.proofs.tensors import Tensor
from tests.proofs.terms import Instance

FILE = Path(__file__).resolve().parents[2] / "docs/proved_rules.md"
_HEAD = "| rule | set | kind | shown by | ranks | instances |"


def table_of(text: str) -> list[str]:
    """The rows of the table in a text."""
    lines = text.partition(f"{_HEAD}\n")[2].partition("\n\n")[0].splitlines()
    return lines[1:]


def row(name: str, of: str, rule: Rule, claims: Sequence[Claim]) -> str:
    """The row of a rule, all claims of which hold."""
    ranks = sorted({x.rank for each in claims for x in _tensors(each.instance)})
    shown = "normal form" if claims else "says nothing of values"
    if "winograd" in name:
        shown = "normal form, lemma of Winograd"
    span = f"{ranks[0]} to {ranks[-1]}" if ranks else ""
    kind = type(rule).__name__.lower()
    return f"| `{name}` | {of} | {kind} | {shown} | {span} | {len(claims) or ''} |"


def with_rows(text: str, rows: Sequence[str]) -> str:
    """The text with other rows in its table."""
    before, _, rest = text.partition(f"{_HEAD}\n")
    after = rest.partition("\n\n")[2]
    return "\n".join([f"{before}{_HEAD}", "|---|---|---|---|---|---|", *rows, "", after])


def _tensors(instance: Instance) -> list[Tensor]:
    return [value for value in instance.bound.values() if isinstance(value, Tensor)]
