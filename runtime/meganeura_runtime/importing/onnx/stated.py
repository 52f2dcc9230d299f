"""Facts about a file from the program that it was written from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Stated:
    """Facts about weights and sizes from the program that a file was written from."""

    trained: frozenset[str] | None = None
    """The initializers that are trained; None where it is not known."""
    tracked: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of batches that batch norms have seen, by the names of these counts."""
    sizes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of open sizes, by their names in the file."""
    conditions: Sequence[str] = ()
    """Conditions on these names that hold wherever the file is the program, as Python writes them.

    `height % 32 == 0` is one.
    """
    origin: Path | None = None
    """The name of the program in messages, if that is not the name of the file."""
    parameters: frozenset[str] = frozenset()
    """Initializers that are trained, where it is not known of all."""
    constants: frozenset[str] = frozenset()
    """Initializers that are not trained, where it is not known of all."""
