"""Statements that bind names: `x = ...`, and `x[i] = ...`, a part replaced."""

import re

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.subscripts import part_of, value_of_part
from meganeura_dsl.elaborate.body.expressions.tensor_parts import replace_part
from meganeura_dsl.elaborate.body.statements.collected_slices import collects, write_part
from meganeura_dsl.elaborate.problems.binding_problems import WrongCount
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.result_names import results_cure
from meganeura_dsl.elaborate.problems.sequence_cures import RECURRENT
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.gradient_names import bound_value
from meganeura_dsl.elaborate.scope.named_values import note_value
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_tensor
from meganeura_dsl.elaborate.values import (
    BlockValue,
    ElabValue,
    NamedResults,
    NamedTensors,
    Tensor,
    TensorList,
    describe,
    is_static,
    is_tensor,
)
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.syntax import ast


def run_bind(statement: ast.Bind, frame: Frame) -> None:
    """Bind one name to a value, or each of several to one of a list or of several results."""
    value = frame.evaluate(statement.value)
    if len(statement.targets) == 1:
        text = " ".join(statement.value.span.text.split())
        _assign(statement.targets[0], value, frame, text)
        return
    if isinstance(value, TensorList):
        parts = value.items
    elif isinstance(value, NamedResults):
        parts = value.tensors
    else:
        parts = value if isinstance(value, tuple | list) else (value,)
    if len(parts) != len(statement.targets):
        names = tuple(each.text for each in statement.targets)
        wanted = f"{len(names)} values for {len(names)} names"
        cure = _as_many(statement, len(parts), is_list=isinstance(value, TensorList | list))
        location = frame.location(statement.span)
        raise ProblemError(WrongCount(location, wanted, describe(value), cure, names=names))
    for target, part in zip(statement.targets, parts, strict=True):
        _assign(target, part, frame)


def _as_many(statement: ast.Bind, count: int, *, is_list: bool) -> Help:
    """Returns the cure for as many names as there are values."""
    names = [each.text for each in statement.targets]
    written = " ".join(statement.value.span.text.split())
    if count == 1 and not is_list and RECURRENT.search(written):
        text = "it gives the outputs of all steps, and the last of them is the state at the end"
        return Help(text, f"{names[0]} = {written}\n{names[1]} = {names[0]}[:, -1]")
    if count == 1 and len(names) == 2 and (found := re.match(r"(max|min)\(", written)):
        text = f"`{found[1]}` gives the values; where they stand, `arg{found[1]}` says"
        return Help(text, f"{names[0]} = {written}\n{names[1]} = arg{written}")
    if count == 1 and not is_list:
        return Help("this is one value: a part of it is `value[:, 0]`", f"{names[0]} = {written}")
    kept = [*names, *(f"_other{at}" for at in range(len(names), count))][:count]
    return Help(f"there are {count}: name each of them", f"{', '.join(kept)} = {written}")


def _assign(target: ast.Name, value: ElabValue, frame: Frame, text: str = "...") -> None:
    is_several = isinstance(value, TensorList | NamedTensors)
    if not is_tensor(value) and not is_static(value) and not is_several:
        location, found = frame.location(target.span), describe(value)
        cure = _one_of(target, value, text, frame)
        raise ProblemError(WrongKind(location, "one value for one name", found, cure))
    if isinstance(value, BlockValue):
        wanted, found = "a tensor or a number to name", describe(value)
        span = value.span or target.span
        text = f"a layer is declared, and then applied as `x |> {target.text}`"
        cure = Help(text, f"layer {target.text}: {' '.join(span.text.split())}")
        raise ProblemError(WrongKind(frame.location(span), wanted, found, cure))
    value = frame.names[target.text] = bound_value(frame, target.span, target.text, value)
    bound = {target.text: value}
    if isinstance(value, NamedResults):
        bound = {f"{target.text}.{name}": each for name, each in value.items}
    for name, each in bound.items():
        note_value(frame, name, each)
        if is_tensor(each) and not frame.module.is_library:
            frame.state.body.bindings.append(Binding(target.span, name, frame.path, each.type))


def _one_of(target: ast.Name, value: ElabValue, written: str, frame: Frame) -> Help | str:
    """Advice to name each of several results; empty for any other value."""
    if not isinstance(value, tuple) or len(value) < 2:
        return ""
    return results_cure(target, len(value), written, frame.declaration, [*frame.names])


def run_part(statement: ast.Part, frame: Frame) -> None:
    """Bind the name to what it was, with a part replaced; in a scan, a slice may be collected."""
    if collects(statement, frame):
        write_part(statement, frame)
        return
    target, value = statement.target, statement.value
    base = evaluate_tensor(target, frame)
    replaced = with_part(statement.span, base, statement.entries, value, frame)
    _assign(target, replaced, frame)


def with_part(
    span: Span,
    base: Tensor,
    entries: tuple[ast.Entry, ...],
    value: ast.Expression,
    frame: Frame,
) -> Tensor:
    """A tensor with a part of it replaced; a number fills the part."""
    part = part_of(span, entries, base, frame).whole
    written = TensorType(base.type.dtype, part.kept(part.sizes))
    name = span.text.removeprefix("update ").partition("[")[0]
    given = value_of_part(value, name, written, frame, entries)
    return replace_part(frame, span, base, part, given)
