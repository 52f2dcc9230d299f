"""Small edits of a statement: a slip of one name, number, axis or order, undone."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from meganeura_dsl.diagnostics.report import Edit
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

Edits = tuple[Edit, ...]

MOST_AXES = 4
"""Axes that a small edit names."""
_AXIS_ARGUMENTS = frozenset(("axis", "batch"))
_REDUCTIONS = frozenset(("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp"))
_OF_AXES = _REDUCTIONS | {"argmax", "argmin", "cumsum", "reverse", "insert_axis", "size"}
_RESIZED = frozenset(("max_pool", "avg_pool", "upsample"))
_FILLED = frozenset(("zeros", "ones", "full", "random_normal", "random_uniform"))
_CONVERSIONS = frozenset(("f32", "f16", "i32", "bool"))
_PADDED = frozenset(("conv1d", "conv2d", "conv3d"))


@dataclass(frozen=True)
class Around:
    """The declaration around some statements, and the names that they may use."""

    declaration: ast.Block | ast.Train
    module: LinkedModule

    @property
    def sizes(self) -> tuple[str, ...]:
        """Its parameters, the axes of its inputs, and what is computed of them."""
        node = self.declaration
        names = [each.name for each in node.parameters] if isinstance(node, ast.Block) else []
        entries = (entry for each in node.inputs for entry in each.type.shape.entries)
        names += [each.text for each in entries if isinstance(each, ast.Name)]
        for statement in node.body:
            if isinstance(statement, ast.Bind) and _is_size(statement.value, names):
                names += [each.text for each in statement.targets]
        return tuple(dict.fromkeys(names))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that it is given."""
        return tuple(each.name for each in self.declaration.inputs)

    def rank(self, name: str) -> int:
        """The axes of an input; 0 for another name, and for a shape of any number of axes."""
        shapes = [each.type.shape for each in self.declaration.inputs if each.name == name]
        is_known = shapes and not any(isinstance(each, ast.Rest) for each in shapes[0].entries)
        return len(shapes[0].entries) if is_known else 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The whole numbers that are written in it, those written most often first."""
        nodes = walk(self.declaration)
        found = Counter(each.value for each in nodes if isinstance(each, ast.Integer))
        return tuple(sorted(found, key=lambda value: (-found[value], value)))


def likely_edits(statement: ast.Node, around: Around) -> Iterator[Edits]:
    """Edits of what is often confused: axes, names, order, the kind of an input.

    Hardly any other than the one that is meant leaves a program that is proved.
    """
    in_patterns = _in_patterns(statement)
    for node in walk(statement):
        match node:
            case ast.Call():
                yield from _other_axes(node)
                yield from _swapped_arguments(node)
                yield from _batched(node)
                yield from _without_conversion(node)
                yield from _other_names(node, around, in_patterns)
                yield from _more_axes(node, around)
                yield from _kept_axes(node)
                yield from _other_steps(node)
            case ast.Rearrangement():
                yield from _swapped_names(node)
                yield from _joined_entries(node)
                yield from _moved_factors(node)
            case ast.Binary(operator="@"):
                yield (Edit(node.operator_span, "*"),)
            case ast.Binary(operator="+"):
                yield from _joined_sides(node)
                yield from _pooled_sides(node, around)
            case ast.Declare():
                yield from _without_axis(node)
            case ast.Subscript():
                yield from _moved_entries(node)
            case ast.Pipe():
                yield from _swapped_stages(node)
                yield from _other_sources(node, around)
                yield from _flattened(node, around)
            case ast.Minimize():
                yield from _other_players(node, around)
            case ast.Return():
                yield from _moved_back(node, around)
            case _:
                pass
    yield from _other_kinds(around)


def further_edits(statement: ast.Node, around: Around) -> Iterator[Edits]:
    """Edits of numbers, factors and options, of which more than one may leave a proved program."""
    in_patterns = _in_patterns(statement)
    nodes = [each for each in walk(statement) if each not in in_patterns]
    for node in nodes:
        match node:
            case ast.Binary():
                yield from _without_number(node)
                yield from _times(node, f"({node.span.text})", around)
            case ast.Integer():
                yield from _other_numbers(node, around)
            case ast.Name(text=name) if name in around.sizes:
                yield from ((_put(node, f"{factor} * {name}"),) for factor in (2, 3, 4))
                yield from _times(node, name, around)
            case ast.Call():
                yield from _padded(node)
            case ast.Pipe(source=ast.Name(text=name)):
                yield from _transposed(node.source, around.rank(name))
            case _:
                pass
    for node in nodes:
        match node:
            case ast.Call():
                yield from _without_option(node)
            case ast.Pipe(source=source, layer=ast.Call(callee="rearrange")):
                yield (Edit(Span(node.span.source, source.span.end, node.span.end), ""),)
            case _:
                pass


def _is_size(value: ast.Expression, sizes: list[str]) -> bool:
    """True if an expression computes a whole number of sizes."""
    parts = list(walk(value))
    kinds = ast.Name | ast.Integer | ast.Binary
    return all(
        isinstance(each, kinds) and (not isinstance(each, ast.Name) or each.text in sizes)
        for each in parts
    )


def _put(node: ast.Node, text: str) -> Edit:
    return Edit(node.span, text)


def _exchanged(one: ast.Node, other: ast.Node) -> Edits:
    return _put(one, other.span.text), _put(other, one.span.text)


def _in_patterns(statement: ast.Node) -> frozenset[ast.Node]:
    return frozenset(
        part for node in walk(statement) if isinstance(node, ast.Rearrangement)
        for part in walk(node)
    )  # fmt: skip


def _other_axes(call: ast.Call) -> Iterator[Edits]:
    """`sum(x, 1)` for `sum(x, 0)`, `sum(x, 1, 2)` for `sum(x, 1)`, `axis=2` for `axis=1`."""
    axes = [
        each.value for each in call.arguments
        if isinstance(each.value, ast.Integer)
        if each.name in _AXIS_ARGUMENTS or (each.name is None and call.callee in _OF_AXES)
    ]  # fmt: skip
    others = [axis for axis in range(MOST_AXES) if axis not in {each.value for each in axes}]
    yield from ((_put(each, str(axis)),) for each in axes for axis in others)
    if axes and call.callee in _REDUCTIONS:
        end = axes[-1].span.end
        place, last = Span(call.span.source, end, end), axes[-1].value
        for one, other in pairwise(axes):
            yield (Edit(Span(call.span.source, one.span.end, other.span.end), ""),)
            yield (Edit(Span(call.span.source, one.span.start, other.span.start), ""),)
        behind = sorted(others, key=lambda axis: (axis < last, axis))
        yield from ((Edit(place, f", {axis}"),) for axis in behind)


def _batched(call: ast.Call) -> Iterator[Edits]:
    """`gather(x, ids, axis=1, batch=1)` for `gather(x, ids, axis=0)`."""
    named = [each for each in call.arguments if each.name is not None]
    if call.callee == "gather" and [each.name for each in named] in ([], ["axis"]):
        end = call.arguments[-1].span.end if call.arguments else call.span.end
        start = named[0].span.start if named else end
        text = "axis=1, batch=1" if named else ", axis=1, batch=1"
        yield (Edit(Span(call.span.source, start, end), text),)


def _swapped_arguments(call: ast.Call) -> Iterator[Edits]:
    for given in (call.arguments, call.inputs):
        nameless = [each for each in given if each.name is None]
        for one, other in combinations(nameless, 2):
            if one.span.text != other.span.text:
                yield _exchanged(one, other)


def _without_conversion(call: ast.Call) -> Iterator[Edits]:
    """`ids != 0` for `f32(ids != 0)`."""
    if call.callee in _CONVERSIONS and len(call.arguments) == 1:
        yield (_put(call, call.arguments[0].span.text),)


def _other_names(
    call: ast.Call, around: Around, in_patterns: frozenset[ast.Node]
) -> Iterator[Edits]:
    """`linear(kv_heads * head_dim)` for `linear(heads * head_dim)`; `cell(h, c)` for `cell(h)`."""
    for argument in (*call.arguments, *call.inputs):
        for node in walk(argument):
            if isinstance(node, ast.Name) and node not in in_patterns:
                for known in (around.sizes, around.inputs):
                    others = (each for each in known if node.text in known and each != node.text)
                    yield from ((_put(node, each),) for each in others)


def _more_axes(call: ast.Call, around: Around) -> Iterator[Edits]:
    """`zeros([n, hidden])` for `zeros([hidden])`."""
    shape = call.arguments[0].value if call.callee in _FILLED and call.arguments else None
    if isinstance(shape, ast.ListOf):
        entries = [each.span.text for each in shape.items]
        for size in (each for each in around.sizes if each not in entries):
            yield (_put(shape, f"[{', '.join((size, *entries))}]"),)
            yield (_put(shape, f"[{', '.join((*entries, size))}]"),)


def _other_sources(pipe: ast.Pipe, around: Around) -> Iterator[Edits]:
    """`memory |> v: linear(d)` for `x |> v: linear(d)`, of two inputs."""
    source = pipe.source
    if isinstance(source, ast.Name) and source.text in around.inputs:
        yield from ((_put(source, each),) for each in around.inputs if each != source.text)


def _swapped_names(pattern: ast.Rearrangement) -> Iterator[Edits]:
    """`[n, s, heads * hd]` for `[n, heads, s * hd]`, on the right."""
    names = [each for each in walk(pattern.target) if isinstance(each, ast.Name)]
    for one, other in combinations(names, 2):
        if one.text != other.text:
            yield _exchanged(one, other)


def _joined_entries(pattern: ast.Rearrangement) -> Iterator[Edits]:
    """`[n, anchors * box, h, w]` for `[n, anchors, box, h, w]`, on the left."""
    entries = pattern.source.entries
    for one, other in pairwise(entries):
        span = Span(one.span.source, one.span.start, other.span.end)
        yield (Edit(span, f"{one.span.text} * {other.span.text}"),)


def _joined_sides(sum_: ast.Binary) -> Iterator[Edits]:
    """`concat(x, y, axis=1)` for `x + y`."""
    for axis in range(1, MOST_AXES) if _is_of_names(sum_) else ():
        yield (_put(sum_, f"concat({sum_.left.span.text}, {sum_.right.span.text}, axis={axis})"),)


def _is_of_names(sum_: ast.Binary) -> bool:
    return isinstance(sum_.left, ast.Name) and isinstance(sum_.right, ast.Name)


def _moved_factors(pattern: ast.Rearrangement) -> Iterator[Edits]:
    """`[n, s, heads * e]` for `[n, heads * s, e]`, on the right."""
    entries = [each.span.text for each in pattern.target.entries]
    for at, entry in enumerate(entries):
        one, _, other = entry.partition(" * ")
        for moved, kept in ((one, other), (other, one)) if other.isidentifier() else ():
            for to in (each for each in range(1, len(entries)) if each != at):
                found = [*entries]
                found[at], found[to] = kept, f"{moved} * {found[to]}"
                yield (_put(pattern.target, f"[{', '.join(found)}]"),)


def _other_steps(call: ast.Call) -> Iterator[Edits]:
    """`upsample(2)` for `upsample(4)`, and `max_pool(3, stride=1)` for `max_pool(3)`."""
    given = call.arguments
    if call.callee == "upsample" and given:
        for scale in ("2", "4"):
            yield (_put(given[0].value, scale),)
    names = [each.name for each in given]
    if call.callee in ("max_pool", "avg_pool") and names[1:2] != [None] and "stride" not in names:
        end = given[0].span.end
        yield (Edit(Span(call.span.source, end, end), ", stride=1"),)


def _pooled_sides(sum_: ast.Binary, around: Around) -> Iterator[Edits]:
    """`y + (x |> short: conv2d(c, 1) |> max_pool(2))` for the same without the pool."""
    pools = dict.fromkeys(
        each.span.text for each in walk(around.declaration)
        if isinstance(each, ast.Call) and each.callee in _RESIZED
    )  # fmt: skip
    for side in (sum_.left, sum_.right):
        for pool in pools:
            text = f"{side.span.text} |> {pool}"
            yield (_put(side, text if isinstance(side, ast.Pipe) else f"({text})"),)


def _kept_axes(call: ast.Call) -> Iterator[Edits]:
    """`concat(insert_axis(mean(x, 1), 1, 1), y, axis=1)` for `concat(mean(x, 1), y, axis=1)`."""
    axis = next((each.value for each in call.arguments if each.name == "axis"), None)
    reduced = [
        each.value for each in call.arguments
        if isinstance(each.value, ast.Call) and each.value.callee in _REDUCTIONS
    ]  # fmt: skip
    if call.callee == "concat" and isinstance(axis, ast.Integer) and reduced:
        at = axis.value
        yield tuple(_put(each, f"insert_axis({each.span.text}, {at}, 1)") for each in reduced)


def named_sizes(span: Span, around: Around) -> Iterator[Edits]:
    """A size of a declaration in the place of a name that it has not."""
    yield from ((Edit(span, size),) for size in around.sizes)


def _without_axis(statement: ast.Declare) -> Iterator[Edits]:
    """`param scale: []` for `param scale: [1]`."""
    if statement.type.shape.span.text == "[1]":
        yield (_put(statement.type.shape, "[]"),)


def _flattened(pipe: ast.Pipe, around: Around) -> Iterator[Edits]:
    """`x |> rearrange([n, t, f] -> [n, t * f]) |> linear(8)` for `x |> linear(8)`.

    What is joined to the last axis are numbers and parameters.
    """
    source, node = pipe.source, around.declaration
    if not isinstance(source, ast.Name) or pipe.layer.callee != "linear":
        return
    shapes = [each.type.shape for each in node.inputs if each.name == source.text]
    entries = [each.span.text for each in shapes[0].entries] if shapes else []
    parameters = [each.name for each in node.parameters] if isinstance(node, ast.Block) else []
    if len(entries) > 2 and all(each.isdecimal() or each in parameters for each in entries[1:-1]):
        pattern = f"[{', '.join(entries)}] -> [{entries[0]}, {' * '.join(entries[1:])}]"
        yield (_put(source, f"{source.text} |> rearrange({pattern})"),)


def _moved_entries(subscript: ast.Subscript) -> Iterator[Edits]:
    """`x[:, i]` for `x[i]`, and the reverse."""
    base = subscript.base.span.text
    entries = [each.span.text for each in subscript.entries]
    for position in range(len(entries)):
        moved = [*entries[:position], ":", *entries[position:]]
        yield (_put(subscript, f"{base}[{', '.join(moved)}]"),)
    if len(entries) > 1 and entries[0] == ":":
        yield (_put(subscript, f"{base}[{', '.join(entries[1:])}]"),)


def _swapped_stages(pipe: ast.Pipe) -> Iterator[Edits]:
    """`|> mean(2) |> linear(k)` for `|> linear(k) |> mean(2)`; `a |> f(b)` for `b |> f(a)`."""
    if isinstance(pipe.source, ast.Pipe):
        yield _exchanged(pipe.source.layer, pipe.layer)
    given = pipe.layer.inputs or pipe.layer.arguments
    if len(given) == 1 and given[0].name is None:
        yield _exchanged(pipe.source, given[0])


def _moved_back(result: ast.Return, around: Around) -> Iterator[Edits]:
    """`return y |> rearrange([n * s, d] -> [n, s, d])` behind a rearrangement the other way."""
    for node in walk(around.declaration):
        if isinstance(node, ast.Rearrangement) and len(result.values) == 1:
            back = f"rearrange({node.target.span.text} -> {node.source.span.text})"
            end = result.values[0].span.end
            yield (Edit(Span(node.span.source, end, end), f" |> {back}"),)


def _other_players(objective: ast.Minimize, around: Around) -> Iterator[Edits]:
    """`over g` for `over d`."""
    for path in objective.over:
        others = (name for name in around.module.models if name != path.span.text)
        yield from ((_put(path, name),) for name in others)


def _other_kinds(around: Around) -> Iterator[Edits]:
    """`kinds: i32[n]` for `kinds: [n]`."""
    for each in (one for one in around.declaration.inputs if one.type.dtype != "bool"):
        start, end = each.type.span.start, each.type.shape.span.start
        place = Span(each.span.source, start, end)
        for kind in ("f32", "i32", "bool"):
            if kind != (each.type.dtype or "f32"):
                yield (Edit(place, "" if kind == "f32" else kind),)


def _without_number(sum_: ast.Binary) -> Iterator[Edits]:
    """`d` for `d + 1`, and `d` for `2 * d`."""
    if isinstance(sum_.right, ast.Integer):
        yield (_put(sum_, sum_.left.span.text),)
    if isinstance(sum_.left, ast.Integer):
        yield (_put(sum_, sum_.right.span.text),)


def _times(node: ast.Node, text: str, around: Around) -> Iterator[Edits]:
    """`(k - 1) * dilation` for `k - 1`."""
    yield from ((_put(node, f"{text} * {name}"),) for name in around.sizes)


def _other_numbers(number: ast.Integer, around: Around) -> Iterator[Edits]:
    """The neighbours, and the numbers that are written nearby, the nearest first."""
    near = (number.value + 1, number.value - 1)
    others = sorted(around.numbers, key=lambda each: abs(each - number.value))
    for value in dict.fromkeys((*near, *others)):
        if value > 0 and value != number.value:
            yield (_put(number, str(value)),)


def _transposed(source: ast.Expression, rank: int) -> Iterator[Edits]:
    """`x |> rearrange([a, b, c] -> [a, c, b])`: the last axis in the place of the channels."""
    if rank in (3, 4):
        first, *others, last = "abcd"[:rank]
        before, after = ", ".join((first, *others, last)), ", ".join((first, last, *others))
        stage = f"rearrange([{before}] -> [{after}])"
        yield (_put(source, f"{source.span.text} |> {stage}"),)


def _padded(call: ast.Call) -> Iterator[Edits]:
    """`conv2d(c, 3, pad=1)` for `conv2d(c, 3)`."""
    names = {each.name for each in call.arguments}
    if call.callee in _PADDED and call.arguments and "pad" not in names:
        end = call.arguments[-1].span.end
        place = Span(call.span.source, end, end)
        yield from ((Edit(place, f", pad={width}"),) for width in (1, 2, 3))


def _without_option(call: ast.Call) -> Iterator[Edits]:
    """The call without one of its named arguments, which then has its default."""
    for before, each in zip(call.arguments, call.arguments[1:], strict=False):
        if each.name is not None:
            yield (Edit(Span(call.span.source, before.span.end, each.span.end), ""),)


def each_once(edits: Iterable[Edits]) -> Iterator[Edits]:
    """The edits without those that put the same texts at the same places as one before."""
    known: set[tuple[tuple[int, int, str], ...]] = set()
    for some in edits:
        key = tuple((each.span.start, each.span.end, each.text) for each in some)
        if key not in known:
            known.add(key)
            yield some
