"""The sentence that ends a check, on the command line and in pages."""

from meganeura_dsl.diagnostics.plain_table import count


def verdict(target: str, errors: int, proved: int, holds: int) -> str:
    """Returns `resnet18: fine, 3 blocks proved for all sizes, 3 expectations hold`.

    `target` is what was checked, without control characters; the numbers are those of its errors,
    its proved blocks and the expectations that hold.
    """
    if errors:
        return f"{target}: {count(errors, 'error')}"
    facts = [f"{target}: fine"]
    if proved:
        facts.append(f"{count(proved, 'block')} proved for all sizes")
    if holds:
        verb = "holds" if holds == 1 else "hold"
        facts.append(f"{count(holds, 'expectation')} {verb}")
    return ", ".join(facts)
