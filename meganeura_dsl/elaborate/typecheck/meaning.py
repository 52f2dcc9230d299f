"""Notes on what the proof of a block cannot see: axes of attention, channels, masks and noise.

The values of a proved block are looked at once. A note needs the form that a mistake has and that
the usual programs do not have; it never changes the verdict.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layout_cures import moved_and_back
from meganeura_dsl.elaborate.problems.meaning_notes import (
    ChannelsElsewhere,
    HidesNothing,
    MeaningNote,
    NumbersOfOthers,
    SharedNoise,
    WeighsElsewhere,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.typecheck import value_origins as origins
from meganeura_dsl.elaborate.typecheck.batch_meaning import (
    of_attention,
    of_comparison,
    of_quotient,
    of_scatter,
)
from meganeura_dsl.elaborate.typecheck.mask_meaning import of_mask
from meganeura_dsl.elaborate.values import Tensor, is_size
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast

_LAST = ("layer_norm", "rms_norm")
"""Layers that normalise the last axis."""
_SECOND = ("batch_norm", "instance_norm", "group_norm", "conv1d")
"""Layers that take the channels of a sequence from axis 1."""
_COUNTS = re.compile(r"vocab|n_words|num_words|num_tokens|num_embeddings|n_tokens|tokens|words")
"""Names of parameters that count the rows of a table."""
_MOST_WIDTH = 20_000
"""A width of an embedding that no model has; tables have as many rows."""
_MOST_LAYERS = 16
"""Layers of one recurrent network that nobody stacks."""
_AXIS = re.compile(r", (?:axis=)?-?\d+\)$|\((?:axis=)?-?\d+\)$")
"""The end of a call that has an axis."""
_NOISE = re.compile(r"random_(?:normal|uniform)\(\[(.*)\]\)", re.DOTALL)


def meaning_notes(frame: Frame, block: ast.Block | ast.Train) -> Iterator[MeaningNote]:
    """The notes on what was proved: each part that hardly computes what is meant."""
    view = _View(frame, block)
    for value in frame.build.values:
        applied = view.source_of(value)
        if applied is not None:
            yield from view.of_layer(applied)
            continue
        if value.id in frame.state.values.inside:
            continue
        match value.op:
            case ops.MatMul():
                yield from view.of_product(value)
            case ops.Sum() | ops.ReduceMax():
                yield from view.of_reduction(value)
            case ops.Broadcast():
                yield from view.of_noise(value)
            case ops.Div() if isinstance(block, ast.Block):
                yield from of_quotient(frame, value, view.examples)
            case ops.Compare():
                yield from of_comparison(frame, value)
            case ops.ScatterAdd():
                yield from of_scatter(frame, value, block.span.text)
            case _:
                pass


@dataclass
class _View:
    """A proved block or a training, and what its header says of axes."""

    frame: Frame
    block: ast.Block | ast.Train
    examples: str = field(init=False)
    splits: set[int] = field(default_factory=set[int])
    """Values whose heads were noted to be left in place."""

    def __post_init__(self) -> None:
        self.examples = origins.examples_of(self.block)
        self.inputs = origins.axes_of_inputs(self.block)
        self.source_of = self.frame.state.values.layer_of

    def of_layer(self, applied: Applied) -> Iterator[MeaningNote]:
        """The notes on a layer."""
        if not applied.operands:
            return
        value = applied.operands[0]
        match applied.layer:
            case "attention":
                yield from self._attention(applied, value)
            case "rope":
                split = origins.split_from(value, self.source_of)
                if split is not None:
                    yield from self._heads(applied.span, "`rope` counts heads as positions", split)
            case "softmax":
                yield from self._softmax(applied, value)
            case "embedding":
                yield from self._table(applied)
            case "conv1d" | "conv2d":
                yield from self._incoming(applied, value)
            case _:
                yield from self._layers(applied, value)
        if applied.layer in (*_LAST, *_SECOND):
            yield from self._channels(applied, value)

    def _channels(self, applied: Applied, value: Tensor) -> Iterator[MeaningNote]:
        is_first = applied.layer in _SECOND
        on = origins.channels_on(value, self.source_of, self.inputs)
        rank, axes = value.type.rank, origins.shown(value)
        if rank < 3 or on != (-1 if is_first else 1) or (is_first and rank != 3):
            return
        taken, there = ("axis 1", "the last axis") if is_first else ("the last axis", "axis 1")
        at = 1 if is_first else rank - 1
        width = applied.value.type.shape[at]
        yield ChannelsElsewhere(
            self.frame.location(applied.span),
            f"`{applied.layer}` takes the channels from {taken}, and here they are on {there}",
            f"of [{', '.join(axes)}] it takes axis {at}, which is {axes[at]}",
            Help(
                "move the channels, and back behind it",
                moved_and_back(
                    value.type.shape,
                    self.frame.names,
                    _call(applied.span),
                    is_first=is_first,
                    width=width if applied.layer == "conv1d" else None,
                ),
            ),
        )

    def of_reduction(self, value: Tensor) -> Iterator[MeaningNote]:
        """The note on a mean over the channels of a picture and one of its two other axes."""
        assert isinstance(value.op, ops.Sum | ops.ReduceMax)
        source, span = value.operands[0], value.origin.span
        axes = origins.shown(source)
        if source.type.rank != 4 or value.op.axes not in ((1, 2), (1, 3)) or span is None:
            return
        if origins.channels_on(source, self.source_of, self.inputs) != 1:
            return
        first, second = value.op.axes
        left = next(at for at in (2, 3) if at != second)
        call = re.sub(rf"\b{first}, *{second}\b", "2, 3", _call(span))
        yield ChannelsElsewhere(
            self.frame.location(span),
            "the channels are reduced here, and one axis of the picture is left",
            f"axes {first} and {second} are {axes[first]} and {axes[second]}: {axes[left]} is left",
            Help("to keep the channels, reduce the others", call if "2, 3" in call else None),
        )

    def _attention(self, applied: Applied, value: Tensor) -> Iterator[MeaningNote]:
        yield from of_attention(self.frame, applied, self.block.span.text)
        yield from of_mask(self.frame, applied)
        split = origins.split_from(value, self.source_of)
        if split is not None:
            yield from self._heads(applied.span, "`attention` weighs heads here", split)
            return
        seen = [each.type.shape[2] for each in applied.operands[:2] if each.type.rank == 4]
        if self.examples and any(show(size) == self.examples for size in seen):
            yield WeighsElsewhere(
                self.frame.location(applied.span),
                f"`attention` looks across `{self.examples}`, which counts examples",
                f"q is [{', '.join(origins.shown(value))}]: positions are axis 2",
                Help("positions stand before the channels, and examples first: [n, heads, s, d]"),
            )

    def _heads(self, span: Span, what: str, split: Tensor) -> Iterator[WeighsElsewhere]:
        """The note on heads that are left behind the positions, where a last axis was split."""
        if split.id in self.splits:
            return
        self.splits.add(split.id)
        origin = split.origin.span
        pattern = re.search(
            r"(\[[^\]]*\] -> )\[(\w+), (\w+), (\w+), (\w+)\]", _call(origin) if origin else ""
        )
        code = None
        if pattern is not None:
            n, s, heads, e = pattern.groups()[1:]
            code = f"rearrange({pattern[1]}[{n}, {heads}, {s}, {e}])"
        axes = origins.shown(split)
        yield WeighsElsewhere(
            self.frame.location(span),
            f"{what}, at each of {axes[1]} positions alone",
            f"of [{', '.join(axes)}] axis 1 is taken for the heads, and axis 2 for the positions",
            Help(
                "move the heads before the positions, for all three, and back to join them",
                code,
            ),
        )

    def _softmax(self, applied: Applied, value: Tensor) -> Iterator[MeaningNote]:
        axis, rank = applied.config.get("axis", -1), value.type.rank
        if not isinstance(axis, int) or not -rank <= axis < rank:
            return
        axis %= rank
        axes = origins.shown(value)
        if axis == 0 and rank > 1 and self.examples == axes[0] and axes.count(axes[0]) == 1:
            yield WeighsElsewhere(
                self.frame.location(applied.span),
                "this `softmax` shares 1 among the examples of a batch",
                f"of [{', '.join(axes)}] axis 0 is {axes[0]}, which counts examples",
                Help("over the last axis, each example by itself", "softmax"),
            )
        yield from self._hidden(value, applied.span)

    def _hidden(self, value: Tensor, span: Span) -> Iterator[MeaningNote]:
        """The note on scores that are set to 0 before a softmax."""
        why = ""
        match value.op:
            case ops.Where():
                chosen, yes, no = value.operands
                zero = [one for one in (yes, no) if origins.is_number(one, 0)]
                other = no if zero and zero[0] is yes else yes
                if zero and not origins.depends_on(chosen, other):
                    why = "where it is masked, a score is 0, and has the share of exp(0)"
            case ops.Mul():
                if any(map(origins.is_mask, value.operands)):
                    why = "times a mask, a score is 0, and has the share of exp(0)"
            case ops.Add():
                if any(map(_is_bare_mask, value.operands)):
                    why = "a mask of 0 and 1 is added, and hides nothing"
            case _:
                pass
        if why:
            yield HidesNothing(
                self.frame.location(span),
                "what is masked here keeps a share in the `softmax`",
                why,
                Help(
                    "hide a score by one that is far below all; `attention` takes a `mask=`",
                    "where(mask, scores, -1e9)",
                ),
            )

    def of_product(self, value: Tensor) -> Iterator[MeaningNote]:
        """The notes on products of queries with keys, and of weights with values."""
        span, left = value.origin.span, value.operands[0]
        if span is None:
            return
        split, shape = origins.split_from(left, self.source_of), value.type.shape
        if split is not None and len(shape) == 4 and shape[2] == shape[3]:
            yield from self._heads(span, "`@` compares heads here", split)
        weights = origins.layer_behind(left, ("softmax",), self.source_of)
        if weights is None or not weights.operands:
            return
        scores, axis = weights.operands[0], weights.config.get("axis", -1)
        rank = scores.type.rank
        if not isinstance(axis, int) or axis in (-1, rank - 1) or rank != left.type.rank:
            return
        if origins.product_behind(scores, self.source_of) is None:
            return
        axes = origins.shown(scores)
        yield WeighsElsewhere(
            self.frame.location(weights.span),
            "the weights of this sum do not add up to 1: the `softmax` is along another axis",
            f"of [{', '.join(axes)}] it shares 1 along axis {axis % rank}, {axes[axis]}, and `@` "
            f"sums along axis {rank - 1}, {axes[-1]}",
            Help("along the last axis", _AXIS.sub(_closed, _call(weights.span))),
        )

    def _table(self, applied: Applied) -> Iterator[MeaningNote]:
        """The note on a table whose rows and width are exchanged."""
        rows, width = applied.config.get("vocabulary", ""), applied.config.get("d", "")
        if not is_size(rows) or not is_size(width):
            return
        few, many = show(rows), show(width)
        is_named = bool(_COUNTS.search(many.lower())) and not _COUNTS.search(few.lower())
        is_large = isinstance(rows, int) and isinstance(width, int) and rows < width > _MOST_WIDTH
        if is_named or is_large:
            yield NumbersOfOthers(
                self.frame.location(applied.span),
                f"this table has {few} rows, of {many} numbers each",
                f"each id is below {few}",
                Help("the rows come first, and then their width", f"embedding({many}, {few})"),
            )

    def _layers(self, applied: Applied, value: Tensor) -> Iterator[MeaningNote]:
        """The note on a recurrent network whose second number is meant as its width."""
        hidden, layers = applied.config.get("hidden", ""), applied.config.get("layers", "")
        if not is_size(hidden) or not is_size(layers) or not value.type.rank:
            return
        is_many = isinstance(layers, int) and layers >= _MOST_LAYERS
        is_named = not isinstance(layers, int) and not re.search(r"layer|depth", show(layers))
        if hidden == value.type.shape[-1] and (is_many or is_named):
            yield NumbersOfOthers(
                self.frame.location(applied.span),
                f"these are {show(layers)} layers, {show(hidden)} wide",
                "the second number counts layers",
                Help(
                    "the width of what comes in is never written",
                    f"{applied.block}({show(layers)})",
                ),
            )

    def _incoming(self, applied: Applied, value: Tensor) -> Iterator[MeaningNote]:
        """The note on a convolution that is given the channels that come in."""
        call = re.search(r"(conv[12]d)\((\d+), (\d+), (\d+)(.*)\)$", _call(applied.span))
        if call is None or value.type.rank < 3 or value.type.shape[1] != int(call[2]):
            return
        name, channels, window, stride, rest = call.groups()
        if int(window) >= 8 and int(window) % 2 == 0 and int(stride) % 2 == 1:
            yield NumbersOfOthers(
                self.frame.location(applied.span),
                f"this makes {channels} channels, by a window of {window} that moves by {stride}",
                f"{channels} channels come in",
                Help(
                    "the channels that come in are never written",
                    f"{name}({window}, {stride}{rest})",
                ),
            )

    def of_noise(self, value: Tensor) -> Iterator[MeaningNote]:
        """The note on random numbers that an operator repeats for all examples."""
        assert isinstance(value.op, ops.Broadcast)
        drawn, shape = value.operands[0], value.op.shape
        span, at = drawn.origin.span, value.origin.span
        found = _NOISE.fullmatch(_call(span)) if span is not None else None
        is_written = at is None or re.search(r"\b(?:expand|insert_axis|repeat)\(", at.text)
        if span is None or found is None or is_written or not drawn.type.rank:
            return
        if not self.examples or show(shape[0]) != self.examples or 0 in value.op.axes:
            return
        drawn_for = ", ".join([self.examples, *map(show, shape[1:])])
        yield SharedNoise(
            self.frame.location(span),
            f"the same numbers are drawn for all of `{self.examples}`",
            f"[{found[1]}] is repeated along {self.examples}",
            Help("draw them for each", _call(span).replace(f"[{found[1]}]", f"[{drawn_for}]")),
        )


def _is_bare_mask(value: Tensor) -> bool:
    """True if a value is 1 where a truth value is true, and 0 elsewhere."""
    return not isinstance(value.op, ops.Input) and origins.is_mask(value) and not _is_given(value)


def _is_given(value: Tensor) -> bool:
    """True if a value is an input, repeated or moved at most: it may be of -1e9 and 0."""
    while isinstance(value.op, ops.Reshape | ops.Transpose | ops.Broadcast | ops.Slice):
        value = value.operands[0]
    return isinstance(value.op, ops.Input)


def _closed(found: re.Match[str]) -> str:
    """The end of a call without its axis."""
    return ")" if found[0].startswith(",") else ""


def _call(span: Span) -> str:
    """A call in one line."""
    return " ".join(span.text.split())
