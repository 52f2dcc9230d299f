"""Cures of shapes that do not meet, from how a value was computed: the call that made its size.

Each is code that the reader may write; none is an edit, as it changes what the program computes.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layout_cures import NO_CHANNELS
from meganeura_dsl.elaborate.problems.shape_cures import is_written
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor, is_assumed_tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax.problems.block_text import block_before, split_top
from meganeura_dsl.syntax.problems.foreign_layers import free_label

_REDUCTIONS = (ops.ReduceMax, ops.Sum)
_FILLED = re.compile(r"\b(zeros|ones|full|random_normal|random_uniform)\(\[([^\]]*)\]")
_UNSTRIDED = re.compile(r"(?P<begin>(?:[\w.\[\]{}]+:\s*)?conv[123]d\([^(),=]+, (?P<window>\w+))\)")
_LINEAR = re.compile(r"(?:[\w.\[\]{}]+:\s*)?linear\(")
_HEADS = ("head", "heads", "n_head", "n_heads", "nhead", "num_heads")
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
        axis for axis in range(rank) if _is_same(_without(source.type.shape, axis), wanted, same)
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
        if isinstance(_without(shape, *chosen)[-1], int)
    ]
    found = re.search(r"(\w+)\(([^()]*)\)\s*$", " ".join(span.text.split()))
    if len(fitting) != 1 or found is None:
        return None
    given = [re.sub(r"^(axis|axes)\s*=\s*", "", each) for each in split_top(found[2])]
    values = [each for each in given if each and not re.fullmatch(r"-?\d+", each)]
    (chosen,) = fitting
    gone, kept = show(_without(shape, *chosen)[-1]), show(value.type.shape[-1])
    which = f"{' and '.join(map(str, axes))} {'was' if len(axes) == 1 else 'were'}"
    text = (
        f"the channels are gone here, as {'axis' if len(axes) == 1 else 'axes'} {which} reduced "
        f"and {kept} is left:\nreduce the other axes, which leaves the {gone} channels"
    )
    return Help(text, f"{found[1]}({', '.join([*values, *map(str, chosen)])})")


def _without(shape: Shape, *axes: int) -> Shape:
    return tuple(size for at, size in enumerate(shape) if at not in axes)


def _is_same(found: Shape, wanted: Shape, same: Same) -> bool:
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
    """A tensor of numbers whose size is written by a number where the other side has a name."""
    for value, mine, other in zip(sides, sizes, reversed(sizes), strict=True):
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


def initial_cure(name: str, before: Tensor, after: Tensor) -> Help | None:
    """The first value of a state that is one number everywhere, in the shape that iterations leave.

    What fills a tensor is written by hand, and the layers of an iteration make the other shape.
    """
    code = begun_line(name, before, after.type.shape)
    if code is None:
        return None
    wrong, right = show_shape(before.type.shape), show_shape(after.type.shape)
    text = f"a round leaves {right}: let `{name}` begin so"
    if before.type.rank == after.type.rank:
        text += f"; if it is to stay {wrong},\nlet the layers of a round make that many"
    return Help(text, code)


def begun_line(name: str, before: Tensor, shape: Shape) -> str | None:
    """The line that begins a state with another shape; None if it is not filled with a number."""
    span = before.origin.span
    written = " ".join(span.text.split()) if span is not None else ""
    found, axes = _FILLED.match(written), [show(size) for size in shape]
    if found is None or not _all_written(axes):
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
        return "->" in header and self.axis < len(axes) and axes[self.axis] == show(size)

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
    others = zip(_without(shape, axis), _without(wanted, axis), strict=False)
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


def result_cure(
    value: Tensor,
    written: str,
    wanted: Shape,
    known: Collection[str],
    config: Collection[str],
    same: Same,
    of_inputs: Collection[str] = (),
) -> Help | None:
    """Returns the cure for a result of another shape: another result, or another declaration.

    `config` are the parameters of the block, whose sizes are known before any data is, and
    `of_inputs` the names of the axes of its inputs.
    """
    found = value.type.shape
    axes, declared = [show(size) for size in found], [show(size) for size in wanted]
    step = "|> " if "|>" in written else ""
    if Counter(axes) == Counter(declared) and len(set(axes)) == len(axes):
        pattern = f"[{', '.join(axes)}] -> [{', '.join(declared)}]"
        moved = f"|> rearrange({pattern})" if step else f"rearrange({written}, {pattern})"
        return Help("its axes are in another order", moved) if _all_written(axes) else None
    reduced = other_reduction(value, wanted, same)
    if reduced is not None:
        return Help(reduced.text, f"{step}{reduced.code}")
    linear = _first_linear(value)
    split = [axis for axis in axes if axis not in declared and was_split(value, axis)]
    if len(axes) > len(declared) and split:
        alone = "`linear` acts on the last axis alone: " if linear else ""
        again = " before it" if linear else " again"
        which = " and ".join(f"`{axis}`" for axis in split)
        return Help(
            f"{alone}join {which}{again}, by a `rearrange`:\nto reduce loses what was split"
        )
    is_flat = len(declared) == 2 < len(axes) and declared == [axes[0], axes[-1]]
    if linear is not None and is_flat:
        cure = _joined_cure(*linear, written, config)
        if cure is not None:
            return cure
    ones = [each for each in axes if each != "1"], [each for each in declared if each != "1"]
    if ones[0] == ones[1] and _all_written(declared) and len(axes) != len(declared):
        pattern = f"[{', '.join(axes)}] -> [{', '.join(declared)}]"
        moved = f"|> rearrange({pattern})" if step else f"rearrange({written}, {pattern})"
        return Help("it has another number of axes of size 1 than declared", moved)
    gone = _missing(axes, declared)
    unsure = [axes[at] for at in gone if not axes[at].isidentifier() or axes[at] in config]
    if unsure and _is_assumed(value):
        which = " and ".join(f"`{axis}`" for axis in unsure)
        alone = ";\n`linear` acts on the last axis alone, so before it" if linear else ""
        return Help(
            f"there are more axes than declared: reduce {which}, or if it was split off by a\n"
            f"`rearrange`, join it again{alone}"
        )
    if gone:
        places = ", ".join(map(str, gone))
        return Help(
            "there are more axes than declared: reduce them",
            f"{step}mean({places})" if step else f"mean({written}, {places})",
        )
    other = differing(found, wanted, same) if len(axes) == len(declared) else []
    if len(other) == 1:
        (at,) = other
        names = set(re.findall(r"[A-Za-z_]\w*", axes[at]))
        if axes[at] in of_inputs and declared[at] in of_inputs:
            return Help(
                f"axis {at} is {axes[at]}, and not {declared[at]}, and both come from the inputs:\n"
                "compute the result from the input that has the declared size; of two tensors\n"
                "that a layer is given, the piped one may have to be the other"
            )
        if is_written(axes[at]) and names <= set(known):
            return Help(
                f"axis {at} is {axes[at]}, and not {declared[at]}: compute that many, or declare",
                f"-> [{', '.join(axes)}]",
            )
    return None


def other_join(value: Tensor, written: str, wanted: Shape, same: Same) -> Help | None:
    """The `concat` along the only other axis that gives the wanted shape."""
    if not isinstance(value.op, ops.Concat) or len(re.findall(r"axis=\d+", written)) != 1:
        return None
    shapes = [each.type.shape for each in value.operands]
    fitting: list[int] = []
    for axis in range(len(shapes[0])):
        others = {tuple(map(show, _without(shape, axis))) for shape in shapes}
        total = sum((shape[axis] for shape in shapes[1:]), shapes[0][axis])
        whole = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
        if len(others) == 1 and _is_same(whole, wanted, same):
            fitting.append(axis)
    if len(fitting) != 1 or not re.match(r"concat\(", written):
        return None
    code = re.sub(r"axis=\d+", f"axis={fitting[0]}", written)
    return Help("joined along this axis it is what is declared", code)


def channels_behind(value: Tensor, written: str, wanted: Shape, same: Same) -> Help | None:
    """The result of a convolution over an axis of steps, whose channels are wanted behind it.

    What comes in is rearranged before the convolution, and what comes out behind it. None unless
    the result is what a pipe from a name gives, of [n, steps, channels].
    """
    piped, made = re.match(r"(\w+)\s*\|>\s*", written), value
    while not isinstance(made.op, ops.Conv):
        before = main_operand(made)
        if before is None or before.type.shape != made.type.shape:
            return None
        made = before
    given, found = made.operands[0].type.shape, value.type.shape
    is_turned = len(given) == len(wanted) == 3 and same(given[1], wanted[1])
    if piped is None or not is_turned or not same(found[1], wanted[2]):
        return None
    axes = [show(size) for size in (*given, wanted[2])]
    if not _all_written(axes) or not same(given[2], found[2]):
        return None
    n, steps, width, channels = axes
    first = f"rearrange([{n}, {steps}, {width}] -> [{n}, {width}, {steps}])"
    last = f"rearrange([{n}, {channels}, {steps}] -> [{n}, {steps}, {channels}])"
    text = "a convolution has its channels on axis 1: move them there, and back behind it"
    return Help(text, f"{piped[1]} |> {first} |> {written[piped.end() :]} |> {last}")


def differing(found: Shape, wanted: Shape, same: Same) -> list[int]:
    """The axes in which two shapes of one rank differ."""
    pairs = enumerate(zip(found, wanted, strict=True))
    return [at for at, (one, other) in pairs if not same(one, other)]


def _first_linear(value: Tensor) -> tuple[Tensor, str] | None:
    """The input and the call of the first of the linear layers that made a value of its rank."""
    found = None
    while (before := main_operand(value)) is not None:
        span = value.origin.span
        if span is not None and _LINEAR.match(span.text) and before.origin.span != span:
            found = before, span.text
        value = before
    return found


def _joined_cure(source: Tensor, call: str, written: str, config: Collection[str]) -> Help | None:
    """The axes to join before the first linear layer, which acts on the last axis alone.

    None if there is one axis more, of the data: its mean is as likely.
    """
    axes = [show(size) for size in source.type.shape]
    if not _all_written(axes):
        return None
    alone = "`linear` acts on the last axis alone"
    names = {name for axis in axes[1:] for name in re.findall(r"[A-Za-z_]\w*", axis)}
    if not names <= set(config):
        text = f"{alone}: reduce the others before it, or join those whose size is known"
        return Help(text) if len(axes) > 3 else None
    pattern = f"rearrange([{', '.join(axes)}] -> [{axes[0]}, {' * '.join(axes[1:])}])"
    piped = re.match(r"(\w+)\s*\|>\s*", written)
    if piped and written.startswith(call, piped.end()):
        text = f"{alone}: join the axes before it"
        return Help(text, f"{piped[1]} |> {pattern} |> {written[piped.end() :]}")
    return Help(f"{alone}: join the axes before the first,\n`{pattern}` before `{call}`")


def _is_assumed(value: Tensor) -> bool:
    """True if a value depends on a layer of which a proof knows the signature alone."""
    return any(map(is_assumed_tensor, _made_of(value)))


def _made_of(value: Tensor) -> Iterator[Tensor]:
    """A value, and all that it was computed from."""
    rest, seen = [value], set[int]()
    while rest:
        value = rest.pop()
        if value.id not in seen:
            seen.add(value.id)
            rest.extend(value.operands)
            yield value


def was_split(value: Tensor, axis: str) -> bool:
    """True if an axis counts heads, or was split off from another by a rearrangement."""
    if axis in _HEADS:
        return True
    for each in _made_of(value):
        if isinstance(each.op, ops.Reshape) and each.type.rank > each.operands[0].type.rank:
            before, after = each.operands[0].type.shape, each.type.shape
            if axis in map(show, after) and axis not in map(show, before) and axis != "1":
                return True
    return False


def _missing(axes: Sequence[str], declared: Sequence[str]) -> list[int]:
    """The places of the axes that are more than those declared, where there is one reading."""
    if len(declared) >= len(axes) or len(set(axes)) != len(axes):
        return []
    kept = [axes.index(each) for each in declared if each in axes]
    is_ordered = len(kept) == len(declared) and kept == sorted(kept)
    return [at for at in range(len(axes)) if at not in kept] if is_ordered else []


def _all_written(axes: Sequence[str]) -> bool:
    return all(map(is_written, axes))
