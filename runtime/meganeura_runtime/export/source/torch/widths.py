"""Widths of tensors: by how a tensor came to be, and as variables where loops rebind it.

The channels of `x` behind `x = x |> features[i]: Block(c)` are those of the result of `Block`.
Where a loop rebinds `x`, a variable of the constructor follows them: `in_channels = c`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import ElabValue, is_tensor
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import Bound
from meganeura_runtime.export.source.call_arguments import argument, given_tensors, is_direct
from meganeura_runtime.export.source.torch.torch_writer import CarriedWidth, TorchWriter
from meganeura_runtime.export.source.trace import Event, Names
from meganeura_runtime.export.source.whole_numbers import gives

Known = dict[str, list[ElabValue]]
"""The widths that a variable has at an expression, one for each time that it was evaluated."""
_REDUCTIONS = ("sum", "mean", "max", "min", "variance")


class NeedsWidth(Exception):
    """A constructor needs a width that a loop changes and that no variable follows yet."""

    def __init__(self, tensor: str, axis: int, rank: int) -> None:
        super().__init__(tensor)
        self.tensor = tensor
        self.axis = axis
        self.rank = rank


class LostWidth(Exception):
    """A loop changes the width of a tensor in a way that no variable follows."""

    def __init__(self, tensor: str) -> None:
        super().__init__(tensor)
        self.tensor = tensor


def variable_for(block: ast.Block, axis: int, rank: int, taken: Sequence[str]) -> CarriedWidth:
    """Returns a variable for an axis of a tensor, named as PyTorch names what a layer takes."""
    known = {each.text for s in block.body for each in walk(s) if isinstance(each, ast.Name)}
    known |= {each.name for each in block.parameters} | {*taken}
    name = "in_channels" if axis == 1 and rank > 2 else "in_features"
    while name in known:
        name += "_"
    return CarriedWidth(axis, name)


def is_width(
    found: ast.Expression, numbers: Sequence[tuple[Names, ElabValue]], known: Known
) -> bool:
    """Returns True for an expression that has the wanted value in every application."""
    if any(len(each) != len(numbers) for each in known.values()):
        return False
    return all(
        gives(found, _with(names, known, at), value) for at, (names, value) in enumerate(numbers)
    )


def _with(names: Names, known: Known, at: int) -> Names:
    return {**names, **{name: values[at] for name, values in known.items()}}


def width_of(
    writer: TorchWriter, node: ast.Expression, axis: int, known: Known, result: int = 0
) -> ast.Expression | None:
    """The size of an axis of a tensor, as an expression of what a constructor knows.

    Raises `NeedsWidth` for a tensor that a loop rebinds and that no variable follows yet.
    """
    match node:
        case ast.Name(text=text):
            return _of_name(writer, node, text, axis, known)
        case ast.Pipe(source=source, layer=layer):
            return _of_call(writer, layer, source, axis, known, result)
        case ast.Call():
            return _of_call(writer, node, None, axis, known, result)
        case ast.Subscript(base=base, entries=entries) if writer.seen.tensors(base):
            return _of_part(writer, base, entries, axis, known)
        case ast.Unary(operand=operand):
            return width_of(writer, operand, axis, known)
        case ast.Binary(operator=operator, left=left, right=right) if operator != "@":
            side = left if writer.seen.tensors(left) else right
            return width_of(writer, side, axis, known)
        case ast.Conditional(then=then):
            chosen = writer.seen.choice(node)
            part = then if chosen is not False else node.otherwise
            return width_of(writer, part, axis, known)
        case _:
            return None


def _of_part(
    writer: TorchWriter,
    base: ast.Expression,
    entries: Sequence[ast.Entry],
    axis: int,
    known: Known,
) -> ast.Expression | None:
    """The size of an axis of `x[:, 0, :d]`: an index takes an axis away."""
    if any(isinstance(each, ast.EllipsisEntry) for each in entries):
        return None
    left = [at for at in range(_rank(writer, base)) if not _is_index(entries, at)]
    if axis >= len(left):
        return None
    at = left[axis]
    entry = entries[at] if at < len(entries) else None
    if not isinstance(entry, ast.Range):
        return width_of(writer, base, at, known)
    stop = entry.stop if entry.stop is not None else width_of(writer, base, at, known)
    if stop is None or entry.start is None:
        return stop
    return ast.Binary(base.span, "-", stop, entry.start, base.span)


def _is_index(entries: Sequence[ast.Entry], at: int) -> bool:
    return at < len(entries) and not isinstance(entries[at], ast.Range)


def _of_name(
    writer: TorchWriter, node: ast.Name, text: str, axis: int, known: Known
) -> ast.Expression | None:
    followed = writer.follow.carried.get(text)
    if followed is not None and text in writer.follow.touched:
        if followed.axis != axis or text in writer.follow.lost:
            return None
        sizes = [each.type.shape for each in writer.seen.tensors(node)]
        known[followed.variable] = [each[axis] for each in sizes]
        return ast.Name(node.span, followed.variable)
    if text in writer.follow.unfollowed:
        return None
    if text in writer.follow.touched and text not in writer.bound:
        raise NeedsWidth(text, axis, _rank(writer, node))
    if text in writer.bound:
        return _of_bound(writer, writer.bound[text], axis, known)
    for item in writer.block.inputs:
        if item.name == text:
            entry = entry_at(item.type.shape.entries, axis, _rank(writer, node))
            return entry if not isinstance(entry, ast.Rest) else None
    return None


def _of_bound(writer: TorchWriter, bound: Bound, axis: int, known: Known) -> ast.Expression | None:
    """The width of a value, whose names were bound before it."""
    now = writer.bound
    writer.bound = bound.before
    try:
        return width_of(writer, bound.value, axis, known, bound.result)
    finally:
        writer.bound = now


def _rank(writer: TorchWriter, node: ast.Expression) -> int:
    ranks = {each.type.rank for each in writer.seen.tensors(node)}
    return ranks.pop() if len(ranks) == 1 else 0


def entry_at(
    entries: Sequence[ast.Expression | ast.Rest], axis: int, rank: int
) -> ast.Expression | ast.Rest | None:
    """The entry of a type that has an axis, counted from 0; a rest has several."""
    at = next((at for at, each in enumerate(entries) if isinstance(each, ast.Rest)), None)
    if at is None or axis < at:
        return entries[axis] if axis < len(entries) else None
    behind = len(entries) - at - 1
    return entries[axis - rank] if rank - axis <= behind else entries[at]


def _of_call(
    writer: TorchWriter,
    node: ast.Call,
    piped: ast.Expression | None,
    axis: int,
    known: Known,
    result: int,
) -> ast.Expression | None:
    events = writer.seen.events(node)
    if not events:
        return _of_builtin(writer, node, piped, axis, known)
    block = events[0].child.block
    if block.results is None or any(each.child.block is not block for each in events):
        return None
    values = writer.seen.values(whole_of(writer, node, piped))
    if not values:
        return None
    tensor = values[0][result] if isinstance(values[0], tuple) else values[0]
    if not is_tensor(tensor):
        return None
    rank = tensor.type.rank
    entry = entry_at(block.results[result].shape.entries, axis, rank)
    given = given_tensors(writer, node, piped, block)
    if isinstance(entry, ast.Rest):
        return _of_rest(writer, block, given, entry, axis, known)
    if entry is None:
        return None
    return _substituted(writer, node, events, given, entry, known)


def _of_rest(
    writer: TorchWriter,
    block: ast.Block,
    given: Mapping[str, ast.Expression],
    rest: ast.Rest,
    axis: int,
    known: Known,
) -> ast.Expression | None:
    """The size of an axis that a block leaves alone, from the input that has it."""
    for item in block.inputs:
        entries = item.type.shape.entries
        if item.name not in given or len(entries) == 0:
            continue
        is_same = isinstance(entries[0], ast.Rest) and entries[0].name == rest.name
        if is_same and _rank(writer, given[item.name]) - len(entries) >= axis:
            return width_of(writer, given[item.name], axis, known)
    return None


def _substituted(
    writer: TorchWriter,
    node: ast.Call,
    events: Sequence[Event],
    given: Mapping[str, ast.Expression],
    entry: ast.Expression,
    known: Known,
) -> ast.Expression | None:
    """A size in the type of a block's result, by what a call gives the block."""
    match entry:
        case ast.Integer():
            return entry
        case ast.Binary(left=left, right=right):
            a = _substituted(writer, node, events, given, left, known)
            b = _substituted(writer, node, events, given, right, known)
            return None if a is None or b is None else replace(entry, left=a, right=b)
        case ast.Name(text=text):
            return _given_size(writer, node, events, given, text, known)
        case _:
            return None


def _given_size(
    writer: TorchWriter,
    node: ast.Call,
    events: Sequence[Event],
    given: Mapping[str, ast.Expression],
    name: str,
    known: Known,
) -> ast.Expression | None:
    block = events[0].child.block
    if name in {each.name for each in block.parameters}:
        written = argument(writer, node, block, name) if is_direct(writer, node, block) else None
        if written is not None:
            return written
        if node.path is not None or node.callee in writer.declared:
            return None  # another statement says it
        values = [each.child.signature[name] for each in events]
        first = values[0]
        if isinstance(first, int) and all(each == first for each in values):
            return ast.Integer(node.span, first)
        return None
    source = source_of(writer, block, given, name)
    return None if source is None else width_of(writer, *source, known)


def source_of(
    writer: TorchWriter, block: ast.Block, given: Mapping[str, ast.Expression], size: str
) -> tuple[ast.Expression, int] | None:
    """The tensor that a call gives a block and the axis of it that has a size of the block."""
    for item in block.inputs:
        entries = item.type.shape.entries
        if item.name not in given:
            continue
        rank = _rank(writer, given[item.name])
        rest = next((at for at, each in enumerate(entries) if isinstance(each, ast.Rest)), None)
        for at, entry in enumerate(entries):
            if isinstance(entry, ast.Name) and entry.text == size:
                behind = rest is not None and at > rest
                return given[item.name], at - len(entries) + rank if behind else at
    return None


def _of_builtin(
    writer: TorchWriter,
    node: ast.Call,
    piped: ast.Expression | None,
    axis: int,
    known: Known,
) -> ast.Expression | None:
    places = [] if piped is None else [piped]
    places += [each.value for each in node.arguments if each.name is None]
    tensors = [
        each
        for each in places
        if not isinstance(each, ast.Rearrangement) and writer.seen.tensors(each)
    ]
    if not tensors:
        return None
    rank = _rank(writer, tensors[0])
    if node.callee == "concat":
        along = [each.value for each in node.arguments if each.name == "axis"]
        axes = (
            writer.seen.values(along[0])
            if along and not isinstance(along[0], ast.Rearrangement)
            else []
        )
        parts = [width_of(writer, each, axis, known) for each in tensors]
        if not axes or not isinstance(axes[0], int) or parts[0] is None:
            return None
        if axes[0] % rank != axis:
            return parts[0]
        found = parts[0]
        for part in parts[1:]:
            if part is None:
                return None
            found = ast.Binary(node.span, "+", found, part, node.span)
        return found
    if node.callee in _REDUCTIONS:
        axes = [each.value for each in places[1:] if isinstance(each, ast.Integer)]
        if not axes or len(axes) != len(places) - 1:
            return None
        before = axis
        for each in sorted(axes):
            before += each <= before
        return width_of(writer, tensors[0], before, known)
    if node.callee == "insert_axis" and isinstance(places[1], ast.Integer):
        at = places[1].value % (rank + 1)
        if at == axis:
            return places[2] if not isinstance(places[2], ast.Rearrangement) else None
        return width_of(writer, tensors[0], axis - (axis > at), known)
    if node.callee in ("rearrange", "expand") and isinstance(places[1], ast.Rearrangement):
        return _of_pattern(writer, places[1], tensors[0], axis, known)
    if node.callee == "gather":
        behind = writer.seen.type_of(whole_of(writer, node, piped)).rank - axis
        return width_of(writer, tensors[0], rank - behind, known) if behind == 1 else None
    if len(tensors) == 1 and places[1:] == [] and _has_shape_of(writer, node, piped, tensors[0]):
        return width_of(writer, tensors[0], axis, known)
    return None


def whole_of(writer: TorchWriter, node: ast.Call, piped: ast.Expression | None) -> ast.Expression:
    """The pipe around a call, or the call itself."""
    return writer.pipes(node)[0] if piped is not None else node


def _of_pattern(
    writer: TorchWriter,
    pattern: ast.Rearrangement,
    tensor: ast.Expression,
    axis: int,
    known: Known,
) -> ast.Expression | None:
    """The size of an axis that a pattern leaves alone."""
    left, right = pattern.source.entries, pattern.target.entries
    if any(isinstance(each, ast.Rest) for each in (*left, *right)):
        return None
    entry = right[axis]
    return None if isinstance(entry, ast.Rest) else _of_entry(writer, left, entry, tensor, known)


def _of_entry(
    writer: TorchWriter,
    left: Sequence[ast.Expression | ast.Rest],
    entry: ast.Expression,
    tensor: ast.Expression,
    known: Known,
) -> ast.Expression | None:
    """The size of an axis of a pattern, or the product of several."""
    match entry:
        case ast.Binary(operator="*", left=first, right=second):
            a = _of_entry(writer, left, first, tensor, known)
            b = _of_entry(writer, left, second, tensor, known)
            return None if a is None or b is None else replace(entry, left=a, right=b)
        case ast.Name(text=text):
            places = [
                at
                for at, each in enumerate(left)
                if isinstance(each, ast.Name) and each.text == text
            ]
            return width_of(writer, tensor, places[0], known) if places else None
        case _:
            return None


def _has_shape_of(
    writer: TorchWriter, node: ast.Call, piped: ast.Expression | None, tensor: ast.Expression
) -> bool:
    return writer.seen.same_shapes(whole_of(writer, node, piped), tensor)
