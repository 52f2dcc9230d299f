"""Variables of a constructor that follow the widths of tensors, statement by statement."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.values import ElabValue, is_tensor
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import bound_in
from meganeura_runtime.export.source.static_code import written_static
from meganeura_runtime.export.source.text import Code, Compound, Line, Statement, texts, words_of
from meganeura_runtime.export.source.torch.sizes import candidates
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.torch.widths import (
    Known,
    LostWidth,
    entry_at,
    is_width,
    width_of,
)
from meganeura_runtime.export.source.trace import Names
from meganeura_runtime.export.source.whole_numbers import gives


def begin_widths(writer: TorchWriter) -> None:
    """Gives each variable the width of the input of its tensor, if the tensor is an input."""
    for item in writer.block.inputs:
        followed = writer.follow.carried.get(item.name)
        if followed is None:
            continue
        writer.env[followed.variable] = "static"
        entries = item.type.shape.entries
        value = writer.instances[0].signature[item.name]
        entry = entry_at(entries, followed.axis, value.type.rank) if is_tensor(value) else None
        if entry is None or isinstance(entry, ast.Rest):
            writer.follow.lost.add(item.name)
            continue
        try:
            _emit(writer, followed.variable, written_static(writer, entry, "init"))
        except ProblemError:
            writer.follow.lost.add(item.name)


def follow_widths(writer: TorchWriter, statement: ast.Bind) -> None:
    """Notes what a statement binds, and gives variables the widths that it changes."""
    for at, target in enumerate(statement.targets):
        followed = writer.follow.carried.get(target.text)
        if followed is None:
            continue
        writer.env[followed.variable] = "static"
        text = _width_after(writer, statement, at, followed.axis)
        if text is None and writer.loops:
            raise LostWidth(target.text)
        if text is None:
            writer.follow.lost.add(target.text)
        else:
            writer.follow.lost.discard(target.text)
            if text.text != followed.variable:
                _emit(writer, followed.variable, text)


def enter_loop(writer: TorchWriter, loop: ast.For) -> None:
    """Forgets what a loop binds: it has another width in each iteration."""
    writer.follow.touched |= bound_in(loop)


def _emit(writer: TorchWriter, variable: str, value: Code) -> None:
    writer.init[-1].append(Line(f"{variable} = {value}", (variable,), effect=False))


def _width_after(writer: TorchWriter, statement: ast.Bind, at: int, axis: int) -> Code | None:
    """The size of an axis of what a statement binds, as text; None if it has none."""
    names = [each for i in writer.instances for each in i.binds.get(statement, ())]
    sizes: list[ElabValue] = []
    for value in writer.seen.values(statement.value):
        tensor = value[at] if isinstance(value, tuple) else value
        if not is_tensor(tensor) or tensor.type.rank <= axis:
            return None
        sizes.append(tensor.type.shape[axis])
    if len(names) != len(sizes) or not all(isinstance(each, int) for each in sizes):
        return None
    numbers = list(zip(names, sizes, strict=True))
    known: Known = {}
    found = width_of(writer, statement.value, axis, known, at)
    if found is not None and is_width(found, numbers, known):
        try:
            return written_static(writer, found, "init")
        except ProblemError:
            pass
    return _by_number(writer, numbers)


def _by_number(writer: TorchWriter, numbers: Sequence[tuple[Names, ElabValue]]) -> Code | None:
    for candidate in candidates(writer):
        if all(gives(candidate, names, size) for names, size in numbers):
            try:
                return written_static(writer, candidate, "init")
            except ProblemError:
                continue
    first = numbers[0][1] if numbers else None
    is_one = isinstance(first, int) and all(size == first for _, size in numbers)
    return Code(str(first)) if is_one and not writer.loops else None


# --- what nothing reads --------------------------------------------------------------------------


def without_dead_stores(statements: list[Statement], variables: Sequence[str]) -> list[Statement]:
    """The statements without values of these variables that nothing reads."""
    for variable in variables:
        statements, _ = _pruned(statements, variable, is_read_behind=False)
    return statements


def _pruned(
    statements: list[Statement], variable: str, *, is_read_behind: bool
) -> tuple[list[Statement], bool]:
    """The remaining statements, and True if they read the variable's earlier value."""
    kept: list[Statement] = []
    is_read = is_read_behind
    for each in reversed(statements):
        match each:
            case Line(binds=(name,), text=text) if name == variable:
                if not is_read:
                    continue
                is_read = variable in words_of(text.partition(" = ")[2])
            case Compound(head=head) if head.startswith("if "):
                each.body, then = _pruned(each.body, variable, is_read_behind=is_read)
                each.otherwise, other = _pruned(each.otherwise, variable, is_read_behind=is_read)
                is_read = then or other or variable in words_of(head)
                if not each.body and not each.otherwise:
                    continue
            case Compound(head=head):
                again = is_read or _reads_first(each.body, variable)
                each.body, first = _pruned(each.body, variable, is_read_behind=again)
                is_read = is_read or first or variable in words_of(head)
                if not each.body:
                    continue
            case _:
                is_read = is_read or any(variable in words_of(text) for _, text in texts([each]))
        kept.insert(0, each)
    return kept, is_read


def _reads_first(statements: Sequence[Statement], variable: str) -> bool:
    """Returns True where a body may read the value of a variable from before it."""
    for each in statements:
        match each:
            case Line(binds=(name,), text=text) if name == variable:
                return variable in words_of(text.partition(" = ")[2])
            case Compound(head=head, body=body, otherwise=otherwise):
                if variable in words_of(head):
                    return True
                if _reads_first(body, variable) or _reads_first(otherwise, variable):
                    return True
            case _:
                if any(variable in words_of(text) for _, text in texts([each])):
                    return True
    return False
