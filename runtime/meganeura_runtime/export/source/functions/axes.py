"""Axes that are split, joined, moved and repeated: `rearrange`, `expand`, `insert_axis`."""

from collections.abc import Callable, Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import rank_of_rest, sizes_of_rest
from meganeura_runtime.export.source.text import ATOM, Code, method, tuple_text

SPREADS = frozenset(("expand", "insert_axis"))
"""Functions that only repeat a tensor: PyTorch broadcasts it where it meets another."""


class Axis:
    """An axis of a pattern: its key, and the text of its size where that is known."""

    def __init__(self, key: str, size: Code | None) -> None:
        self.key = key
        self.size = size


def axis_groups(
    arguments: Arguments, pattern: ast.Pattern, ranks: dict[str, int]
) -> list[list[Axis]]:
    """The axes of each entry: a product has several, a 1 none."""
    found: list[list[Axis]] = []
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            found += [[Axis(f"...{entry.name}.{at}", None)] for at in range(ranks[entry.name])]
        else:
            found.append(_atoms(arguments, entry, ranks))
    return found


def _atoms(arguments: Arguments, entry: ast.Expression, ranks: dict[str, int]) -> list[Axis]:
    match entry:
        case ast.Binary(operator="*", left=left, right=right):
            return [*_atoms(arguments, left, ranks), *_atoms(arguments, right, ranks)]
        case ast.Integer(value=1):
            return []
        case ast.Name(text=text):
            known = arguments.writer.env.get(text) in ("size", "static", "config")
            size = arguments.writer.static(entry, "forward") if known else None
            return [Axis(text, size)]
        case ast.Call(callee="product", arguments=[ast.Argument(value=ast.Name(text=text))]) if (
            text in ranks
        ):
            return [Axis(f"...{text}.{at}", None) for at in range(ranks[text])]
        case _:
            text = " ".join(entry.span.text.split())
            return [Axis(text, arguments.writer.static(entry, "forward"))]


def sides_of(arguments: Arguments) -> tuple[list[list[Axis]], list[list[Axis]]]:
    """Returns the axes of both sides of a pattern, by entry."""
    node = arguments.places[1]
    assert isinstance(node, ast.Rearrangement)
    entries = node.source.entries
    rests = [each.name for each in entries if isinstance(each, ast.Rest)]
    ranks = {name: arguments.rank() - (len(entries) - 1) for name in rests}
    for each in node.target.entries:
        if isinstance(each, ast.Rest) and each.name not in ranks:
            ranks[each.name] = rank_of_rest(arguments.writer, each)
    return axis_groups(arguments, node.source, ranks), axis_groups(arguments, node.target, ranks)


def split_axes(arguments: Arguments, value: Code, source: list[list[Axis]]) -> Code:
    """The tensor with an axis for each name of the left side."""
    for place in reversed(range(len(source))):
        group = source[place]
        if len(group) == 1:
            continue
        if not group:
            value = method(value, "squeeze", str(place))
            continue
        unknown = [each for each in group if each.size is None]
        if len(unknown) > 1:
            raise refuse(arguments.node, "an axis is split into unknown sizes")
        sizes = [Code("-1") if each.size is None else each.size for each in group]
        if not unknown and len(group) > 1:
            sizes[-1] = Code("-1") if len(sizes) > 1 else sizes[-1]
        value = method(value, "unflatten", str(place), tuple_text(sizes))
    return value


def merged(value: Code, target: list[list[Axis]]) -> Code:
    """The tensor with the axes of each entry of the right side as one."""
    place = sum(max(len(group), 0) for group in target)
    for at in reversed(range(len(target))):
        group = target[at]
        place -= len(group)
        if not group:
            value = method(value, "unsqueeze", str(place))
        elif len(group) > 1:
            value = method(value, "flatten", str(place), str(place + len(group) - 1))
    return value


def rearranged(arguments: Arguments) -> Code:
    """Writes `rearrange`."""
    source, target = sides_of(arguments)
    keys = [each.key for group in source for each in group]
    order = axis_order(keys, [each.key for group in target for each in group])
    joined = _joined(source, target)
    if joined is not None:
        return joined(arguments.tensor(0))
    value = split_axes(arguments, arguments.tensor(0), source)
    value = permuted(value, order)
    return merged(value, target)


def _joined(source: list[list[Axis]], target: list[list[Axis]]) -> Callable[[Code], Code] | None:
    """Returns a function that joins axes, or adds or drops axes of 1; None if axes are moved."""
    flat = [each.key for group in source for each in group]
    if flat != [each.key for group in target for each in group]:
        return None
    if any(len(group) > 1 for group in source):
        return None
    places = [at for at, group in enumerate(source) if not group]

    def apply(value: Code) -> Code:
        for place in reversed(places):
            value = method(value, "squeeze", str(place))
        return merged(value, target)

    return apply


def axis_order(keys: list[str], wanted: list[str]) -> list[int]:
    """The places in `keys` of each of `wanted`; equal ones come in order."""
    found: list[int] = []
    for key in wanted:
        found.append(next(at for at, each in enumerate(keys) if each == key and at not in found))
    return found


def permuted(value: Code, order: Sequence[int]) -> Code:
    """The tensor with its axes in another order."""
    moved = [at for at, axis in enumerate(order) if at != axis]
    if not moved:
        return value
    rank = len(order)
    if len(moved) == 2:
        first, second = moved
        if rank > 2 and moved == [rank - 2, rank - 1]:
            first, second = -2, -1
        if rank == 2:
            return Code(f"{value.within(ATOM)}.T")
        return method(value, "transpose", str(first), str(second))
    return method(value, "permute", *map(str, order))


def expanded(arguments: Arguments, *, is_whole: bool = True) -> Code:
    """Writes `expand`; unless the whole is wanted, with sizes of 1 where it repeats."""
    source, target = sides_of(arguments)
    flat, places = _kept_axes(source, target)
    value = split_axes(arguments, arguments.tensor(0), source)
    ends = len(flat) - len(places)
    if not is_whole and all(len(group) == 1 for group in target):
        if places == list(range(ends, len(flat))):
            return value
        entries = [":" if at in places else "None" for at in range(len(flat))]
        while entries and entries[0] == "None":
            entries.pop(0)
        return Code(f"{value.within(ATOM)}[{', '.join(entries)}]")
    entries = [":" if at in places else "None" for at in range(len(flat))]
    leading = 0
    while leading < len(entries) and entries[leading] == "None":
        leading += 1
    if "None" in entries[leading:]:
        value = Code(f"{value.within(ATOM)}[{', '.join(entries[leading:])}]")
    sizes: list[Code] = []
    for at, each in enumerate(flat):
        if at in places:
            sizes.append(Code("-1"))
        elif each.size is not None:
            sizes.append(each.size)
        else:
            sizes.append(_size_of_rest(arguments, each))
    return merged(method(value, "expand", *sizes), target)


def _size_of_rest(arguments: Arguments, axis: Axis) -> Code:
    name, _, place = axis.key.removeprefix("...").rpartition(".")
    if not axis.key.startswith("..."):
        raise refuse(arguments.node, f"the size `{axis.key}` is not known")
    node = ast.Name(arguments.node.span, name)
    return Code(f"{sizes_of_rest(arguments.writer, node)}[{place}]")


def inserted(arguments: Arguments, *, is_whole: bool = True) -> Code:
    """Writes `insert_axis`; unless the whole is wanted, with a size of 1."""
    axis, rank = arguments.number(1, "axis"), arguments.rank() + 1
    place = axis % rank
    value = method(arguments.tensor(0), "unsqueeze", str(axis))
    size = arguments.static(2, "size")
    if not is_whole or size.text == "1":
        return value
    sizes = [str(size) if at == place else "-1" for at in range(rank)]
    return method(value, "expand", *sizes)


def only_repeats(node: ast.Expression) -> bool:
    """Returns True for `expand` and `insert_axis`."""
    if isinstance(node, ast.Pipe):
        return node.layer.callee in SPREADS and node.layer.label is None
    return isinstance(node, ast.Call) and node.callee in SPREADS


def repeated_axes(writer: BlockWriter, node: ast.Expression) -> frozenset[int]:
    """The axes of `expand` and `insert_axis` that repeat; none of anything else."""
    if not only_repeats(node) or writer.fill(node) is not None:
        return frozenset()
    layer, source = (node.layer, node.source) if isinstance(node, ast.Pipe) else (node, None)
    assert isinstance(layer, ast.Call)
    arguments = Arguments(writer, layer, source)
    if layer.callee == "insert_axis":
        return frozenset([arguments.number(1, "axis") % (arguments.rank() + 1)])
    left, right = sides_of(arguments)
    _, places = _kept_axes(left, right)
    if any(len(group) != 1 for group in right):
        return frozenset(range(len(right)))
    return frozenset(range(len(right))) - frozenset(places)


def _kept_axes(source: list[list[Axis]], target: list[list[Axis]]) -> tuple[list[Axis], list[int]]:
    """The axes of the right side, and which of them the left side has."""
    keys = [each.key for group in source for each in group]
    flat = [each for group in target for each in group]
    places: list[int] = []
    at = 0
    for place, each in enumerate(flat):
        if at < len(keys) and each.key == keys[at]:
            places.append(place)
            at += 1
    return flat, places


def spread(writer: BlockWriter, node: ast.Expression, *, is_whole: bool) -> Code:
    """`expand` or `insert_axis`; unless the whole is wanted, with sizes of 1 where it repeats."""
    if isinstance(node, ast.Pipe):
        layer, source = node.layer, node.source
    else:
        assert isinstance(node, ast.Call)
        layer, source = node, None
    fill = writer.fill(node)
    if fill is not None:
        return fill
    arguments = Arguments(writer, layer, source)
    if layer.callee == "expand":
        return expanded(arguments, is_whole=is_whole)
    return inserted(arguments, is_whole=is_whole)
