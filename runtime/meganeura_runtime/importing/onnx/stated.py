"""What the program that an ONNX file was written from says of it, beyond the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stated:
    """What the program that a file was written from says of its weights and sizes."""

    trained: frozenset[str] | None = None
    """The initializers that are trained; None where it is not known."""
    tracked: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many batches batch norms have seen, by the names of these counts."""
    sizes: Mapping[str, str] = field(default_factory=dict[str, str])
    """What open sizes are called, by their names in the file."""
