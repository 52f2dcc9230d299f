"""The sentence that ends a check, on the command line and in pages."""

from collections.abc import Iterable

from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.diagnostics.report import Severity


def verdict(target: str, found: Iterable[Severity], proved: int, holds: int) -> str:
    """Returns `resnet18: fine, 3 blocks proved for all sizes, 3 expectations hold`.

    `target` is what was checked, without control characters; `found` has the severity of each of
    its problems. The numbers are those of its proved blocks and the expectations that hold. Notes
    and warnings are counted too, as `fine, with 1 note`.
    """
    severities = list(found)
    errors = severities.count(Severity.ERROR)
    if errors:
        return f"{target}: {count(errors, 'error')}"
    facts = [f"{target}: fine"]
    others = (Severity.WARNING, Severity.NOTE)
    counts = [count(severities.count(each), each.value) for each in others if each in severities]
    if counts:
        facts.append(f"with {' and '.join(counts)}")
    if proved:
        facts.append(f"{count(proved, 'block')} proved for all sizes")
    if holds:
        verb = "holds" if holds == 1 else "hold"
        facts.append(f"{count(holds, 'expectation')} {verb}")
    return ", ".join(facts)
