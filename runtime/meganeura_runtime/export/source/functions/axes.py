"""Axes that are split, joined, moved and repeated: `rearrange`, `expand`, `insert_axis`."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Axis
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import rank_of_rest, sizes_of_rest
from meganeura_runtime.export.source.text import ATOM, Code

SPREADS = frozenset(("expand", "insert_axis"))
"""Functions that only repeat a tensor: PyTorch broadcasts it where it meets another."""


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


def rearranged(arguments: Arguments) -> Code:
    """Writes `rearrange`."""
    source, target = sides_of(arguments)
    keys = [each.key for group in source for each in group]
    order = axis_order(keys, [each.key for group in target for each in group])
    writer = arguments.writer
    value = writer.split(arguments.node, arguments.tensor(0), source)
    return writer.merge(writer.permute(value, order), target)


def axis_order(keys: list[str], wanted: list[str]) -> list[int]:
    """The places in `keys` of each of `wanted`; equal ones come in order."""
    found: list[int] = []
    for key in wanted:
        found.append(next(at for at, each in enumerate(keys) if each == key and at not in found))
    return found


def expanded(arguments: Arguments, *, is_whole: bool = True) -> Code:
    """Writes `expand`; unless the whole is wanted, with sizes of 1 where it repeats."""
    writer = arguments.writer
    source, target = sides_of(arguments)
    flat, places = _kept_axes(source, target)
    value = writer.split(arguments.node, arguments.tensor(0), source)
    entries = [":" if at in places else "None" for at in range(len(flat))]
    while entries and entries[0] == "None":
        entries.pop(0)
    if "None" in entries:
        value = Code(f"{value.within(ATOM)}[{', '.join(entries)}]")
    if not is_whole and all(len(group) == 1 for group in target):
        return value
    sizes = [
        None if at in places else each.size or _size_of_rest(arguments, each)
        for at, each in enumerate(flat)
    ]
    return writer.merge(writer.repeat(value, sizes), target)


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
    writer = arguments.writer
    value = writer.insert(arguments.tensor(0), axis)
    size = arguments.static(2, "size")
    if not is_whole or size.text == "1":
        return value
    return writer.repeat(value, [size if at == place else None for at in range(rank)])


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
