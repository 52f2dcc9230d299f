"""Products of matrices, and what is wrong with one in the notation of the program."""

import re

from meganeura_dsl.diagnostics.problem import Help, ProblemError, Remark
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_cures import product_cure, side_of
from meganeura_dsl.elaborate.problems.shape_problems import (
    MissingFact,
    RankMismatch,
    TypeRuleBroken,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import equal, promoted
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    describe,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Proved
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast


def matmul(
    frame: Frame, span: Span, left: ElabValue, right: ElabValue, names: tuple[str, str]
) -> Tensor:
    """`left @ right`: the last axis of the left meets the last but one of the right."""
    for side in (left, right):
        location = frame.location(span)
        if not is_tensor(side):
            raise ProblemError(WrongKind(location, "tensors around `@`", describe(side)))
        if side.type.rank < 1:
            wanted = "two tensors with axes"
            raise ProblemError(RankMismatch(location, "`@`", wanted, describe(side)))
    assert is_tensor(left)
    assert is_tensor(right)
    try:
        return frame.add(span, ops.MatMul(), *promoted(frame, span, left, right))
    except ProblemError as error:
        if not isinstance(error.problem, TypeRuleBroken | MissingFact):
            raise
        raise ProblemError(_product_problem(frame, span, (left, right), names)) from error


def _product_problem(
    frame: Frame, span: Span, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> TypeRuleBroken:
    """Returns the problem of a matrix product, in the notation of the program."""
    left, right = (value.type for value in pair)
    found = "\n".join(f"{name}: {value.type}" for name, value in zip(names, pair, strict=True))
    location = frame.location(span)
    if left.dtype is not right.dtype or not left.dtype.is_float:
        what = "`@` multiplies floats of one type"
        return TypeRuleBroken(location, what, found, Help("convert with f32(...)"))
    sides = side_of(names[0], left.shape), side_of(names[1], right.shape)
    cure = product_cure(*sides, frame.names, _declared_rank(frame, span, names))
    if right.rank < 2 or right.rank not in (left.rank, 2):
        what = "`@` has the same leading axes on both sides, or one matrix on its right"
        return TypeRuleBroken(location, what, found, cure)
    inner, depth = left.shape[-1], right.shape[-2]
    if isinstance(equal(frame, inner, depth), Proved):
        what = "the two sides of `@` have other leading axes"
        return TypeRuleBroken(location, what, found, cure)
    axes = (
        f"axis {left.rank - 1} of {names[0]} is {show(inner)}, "
        f"axis {right.rank - 2} of {names[1]} is {show(depth)}"
    )
    what = "the two sides of `@` do not meet"
    return TypeRuleBroken(location, what, found, cure, (Remark("summed over", axes),))


def _declared_rank(frame: Frame, span: Span, names: tuple[str, str]) -> int | None:
    """Returns the rank that the block declares for a product that it returns unchanged."""
    block = frame.declaration
    line = span.source.line(span.line).strip()
    results = (block.results or ()) if isinstance(block, ast.Block) else ()
    if len(results) != 1 or not line.startswith(("return ", "block ")):
        return None
    if not re.search(rf"(?:^return|=) {re.escape(names[0])} @ {re.escape(names[1])}$", line):
        return None
    return len(results[0].shape.entries)
