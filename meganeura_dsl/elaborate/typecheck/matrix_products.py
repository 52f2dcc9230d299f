"""Products of matrices, and what is wrong with one in the notation of the program."""

import re

from meganeura_dsl.diagnostics.problem import Help, ProblemError, Remark
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.origin_cures import parameter_cure
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
from meganeura_dsl.syntax.problems.block_text import block_before


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
            cure = _rows_declared(side, right) if side is left else None
            raise ProblemError(RankMismatch(location, "`@`", wanted, describe(side), cure))
    assert is_tensor(left)
    assert is_tensor(right)
    try:
        return frame.add(span, ops.MatMul(), *promoted(frame, span, left, right))
    except ProblemError as error:
        if not isinstance(error.problem, TypeRuleBroken | MissingFact):
            raise
        raise ProblemError(_product_problem(frame, span, (left, right), names)) from error


def _rows_declared(left: Tensor, right: ElabValue) -> Help | None:
    """Returns the declaration of an input without axes, as rows for the matrix on the right."""
    if not isinstance(left.op, ops.Input) or not is_tensor(right) or right.type.rank != 2:
        return None
    axes = f"[n, {show(right.type.shape[0])}]"
    return Help("one number is no row of a matrix: declare its rows", f"{left.op.name}: {axes}")


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
    cure = _flattened_rows(frame, span, pair, names)
    cure = cure or product_cure(*sides, frame.names, _declared_rank(frame, span, names))
    cure = cure or _declared_cure(frame, span, pair, names)
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


def _flattened_rows(
    frame: Frame, span: Span, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> Help | None:
    """Returns the declaration of a parameter whose rows are written as a product.

    Such are `7 * 7 * 64`: they count what is flattened before, whatever else would fit.
    """
    declared = re.escape(f"param {names[1]}: [")
    block = block_before(span.source.text[: span.start])
    is_product = re.search(rf"^\s+{declared}\w+( \* \w+)+,", block, re.MULTILINE)
    return _declared_cure(frame, span, pair, names) if is_product else None


def _declared_cure(
    frame: Frame, span: Span, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> Help | None:
    """Returns the declaration of a parameter on the right that meets the columns of the left."""
    left, right = (value.type for value in pair)
    if right.rank != 2:
        return None
    written = span.source.text[span.end :].partition("\n")[0]
    turned = re.match(r"\s*rearrange\((\w+), \[(\w+), (\w+)\] -> \[\3, \2\]\)", written)
    name, at = (turned[1], 1) if turned else (names[1], 0)
    block = frame.declaration
    config = [each.name for each in block.parameters] if isinstance(block, ast.Block) else []
    columns = left.shape[-1]  # they count features, of which all are used
    return parameter_cure(name, at, columns, span, frame.names, [*config, show(columns)])


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
