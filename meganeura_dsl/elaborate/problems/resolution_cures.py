"""Cures of rows and columns that do not meet: another skip, a padding, another resolution.

Each is code that the reader may write; none is an edit, as it changes what the program computes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.sequence_cures import made_from
from meganeura_dsl.elaborate.problems.shape_cures import is_written
from meganeura_dsl.elaborate.problems.window_cures import (
    MayChange,
    SourceOf,
    meeting_cure,
    window_of,
)
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_assumed_tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, dim, show
from meganeura_dsl.syntax.problems.block_text import split_top
from meganeura_dsl.syntax.problems.foreign_layers import free_label

Same = Callable[[Size, Size], bool]
_JOINED = re.compile(r"concat\((?P<given>.*), *axis=(?P<axis>\d+)\)")
_STRIDE = re.compile(
    r"(?:[\w.\[\]{}]+:\s*)?conv[12]d\([^,]+, \w+, (?:stride=)?([A-Za-z_]\w*)\b.*\)"
)
"""A convolution whose stride has a name."""
_UNSTRIDED = re.compile(
    r"(?P<begin>(?:[\w.\[\]{}]+:\s*)?conv[12]d\((?:[^(),=]|\([^()]*\))+, *\w+)"
    r"(?P<rest>(?:, *(?!stride)\w+ *= *[^=]+)*)\)"
)
"""A convolution without a stride."""
_SCALES = (2, 3, 4, 8, 16, 32)


@dataclass(frozen=True)
class Around:
    """The names and origins of values where an op is refused."""

    names: Mapping[str, ElabValue]
    """The values in scope."""
    source_of: SourceOf
    """Returns the origins of values of which only the type is known."""
    may_change: MayChange


def skip_cure(code: str, operands: Sequence[Tensor], around: Around, same: Same) -> Help | None:
    """The `concat` with another value in scope in place of one whose size does not fit.

    `code` is the call as it is written. What is computed from what it would be joined with is none.
    An argument of a window that gives the size comes first; where no value fits, it is what brings
    the smaller side to the size of the larger one.
    """
    found = _JOINED.fullmatch(code)
    given = split_top(found["given"]) if found else []
    if found is None or len(given) != len(operands):
        return None
    axis = int(found["axis"])
    named, source_of = around.names, around.source_of
    padded = meeting_cure(operands, same, source_of, around.may_change) if axis == 1 else None
    if padded is not None:
        return padded
    sides = list(zip(given, operands, strict=True))
    scaled = rescaled_cure(sides[0], sides[1], same) if len(sides) == 2 else None
    for place in reversed(range(len(operands))):
        rest = [each for at, each in enumerate(operands) if at != place]
        if not given[place].isidentifier() or not _are_joined(rest, axis, same):
            continue
        fitting = [
            name
            for name, value in named.items()
            if is_tensor(value)
            and name not in given
            and value.type.dtype is operands[place].type.dtype
            and _are_joined([*rest, value], axis, same)
            and all(part is not each for part in rest for each, _ in made_from(value, source_of))
        ]
        if fitting:
            made = [each for each in fitting if not _is_input(named[each])]
            if scaled is not None and not made:
                return scaled
            fitting = [*(each for each in fitting if each not in made), *made]
            other = fitting[-1]
            joined = ", ".join([*given[:place], other, *given[place + 1 :]])
            also = (
                f", as {' and '.join(f'`{name}`' for name in fitting[:-1])}" if fitting[1:] else ""
            )
            text = f"`{given[place]}` is of another size, and `{other}` fits{also}"
            return Help(text, f"concat({joined}, axis={axis})")
    return scaled


def _is_input(value: ElabValue) -> bool:
    """True if a value is what the block is given, and nothing that its layers made."""
    return is_tensor(value) and isinstance(value.op, ops.Input) and not is_assumed_tensor(value)


def _are_joined(values: Sequence[Tensor], axis: int, same: Same) -> bool:
    """True if tensors can be joined along an axis."""
    first, *rest = (each.type.shape for each in values)
    return all(
        len(shape) == len(first) > axis
        and all(at == axis or same(*pair) for at, pair in enumerate(zip(first, shape, strict=True)))
        for shape in rest
    )


def rescaled_cure(left: tuple[str, Tensor], right: tuple[str, Tensor], same: Same) -> Help | None:
    """The smaller of two pictures enlarged, where the rows and columns are a multiple of its own.

    None for other ranks: of a sequence the axis behind the second counts channels as often.
    """
    if not left[1].type.rank == right[1].type.rank == 4:
        return None
    for (small, low), (large, high) in ((left, right), (right, left)):
        scale = _scale(low.type.shape, high.type.shape, same)
        if scale is None or not small.isidentifier():
            continue
        text = f"`{small}` has fewer rows than `{large}`, by a factor of {scale}: bring it to them"
        return Help(text, f"{small} |> upsample({scale})")
    return None


def shortcut_cure(
    kept: tuple[str, Tensor],
    changed: tuple[str, Tensor],
    same: Same,
    source_of: SourceOf,
    block: str,
) -> Help | None:
    """A value brought to what a pool, or a convolution with a stride, made of it.

    `block` is the text of the block. None unless the value is what the other was computed from.
    """
    (name, value), (_, other) = kept, changed
    shape, wanted = value.type.shape, other.type.shape
    if len(shape) != len(wanted) or len(shape) not in (3, 4) or not name.isidentifier():
        return None
    made = list(made_from(other, source_of))
    if all(each is not value for each, _ in made) or not is_written(show(wanted[1])):
        return None
    label, text = free_label("shortcut", block), f"bring `{name}` to this size as well"
    for window in map(window_of, dict.fromkeys(code for _, code in made)):
        if window is None or not window.is_pool:
            continue
        pairs = zip(shape[2:], wanted[2:], strict=True)
        if all(same(window.size(size), to) for size, to in pairs):
            pooled = f"{name} |> {window.written()}"
            if same(shape[1], wanted[1]):
                layer = f"{label}: conv2d({show(wanted[1])}, 1, stride={window.stride})"
                return Help(f"{text}, by this pool or by `{layer}`", pooled)
            return Help(text, f"{pooled} |> {label}: conv2d({show(wanted[1])}, 1)")
    named = {each[1]: dim(each[1]) for _, code in made if (each := _STRIDE.fullmatch(code))}
    for stride, number in {**{each: each for each in _SCALES[:3]}, **named}.items():
        pairs = zip(shape[2:], wanted[2:], strict=True)
        if all(same((size - 1) // number + 1, to) for size, to in pairs):
            layer = f"conv{len(shape) - 2}d({show(wanted[1])}, 1, stride={stride})"
            applied = f"{name} |> {label}: {layer}"
            bound = re.search(rf"^ +{re.escape(changed[0])} = ", block, re.MULTILINE)
            if isinstance(stride, int) or bound is None or not is_written(show(shape[1])):
                return Help(text, applied)
            return _where_it_changes(text, name, applied, stride, shape[1], wanted[1], same)
    return None


def stride_cure(value: Tensor, other: Tensor, same: Same, source_of: SourceOf) -> Help | None:
    """The stride of a layer on the way to a value, with which it has the rows of another one.

    It is that of a layer on the way to the other. A layer of both keeps its arguments.
    """
    sizes, wanted = value.type.shape[2:], other.type.shape[2:]
    if value.type.rank != other.type.rank or value.type.rank not in (3, 4):
        return None
    beside = list(made_from(other, source_of))
    strides = dict.fromkeys(found for _, code in beside if (found := _stride_of(code)))
    fitting = [
        stride
        for stride in strides
        if all(
            same((size - 1) // (int(stride) if stride.isdecimal() else dim(stride)) + 1, to)
            for size, to in zip(sizes, wanted, strict=True)
        )
    ]
    shared = {code for _, code in beside}
    layers = [
        (found, each)
        for each, code in made_from(value, source_of)
        if code not in shared and (found := _UNSTRIDED.fullmatch(code)) is not None
    ]
    layers = [(found, each) for found, each in layers if each.type.shape[2:] == sizes]
    calls = list(dict.fromkeys(found[0] for found, _ in layers))
    if len(fitting) != 1 or len(calls) != 1:
        return None
    found = layers[0][0]
    text = f"the other side moves by {fitting[0]}, and this layer by 1: give it the same stride"
    return Help(text, f"{found['begin']}, stride={fitting[0]}{found['rest'] or ''})")


def _stride_of(code: str) -> str:
    """The stride of a convolution, a name or a number above 1; empty if it has none."""
    call = re.fullmatch(r"(?:[\w.\[\]{}]+:\s*)?conv[12]d\((.*)\)", code)
    given = split_top(call[1]) if call else []
    named = next((e.split("=")[1].strip() for e in given if re.match(r"stride *=", e)), "")
    stride = named or (given[2] if len(given) > 2 and "=" not in given[2] else "")
    return stride if re.fullmatch(r"[A-Za-z_]\w*|[2-9]", stride) else ""


def _where_it_changes(
    text: str, name: str, applied: str, stride: str, given: Size, wanted: Size, same: Same
) -> Help:
    """Returns the lines of a shortcut for a stride with a name, which may be 1.

    The value stays as it is where the stride is 1 and the channels are those that are wanted.
    """
    condition = f"{stride} != 1"
    if not same(given, wanted):
        condition += f" or {show(given)} != {show(wanted)}"
    return Help(
        f"{text} where it has another, before this line",
        f"if {condition}:\n  {name} = {applied}",
    )


def _scale(small: Shape, large: Shape, same: Same) -> int | None:
    """The number that all axes from 2 on are to be multiplied with; None if there is none."""
    return next(
        (
            scale
            for scale in _SCALES
            if all(same(size * scale, to) for size, to in zip(small[2:], large[2:], strict=True))
        ),
        None,
    )
