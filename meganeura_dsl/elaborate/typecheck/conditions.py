"""Conditions: true, false or about sizes; those of the clauses of `where`."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.scope.proof import ProofPath
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import OpenNumberError
from meganeura_dsl.elaborate.typecheck import static_arithmetic
from meganeura_dsl.elaborate.typecheck.config_kinds import as_flag, is_about_open_real
from meganeura_dsl.elaborate.typecheck.expected_kinds import wrong_kind
from meganeura_dsl.elaborate.typecheck.static_arithmetic import KindError
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    is_condition,
    is_initializer,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Condition, negate
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast

_Result = TypeVar("_Result")


def evaluate_condition(
    node: ast.Expression, frame: Frame, cure: Callable[[Tensor], Help] | None = None
) -> Condition:
    """The value of an expression that must be true, false or a condition on sizes.

    `cure` says what to write where it is a tensor that is true or false by its data.
    """
    value = frame.evaluate(node)
    if isinstance(value, Dim):
        value = as_flag(frame, value, node.span) or value
    if is_initializer(value):
        return True  # a flag that also says how the parameter begins
    if not is_condition(value):
        advice = ""
        if cure is not None and is_tensor(value) and value.type.dtype is DType.BOOL:
            advice = cure(value)
        raise wrong_kind(frame, node.span, "a condition", value, advice)
    return value


def _about_values(value: Tensor) -> Help:
    """Advice on a clause of `where` about the values of an input."""
    rest, given = [value], list[Tensor]()
    while rest:
        each = rest.pop()
        rest.extend(each.operands)
        given += [each] if isinstance(each.op, Input) and each.type.dtype.is_float else []
    if not given or not isinstance(given[0].op, Input):
        return Help("a fact about values is a bound of an input of whole numbers", "0 <= ids")
    name, shape = given[0].op.name, show_shape(given[0].type.shape)
    text = f"a fact about values bounds an input of whole numbers: if `{name}` is one, declare"
    return Help(text, f"{name}: i32{shape}")


def condition_on_all_paths(clause: ast.Expression, frame: Frame) -> Condition:
    """The condition of a clause of a `where`, whichever way its choices go."""
    return _joined(clause, frame, evaluate_condition)


def clause_condition(clause: ast.Expression, frame: Frame, block: ast.Block) -> Condition:
    """The condition of a clause of a block's `where`, whichever way its choices go."""
    return _joined(clause, frame, partial(clause_condition_on_path, block=block))


def clause_condition_on_path(clause: ast.Expression, frame: Frame, block: ast.Block) -> Condition:
    """The condition of a clause of a block's `where` on one path through its choices.

    In a proof for every configuration, nothing is known of a real: a clause about one says
    nothing there, and each model is held to it. Beside `and` it says nothing alone.
    """
    if isinstance(clause, ast.Binary) and clause.operator == "and":
        left = clause_condition_on_path(clause.left, frame, block)
        if left is False:
            return False
        right = evaluate_right(
            clause, left, frame, lambda right: clause_condition_on_path(right, frame, block)
        )
        return static_arithmetic.connect("and", left, right)
    try:
        return evaluate_condition(clause, frame, _about_values)
    except OpenNumberError:
        if not is_about_open_real(clause, frame, block):
            raise
        return True


def evaluate_right(
    node: ast.Binary,
    left: ElabValue,
    frame: Frame,
    read: Callable[[ast.Expression], _Result],
) -> _Result:
    """The right side; that of `and` and `or` where the left side does not decide."""
    if node.operator not in ("and", "or") or not is_condition(left):
        return read(node.right)
    before, count = frame.facts, len(frame.choices.assumed)
    frame.build.facts = before.assume(left if node.operator == "and" else negate(left))
    try:
        return read(node.right)
    finally:
        for chosen in frame.choices.assumed[count:]:
            before = before.assume(chosen)
        frame.build.facts = before


def _joined(
    clause: ast.Expression, frame: Frame, condition: Callable[[ast.Expression, Frame], Condition]
) -> Condition:
    """A condition whose choices depend on sizes: what it is on each path, and which path it is.

    Nothing is decided by it, and nothing more is known behind it.
    """
    path, facts, around, found = ProofPath(is_joined=True), frame.facts, frame.choices, False
    while True:
        path.begin()
        frame.choices = path
        try:
            here = condition(clause, frame)
        finally:
            frame.build.facts, frame.choices = facts, around
        try:
            for chosen in reversed(path.assumed):
                here = static_arithmetic.connect("and", chosen, here)
            found = static_arithmetic.connect("or", found, here)
        except KindError as error:
            raise wrong_kind(frame, clause.span, error.wanted, error.value) from error
        if not path.advance():
            return found
