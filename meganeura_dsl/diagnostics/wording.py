"""Words that messages of all phases share."""

from collections.abc import Iterable


def quoted(names: Iterable[str], joiner: str = "") -> str:
    """Names in a message: `a`, `b`, `c`; with the joiner `or`: `a`, `b` or `c`."""
    *others, last = [f"`{name}`" for name in names]
    if not others:
        return last
    return f"{', '.join(others)} {joiner} {last}" if joiner else f"{', '.join(others)}, {last}"
