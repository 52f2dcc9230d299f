"""Cures of shapes that do not meet, from how a value was computed: the call that made its size.

Each is code that the reader may write; none is an edit, as it changes what the program computes.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layout_cures import NO_CHANNELS
from meganeura_dsl.elaborate.problems.shape_cures import all_written, is_written
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax.problems.block_text import block_before, split_top
from meganeura_dsl.syntax.problems.foreign_layers import free_label

_REDUCTIONS = (ops.ReduceMax, ops.Sum)
_FILLED = re.compile(r"\b(zeros|ones|full|random_normal|random_uniform)\(\[([^\]]*)\]")
_UNSTRIDED = re.compile(r"(?P<begin>(?:[\w.\[\]{}]+:\s*)?conv[123]d\([^(),=]+, (?P<window>\w+))\)")
_LINEAR = re.compile(r"(?:[\w.\[\]{}]+:\s*)?linear\(")
Same = Callable[[Size, Size], bool]


def other_reduction(value: Tensor, wanted: Shape, same: Same) -> Help | None:
    """The reduction over other axes that has the wanted shape, if exactly one has."""
    made = _reduced_from(value)
    if made is None:
        return None
    source, axes, span = made
    code = " ".join(span.text.split())
    found = re.search(r"(\w+)\(([^()]*)\)\s*$", code) or re.fullmatch(r"(\w+)\((.*)\)", code)
    rank = source.type.rank
    fitting = [
        axis
        for axis in range(rank)
        if is_same_shape(without(source.type.shape, axis), wanted, same)
    ]
    if found is None or len(fitting) != 1 or (len(axes) != 1 and len(axes) != rank):
        return None
    given = [re.sub(r"^axis\s*=\s*", "", each) for each in split_top(found[2])]
    values = [each for each in given if not re.fullmatch(r"-?\d+", each) and each]
    gone, kept = show(source.type.shape[fitting[0]]), show(source.type.shape[axes[0]])
    text = f"the axis of {kept} is gone, and that of {gone} is left: compute it over the other"
    if len(axes) == rank:
        text = f"all axes are gone: compute it over that of {gone} alone"
    return Help(text, f"{found[1]}({', '.join([*values, str(fitting[0])])})")


def reduces_examples(value: Tensor) -> bool:
    """True for a reduction over axis 0 alone, which counts the examples of a batch."""
    made = _reduced_from(value)
    return made is not None and made[1] == (0,) and made[0].type.rank > 1


def whole_before(value: Tensor, wanted: Shape, same: Same) -> Help | None:
    """The result without its last reduction, before which it has the wanted shape."""
    made = _reduced_from(value)
    if made is None or not is_same_shape(made[0].type.shape, wanted, same):
        return None
    code = " ".join(made[2].text.split())
    text = f"it is as declared before `{code}`, which takes an axis away: leave that out"
    found = re.fullmatch(r"\w+\((.*)\)", code)
    given = split_top(found[1]) if found else []
    count = _added_up(given[0], made[2]) if code.startswith("mean(") and given else ""
    if count:
        text = f"`{given[0]}` is the sum of a loop, and `{code}` takes an axis away: the mean is"
        return Help(text, f"{given[0]} / {count}")
    is_called = bool(given) and re.fullmatch(r"-?\d+|axis *=.*", given[0]) is None
    return Help(text, given[0] if is_called else None)


def _added_up(name: str, span: Span) -> str:
    """The number of values that a `for` before a place adds up to a name; empty if none does."""
    block = block_before(span.source.text[: span.start])
    added = rf"\1 +{re.escape(name)} = {re.escape(name)} \+ "
    loop = rf"^( +)for \w+ in 0\.\.(\w+):\n(?:\1 +.*\n)*?{added}"
    found = re.search(loop, block, re.MULTILINE)
    return "" if found is None else found[2]


def channels_kept(value: Tensor) -> Help | None:
    """The reduction over as many other axes whose last axis is a known number, if one is.

    `value` is what a layer takes its channels from, and its last axis is a size of the data.
    """
    made = _reduced_from(value)
    if made is None or made[0].type.rank == len(made[1]) + 1:
        return None
    source, axes, span = made
    shape = source.type.shape
    fitting = [
        chosen
        for chosen in combinations(range(1, len(shape)), len(axes))
        if isinstance(without(shape, *chosen)[-1], int)
    ]
    found = re.search(r"(\w+)\(([^()]*)\)\s*$", " ".join(span.text.split()))
    if len(fitting) != 1 or found is None:
        return None
    given = [re.sub(r"^(axis|axes)\s*=\s*", "", each) for each in split_top(found[2])]
    values = [each for each in given if each and not re.fullmatch(r"-?\d+", each)]
    (chosen,) = fitting
    gone, kept = show(without(shape, *chosen)[-1]), show(value.type.shape[-1])
    which = f"{' and '.join(map(str, axes))} {'was' if len(axes) == 1 else 'were'}"
    text = (
        f"the channels are gone here, as {'axis' if len(axes) == 1 else 'axes'} {which} reduced "
        f"and {kept} is left:\nreduce the other axes, which leaves the {gone} channels"
    )
    return Help(text, f"{found[1]}({', '.join([*values, *map(str, chosen)])})")


def kept_axis_cure(larger: tuple[str, Tensor], smaller: tuple[str, Tensor]) -> Help | None:
    """The result of a reduction with the axes of size 1 that it has to meet again.

    None unless the larger side is what was reduced, and has size 1 along the axes that are gone.
    """
    (_, whole), (name, value) = larger, smaller
    made = _reduced_from(value)
    if made is None or not name.isidentifier() or made[0].type.rank != whole.type.rank:
        return None
    source, axes, _ = made
    if len(axes) != 1 or whole.type.shape[axes[0]] != 1:
        return None
    if (
        source.type.shape != whole.type.shape
        or without(whole.type.shape, *axes) != value.type.shape
    ):
        return None
    text = f"axis {axes[0]} is gone in `{name}`, which was reduced along it: give it one again"
    return Help(text, f"insert_axis({name}, {axes[0]}, 1)")


def without(shape: Shape, *axes: int) -> Shape:
    """A shape without some of its axes."""
    return tuple(size for at, size in enumerate(shape) if at not in axes)


def is_same_shape(found: Shape, wanted: Shape, same: Same) -> bool:
    """True if two shapes have as many axes, of the same sizes."""
    return len(found) == len(wanted) and all(map(same, found, wanted))


def _reduced_from(value: Tensor) -> tuple[Tensor, tuple[int, ...], Span] | None:
    """Returns the operand of a reduction, its axes and its place; None if it is none."""
    while value.origin.span is not None and value.operands:
        if isinstance(value.op, ops.ArgMax):
            return value.operands[0], (value.op.axis,), value.origin.span
        if isinstance(value.op, _REDUCTIONS):
            return value.operands[0], value.op.axes, value.origin.span
        before = main_operand(value)
        if before is None or before.type.shape != value.type.shape:
            return None
        value = before
    return None


def main_operand(value: Tensor, source_of: SourceOf = lambda _: None) -> Tensor | None:
    """The operand that an elementwise value or a layer carries on: no constant, mask or weight.

    `source_of` tells where a value comes from whose type alone is known.
    """
    applied = source_of(value)
    ranked = [
        each
        for each in (value.operands if applied is None else applied.operands)
        if each.type.rank == value.type.rank and each.type.dtype.is_float and _reads_input(each)
    ]
    return ranked[0] if ranked else None


def changed_at(
    value: Tensor, axis: int, wanted: Size, same: Same, source_of: SourceOf
) -> Span | None:
    """Where an axis lost the wanted size; None if it never had it."""
    while (before := main_operand(value, source_of)) is not None:
        size = before.type.shape[axis]
        if size != value.type.shape[axis] and same(size, wanted):
            applied = source_of(value)
            return value.origin.span if applied is None else applied.span
        value = before
    return None


def _reads_input(value: Tensor) -> bool:
    """True if a value is no number, parameter or tensor of one number repeated."""
    while isinstance(value.op, ops.Broadcast):
        value = value.operands[0]
        if value.type.rank == 0:
            return False
    return not isinstance(value.op, ops.Constant | ops.Parameter)


def filled_cure(sides: Sequence[Tensor], sizes: tuple[Size, Size]) -> Help | None:
    """A tensor of numbers whose size is written by a number where the other side has a name.

    The number may have a name too, if the other side has another one in its place.
    """
    for value, mine, other in zip(sides, sizes, reversed(sizes), strict=True):
        renamed = _renamed_fill(value, mine, other)
        if renamed is not None:
            return renamed
        if not isinstance(mine, int) or isinstance(other, int) or value.origin.span is None:
            continue
        found = _FILLED.search(value.origin.span.text)
        entries = split_top(found[2]) if found else []
        if found and entries.count(str(mine)) == 1 and is_written(show(other)):
            shape = ", ".join(show(other) if each == str(mine) else each for each in entries)
            text = f"the size {mine} is written here, and the other side has {show(other)}"
            rest = value.origin.span.text[found.end() :]
            return Help(text, f"{found[1]}([{shape}]{rest}")
    return None


def _renamed_fill(value: Tensor, mine: Size, other: Size) -> Help | None:
    """A tensor of numbers with the name of the other side in place of its own, `2 * batch`."""
    if isinstance(mine, int) or isinstance(other, int) or value.origin.span is None:
        return None
    gone, given = mine.variables() - other.variables(), other.variables() - mine.variables()
    written = " ".join(value.origin.span.text.split())
    if len(gone) != 1 or len(given) != 1 or _FILLED.match(written) is None:
        return None
    (old,), (new,) = gone, given
    if re.sub(rf"\b{old}\b", new, show(mine)) != show(other) or not is_written(show(other)):
        return None
    text = f"`{old}` is written here, and what it meets has `{new}` of them"
    return Help(text, re.sub(rf"\b{old}\b", new, written))


def initial_cure(name: str, before: Tensor, after: Tensor) -> Help | None:
    """The first value of a state that is one number everywhere, in the shape that iterations leave.

    What fills a tensor is written by hand, and the layers of an iteration make the other shape.
    """
    code = begun_line(name, before, after.type.shape)
    if code is None:
        return None
    wrong, right = show_shape(before.type.shape), show_shape(after.type.shape)
    text = f"an iteration leaves {right}: let `{name}` begin so"
    if before.type.rank == after.type.rank:
        text += f"; if it is to stay {wrong},\nlet the layers of an iteration make that many"
    return Help(text, code)


def begun_line(name: str, before: Tensor, shape: Shape) -> str | None:
    """The line that begins a state with another shape; None if it is not filled with a number."""
    span = before.origin.span
    written = " ".join(span.text.split()) if span is not None else ""
    found, axes = _FILLED.match(written), [show(size) for size in shape]
    if found is None or not all_written(axes):
        return None
    return f"{name} = {found[1]}([{', '.join(axes)}]{written[found.end() :]}"


def parameter_cure(
    name: str, at: int, size: Size, span: Span, known: Collection[str], config: Collection[str]
) -> Help | None:
    """The declaration of a parameter that has another size than what it meets.

    A size of the data is none of a parameter, which then may hold more than are used.
    """
    names = re.findall(r"[A-Za-z_]\w*", show(size))
    block = block_before(span.source.text[: span.start])
    found = re.search(rf"^\s+param {re.escape(name)}: \[([^\]]*)\](.*)$", block, re.MULTILINE)
    if found is None or not is_written(show(size)) or not set(names) <= set(known):
        return None
    if len(re.findall(r" [+-] ", show(size))) > 1:
        return None  # a polynomial of sizes is no size that one declares
    entries = split_top(found[1])
    if at >= len(entries):
        return None
    if not set(names) <= {*config, *re.findall(r"[A-Za-z_]\w*", entries[at])}:
        part = ", ".join([*(":" for _ in range(at)), f":{show(size)}"])
        return Help(
            f"if `{name}` holds as many as may come, take those that do: `{name}[{part}]`,\n"
            f"with `where {show(size)} <= {entries[at]}`"
        )
    entries[at] = show(size)
    text = f"`{name}` is declared with another size: give it that of what it meets"
    return Help(text, f"param {name}: [{', '.join(entries)}]{found[2]}")


def kernel_cure(code: str, channels: Size, span: Span) -> Help | None:
    """The declaration of the weight of a `conv`, with as many channels as it is given."""
    inside = re.fullmatch(r"conv\((.*)\)", code)
    given = split_top(inside[1]) if inside else []
    names = set(re.findall(r"[A-Za-z_]\w*", show(channels)))
    return parameter_cure(given[1], 1, channels, span, names, names) if len(given) > 1 else None


def patches_cure(block: str, wanted: str) -> Help | None:
    """The stride of the one convolution of a block whose window is what `wanted` is divided by.

    `wanted` is the size that its result meets, such as `(image//patch)**2`.
    """
    found = [
        each
        for each in _UNSTRIDED.finditer(block)
        if re.search(rf"//\s*{each['window']}\b", wanted)
    ]
    if len(found) != 1:
        return None
    window = found[0]["window"]
    text = f"the window of {window} moves by 1: there are {wanted} of them if it moves by {window}"
    return Help(text, f"{found[0]['begin']}, stride={window})")


@dataclass(frozen=True)
class Projection:
    """The operator, the axis and the layer behind two sides that differ."""

    operator: str
    axis: int
    channels_by: Collection[str]
    """The names that count channels: no layer makes as many as the data has."""
    block: str
    """The text of the block, whose labels are taken."""
    changed_by: str
    """The call by which one side lost the size of the other."""

    def counts_channels(self, size: Size) -> bool:
        """True if layers make as many channels."""
        return set(re.findall(r"[A-Za-z_]\w*", show(size))) <= set(self.channels_by)

    def declares(self, size: Size) -> bool:
        """True if the only result of the block has a size on this axis."""
        header = self.block.partition(":\n")[0]
        results = re.findall(r"\[([^\]]*)\]", header.rpartition("->")[2].partition("where")[0])
        axes = split_top(results[0]) if len(results) == 1 else []
        declared = axes[self.axis].replace(" ", "") if self.axis < len(axes) else ""
        return "->" in header and declared == show(size).replace(" ", "")

    def projected(self, name: str, shape: Shape, wanted: Size) -> Help | None:
        """The projection of a side by the layer whose channels are on this axis."""
        label = free_label("project", self.block)
        if self.axis == len(shape) - 1:
            return Help(f"project `{name}`", f"{name} |> {label}: linear({show(wanted)})")
        if self.axis == 1 and len(shape) in (3, 4, 5):
            layer = f"conv{len(shape) - 2}d({show(wanted)}, 1)"
            return Help(f"project `{name}`", f"{name} |> {label}: {layer}")
        return None

    def shortcut(self, name: str, shape: Shape, wanted: Size) -> Help | None:
        """The projection of a side that keeps its size, by the kind of layer that changed it."""
        layer = re.match(r"(?:[\w.\[\]{}]+:\s*)?(conv[123]d|linear)\(", self.changed_by)
        if layer is None or not self.counts_channels(wanted):
            return None
        label = free_label("shortcut", self.block)
        if layer[1] == f"conv{len(shape) - 2}d" and self.axis == 1:
            return Help(f"project `{name}`", f"{name} |> {label}: {layer[1]}({show(wanted)}, 1)")
        if layer[1] == "linear" and self.axis == len(shape) - 1 and self.declares(wanted):
            return Help(f"project `{name}`", f"{name} |> {label}: linear({show(wanted)})")
        return None


def projection_cure(
    left: tuple[str, Shape], right: tuple[str, Shape], sides: Projection
) -> Help | None:
    """A projection of the side that is a name, where two sides differ in their channels alone.

    The right one lost the size that the left one has.
    """
    (name, shape), (other, wanted) = left, right
    axis = sides.axis
    others = zip(without(shape, axis), without(wanted, axis), strict=False)
    if len(shape) != len(wanted) or any(one != each for one, each in others):
        return None
    if not re.fullmatch(r"\w+", name) or not is_written(show(wanted[axis])):
        return None
    shortcut = sides.shortcut(name, shape, wanted[axis])
    if shortcut is not None:
        return shortcut
    if axis == 1 and len(shape) == 4 and sides.counts_channels(wanted[axis]):
        label = free_label("shortcut", sides.block)
        return Help(f"project `{name}`", f"{name} |> {label}: conv2d({show(wanted[axis])}, 1)")
    kept = show(shape[axis])
    is_named = kept.isidentifier() and kept not in NO_CHANNELS and sides.declares(shape[axis])
    counts = sides.counts_channels(shape[axis]) or (is_named and "linear(" in sides.changed_by)
    if axis == len(shape) - 1 and not counts:
        if not _LINEAR.match(sides.changed_by):
            return None
        if kept in NO_CHANNELS:
            return Help(
                f"axis {axis} of `{name}` is {kept}, and `{sides.changed_by}` takes its channels "
                "from there:\nmove the channels to the end before it, and back behind it"
            )
        return Help(
            f"axis {axis} of `{name}` is {kept}: if it counts channels, end with `linear({kept})`;"
            "\nif not, have the layers between act on the axis that does, or move that to the end"
            "\nbefore them, and back behind them"
        )
    if axis == len(shape) - 1 and re.fullmatch(r"\w+", other) and is_written(kept):
        what = f"both sides of `{sides.operator}` have one size"
        if sides.operator == "+":
            what = "a residual keeps the size"
        text = f"{what}: bring `{other}` back to that of `{name}`"
        return Help(text, f"{other} |> {free_label('out', sides.block)}: linear({kept})")
    return None
