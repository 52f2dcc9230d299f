"""Ops that only the meanings of tables name."""

from meganeura_dsl.symbolic.size import Size
from tests.proofs.fused_meanings import affine, centred, halves, hides, scores, shifted
from tests.proofs.primitive_meanings import Meaning, cut
from tests.proofs.reals import Whole, compare
from tests.proofs.tensors import Field, Scope, Shape, Tensor, require


def half(scope: Scope, x: Tensor, which: int) -> Tensor:
    require(x.rank > 0, "halves of a number")
    width = scope.world.normal(x.shape[-1])
    return halves(scope, x, width // 2)[which]


def hiding(scope: Scope, shape: Shape, window: Size) -> Tensor:
    """True where the place along axis 1 is hidden from that along axis 0."""
    require(len(shape) >= 2, "rows and columns")
    scope.same(shape[0], shape[1])
    return Tensor("bool", shape, lambda i: hides(window, i[0], i[1]))


def behind(scope: Scope, shape: Shape, window: Size) -> Tensor:
    """True where the place along axis 1 is behind that along axis 0 by `window` or more."""
    require(len(shape) >= 2, "rows and columns")
    scope.same(shape[0], shape[1])
    return Tensor("bool", shape, lambda i: compare("ge", Whole(i[0] - i[1]), Whole(window)))


def scores_of(scope: Scope, q: Tensor, k: Tensor, *rest: Field) -> Tensor:
    *mask, scale, causal, window = rest
    require(q.rank == k.rank, "queries and keys of two ranks")
    return scores(scope, q, k, scale, causal, window, *mask)


def part(scope: Scope, y: Tensor, start: Size, width: Size) -> Tensor:
    """The part that is `width` long and begins at a place of the last axis."""
    zeros, ones = (0,) * (y.rank - 1), (1,) * y.rank
    return cut(scope, y, (*zeros, start), (*y.shape[:-1], start + width), ones)


VIRTUAL: dict[str, tuple[int, tuple[str, ...], Meaning]] = {
    "Centred": (1, ("axes",), centred),
    "Shifted": (1, ("axis",), shifted),
    "Half": (1, ("which",), half),
    "Hides": (0, ("shape", "window"), hiding),
    "Behind": (0, ("shape", "distance"), behind),
    "Scores": (2, ("scale", "causal", "window"), scores_of),
    "Scores_mask": (3, ("scale", "causal", "window"), scores_of),
    "Part": (1, ("place", "width"), part),
    "Affine": (3, (), affine),
}
"""Each with its number of operands, its fields and its meaning."""
