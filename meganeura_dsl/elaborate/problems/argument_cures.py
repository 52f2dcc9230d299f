"""Cures of arguments that do not fit an input, from the call as it is written."""

import re
from collections.abc import Mapping, Sequence
from math import isqrt

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.shape_cures import LONGEST, Side
from meganeura_dsl.elaborate.values import ElabValue, Tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import block_before, block_rest, split_top


def argument_order(call: str, inputs: Sequence[str]) -> Help | None:
    """The call with arguments in the order of the inputs, if they are called as those are."""
    found = re.fullmatch(r"(\w+)\((.*)\)", " ".join(call.split()))
    if found is None:
        return None
    given = split_top(found[2])
    places = [each for each in given if "=" not in each]
    if len(places) < 2 or sorted(places) != sorted(inputs[: len(places)]):
        return None
    wanted = list(inputs[: len(places)])
    if wanted == places:
        return None
    order = ", ".join([*wanted, *(each for each in given if "=" in each)])
    text = f"its inputs are {', '.join(f'`{each}`' for each in wanted)}, in this order"
    return Help(text, f"{found[1]}({order})")


def filled_input(block: ast.Block, before: Sequence[Tensor], number: str) -> Help | None:
    """Returns the tensor of one number that the next input of a block takes.

    `before` are the tensors of the inputs before it. None unless they have all of its sizes.
    """
    sizes = {
        entry.text: size
        for item, value in zip(block.inputs, before, strict=False)
        for entry, size in zip(item.type.shape.entries, value.type.shape, strict=False)
        if isinstance(entry, ast.Name)
    }
    item = block.inputs[len(before)]
    entries = item.type.shape.entries
    names = [entry.text for entry in entries if isinstance(entry, ast.Name)]
    if not entries or len(names) != len(entries) or not sizes.keys() >= set(names):
        return None
    filled = f"full({show_shape(tuple(sizes[name] for name in names))}, {number})"
    dtype = item.type.dtype or DType.F32.value
    text = f"`{item.name}` has a number for each of {' and '.join(names)}: fill a tensor"
    return Help(text, filled if dtype == DType.F32.value else f"{dtype}({filled})")


def ids_order(span: Span, ids: Tensor, other: Tensor, place: int) -> Help:
    """Returns the cure of a `gather` or `scatter` whose ids, its argument `place`, are no ids.

    It is the call with its first two arguments in the other order, where the other one, `other`,
    is of whole numbers, and else their conversion.
    """
    if ids.type.dtype is DType.BOOL and not other.type.dtype.is_integer:
        text = "sizes may not depend on data: keep all, and choose element by element, by `where`"
        return Help(text)
    if not other.type.dtype.is_integer:
        return conversion(span, "ids", place, DType.I32.value, show_shape(ids.type.shape))
    text = "the ids come first" if place == 0 else "the ids come second, behind what they pick from"
    name, _, inside = " ".join(span.text.split()).removesuffix(")").partition("(")
    given, before = split_top(inside), span.source.text[: span.start].rstrip()
    if before.endswith("|>"):
        piped = re.search(r"(?:[=(,]|\breturn)\s*([\w.]+)\s*\|>$", before)
        if piped is None:
            return Help(f"{text}: give what comes before `|>` a name, and write it in the call")
        given, text = [piped[1], *given], f"{text}, in place of `{piped[1]} |> ...`"
    return Help(text, f"{name}({', '.join([given[1], given[0], *given[2:]])})")


def one_source(first: str, second: str, span: Span) -> Help | None:
    """Returns the line of a value that is to be computed from the source of another one.

    Both are names of lines `k = source |> ...` with the same layers, such as keys and values. The
    source that stays is the one that nothing else of the block reads. `span` is the call.
    """
    text = span.source.text[: span.start]
    block = block_before(text)
    of_first, of_second = (
        re.search(rf"^ +{name} = (\w+) \|> (.+)$", block, re.MULTILINE) for name in (first, second)
    )
    if of_first is None or of_second is None or of_first[1] == of_second[1]:
        return None
    lines = (of_first, of_second)
    layers = [
        [re.sub(r"^[\w.]+: *|\(\[.*\]\)$", "", each) for each in found[2].split(" |> ")]
        for found in lines
    ]
    whole = span.source.text[len(text) - len(block) :]
    body = block_rest(whole).partition("\n ")[2]
    reads = [len(re.findall(rf"(?<!\.)\b{found[1]}\b(?!\s*[:=])", body)) for found in lines]
    if layers[0] != layers[1] or min(reads) != 1 or reads[0] == reads[1]:
        return None
    kept, moved = (lines[0], lines[1]) if reads[0] == 1 else (lines[1], lines[0])
    names = (first, second) if kept is lines[0] else (second, first)
    label = re.match(r"[\w.]+: *", moved[2])
    rest = re.sub(r"^[\w.]+: *", label[0] if label else "", kept[2])
    return Help(
        f"`{names[0]}` is of `{kept[1]}`, and `{names[1]}` of `{moved[1]}`: both come from one",
        f"{names[1]} = {kept[1]} |> {rest}",
    )


def insertion_cure(given: Side, wanted: Sequence[str]) -> Help | None:
    """Returns the cure that inserts axes which a pattern cannot name, as two have one size.

    The axes that are there are the last of their size, as those of the keys are in a mask.
    """
    rest, missing = list(given.axes), list[int]()
    for place in reversed(range(len(wanted))):
        if rest and rest[-1] == wanted[place]:
            rest.pop()
        else:
            missing.append(place)
    if rest:
        return None
    code = given.written
    for place in reversed(missing):
        code = f"insert_axis({code}, {place}, {wanted[place]})"
    return Help("repeat it along the other axes", code)


def conversion(span: Span, name: str, place: int, wanted: str, shape: str) -> Help:
    """Returns the cure that converts an argument to another element type, in the call's words."""
    to = wanted.split(" ", maxsplit=1)[0]
    given = re.fullmatch(r"(?:[\w.]+:\s*)?(\w+)\((.*)\)", " ".join(span.text.split()))
    piped = re.search(r"([A-Za-z_]\w*)\s*\|>\s*$", span.source.text[: span.start])
    arguments = split_top(given[2]) if given else []
    named = [each.partition("=")[2].strip() for each in arguments if each.startswith(f"{name}=")]
    value = "..."
    if named:
        value = named[0]
    elif piped and place == 0:
        value = piped[1]
    elif not piped and place < len(arguments) and "=" not in arguments[place]:
        value = arguments[place]
    is_index = to == "i32"
    text = f"declare what comes in as `{to}{shape}`, or convert it" if is_index else "convert it"
    return Help(text, f"{to}({value})")


def to_float(values: Sequence[Tensor], names: Mapping[str, ElabValue], span: Span) -> Help | None:
    """Returns the cure that converts the first operand that is no float, where floats are taken.

    `names` are the values in scope, and `span` is where the operation is written. Without
    code for an operand that its line does not say.
    """
    line = span.source.line(span.line)
    for value in values:
        if value.type.dtype.is_float or isinstance(value.op, ops.Constant | ops.Broadcast):
            continue
        called = [name for name, each in names.items() if each is value]
        origin = value.origin.span
        if not called and origin is not None and origin.source is span.source:
            called = [" ".join(origin.text.split())]
        written = next((each for each in called if each in line), "")
        if not written or len(written) > LONGEST:
            return None
        if span.text == "/" and value.type.dtype.is_integer:
            return Help(
                "convert it, or divide by `//`, which rounds down", _quotient(span, written)
            )
        return Help("convert it", f"f32({written})")
    return None


def _quotient(span: Span, written: str) -> str:
    """A division of whole numbers with its names converted, or one side if it has no others.

    `span` is its sign.
    """
    before, after = span.source.text[: span.start], span.source.text[span.end :]
    found = re.search(r"([\w.]+)\s*$", before), re.match(r"\s*([\w.]+)(?![\w.(\[])", after)
    if found[0] is None or found[1] is None:
        return f"f32({written})"
    sides = (each[1] for each in found if each is not None)
    return " / ".join(f"f32({each})" if each.isidentifier() else each for each in sides)


def mask_cure(name: str, *, has_bias: bool) -> Help:
    """Returns the cure for floats where a mask is wanted: `bool` may invert them.

    A mask that is added to scores has 0 where a key is seen, which converts to false.
    """
    if name == "mask" and has_bias:
        return Help(
            "`mask` is true where a key is seen, and declared as bool; numbers that are added\n"
            "to the scores, as 0 and -1e9 are, are given as `bias=` in its place"
        )
    return Help("say by a comparison which numbers are true: `bool` is true for all but 0")


def label_start(labels: Tensor, logits: Tensor, axis: int) -> Size | None:
    """Returns the offset of labels behind the rows of logits, if both are parts of one sequence.

    None if they are no parts of one sequence, or the logits are computed from several parts.
    """
    sequence, begin = _part_of(labels, axis)
    starts, seen, rest = set[Size](), set[int](), [logits]
    while rest:
        value = rest.pop()
        source, start = _part_of(value, axis)
        if value.id in seen:
            continue
        seen.add(value.id)
        if source is sequence:
            starts.add(start)
        else:
            rest.extend(value.operands)
    return begin - starts.pop() if len(starts) == 1 else None


def _part_of(value: Tensor, axis: int) -> tuple[Tensor, Size]:
    """Returns the tensor of which a value is a contiguous part along an axis, and the start."""
    start: Size = 0
    while isinstance(value.op, ops.Cast | ops.Slice):
        if isinstance(value.op, ops.Slice) and value.type.rank > axis:
            if value.op.step[axis] != 1:
                break
            start = start + value.op.start[axis]
        value = value.operands[0]
    return value, start


def prediction_first(call: str) -> Help | None:
    """The call of a loss whose two arguments are in the other order."""
    found = re.fullmatch(r"(\w+)\((.*)\)", " ".join(call.split()))
    given = split_top(found[2]) if found else []
    if found is None or len(given) != 2 or any("=" in each for each in given):
        return None
    return Help("the prediction comes first", f"{found[1]}({given[1]}, {given[0]})")


def one_hot_cure(written: str, classes: Tensor, other: Tensor) -> Help | None:
    """Class indices as rows of 0 and 1, where what they meet has one axis more, for the classes.

    `written` is how they are written. None unless their axes are the first of the other's.
    """
    shape, rows = classes.type.shape, other.type.shape
    if not classes.type.dtype.is_integer or not shape or shape != rows[:-1] or rows[-1] == 1:
        return None
    sign, value = ("-", written[1:]) if written.startswith("-") else ("", written)
    text = f"if these are class indices, each is a row of {show(rows[-1])} numbers"
    return Help(text, f"{sign}one_hot({value}, {show(rows[-1])})")


def classes_cure(value: Tensor, call: str) -> Help | None:
    """Advice for classes that `argmax` chose, given to a loss that takes scores; else None."""
    while isinstance(value.op, ops.Cast):
        value = value.operands[0]
    if not isinstance(value.op, ops.ArgMax):
        return None
    text = "these are classes, and a loss takes scores: give it what `argmax` was given"
    written = value.origin.span.text if value.origin.span is not None else ""
    scores = re.match(r"argmax\((\w+)[,)]", written)
    found = re.fullmatch(r"(\w+)\((.*)\)", " ".join(call.split()))
    given = split_top(found[2]) if found else []
    if scores is None or found is None or len(given) != 2 or any("=" in each for each in given):
        return Help(text)
    return Help(text, f"{found[1]}({scores[1]}, {given[1]})")


def other_part(value: Tensor, written: str, axis: int, wanted: Size) -> Help | None:
    """The part of an axis that begins elsewhere and has the wanted size, where it reaches the end.

    `written` is the part as it is written, `x[..., 4:]`.
    """
    found = re.fullmatch(r"(.+\[.*?)(\d+):\]", written)
    if found is None or not isinstance(value.op, ops.Slice) or value.op.step[axis] != 1:
        return None
    whole, size = value.operands[0].type.shape[axis], value.type.shape[axis]
    if not (isinstance(whole, int) and isinstance(size, int) and isinstance(wanted, int)):
        return None
    if axis != value.type.rank - 1 or whole - size != int(found[2]) or not 0 < wanted < whole:
        return None
    text = f"this part has {size} of {whole}: {wanted} of them begin at {whole - wanted}"
    return Help(text, f"{found[1]}{whole - wanted}:]")


def rank_cure(block: str, value: str, axes: Sequence[str], *, is_known: bool) -> Help | None:
    """Returns the cure that gives a tensor the axes of a library layer, by its use.

    `is_known` is false of a tensor of which only the type is known yet, and not its origin.
    """
    shown = value if re.fullmatch(r"\w+", value) else "x"
    if block == "attention" and len(axes) == 3:
        first, second = axes[:2]
        return Help(
            "split it into heads",
            f"rearrange({shown}, [{first}, {second}, heads * e] -> [{first}, heads, {second}, e])",
        )
    if block in ("conv2d", "max_pool", "avg_pool", "depthwise_conv2d") and len(axes) == 3:
        first, *rest = axes
        one = f"[{first}, {', '.join(rest)}] -> [{first}, 1, {', '.join(rest)}]"
        return Help("pictures have channels, as axis 1", f"rearrange({shown}, {one})")
    if block in _FEATURES and len(axes) == 2 and is_known:
        what, wanted = _FEATURES[block]
        cut = _cut(axes[1]) if wanted == _PICTURES else ""
        if cut:
            joined = cut.removeprefix("1, ").replace(",", " *")
            code = f"rearrange({shown}, [{axes[0]}, {joined}] -> [{axes[0]}, {cut}])"
            return Help("if these are square pictures, cut them into rows", code)
        return Help(f"{what}: an input is declared with them", f"{shown}: {wanted}")
    return None


_PICTURES = "[n, c, h, w]"
_FEATURES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("conv2d", "conv_transpose2d"), ("pictures have channels, rows and columns", _PICTURES)
    ),
    **dict.fromkeys(
        ("conv1d", "conv_transpose1d"), ("a series has channels and steps", "[n, c, t]")
    ),
}
"""The axes that layers over pictures and series need, where features have one."""


def _cut(features: str) -> str:
    """Returns the channels, rows and columns of square pictures of so many numbers, or nothing."""
    count = int(features) if features.isdecimal() else 0
    for channels in (1, 3):
        edge = isqrt(count // channels)
        if edge > 1 and channels * edge**2 == count:
            return f"{channels}, {edge}, {edge}"
    return ""
