"""The axes of a pattern."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_runtime.export.source.text import Code


@dataclass(frozen=True)
class Axis:
    """An axis of a pattern: its key, and the text of its size where that is known."""

    key: str
    size: Code | None


Groups = Sequence[Sequence[Axis]]
"""The axes of each entry of a pattern: a product has several, a 1 none."""
