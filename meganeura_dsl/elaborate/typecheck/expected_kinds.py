"""Expressions that must be a size or a tensor, and what is said of one that is neither."""

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.result_problems import one_result
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.config_kinds import size_as_condition
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    NamedResults,
    Tensor,
    describe,
    is_size,
    is_tensor,
)
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast


def evaluate_size(node: ast.Expression, frame: Frame) -> Size:
    """The value of an expression that must be a size."""
    value = frame.evaluate(node)
    if not is_size(value):
        raise ProblemError(WrongKind(frame.location(node.span), "a size", describe(value)))
    return value


def evaluate_tensor(node: ast.Expression, frame: Frame) -> Tensor:
    """The value of an expression that must be one tensor."""
    return require_tensor(node, frame.evaluate(node), frame)


def require_tensor(node: ast.Expression, value: ElabValue, frame: Frame) -> Tensor:
    """The value of an expression, which must be one tensor."""
    value = lifted(frame, node.span, value)
    if not is_tensor(value):
        raise wrong_kind(frame, node.span, "a tensor", value)
    return value


def require_one(frame: Frame, span: Span, value: ElabValue) -> None:
    """Raise `ProblemError` for several results where one value is needed; `span` gives them."""
    if isinstance(value, NamedResults | tuple) and not isinstance(value, Axes):
        raise wrong_kind(frame, span, "one value", value)


def wrong_kind(
    frame: Frame, span: Span, wanted: str, value: ElabValue, cure: str | Help = ""
) -> ProblemError:
    """The error that a value is not what is wanted."""
    problem = size_as_condition(frame, span, value) if wanted == "a condition" else None
    if isinstance(value, NamedResults):
        cure = cure or one_result(" ".join(span.text.split()), value.names)
    cure = cure or _of_widths(frame, wanted, value)
    return problem or ProblemError(WrongKind(frame.location(span), wanted, describe(value), cure))


def _of_widths(frame: Frame, wanted: str, value: ElabValue) -> str:
    """Advice for `linear` of two widths, as other systems write it."""
    block = frame.declaration
    if not (wanted == "a condition" and frame.module.is_library and isinstance(block, ast.Block)):
        return ""
    first = frame.names.get(block.parameters[0].name, "") if block.parameters else ""
    if not is_size(value) or not is_size(first) or block.name.text != "linear":
        return ""
    return f"the width of what comes in is never written: `linear({show(value)})`"
