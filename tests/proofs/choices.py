"""The values that a field may have which a pattern leaves open: all axes, and sizes as symbols."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice, permutations, product
from typing import Any, get_args

from meganeura_dsl.ir.ops.fused.activation import Epilogue
from meganeura_dsl.symbolic.size import dim
from tests.proofs.reals import Element, fresh
from tests.proofs.tensors import Scope, Shape, Tensor
from tests.proofs.worlds import World


@dataclass(frozen=True)
class Extent:
    """The ranks of tensors that a pattern leaves open, and whether all axes may be permuted."""

    ranks: range = range(6)
    every: bool = True


_MANY = 5
"""Axes that have many permutations."""
KINDS = get_args(Epilogue)
Value = Any


def symbols(scope: Scope, count: int, stem: str, least: int = 1) -> Shape:
    """Sizes that are new."""
    names = [fresh(stem) for _ in range(count)]
    if least != 1:
        scope.world = scope.world.with_least(names, least)
    return tuple(map(dim, names))


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    """All choices of axes, in order."""
    for count in range(rank + 1):
        yield from combinations(range(rank), count)


def values_of(  # noqa: PLR0915 - a case for each field
    scope: Scope,
    op: str,
    field: str,
    operands: list[Tensor],
    known: dict[str, Value],
    extent: Extent,
) -> Iterator[Value]:
    """The values that a field of an op may have; new sizes are added to the world of the scope."""
    x = operands[0] if operands else None
    rank = x.rank if x else 0
    match field:
        case "shape" if op == "Broadcast":
            for size in extent.ranks:
                if size >= rank:
                    yield symbols(scope, size, "n")
        case "axes" if op == "Broadcast":
            yield from combinations(range(len(known["shape"])), rank)
        case "shape":
            for size in extent.ranks:
                yield symbols(scope, size, "n")
        case "axes":
            yield from subsets(rank)
        case "kept":
            yield from combinations(range(rank), operands[1].rank)
        case "permutation":
            few = rank < _MANY or extent.every
            yield from islice(permutations(range(rank)), 0, None, 1 if few else 11)
        case "axis":
            yield from range(rank)
        case "start" | "low" | "high":
            yield symbols(scope, rank, field, least=0)
        case "stop":
            yield symbols(scope, rank, field)
        case "interior":  # an axis with nothing between its elements, or with something
            for choice in product((0, 1), repeat=rank):
                yield tuple(chosen and symbols(scope, 1, field)[0] for chosen in choice)
        case "step":
            yield from _steps(scope, x.shape if x else ())
        case "stride" | "dilation" | "padding":
            yield symbols(scope, rank - 2, field, least=0 if field == "padding" else 1)
        case "spatial" | "kernel":
            yield symbols(scope, rank - 2, "n")
        case "groups" | "size" | "width" | "shared" | "distance":
            yield symbols(scope, 1, field)[0]
        case "place":
            yield symbols(scope, 1, field, least=0)[0]
        case "window":
            yield 0
            if known.get("causal", True):
                yield symbols(scope, 1, field)[0]
        case "scale" | "eps" | "value":
            yield Element(fresh(field))
        case "centred" | "causal" | "transpose_left" | "transpose_right":
            yield from (False, True)
        case "which" | "result":
            yield from (0, 1)
        case "kind" | "epilogue":
            kinds = KINDS if extent.every else KINDS[:2]
            yield from kinds if field == "epilogue" else kinds[1:]
        case "dtype":
            yield from ("f32", "f16", "i32")
        case _:
            raise KeyError(f"the field `{field}` of `{op}` has no choices")


def _steps(scope: Scope, shape: Shape) -> Iterator[Shape]:
    """Along each axis a step of 1, or a longer one, where it has one element or more."""
    before = scope.world
    for choice in product(range(3), repeat=len(shape)):
        world: World | None = before
        for case, size in zip(choice, shape, strict=True):
            if world is not None and case:
                is_one = case == 1
                world = world.where_equal(size, 1) if is_one else world.where_at_least(size, 2)
        if world is not None:
            scope.world = world
            yield tuple(symbols(scope, 1, "step", least=2)[0] if case else 1 for case in choice)
