"""Cures of results that have another shape than the block declares.

A cure computes what is declared, and is code where one program alone can be meant. What may be
meant otherwise, such as another declaration or a reduction, is explained in words.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.origin_cures import (
    Same,
    is_same_shape,
    main_operand,
    other_reduction,
    whole_before,
    without,
)
from meganeura_dsl.elaborate.problems.shape_cures import (
    LONGEST,
    all_written,
    is_written,
    other_input_cure,
)
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor, is_assumed_tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import block_before

_LINEAR = re.compile(r"(?:[\w.\[\]{}]+:\s*)?linear\(")
_WAVES = re.compile(r"concat\((sin|cos)\((?P<angles>\w+)\), (sin|cos)\((?P=angles)\), axis=")
"""The sines and the cosines of the same angles, joined."""
_HEADS = ("head", "heads", "n_head", "n_heads", "nhead", "num_heads")


def result_cure(
    value: Tensor,
    written: str,
    wanted: Shape,
    known: Collection[str],
    block: ast.Block,
    same: Same,
    source_of: SourceOf,
) -> Help | None:
    """Returns the cure for a result of another shape, or the words for how it comes to have it.

    `known` are the names in scope where the `block` returns.
    """
    config = {each.name for each in block.parameters}
    found = value.type.shape
    axes, declared = [show(size) for size in found], [show(size) for size in wanted]
    step = "|> " if "|>" in written else ""
    if Counter(axes) == Counter(declared) and len(set(axes)) == len(axes):
        pattern = f"[{', '.join(axes)}] -> [{', '.join(declared)}]"
        moved = f"|> rearrange({pattern})" if step else f"rearrange({written}, {pattern})"
        return Help("its axes are in another order", moved) if all_written(axes) else None
    reduced = other_reduction(value, wanted, same)
    if reduced is not None:
        return Help(reduced.text, f"{step}{reduced.code}")
    unreduced = whole_before(value, wanted, same)
    if unreduced is not None:
        return unreduced
    linear = _first_linear(value, source_of)
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
    if ones[0] == ones[1] and all_written(declared) and len(axes) != len(declared):
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
        which = " and ".join(f"`{axes[at]}` (axis {at})" for at in gone)
        places = ", ".join(map(str, gone))
        source = _carried_from(value, gone)
        if source:
            return Help(
                f"there are more axes than declared: {which}, as `{source}` has.\n"
                f"If a result is to keep them, declare {show_shape(found)}; if not, "
                f"`mean({places})`, a sum or a maximum\nreduces, and an index takes one place"
            )
        return other_result(value, len(wanted), source_of) or Help(
            f"there are more axes than declared: {which}.\n"
            f"`mean({places})`, a sum or a maximum reduces, and an index takes one place of an axis"
        )
    other = differing(found, wanted, same) if len(axes) == len(declared) else []
    if len(other) == 1:
        return _of_another_size(value, other[0], wanted, known, block, same, source_of)
    return None


def _of_another_size(
    value: Tensor,
    at: int,
    wanted: Shape,
    known: Collection[str],
    block: ast.Block,
    same: Same,
    source_of: SourceOf,
) -> Help | None:
    """The words for a result that differs in one axis: which of both is meant is not known."""
    found, declared = show(value.type.shape[at]), show(wanted[at])
    entries = [entry for item in block.inputs for entry in item.type.shape.entries]
    changed = _changed_by(value, at, wanted[at], same, source_of)
    if changed is not None:
        return changed
    if {found, declared} <= {each.text for each in entries if isinstance(each, ast.Name)}:
        return other_input_cure(at, found, declared)
    if is_written(found) and set(re.findall(r"[A-Za-z_]\w*", found)) <= set(known):
        return Help(
            f"axis {at} is {found}, and {declared} is declared: the computation or the signature\n"
            "is not as it is meant"
        )
    return None


def _changed_by(
    value: Tensor, at: int, wanted: Size, same: Same, source_of: SourceOf
) -> Help | None:
    """The words for the call before which an axis was as declared, and behind which it is not."""
    found = value.type.shape[at]
    while value.type.shape[at] == found:
        before = main_operand(value, source_of)
        if before is None:
            return None
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        call = " ".join(span.text.split()) if span is not None else ""
        if before.type.shape[at] != found and same(before.type.shape[at], wanted):
            if not call or len(call) > LONGEST:
                return None
            was, now = show(wanted), show(found)
            if waves := _WAVES.match(call):
                return Help(
                    f"the sines and the cosines of {was} angles are {now} numbers: axis {at} of\n"
                    f"`{waves['angles']}` has to be half of what is declared, {show(wanted // 2)}"
                )
            return Help(f"axis {at} is {was} before `{call}`, as declared, and {now} behind it")
        value = before
    return None


def other_result(value: Tensor, rank: int, source_of: SourceOf) -> Help | None:
    """The words for a value that is computed from one of several results of a block.

    None unless another one has as many axes as `rank`. Which one is meant is not known.
    """
    made: Tensor | None = value
    while made is not None:
        applied = source_of(made)
        results = () if applied is None else applied.results
        if applied is not None and any(each.type.rank == rank for each in results):
            types = ", ".join(str(each.type) for each in results)
            return Help(
                f"`{applied.block}` has {len(results)} results, in this order: {types}.\n"
                f"This is computed from {made.type}, which has more axes than declared"
            )
        made = main_operand(made, source_of)
    return None


def other_join(value: Tensor, wanted: Shape, same: Same) -> Help | None:
    """The `concat` along the only other axis that gives the wanted shape.

    Layers behind it that make an axis anew make it so whatever was joined.
    """
    joined, rank, anew = value, value.type.rank, set[int]()
    while not isinstance(joined.op, ops.Concat):
        before = main_operand(joined)
        if before is None:
            return None
        if isinstance(joined.op, ops.MatMul | ops.Conv):
            anew.add(rank - 1 if isinstance(joined.op, ops.MatMul) else 1)
        joined = before
    span = joined.origin.span
    call = " ".join(span.text.split()) if span is not None else ""
    if not re.match(r"concat\(", call):
        return None
    if len(re.findall(r"axis=\d+", call)) != 1 or joined.type.rank != len(wanted):
        return None
    shapes = [each.type.shape for each in joined.operands]
    last = value.type.shape
    fitting: list[int] = []
    for axis in range(len(shapes[0])):
        others = {tuple(map(show, without(shape, axis))) for shape in shapes}
        total = sum((shape[axis] for shape in shapes[1:]), shapes[0][axis])
        whole = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
        result = tuple(
            last[at] if at in anew or not same(last[at], joined.type.shape[at]) else size
            for at, size in enumerate(whole)
        )
        if len(others) == 1 and is_same_shape(result, wanted, same):
            fitting.append(axis)
    if len(fitting) != 1:
        return None
    code = re.sub(r"axis=\d+", f"axis={fitting[0]}", call)
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
    if not all_written(axes) or not same(given[2], found[2]):
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


def _first_linear(value: Tensor, source_of: SourceOf) -> tuple[Tensor, str] | None:
    """The input and the call of the first of the linear layers that made a value of its rank."""
    found = None
    while (before := main_operand(value, source_of)) is not None:
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        if span is not None and _LINEAR.match(span.text) and before.origin.span != span:
            found = before, span.text
        value = before
    return found


def _joined_cure(source: Tensor, call: str, written: str, config: Collection[str]) -> Help | None:
    """The axes to join before the first linear layer, which acts on the last axis alone.

    None if there is one axis more, of the data: its mean is as likely.
    """
    axes = [show(size) for size in source.type.shape]
    if not all_written(axes):
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


def _carried_from(value: Tensor, axes: Sequence[int]) -> str:
    """The input of a value without weights that has the same size along axes; empty if none has."""
    made = list(_made_of(value))
    if any(isinstance(each.op, ops.Parameter) or is_assumed_tensor(each) for each in made):
        return ""
    for each in made:
        shape = each.type.shape if each.type.rank == value.type.rank else ()
        is_same = bool(shape) and all(shape[at] == value.type.shape[at] for at in axes)
        if isinstance(each.op, ops.Input) and is_same:
            return each.op.name
    return ""


def one_row_cure(logits: Tensor, axis: int, source_of: SourceOf) -> Help | None:
    """The axes to join before the first linear layer, where an example has one label for all rows.

    None unless a block that is given the rows as an axis of its input made the logits.
    """
    linear = _first_linear(logits, source_of)
    if linear is None or not isinstance(logits.type.shape[axis], int):
        return None
    source, call = linear
    span = logits.origin.span
    if span is None or not isinstance(source.op, ops.Input) or source.type.rank < axis + 2:
        return None
    header = block_before(span.source.text[: span.start])
    found = re.match(r"block (\w+)[^\n]*?\(\w+: \[([^\]]*)\]", header)
    axes = found[2].split(", ") if found is not None else []
    if found is None or len(axes) != source.type.rank or not all_written(axes):
        return None
    text = (
        f"each example has one label, and `{found[1]}` gives a row of classes for each of "
        f"{show(logits.type.shape[axis])}:\nto give one, join the axes before `{call}`"
    )
    pattern = f"[{', '.join(axes)}] -> [{axes[0]}, {' * '.join(axes[1:])}]"
    return Help(text, f"rearrange({pattern}) |> {call}")


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
