"""Runs of statements that repeat, as a block applied in a loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meganeura_runtime.importing.onnx.code import Statement, Tensor, Words


@dataclass(frozen=True)
class Repeat:
    """A block that is applied once for each index, to what the one before it gave."""

    block: str
    prefix: Words
    """The path of all, before the index."""
    first: int
    count: int
    starts: tuple[int, ...]
    """What is carried, before the first."""
    results: tuple[Tensor, ...]
    """What is carried, behind the last."""
    shared: tuple[int, ...]
    """What all read."""
    body: "Body"
    inputs: tuple[Tensor, ...]
    """What the block is given: the carried values, then the shared ones."""


@dataclass(frozen=True)
class Body:
    """Statements and repetitions in order, and what they return."""

    steps: Sequence[Statement | Repeat]
    results: tuple[int, ...]
    kept: frozenset[int] = field(default_factory=frozenset[int])
    """Values that get a name although they are read once."""


def straight(statements: Sequence[Statement], results: Sequence[int]) -> Body:
    """The statements that results need, in order."""
    needed = set(results)
    kept: list[Statement] = []
    for each in reversed(statements):
        if any(result.id in needed for result in each.results):
            needed.update(each.operands)
            kept.append(each)
    return Body(kept[::-1], tuple(results))
