"""Examples that a file is compared with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array


@dataclass(frozen=True, eq=False)
class Example:
    """The inputs of these sizes, and the outputs of a model for them."""

    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    exact: Callable[[], Mapping[str, Array]]
    """Computes the outputs in double precision."""
