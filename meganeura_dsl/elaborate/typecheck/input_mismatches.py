"""Problems of tensors whose shape does not match the input they are given for."""

import re
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.argument_cures import (
    argument_order,
    insertion_cure,
    label_start,
    one_source,
    other_part,
    rank_cure,
)
from meganeura_dsl.elaborate.problems.axis_calls import other_layout
from meganeura_dsl.elaborate.problems.gather_cures import one_of_each_row
from meganeura_dsl.elaborate.problems.head_cures import map_cure
from meganeura_dsl.elaborate.problems.layout_cures import layout_pattern, rearranged
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.origin_cures import begun_line
from meganeura_dsl.elaborate.problems.proof_failures import deciding_fact, example_of
from meganeura_dsl.elaborate.problems.rank_cures import counted_twice, layer_rank_cure
from meganeura_dsl.elaborate.problems.result_cures import one_row_cure
from meganeura_dsl.elaborate.problems.shape_cures import elementwise_cure, expansion_cure, side_of
from meganeura_dsl.elaborate.problems.shape_problems import ArgumentMismatch, RankMismatch
from meganeura_dsl.elaborate.problems.training_problems import LabelsMismatch
from meganeura_dsl.elaborate.problems.width_cures import made_width, other_width
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.shape_patterns import (
    Mismatch,
    pattern_text,
    size_names,
    size_names_of,
)
from meganeura_dsl.elaborate.values import Tensor, is_assumed_tensor, is_size, is_tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Size, product, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import split_top

LOGITS = "logits"

TARGET = "target"

PREDICTIONS = (LOGITS, "prediction")
"""Names of the first input of the library's losses."""


def argument_problem(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span, mismatch: Mismatch
) -> ArgumentMismatch | LabelsMismatch | RankMismatch:
    """The problem of a tensor whose shape does not match the type of its input."""
    location = inner.caller_location(span)
    first = inner.names[block.inputs[0].name]
    is_loss = inner.module.is_library and block.inputs[0].name in PREDICTIONS
    if is_loss and item is not block.inputs[0] and is_tensor(first):
        of_classes = block.inputs[0].name == LOGITS and item.name != TARGET
        layout = _label_layout(inner, location.span, value, first) if of_classes else None
        source_of = inner.state.values.source_of
        return _labels_problem(
            location, value, first, mismatch, layout, source_of, of_classes=of_classes
        )
    declared = pattern_text(item.type.shape)
    begun = _begun(inner, block, item, value, span)
    if mismatch.axis is None or mismatch.wanted is None or mismatch.found is None:
        return _of_another_rank(inner, block, item, value, location, begun)
    condition = Compare("==", mismatch.wanted, mismatch.found)
    example = (
        None
        if mismatch.verdict is None
        else example_of(mismatch.verdict, [("found", value.type.shape)])
    )
    wanted = mismatch.wanted_text
    described = f"{declared}, where axis {mismatch.axis} is {wanted}"
    due = f"{_made_by(block, item, mismatch)} {wanted}"
    found = show(mismatch.found)
    advice = f"axis {mismatch.axis} is {found} here, and {due}: pass a tensor of that size"
    advice = _of_number(inner, block, item, mismatch) or advice
    same = _of_one_source(inner, block, item, mismatch.axis, location.span)
    if begun is not None:
        location, same = begun
    fact = deciding_fact(inner.facts, condition)
    return ArgumentMismatch(
        location,
        block.name.text,
        item.name,
        described,
        str(value.type),
        mismatch.axis,
        example,
        fact,
        advice,
        same
        if begun is not None
        else argument_order(location.span.text, [each.name for each in block.inputs])
        or same
        or _of_result(inner, value, mismatch)
        or other_width(value, mismatch.found, mismatch.wanted, inner.state.values.source_of)
        or _laid_out(inner, block, item, value, location.span),
    )


def _of_result(inner: Frame, value: Tensor, mismatch: Mismatch) -> Help | None:
    """Returns the layer by which an axis is that of the result, as often as a call takes it.

    `pixel_shuffle(r)` makes `c` channels of `c * r * r`: for `[n, 3, h, w]` a layer makes `3*r**2`.
    """
    around, factor, axis = inner.parent, mismatch.factor, mismatch.axis
    outermost = around.declaration if around is not None else None
    if factor is None or axis is None or around is None or not isinstance(outermost, ast.Block):
        return None
    results = outermost.results or ()
    entries = results[0].shape.entries if len(results) == 1 else ()
    if len(entries) != value.type.rank:
        return None
    known, entry = {each.name for each in outermost.parameters}, entries[axis]
    if isinstance(entry, ast.Rest) or ast.Rest in map(type, entries):
        return None
    size = around.evaluate(entry) if known.issuperset(size_names(entry)) else None
    if size is None or not is_size(size):
        return None
    return made_width(value, axis, size * factor, inner.state.values.source_of, known)


def _of_another_rank(
    inner: Frame,
    block: ast.Block,
    item: ast.Input,
    value: Tensor,
    location: Location,
    begun: tuple[Location, Help] | None,
) -> RankMismatch:
    """The problem of a tensor with another number of axes; `begun` is the cure of a state."""
    what, entries = f"`{item.name}` of `{block.name.text}`", item.type.shape.entries
    declared, found = pattern_text(item.type.shape), str(value.type)
    if begun is not None:
        return RankMismatch(begun[0], what, declared, found, begun[1])
    at, is_first = location.span, item is block.inputs[0]
    has_rest = ast.Rest in map(type, entries)
    cure = _expanded(inner, item, value, at.text)
    if is_first and not has_rest:
        outermost = [inner, *inner.enclosing()][-1].declaration
        results = outermost.results if isinstance(outermost, ast.Block) else ()
        axes = [each.span.text for each in results[0].shape.entries] if results else []
        cure = cure or counted_twice(block.name.text, len(entries), value, at.text, axes)
    cure = cure or _laid_out(inner, block, item, value, at)
    if cure is None and inner.module.is_library:
        axes = [show(size) for size in value.type.shape]
        is_known = not is_assumed_tensor(value)
        cure = map_cure(block.name.text, at.text, value)
        cure = cure or rank_cure(block.name.text, item.name, axes, is_known=is_known)
    if cure is None and not has_rest:
        before = at.source.text[: at.start] if is_first else ""
        cure = layer_rank_cure(block.name.text, len(entries), value, at.text, before)
    return RankMismatch(location, what, declared, found, cure)


def _made_by(block: ast.Block, item: ast.Input, mismatch: Mismatch) -> str:
    """The words for what makes the wanted size: the declaration, the configuration or a call."""
    name, others = block.name.text, f"the other arguments of `{block.name.text}` make it"
    entries = [each for each in item.type.shape.entries if not isinstance(each, ast.Rest)]
    if mismatch.axis is None or len(entries) < len(item.type.shape.entries):
        return others
    names = size_names(entries[mismatch.axis])
    if not names:
        return f"`{name}` declares"
    is_set = set(names) <= {each.name for each in block.parameters}
    return f"the configuration of `{name}` makes it" if is_set else others


def _begun(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span
) -> tuple[Location, Help] | None:
    """Returns where a scan's state begins, and the line by which it has the axes of an input.

    None for what no scan carries, and for a state that is not filled with one number.
    """
    around = inner.parent
    if around is None:
        return None
    for scan in around.state.scans.values():
        names = [name for name in scan.carried if scan.is_at_start(name, value)]
        if scan.frame is not around or not names:
            continue
        before = scan.before[names[0]]
        sizes = _sizes_beside(inner, block, item)
        code = begun_line(names[0], before, sizes) if sizes is not None else None
        if code is None or before.origin.span is None:
            return None
        call = around.location(span).span
        text = f"an iteration gives it to `{block.name.text}` in line {call.line}: let it begin so"
        return around.location(before.origin.span), Help(text, code)
    return None


def _sizes_beside(inner: Frame, block: ast.Block, item: ast.Input) -> tuple[Size, ...] | None:
    """Returns the sizes of an input by the other arguments; None if one is open."""
    known: dict[str, Size] = {}
    for other in block.inputs:
        given = inner.names.get(other.name, "")
        entries = other.type.shape.entries
        if other is item or not is_tensor(given) or given.type.rank != len(entries):
            continue
        for entry, size in zip(entries, given.type.shape, strict=True):
            if isinstance(entry, ast.Name):
                known.setdefault(entry.text, size)
    sizes: list[Size] = []
    for entry in item.type.shape.entries:
        if isinstance(entry, ast.Rest):
            return None
        if isinstance(entry, ast.Name) and entry.text in known:
            sizes.append(known[entry.text])
            continue
        if not {each.name for each in block.parameters}.issuperset(size_names(entry)):
            return None
        size = inner.evaluate(entry)
        if not is_size(size):
            return None
        sizes.append(size)
    return tuple(sizes)


def _of_number(inner: Frame, block: ast.Block, item: ast.Input, mismatch: Mismatch) -> str:
    """Advice for a header that has a number where any number of examples may come."""
    entries = item.type.shape.entries
    is_number = bool(entries) and isinstance(entries[0], ast.Integer)
    if mismatch.axis != 0 or not is_number or isinstance(mismatch.found, int):
        return ""
    if inner.module.is_library:
        return ""
    axes = ["n", *(each.span.text for each in entries[1:])]
    number = entries[0].span.text
    return (
        f"the header of `{block.name.text}` takes {number} alone: a name takes any number, in the\n"
        f"results too: `{item.name}: [{', '.join(axes)}]`"
    )


def _of_one_source(
    inner: Frame, block: ast.Block, item: ast.Input, axis: int, span: Span
) -> Help | None:
    """Returns the cure for two inputs that share an axis and are computed from two values."""
    entries = item.type.shape.entries
    if axis >= len(entries) or any(isinstance(each, ast.Rest) for each in entries):
        return None
    entry = entries[axis]
    if not isinstance(entry, ast.Name) or inner.parent is None:
        return None
    others = [
        each
        for each in block.inputs[: block.inputs.index(item)]
        if any(isinstance(it, ast.Name) and it.text == entry.text for it in each.type.shape.entries)
    ]
    if not others:
        return None
    around = {value.id: name for name, value in inner.parent.names.items() if is_tensor(value)}
    given = [inner.names[each.name] for each in (others[0], item)]
    names = [around.get(each.id, "") for each in given if is_tensor(each)]
    first, second = names if len(names) == 2 else ("", "")
    return one_source(first, second, span) if first and second else None


def _laid_out(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span
) -> Help | None:
    """Returns the cure that gives a tensor an input's axes, if they are a permutation of its own.

    Sizes that the call gives otherwise are known: its configuration, and inputs before this one.
    """
    place = block.inputs.index(item)
    given = {name for each in block.inputs[:place] for name in size_names_of(each.type.shape)}
    given |= {each.name for each in block.parameters}
    wanted: list[Size | None] = []
    for entry in item.type.shape.entries:
        if isinstance(entry, ast.Rest):
            return None
        size = inner.evaluate(entry) if given.issuperset(size_names(entry)) else None
        wanted.append(size if size is None or is_size(size) else None)

    def is_same(one: Size, other: Size) -> bool:
        return inner.facts.proves(Compare("==", one, other))

    known = inner.caller_names()
    found = layout_pattern(value.type.shape, wanted, known, is_same)
    if found is None:
        return None
    text, pattern = found
    before = span.source.text[: span.start]
    return other_layout(value, wanted, is_same) or Help(
        text, rearranged(span.text, before, place, pattern, item.name)
    )


def _expanded(inner: Frame, item: ast.Input, value: Tensor, call: str) -> Help | None:
    """Returns the cure that gives a named argument its input's axes, if all are known."""
    sizes: list[str] = []
    for entry in item.type.shape.entries:
        size = inner.names.get(entry.text, "") if isinstance(entry, ast.Name) else ""
        if not is_size(size):
            return None
        sizes.append(show(size))
    inside = re.search(r"\((.*)\)", " ".join(call.split()))
    arguments = split_top(inside[1]) if inside is not None else []
    given = [each for each in arguments if each.partition("=")[0].strip() == item.name]
    if not given or inner.parent is None:
        return None
    written = given[0].partition("=")[2].strip()
    side = side_of(written, value.type.shape)
    return expansion_cure(side, sizes, sizes) or insertion_cure(side, sizes)


def _label_layout(inner: Frame, span: Span, labels: Tensor, logits: Tensor) -> Help | None:
    """The call of a loss in which class indices or logits are rearranged, so that both fit."""
    if labels.type.dtype.is_float:
        return None
    known = inner.caller_names()
    rows, given = logits.type.shape[:-1], labels.type.shape

    def is_same(one: Size, other: Size) -> bool:
        return inner.facts.proves(Compare("==", one, other))

    of_labels = layout_pattern(given, rows, known, is_same)
    classes = next((size for size in reversed(logits.type.shape) if size != 1), None)
    classes = classes if len(given) < len(rows) else None
    of_logits = layout_pattern(logits.type.shape, (*given, classes), known, is_same)
    before = span.source.text[: span.start]
    moved = other_layout(logits, (*given, classes), is_same)
    if of_logits is not None and moved is not None and moved.code is not None:
        inside = logits.origin.span
        written = "" if inside is None else " ".join(inside.text.split())
        call = " ".join(span.text.split())
        return replace(moved, code=call.replace(written, moved.code)) if written else moved
    if of_logits is not None and (of_labels is None or len(given) < len(rows)):
        text = "give the logits the axes of the labels, and the classes behind them"
        return Help(text, rearranged(span.text, before, 0, of_logits[1]))
    if of_labels is None:
        return None
    text = "give the labels the axes of the rows"
    return Help(text, rearranged(span.text, before, 1, of_labels[1]))


def _labels_problem(
    location: Location,
    labels: Tensor,
    logits: Tensor,
    mismatch: Mismatch,
    layout: Help | None,
    source_of: SourceOf,
    *,
    of_classes: bool,
) -> LabelsMismatch:
    """The refusal of what a loss compares with predictions: classes, or values of their shape.

    `layout` says which of both would fit if it was rearranged, if one would.
    """
    if mismatch.axis is None or mismatch.wanted is None or mismatch.found is None:
        found, wanted = labels.type.rank, logits.type.rank
        axis = f"{found} {'axis' if found == 1 else 'axes'} against {wanted}"
    else:
        sizes = f"{show(mismatch.wanted)}{' classes' if of_classes else ''}"
        axis = f"axis {mismatch.axis}: {sizes} against {show(mismatch.found)}"
    shapes = show_shape(labels.type.shape), show_shape(logits.type.shape)
    indices = show_shape(logits.type.shape[:-1])
    if of_classes and layout is not None:
        words = f"a label for each row of logits is {indices}, and classes are the last axis"
        return LabelsMismatch(location, *shapes, words, layout, is_stretched=False)
    if of_classes and _are_classes(labels, logits):
        words, cure = _of_rows(labels, logits, location.span.text, source_of)
        return LabelsMismatch(location, *shapes, words, cure, is_stretched=False)
    sizes = (mismatch.wanted, mismatch.found) if mismatch.axis is not None else (1, 1)
    if of_classes and not labels.type.dtype.is_float and labels.type.shape == logits.type.shape:
        words = "these are rows of whole numbers, and a label is one class"
        cure = Help("the class of each row is", f"argmax(..., {labels.type.rank - 1})")
        return LabelsMismatch(location, *shapes, words, cure, is_stretched=False)
    if of_classes:
        made = _made_width(logits, mismatch, source_of)
        if made is not None and labels.type.dtype.is_float and mismatch.found != 1:
            return LabelsMismatch(location, *shapes, axis, made, is_stretched=1 in sizes)
        cure = Help(f"class indices are  i32{indices}        one-hot targets are  {shapes[1]}")
        if labels.type.dtype.is_float and labels.type.shape == logits.type.shape[:-1]:
            words = "without `i32` these are one-hot targets, which have an axis for the classes"
            return LabelsMismatch(location, *shapes, words, cure, is_stretched=False)
        return LabelsMismatch(location, *shapes, axis, cure, is_stretched=1 in sizes)
    written = " ".join(location.span.text.split())
    call = re.fullmatch(r"\w+(?:\([^()]*\))?\((.+)\)", written)
    given = split_top(call[1]) if call else []
    names = (given[1], given[0]) if len(given) == 2 else ("target", "prediction")
    sides = side_of(names[0], labels.type.shape), side_of(names[1], logits.type.shape)
    known = {axis for side in sides for axis in side.axes}
    stretched = {mismatch.wanted, mismatch.found} if mismatch.axis is not None else {1}
    cure = one_of_each_row(labels) or one_of_each_row(logits)
    if cure is not None:
        return LabelsMismatch(
            location,
            *shapes,
            axis,
            cure,
            ("the target", "the prediction"),
            is_stretched=1 in stretched,
        )
    cure = elementwise_cure(*sides, known)
    if labels.type.rank == logits.type.rank or cure is None or "rearrange(" not in str(cure.code):
        cure = _of_values((labels, logits), names, mismatch, source_of)
    return LabelsMismatch(
        location, *shapes, axis, cure, ("the target", "the prediction"), is_stretched=1 in stretched
    )


def _made_width(prediction: Tensor, mismatch: Mismatch, source_of: SourceOf) -> Help | None:
    """Returns the layer by which a prediction has the size of its target on one axis."""
    if mismatch.axis is None or mismatch.axis >= prediction.type.rank:
        return None
    return made_width(prediction, mismatch.axis, mismatch.found, source_of)


def _of_values(
    pair: tuple[Tensor, Tensor], names: tuple[str, str], mismatch: Mismatch, source_of: SourceOf
) -> Help:
    """Returns the cure of a target and a prediction that differ, by how they were computed."""
    cure: Help | None = None
    target, prediction = (each.type.shape for each in pair)
    at = mismatch.axis
    if at is None or len(target) != len(prediction):
        joined = _joined_axes(pair, names)
        if joined is not None:
            return joined
        ranks = f"{len(target)} and {len(prediction)} axes"
        return Help(f"they have {ranks}: compute both with one shape, as nothing is stretched")
    sizes = target[at], prediction[at]
    for value, name, wanted in zip(pair, names, reversed(sizes), strict=True):
        cure = cure or other_part(value, name, at, wanted)
    return (
        cure
        or _made_width(pair[1], mismatch, source_of)
        or Help(
            f"axis {at} is {show(sizes[0])} in the target and {show(sizes[1])} in the prediction: "
            "take the part\nthat is meant, or have the layers make as many"
        )
    )


def _joined_axes(pair: tuple[Tensor, Tensor], names: tuple[str, str]) -> Help | None:
    """The side of more axes with those behind the first joined, if the other has as many of them.

    None unless these axes have numbers.
    """
    sides = sorted(zip(pair, names, strict=True), key=lambda each: each[0].type.rank)
    (flat, _), (whole, name) = sides
    first, *others = whole.type.shape
    if flat.type.rank != 2 or not all(isinstance(each, int) for each in others):
        return None
    code = side_of(name, whole.type.shape).moved(
        "rearrange", (show(first), " * ".join(map(show, others)))
    )
    if flat.type.shape != (first, product(others)) or code is None:
        return None
    return Help(f"the other side has these {show(product(others))} on one axis: join them", code)


def _are_classes(labels: Tensor, logits: Tensor) -> bool:
    """True if labels are whole numbers along all axes of the rows, of which some are not equal."""
    return not labels.type.dtype.is_float and labels.type.rank == logits.type.rank - 1


def _of_rows(labels: Tensor, logits: Tensor, call: str, source_of: SourceOf) -> tuple[str, Help]:
    """Returns the axis of the rows that differs, and the cure if one side has more."""
    pairs = list(zip(logits.type.shape, labels.type.shape, strict=False))
    axis = next(at for at, (rows, given) in enumerate(pairs) if rows != given)
    rows, given = pairs[axis]
    words = f"axis {axis}: {show(rows)} rows of logits against {show(given)} labels"
    one_row = one_row_cure(logits, axis, source_of) if given == 1 else None
    if one_row is not None:
        return words, one_row
    if isinstance(labels.op, ops.Iota) and labels.type.rank == 1:
        return words, Help("each row has one label: count the rows", f"iota({show(rows)})")
    more = rows - given
    written = re.match(r"\w+(?:\([^()]*\))?\((?P<logits>[\w.]+),", call)
    if isinstance(more, int) and more > 0:
        begin = label_start(labels, logits, axis)
        if begin is not None and begin != 1 and axis > 0:
            following = "[" + ", ".join([*(":" for _ in range(axis)), "1:"]) + "]"
            return words, Help(
                f"each row has one label, and these begin {show(begin)} behind the rows: where\n"
                f"the next token is predicted, the labels are `{following}` of the sequence"
            )
        if begin == 1 and written is not None:
            part = ", ".join([*(":" for _ in range(axis)), f":{show(given)}"])
            code = f"{written['logits']}[{part}]"
            return words, Help("each row has one label: leave out the rows that have none", code)
        return words, Help(
            "each row has one label: leave out the rows that have none, which depends on\n"
            "the position that each label belongs to"
        )
    given_labels = re.fullmatch(r"\w+(?:\([^()]*\))?\(.*, (?P<labels>\w+)\)", call)
    if more == -1 and given_labels is not None and label_start(labels, logits, axis) == 0:
        part = ", ".join([*(":" for _ in range(axis)), "1:"])
        text = "the first of the sequence is the label of none: where the next is predicted, it is"
        return words, Help(text, f"{given_labels['labels']}[{part}]")
    return words, Help(f"each row has one label: i32{show_shape(logits.type.shape[:-1])}")
