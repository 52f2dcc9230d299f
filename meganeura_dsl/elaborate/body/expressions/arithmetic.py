"""Operators: of numbers and sizes, of conditions, and of tensors."""

from dataclasses import replace

from meganeura_dsl.elaborate.body.expressions.deferred_numbers import defer
from meganeura_dsl.elaborate.body.expressions.scan_reads import lifted_operand
from meganeura_dsl.elaborate.builtins.builtin_weights import combine_weights
from meganeura_dsl.elaborate.problems.proof_failures import require_divisor
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import layer_text
from meganeura_dsl.elaborate.typecheck import static_arithmetic, tensor_arithmetic
from meganeura_dsl.elaborate.typecheck.conditions import evaluate_right
from meganeura_dsl.elaborate.typecheck.expected_kinds import wrong_kind
from meganeura_dsl.elaborate.typecheck.static_arithmetic import NONZERO, KindError
from meganeura_dsl.elaborate.values import (
    Axes,
    BlockValue,
    ElabValue,
    LayerWeights,
    NamedResults,
    Opaque,
    is_number,
    is_size,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_dsl.syntax import ast


def evaluate_binary(node: ast.Binary, frame: Frame) -> ElabValue:
    """The value of an operator with two sides."""
    left = frame.operand(node.left)
    if (
        node.operator in ("and", "or")
        and isinstance(left, bool)
        and left is (node.operator == "or")
    ):
        return left
    right = evaluate_right(node, left, frame, frame.operand)
    for side, value in ((node.left, left), (node.right, right)):
        if isinstance(value, BlockValue | NamedResults):
            raise wrong_kind(frame, side.span, "a tensor or a number", value)
    if isinstance(left, LayerWeights) or isinstance(right, LayerWeights):
        return combine_weights(frame, node.operator_span, node.operator, left, right)
    if frame.state.abstract.symbols:
        _defer_scale(node, left, right, frame)
    if frame.state.scans:
        left, right = (
            lifted_operand(frame, node, side, other)
            for side, other in ((left, right), (right, left))
        )
        if node.operator in ("/", "//", "%") and is_number(right) and right == 0:
            right = 1 if frame.state.in_empty_scan else right
    try:
        if is_tensor(left) or is_tensor(right):
            if node.operator == "/" and is_number(right):
                _require_value(right, frame)
            names = (short_text(node.left), short_text(node.right))
            return tensor_arithmetic.elementwise(
                frame, node.operator_span, node.operator, left, right, names
            )
        if node.operator in ("//", "%"):
            _require_divisor(node, right, frame)
        return static_arithmetic.combine(node.operator, left, right)
    except KindError as error:
        raise wrong_kind(frame, node.operator_span, error.wanted, error.value) from error


def evaluate_unary(node: ast.Unary, frame: Frame) -> ElabValue:
    """The value of `-x` or `not x`."""
    value = frame.evaluate(node.operand)
    try:
        if node.operator == "not":
            if is_tensor(value):
                return tensor_arithmetic.invert_tensor(frame, node.span, value)
            return static_arithmetic.invert(value)
        if is_tensor(value):
            return frame.add(node.span, ops.Neg(), value)
        if isinstance(value, LayerWeights):
            return combine_weights(frame, node.span, "*", -1, value)
        return static_arithmetic.negate(value)
    except KindError as error:
        raise wrong_kind(frame, node.span, error.wanted, error.value) from error


def _defer_scale(node: ast.Binary, left: ElabValue, right: ElabValue, frame: Frame) -> None:
    """Leave a number that scales a tensor to those who know what symbols stand for."""
    for side, value, other in ((node.left, left, right), (node.right, right, left)):
        if value is Opaque.NUMBER and is_tensor(other):
            if node.operator not in ("+", "-", "*", "/"):
                raise UndecidableError("a number depends on one that a symbol stands for")
            one = ast.Integer(node.left.span, 1)
            divides = node.operator == "/" and side is node.right
            scale = replace(node, left=one) if divides else side
            defer(scale, frame)


def _require_divisor(node: ast.Binary, right: ElabValue, frame: Frame) -> None:
    """Raise `ProblemError` unless no size of a divisor is ever zero.

    Raises `UndecidableError` unless one that depends on the number of a symbol is 1 or more.
    """
    if isinstance(right, int):
        return
    sizes = [each for each in (right if isinstance(right, Axes) else (right,)) if is_size(each)]
    if frame.state.depends_on_symbol(right):
        for size in sizes:
            _require_positive(size, frame)
        return
    for size in sizes:
        location = frame.location(node.operator_span)
        iterations = {*frame.state.loops.indices, *frame.state.scans}
        require_divisor(size, location, frame.facts, iterations)


def _require_positive(divisor: Size, frame: Frame) -> None:
    """Raise `UndecidableError` unless a size in symbols is 1 or more."""
    if not frame.facts.proves(Compare(">=", divisor, 1)):
        raise UndecidableError("a divisor depends on a number that a symbol stands for")


def _require_value(right: float | Dim | Opaque, frame: Frame) -> None:
    """Raise `KindError` for a zero by which a tensor is divided: the quotient has no value.

    Raises `UndecidableError` for a size that may be zero for a number that a symbol stands for.
    """
    if right == 0:
        raise KindError(NONZERO, right)
    if isinstance(right, Dim) and frame.state.depends_on_symbol(right):
        _require_positive(right, frame)


def short_text(node: ast.Expression) -> str:
    """Returns the name of an expression in a message: its own text if that is short."""
    text = " ".join(node.span.text.split())
    if isinstance(node, ast.Pipe):
        text = layer_text(node.layer)
    return text if len(text) <= 32 else f"{text[:29]}..."
