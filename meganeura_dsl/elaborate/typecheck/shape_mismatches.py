"""Sides of an elementwise operation that do not fit: the message, and the advice for it."""

import re
from collections.abc import Callable, Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems import origin_cures, resolution_cures, vector_cures
from meganeura_dsl.elaborate.problems.axis_calls import other_layout
from meganeura_dsl.elaborate.problems.gather_cures import one_of_each_row
from meganeura_dsl.elaborate.problems.head_cures import unmerged_cure
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.path_cures import narrowed, other_question, path_cure
from meganeura_dsl.elaborate.problems.proof_failures import example_of, helpful_fact, helpful_facts
from meganeura_dsl.elaborate.problems.sequence_cures import tokens_last_cure
from meganeura_dsl.elaborate.problems.shape_cures import elementwise_cure, side_of
from meganeura_dsl.elaborate.problems.shape_problems import (
    MissingFact,
    ShapeMismatch,
)
from meganeura_dsl.elaborate.problems.width_cures import kept_width, made_width
from meganeura_dsl.elaborate.problems.window_cures import SourceOf, causal_part, meeting_cure
from meganeura_dsl.elaborate.problems.written_numbers import numbers_cure
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.typecheck.value_origins import axes_of_inputs
from meganeura_dsl.elaborate.values import (
    Tensor,
    show_shape,
)
from meganeura_dsl.symbolic.assumptions import Compare, Proved, Verdict
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import split_top

_LONGEST_NAME = 32
"""Characters of an argument of `where` that stands for itself in a message."""


def shape_mismatch(
    frame: Frame,
    span: Span,
    operator: str,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    found: tuple[int, int, Verdict],
) -> ShapeMismatch | MissingFact:
    """Returns the problem of two sides that differ on the axes of `found`, by its verdict."""
    left, right = pair
    large_axis, small_axis, verdict = found
    left_axis, right_axis = (
        (large_axis, small_axis) if left.type.rank >= right.type.rank else (small_axis, large_axis)
    )
    called = _arguments_of(span) if operator == "where" else {}
    written = (
        side_of(called.get(names[0], names[0]), left.type.shape),
        side_of(called.get(names[1], names[1]), right.type.shape),
    )
    if all(len(side.name) <= _LONGEST_NAME for side in written):
        names = (written[0].name, written[1].name)
    shapes = [(names[0], left.type.shape), (names[1], right.type.shape)]
    example = example_of(verdict, shapes)
    sizes = left.type.shape[left_axis], right.type.shape[right_axis]
    fact = helpful_fact(frame.facts, Compare("==", *sizes))
    location = frame.location(span)
    if fact is not None and not frame.choices.words:
        texts = tuple(
            (f"axis {axis} of {name} is", show(size))
            for axis, name, size in zip((left_axis, right_axis), names, sizes, strict=True)
        )
        what = f"the two sides of `{operator}` agree"
        trailing = zip(reversed(left.type.shape), reversed(right.type.shape), strict=False)
        claims = [Compare("==", *sides) for sides in trailing]
        stated = helpful_facts(frame.facts, fact, claims[::-1])
        return MissingFact(location, what, texts[0], texts[1], example, stated)
    changed = _changes(
        frame, ((names[0], left, left_axis, sizes[1]), (names[1], right, right_axis, sizes[0]))
    )
    axes = tuple(
        f"axis {axis} of {name} is {show(size)}"
        for axis, name, size in zip((left_axis, right_axis), names, sizes, strict=True)
    )
    shown = [(name, show_shape(shape)) for name, shape in shapes]
    cure = one_of_each_row(left) or one_of_each_row(right)
    larger, smaller = (left, right) if left.type.rank >= right.type.rank else (right, left)
    cure = cure or unmerged_cure(larger, smaller, frame.state.values.source_of)
    sides = sorted(zip(names, pair, strict=True), key=lambda each: each[1].type.rank)
    cure = cure or origin_cures.kept_axis_cure(sides[1], sides[0])
    cure = cure or _other_layout(frame, left, right)
    cure = cure or elementwise_cure(*written, frame.names) or _window_cure(frame, left, right)
    cure = cure or _cure_by_origin(
        frame, span, operator, pair, names, (left_axis, right_axis), changed
    )
    cure = cure or numbers_cure(pair, (left_axis, right_axis), frame.state.values.source_of)
    met = None
    if frame.choices.words and names[0].isidentifier() and names[1].isidentifier():
        asked = _other_question(span, names, pair, sizes, frame.choices.words)
        if asked is not None:
            location, cure, met = frame.location(asked[0]), asked[1], span
        cure = cure or path_cure(span, names, sizes, frame.choices.words)
        cure = cure or narrowed(span, sizes, frame.choices.words)
    cure = cure or _general_cure(shown, changed, sizes, on_a_path=bool(frame.choices.words))
    return ShapeMismatch(
        location, operator, shown[0], shown[1], example, changed, ", ".join(axes), cure, met
    )


def _other_question(
    span: Span,
    names: tuple[str, str],
    pair: tuple[Tensor, Tensor],
    sizes: tuple[Size, Size],
    path: Sequence[str],
) -> tuple[Span, Help] | None:
    """The condition that leads to a single choice, if it asks for another axis of a side."""
    if len(path) != 1:
        return None
    sides = [
        (name, [*map(show, value.type.shape)]) for name, value in zip(names, pair, strict=True)
    ]
    return other_question(span, sides, sizes, path[0])


def _arguments_of(span: Span) -> dict[str, str]:
    """Returns the texts of the arguments of a `where`, by their names in messages."""
    inside = " ".join(span.text.split()).partition("(")[2].removesuffix(")")
    names = ("the condition", "the first choice", "the second choice")
    return dict(zip(names, split_top(inside), strict=False))


def _other_layout(frame: Frame, left: Tensor, right: Tensor) -> Help | None:
    """The call that laid out the axes of one side, so that both sides have one shape."""

    def same(one: Size, other: Size) -> bool:
        return isinstance(equal(frame, one, other), Proved)

    first, second = left.type.shape, right.type.shape
    return other_layout(right, first, same) or other_layout(left, second, same)


def _window_cure(frame: Frame, left: Tensor, right: Tensor) -> Help | None:
    """The padding of the windows of one side by which both have one size."""

    def same(one: Size, other: Size) -> bool:
        return isinstance(equal(frame, one, other), Proved)

    return meeting_cure((left, right), same, frame.state.values.source_of, frame.may_change)


def _cure_by_origin(
    frame: Frame,
    span: Span,
    operator: str,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    axes: tuple[int, int],
    changed: Sequence[tuple[str, Location]],
) -> Help | None:
    """Advice by what computed the sides, where no axes of one are those of the other."""

    def same(left: Size, right: Size) -> bool:
        return isinstance(equal(frame, left, right), Proved)

    left, right = pair
    sizes = left.type.shape[axes[0]], right.type.shape[axes[1]]
    block = frame.declaration
    config = (
        {each.name for each in block.parameters} if isinstance(block, ast.Block) else set[str]()
    )
    cure = origin_cures.filled_cure(pair, sizes)
    cure = cure or _of_vectors(frame, operator, pair, names, axes)
    sides = sorted((left, right), key=origin_cures.reduces_examples, reverse=True)
    for one, other in (sides, sides[::-1]):
        cure = cure or origin_cures.other_reduction(one, other.type.shape, same)
    text = block.span.text if block is not None else ""
    for size in sizes:
        cure = cure or origin_cures.patches_cure(text, show(size))
    for place in (0, 1):
        size, at = sizes[1 - place], axes[place]
        cure = cure or origin_cures.parameter_cure(
            names[place], at, size, span, frame.names, config
        )
    source_of = frame.state.values.source_of
    for one, other in ((left, right), (right, left)):
        cure = cure or tokens_last_cure(one, other, source_of)
    if cure is None and not frame.choices.words:
        cure = _other_resolution(frame, pair, names, same, text)
    if changed and cure is None and not frame.choices.words:
        (name, location), *_ = changed
        before, after = sizes if name == names[1] else (sizes[1], sizes[0])
        applied = frame.state.values.layer_at(location.span)
        if axes == (2, 2) and applied is not None and name.isidentifier():
            cure = causal_part(name, (before, after), applied, same)
    if changed and cure is None and not frame.choices.words:
        (name, location), *_ = changed
        sides = [(names[at], pair[at].type.shape) for at in (0, 1)]
        if axes[0] == axes[1]:
            sides.sort(key=lambda side: side[0] == name)
            channels_by = config | _given_to_layers(frame)
            between = origin_cures.Projection(
                operator, axes[0], channels_by, text, location.span.text
            )
            side = pair[names.index(name)]
            if operator == "+" and between.declares(sides[0][1][axes[0]]):
                at, wanted = axes[0], sides[0][1][axes[0]]
                cure = kept_width(side, at, wanted, sides[0][0], source_of)
            cure = cure or origin_cures.projection_cure(sides[0], sides[1], between)
    if not changed and axes[0] == axes[1] and not frame.choices.words:
        between = origin_cures.Projection(operator, axes[0], config, text, "")
        cure = cure or _by_declared_size(pair, names, between, source_of)
    return cure


def _by_declared_size(
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    between: origin_cures.Projection,
    source_of: SourceOf,
) -> Help | None:
    """The layer of one side with the size that the other side has, and that the block declares.

    Where the layer has the declared size, the other side is projected.
    """
    at = between.axis
    sizes = pair[0].type.shape[at], pair[1].type.shape[at]
    known = {name for size in sizes for name in re.findall(r"[A-Za-z_]\w*", show(size))}
    for place in (0, 1):
        made = made_width(pair[place], at, sizes[1 - place], source_of, known)
        if made is not None and between.declares(sizes[1 - place]):
            return made
        other = names[1 - place]
        if made is not None and between.declares(sizes[place]) and other.isidentifier():
            return between.projected(other, pair[1 - place].type.shape, sizes[place])
    return None


def _of_vectors(
    frame: Frame,
    operator: str,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    axes: tuple[int, int],
) -> Help | None:
    """Advice for positions and a vector, which meet in pairs, and for the first rows of a table."""
    block = frame.declaration
    sides = (side_of(names[0], pair[0].type.shape), side_of(names[1], pair[1].type.shape))
    inputs = axes_of_inputs(block) if isinstance(block, ast.Block) else {}
    cure = vector_cures.pairs_cure(pair, sides, operator, inputs)
    for place in (0, 1):
        if not axes[place]:
            wanted = pair[1 - place].type.shape[axes[1 - place]]
            cure = cure or vector_cures.first_rows(names[place], frame.names, wanted, frame.facts)
    return cure


def _other_resolution(
    frame: Frame,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    same: Callable[[Size, Size], bool],
    block: str,
) -> Help | None:
    """Advice for two sides of a block, of which one has other rows and columns."""
    left, right = ((names[at], pair[at]) for at in (0, 1))
    source_of = frame.state.values.source_of
    cure = None
    for kept, changed in ((left, right), (right, left)):
        cure = cure or resolution_cures.shortcut_cure(kept, changed, same, source_of, block)
    for kept, changed in (pair, pair[::-1]):
        cure = cure or resolution_cures.stride_cure(kept, changed, same, source_of)
    return cure or resolution_cures.rescaled_cure(left, right, same)


def _given_to_layers(frame: Frame) -> set[str]:
    """The names by which the block says how many channels a layer makes, as `4 * d` has."""
    text = frame.declaration.span.text if frame.declaration is not None else ""
    calls = re.findall(r"\b(?:linear|conv[123]d|conv_transpose[123]d)\(([^,()]*)", text)
    return {name for each in calls for name in re.findall(r"[A-Za-z_]\w*", each)}


def _general_cure(
    sides: Sequence[tuple[str, str]],
    changed: Sequence[tuple[str, Location]],
    sizes: tuple[Size, Size],
    *,
    on_a_path: bool,
) -> Help:
    """Advice where no axes of one side are those of the other."""
    first, second = map(show, sizes)
    if 1 in sizes:
        return Help("an axis of size 1 is never stretched: repeat it with expand")
    if on_a_path:
        return Help(
            f"nothing makes {first} and {second} equal on this path: bring one side to the shape\n"
            "of the other here as well, or change the condition that leads here"
        )
    if changed:
        (name, _), *_ = changed
        other = next((each for each, _ in sides if each != name), name)
        return Help(
            f"`{name}` had this size before: keep it there, or bring `{other}` to the new one\n"
            "as well, as a projection on a shortcut does"
        )
    text = f"nothing makes {first} and {second} equal: move, repeat or project the axes of one side"
    if first.isidentifier() and second.isidentifier():
        text += ";\nif both are one size, write it with one name where they come from"
    return Help(text)


def _changes(
    frame: Frame, sides: Sequence[tuple[str, Tensor, int, Size]]
) -> tuple[tuple[str, Location], ...]:
    """Returns the places where each side got its size on an axis, if it once had the other's."""

    def same(left: Size, right: Size) -> bool:
        return isinstance(equal(frame, left, right), Proved)

    source_of = frame.state.values.source_of
    found = (
        (name, origin_cures.changed_at(side, axis, to, same, source_of))
        for name, side, axis, to in sides
    )
    return tuple((name, Location(span)) for name, span in found if span is not None)
