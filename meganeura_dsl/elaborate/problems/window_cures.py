"""The argument of a convolution or pool with which a size comes out as it is wanted.

How a tensor was computed is followed back to its input, and its size is computed anew with other
arguments. One that gives the wanted size is offered if it is the only one of its kind.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_size
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax.problems.block_text import split_top

Same = Callable[[Size, Size], bool]

_CALL = re.compile(
    r"(?P<label>(?:[\w.\[\]{}]+:\s*)?)"
    r"(?P<name>conv[123]d|conv_transpose[12]d|depthwise_conv2d|max_pool|avg_pool)"
    r"\((?P<given>[^()]*)\)"
)
_CONVOLUTION = ("c", "k", "stride", "pad", "dilation", "groups", "bias")
_PLACES = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _CONVOLUTION),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d"),
        ("c", "k", "stride", "pad", "output_pad", "dilation", "groups", "bias"),
    ),
    **dict.fromkeys(("max_pool", "avg_pool"), ("k", "stride", "pad")),
    "depthwise_conv2d": ("k", "stride", "pad", "dilation", "bias"),
}
"""The arguments of each layer in their order."""
_MOST_VALUES = 2000
"""Values that are followed back; what is computed from more is given up."""


@dataclass(frozen=True)
class Window:
    """A call of a layer that moves a window over the axes behind the channels."""

    label: str
    name: str
    given: tuple[str, ...]
    k: int
    stride: int
    pad: int = 0
    dilation: int = 1
    output_pad: int = 0

    @property
    def is_transposed(self) -> bool:
        """True if it makes an axis larger, as it goes back from windows to what they cover."""
        return self.name.startswith("conv_transpose")

    @property
    def is_pool(self) -> bool:
        """True if it has no weights."""
        return self.name.endswith("pool")

    @property
    def numbers(self) -> tuple[str | int, ...]:
        """The numbers that decide its sizes; calls with equal numbers are changed together."""
        return self.name, self.k, self.stride, self.pad, self.dilation, self.output_pad

    @property
    def keeping(self) -> int | None:
        """The padding with which a window that moves by 1 keeps the size."""
        reach = self.dilation * (self.k - 1)
        return None if self.is_transposed or reach % 2 else reach // 2

    def size(self, size: Size) -> Size:
        """The size of an axis behind it."""
        reach = self.dilation * (self.k - 1)
        if self.is_transposed:
            return (size - 1) * self.stride - 2 * self.pad + reach + self.output_pad + 1
        return (size + 2 * self.pad - reach - 1) // self.stride + 1

    def written(self, **changed: int) -> str:
        """The call with some arguments changed or added."""
        places = _PLACES[self.name]
        given = list(self.given)
        for name, value in changed.items():
            at = next(
                (i for i, each in enumerate(given) if re.match(rf"{name}\s*=", each)), None
            )  # fmt: skip
            positional = sum("=" not in each for each in given)
            place = places.index(name)
            if at is not None:
                given[at] = f"{name}={value}"
            elif place < positional:
                given[place] = str(value)
            else:
                given.append(f"{name}={value}")
        order = {name: place for place, name in enumerate(places)}
        named = [each for each in given if "=" in each]
        named.sort(key=lambda each: order.get(each.split("=")[0].strip(), len(order)))
        return f"{self.label}{self.name}({', '.join([*self._positional(given), *named])})"

    @staticmethod
    def _positional(given: list[str]) -> list[str]:
        return [each for each in given if "=" not in each]


def window_of(text: str) -> Window | None:
    """The window that a call slides, if the text is one whose numbers are all written."""
    found = _CALL.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    places = _PLACES[found["name"]]
    given = split_top(found["given"])
    named = dict(each.split("=", 1) for each in given if "=" in each)
    written = {
        **dict(zip(places, (each for each in given if "=" not in each), strict=False)),
        **{name.strip(): value for name, value in named.items()},
    }
    sizes = {
        name: written[name].strip()
        for name in ("k", "stride", "pad", "dilation", "output_pad")
        if name in written
    }
    if "k" not in sizes or not all(value.isdecimal() for value in sizes.values()):
        return None
    numbers = {name: int(value) for name, value in sizes.items()}
    numbers.setdefault("stride", numbers["k"] if found["name"].endswith("pool") else 1)
    if not numbers["stride"] or not numbers["k"]:
        return None
    return Window(found["label"], found["name"], tuple(given), **numbers)


def keeping_cure(text: str) -> Help | None:
    """The call of a window that moves by 1 with the padding that keeps the size, if it has none."""
    window = window_of(text)
    if window is None or window.stride != 1 or window.pad or not window.keeping:
        return None
    return _help({window: replace(window, pad=window.keeping)}, is_kept=True)


def smaller_cure(call: str, size: int) -> str:
    """Advice for a window that is larger than an axis of `size`; empty if its numbers are open."""
    window = window_of(call)
    if window is None or window.is_transposed:
        return ""
    reach = window.dilation * (window.k - 1) + 1
    pad = -(-(reach - size) // 2)
    if pad < 1 or window.pad >= pad:
        return ""
    most = (size + 2 * window.pad - 1) // window.dilation + 1
    smaller = window.written(k=most)
    wide = f"a window of {window.k} is wider than the {size} that are left here"
    if window.is_pool:
        return f"{wide}: leave it out, or have the layers before shrink the axis less"
    if 2 * pad > reach:
        return f"{wide}: {smaller} fits, or pool less before"
    return f"{wide}: `{smaller}` and `{window.written(pad=pad)}` fit"


class Applied(Protocol):
    """The inputs of a layer of whose result only the type is known."""

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensors that it was applied to."""
        ...

    @property
    def span(self) -> Span:
        """The application."""
        ...

    @property
    def block(self) -> str:
        """The name of the layer's block."""
        ...

    @property
    def layer(self) -> str:
        """The name of the block, if it is one of the library; else empty."""
        ...

    @property
    def config(self) -> Mapping[str, ElabValue]:
        """The parameters of the block."""
        ...

    @property
    def results(self) -> tuple[Tensor, ...]:
        """All results, in their order."""
        ...


SourceOf = Callable[[Tensor], Applied | None]
MayChange = Callable[[Span], bool]
"""Returns True for a call whose arguments are the user's to change where the cure is wanted."""


def window_cure(
    value: Tensor, wanted: Shape, same: Same, source_of: SourceOf, may_change: MayChange
) -> Help | None:
    """The calls on the way to a value with an argument by which its size is the wanted one.

    The axes behind the channels are those of `wanted`. None if no argument, or more than one of the
    same kind, gives them.
    """
    found = _solved(value, wanted, same, source_of, may_change, ())
    return None if found is None else found[1]


def unstrided_cure(value: Tensor, least: int, source_of: SourceOf) -> Help | None:
    """The convolutions on the way to a value without the stride that is their third argument.

    It is that of other systems: the other side of the window, which has the same size. None unless
    all axes behind the channels then have `least` places.
    """
    walk = _Walk(operator.eq, source_of)
    _spatial(value, walk, {})
    changes = {
        each: replace(each, stride=1, given=(*each.given[:2], *each.given[3:]))
        for each in walk.windows
        if not each.is_pool
        and each.stride == each.k
        and each.given[2:3] == (str(each.k),)
        and all("=" in rest for rest in each.given[3:])
    }
    sizes = _spatial(value, walk, changes) if changes else None
    if sizes is None or any(not isinstance(size, int) or size < least for size in sizes):
        return None
    first = min(changes, key=lambda each: walk.windows[each].start)
    text = (
        f"a third number is the stride: {len(changes)} of the windows before move by their own "
        f"width,\nwhich leaves too few places. A window of {first.k} that moves by 1 is"
    )
    ordered = sorted(changes, key=lambda each: walk.windows[each].start)
    return Help(text, "`, `".join(changes[each].written() for each in ordered))


def meeting_cure(
    values: Sequence[Tensor], same: Same, source_of: SourceOf, may_change: MayChange
) -> Help | None:
    """The calls on the way to one of several values by which all have the same size.

    What the others are computed from as well keeps its arguments.
    """
    cures = dict[str, tuple[int, Help]]()
    for value in values:
        others = [each for each in values if each is not value]
        for other in others:
            found = _solved(value, other.type.shape, same, source_of, may_change, others)
            if found is not None:
                cures[found[1].code or ""] = found
    best = min((kind for kind, _ in cures.values()), default=0)
    fitting = [cure for kind, cure in cures.values() if kind == best]
    return fitting[0] if len(fitting) == 1 else None


def _solved(
    value: Tensor,
    wanted: Shape,
    same: Same,
    source_of: SourceOf,
    may_change: MayChange,
    others: Sequence[Tensor],
) -> tuple[int, Help] | None:
    """The cure of a value, and the place of its kind among those that are tried."""
    if value.type.rank != len(wanted) or value.type.rank < 3:
        return None
    if all(map(same, value.type.shape[2:], wanted[2:])):
        return None
    walk, beside = _Walk(same, source_of), _Walk(same, source_of)
    if _spatial(value, walk, {}) is None:
        return None
    for other in others:
        _spatial(other, beside, {})
    free = [
        window
        for window, span in walk.windows.items()
        if window not in beside.windows and may_change(span)
    ]
    windows = sorted(free, key=lambda window: walk.windows[window].start)

    def solves(changes: Mapping[Window, Window]) -> bool:
        found = _spatial(value, walk, changes)
        return found is not None and all(map(same, found, wanted[2:]))

    for kind, tier in enumerate((_kept, _kept_in_all, _kept_alone, _other_numbers)):
        fitting = [each for each in tier(windows) if solves(each)]
        least = min((_cost(each) for each in fitting), default=0)
        fitting = [each for each in fitting if _cost(each) == least]
        if len(fitting) == 1:
            cure = _help(fitting[0], is_kept=tier is not _other_numbers)
            return kind, _causal_cure(fitting[0], walk.windows, wanted) or cure
        if fitting:
            return None
    return None


def _cost(changes: Mapping[Window, Window]) -> int:
    """Returns the number of arguments of a call that are changed."""
    return max(len(_changed(old, new)) for old, new in changes.items())


def _changed(old: Window, new: Window) -> dict[str, int]:
    names = ("pad", "output_pad")
    return {each: getattr(new, each) for each in names if getattr(old, each) != getattr(new, each)}


Changes = dict[Window, Window]


def _groups(windows: list[Window]) -> Iterator[list[Window]]:
    for numbers in dict.fromkeys(each.numbers for each in windows):
        yield [each for each in windows if each.numbers == numbers]


def _kept(windows: list[Window]) -> Iterator[Changes]:
    """The same padding on both sides, in the windows of the same numbers."""
    for group in _groups(windows):
        padding = group[0].keeping
        if padding is not None and padding != group[0].pad and not group[0].is_pool:
            yield {each: replace(each, pad=padding) for each in group}


def _kept_in_all(windows: list[Window]) -> Iterator[Changes]:
    """Padding that keeps sizes in all unpadded convolutions, with and without overlapping pools."""
    bare = [each for each in windows if each.pad == 0 and each.keeping]
    convolutions = [each for each in bare if not each.is_pool]
    overlapping = [each for each in bare if each.is_pool and each.k > each.stride]
    for chosen in (convolutions, [*convolutions, *overlapping]):
        if chosen:
            yield {each: replace(each, pad=each.keeping or 0) for each in chosen}


def _kept_alone(windows: list[Window]) -> Iterator[Changes]:
    """Padding that keeps the size in one of several unpadded convolutions of the same numbers."""
    for group in _groups(windows):
        for each in group:
            if len(group) > 1 and each.pad == 0 and each.keeping and not each.is_pool:
                yield {each: replace(each, pad=each.keeping)}


def _other_numbers(windows: list[Window]) -> Iterator[Changes]:
    """Other paddings, in the windows of the same numbers."""
    for group in _groups(windows):
        first = group[0]
        most = first.k // 2 if first.is_pool else first.dilation * (first.k - 1)
        more = range(first.stride) if first.is_transposed else range(1)
        for pad in range(most + 1):
            for output_pad in more:
                if (pad, output_pad) != (first.pad, first.output_pad):
                    yield {each: replace(each, pad=pad, output_pad=output_pad) for each in group}


def _help(changes: Changes, *, is_kept: bool) -> Help:
    calls = [old.written(**_changed(old, new)) for old, new in changes.items()]
    old, new = next(iter(changes.items()))
    names = " and ".join(f"`{name}`" for name in _changed(old, new))
    if is_kept and old.pad > new.pad:
        text = f"a padding of {old.pad} makes the axes longer: with this one the size is kept"
    elif is_kept and len({each.k for each in changes}) == 1:
        dilated = f", dilated by {old.dilation}," if old.dilation > 1 else ""
        text = f"a window of {old.k}{dilated} loses the edges: with this padding the size is kept"
        if old.stride > 1:
            text = f"with this padding a window of {old.k}{dilated} gives the size that is meant"
    elif is_kept:
        text = "the windows lose the edges: with these paddings the size is kept"
    else:
        text = f"with this {names} it is the size that is meant"
    return Help(text, "\n".join(dict.fromkeys(calls)))


def causal_part(name: str, sizes: tuple[Size, Size], applied: Applied, same: Same) -> Help | None:
    """The first steps of a `conv1d` with the padding of a causal convolution on both sides.

    `name` has what it makes, and `sizes` are those of the steps before it and behind it, which
    differ by 2 * pad - dilation * (k - 1).
    """
    before, after = sizes
    pad = applied.config.get("pad", "")
    if applied.layer != "conv1d" or not is_size(pad) or not same(after - before, pad):
        return None
    text = (
        "the padding is added on both sides, and makes the axis longer. For a causal convolution\n"
        "take the first steps of what comes out; half the padding keeps the size and looks ahead"
    )
    return Help(text, f"{name} = {name}[:, :, :{show(before)}]")


def _causal_cure(changes: Changes, windows: Iterable[Window], wanted: Shape) -> Help | None:
    """The first steps of what a `conv1d` makes whose padding is that of a causal convolution.

    The steps are counted as they are wanted, so no window on the way takes them apart.
    """
    old, new = next(iter(changes.items()))
    is_causal = old.name == "conv1d" and old.pad == old.dilation * (old.k - 1) > new.pad
    if not is_causal or any(each.stride > 1 for each in windows):
        return None
    text = (
        f"a padding of {old.pad} on both sides makes the axis longer. For a causal convolution\n"
        f"take the first steps of what comes out; `pad={new.pad}` keeps the size and looks ahead"
    )
    return Help(text, f"y = y[:, :, :{show(wanted[2])}]")


@dataclass
class _Walk:
    """The layers that are met on the way back from a value."""

    same: Same
    source_of: SourceOf

    def __post_init__(self) -> None:
        self.windows: dict[Window, Span] = {}
        self.count = 0


def _spatial(value: Tensor, walk: _Walk, changes: Mapping[Window, Window]) -> Shape | None:
    """The sizes behind the channels with changed windows; None if they are not followed.

    Where two values meet that no longer agree, nothing is known either. What is repeated along
    the axes, as a bias is, takes any size.
    """
    known: dict[int, Shape | None] = {}
    walk.count = 0

    def of(value: Tensor) -> Shape | None:
        if value.id not in known:
            known[value.id] = None
            known[value.id] = computed(value)
        return known[value.id]

    def computed(value: Tensor) -> Shape | None:
        walk.count += 1
        if walk.count > _MOST_VALUES:
            return None
        here = value.type.shape[2:]
        applied = walk.source_of(value)
        span = value.origin.span if applied is None else applied.span
        operands = value.operands if applied is None else applied.operands
        window = window_of(span.text) if span is not None else None
        if window is not None and span is not None:
            source = _source(value) if applied is None else operands[0]
            if source is None:
                return None
            before = source.type.shape[2:]
            if len(before) != len(here) or not all(
                walk.same(window.size(size), out) for size, out in zip(before, here, strict=True)
            ):
                return here
            walk.windows[window] = span
            inner = of(source)
            return None if inner is None else tuple(map(changes.get(window, window).size, inner))
        following = [
            each
            for each in operands
            if each.type.rank == value.type.rank
            and each.type.shape[2:] == here
            and not isinstance(each.op, ops.Broadcast)
        ]
        if not following or isinstance(value.op, ops.Transpose):
            return here
        sizes = [each for each in map(of, following) if each is not None]
        is_one = all(all(map(walk.same, sizes[0], each)) for each in sizes[1:])
        return sizes[0] if sizes and is_one and len(sizes) == len(following) else None

    return of(value)


def _source(value: Tensor) -> Tensor | None:
    """Returns the input of a layer: the first value of its rank from another place."""
    rest, seen = [value], set[int]()
    while rest:
        each = rest.pop()
        if each.origin != value.origin and each.type.rank == value.type.rank:
            if not isinstance(each.op, ops.Constant | ops.Parameter):
                return each
            continue
        if each.id not in seen:
            seen.add(each.id)
            rest.extend(reversed(each.operands))
    return None
