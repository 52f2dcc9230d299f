"""Slips that are known by what they look like, each with the edit that undoes it, and why.

They are tried before other edits: one that holds is hardly a coincidence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from meganeura_dsl.diagnostics.report import Edit
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.repairs.small_edits import Around, Edits
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


@dataclass(frozen=True)
class Slip:
    """The edits that undo a slip, and what is wrong in words."""

    words: str
    edits: Edits
    is_only: bool = True
    """False if other edits near it are as likely to be meant."""


def known_slips(statement: ast.Node, around: Around) -> Iterator[Slip]:
    """The slips that a statement may hold."""
    yield from _whole_pipes(statement)
    yield from _cache_axes(statement, around)
    for node in walk(statement):
        match node:
            case ast.Call():
                yield from _undilated(node, around)
                yield from _without_stride(node)
                yield from _other_stride(node, around)
                yield from _ids_joined(node, around)
                yield from _examples_moved(node, node, around)
            case ast.Binary():
                yield from _counted_from_one(node, around)
                yield from _other_sum(node, around)
            case ast.Pipe():
                yield from _without_features(node, around)
                yield from _examples_moved(node.layer, node, around)
                yield from _causal(node)
            case ast.Bind():
                yield from _not_halved(node, around)
                yield from _column(node)
            case _:
                pass


def _whole_pipes(statement: ast.Node) -> Iterator[Slip]:
    """`gate * (up |> down: linear(d))` for `gate * up |> down: linear(d)`."""
    pipes = [each for each in walk(statement) if isinstance(each, ast.Pipe)]
    inner = {each.source for each in pipes}
    for outer in (each for each in pipes if each not in inner):
        product = outer.source
        while isinstance(product, ast.Pipe):
            product = product.source
        if not isinstance(product, ast.Binary) or product.operator not in ("*", "/"):
            continue
        source, right = product.span.source, product.right.span
        is_bare = product.span.end == right.end and "(" not in source.text[
            product.operator_span.end : right.start
        ]  # fmt: skip
        if is_bare and source.text[right.end : outer.span.end].lstrip().startswith("|>"):
            words = (
                f"the pipe takes the product `{product.span.text}`;\nwith brackets it takes "
                f"`{right.text}` alone"
            )
            opened = Edit(Span(source, right.start, right.start), "(")
            closed = Edit(Span(source, outer.span.end, outer.span.end), ")")
            yield Slip(words, (opened, closed), is_only=False)


def _cache_axes(statement: ast.Node, around: Around) -> Iterator[Slip]:
    """`cache keys: [n, heads, capacity, hd]` for `cache keys: [n, capacity, heads, hd]`.

    All caches of one shape are declared anew.
    """
    used = {each.span.text for each in walk(statement) if isinstance(each, ast.Name | ast.Path)}
    caches = [
        each for each in walk(around.declaration)
        if isinstance(each, ast.Declare) and each.kind == "cache"
    ]  # fmt: skip
    caches.sort(key=lambda each: each.span.start)
    for shape in dict.fromkeys(
        each.type.shape.span.text for each in caches if each.path.span.text in used
    ):
        group = [each for each in caches if each.type.shape.span.text == shape]
        entries = [each.span.text for each in group[0].type.shape.entries]
        names = " and ".join(f"`{each.path.span.text}`" for each in group)
        verb = "is declared" if len(group) == 1 else "are declared"
        for one, other in combinations(range(len(entries)), 2):
            moved = [*entries]
            moved[one], moved[other] = entries[other], entries[one]
            if moved != entries:
                text = f"[{', '.join(moved)}]"
                words = f"{names} {verb} as {shape}: axes {one} and {other} are exchanged"
                yield Slip(words, tuple(Edit(each.type.shape.span, text) for each in group))


def _undilated(call: ast.Call, around: Around) -> Iterator[Slip]:
    """`pad=dilation * (k // 2)` for `pad=k // 2`, there or where the padding is computed.

    A window of k places that are d apart covers d * (k - 1) + 1.
    """
    given = {each.name: each.value for each in call.arguments if each.name}
    dilation, pad = given.get("dilation"), given.get("pad")
    if pad is None or not isinstance(dilation, ast.Name):
        return
    by = dilation.text
    words = f"a window that is dilated by `{by}` keeps the size with {by} times this padding"
    found = _value_of(pad, around) if isinstance(pad, ast.Name) else None
    places = [pad] if found is None else [found]
    if found is None:
        places = [
            argument.value for each in walk(around.declaration) if isinstance(each, ast.Call)
            for argument in each.arguments
            if argument.name == "pad" and argument.value.span.text == pad.span.text
            if any(
                other.name == "dilation" and other.value.span.text == by
                for other in each.arguments
            )
        ]  # fmt: skip
    if any(isinstance(each, ast.Name) and each.text == by for each in walk(places[0])):
        return
    yield Slip(words, tuple(Edit(each.span, _times(by, each)) for each in places))


def _without_stride(call: ast.Call) -> Iterator[Slip]:
    """`conv2d(d, patch, stride=patch)` for `conv2d(d, patch)`."""
    nameless = [each for each in call.arguments if each.name is None]
    if call.callee in ("conv1d", "conv2d", "conv3d") and len(call.arguments) == len(nameless) == 2:
        k = nameless[1].value
        end = Span(k.span.source, k.span.end, k.span.end)
        words = f"windows of {k.span.text} that do not overlap have a stride of {k.span.text}"
        yield Slip(words, (Edit(end, f", stride={k.span.text}"),), is_only=False)


def _other_stride(call: ast.Call, around: Around) -> Iterator[Slip]:
    """`stride=160` for `stride=400`, where the results divide by 160."""
    stride = next((each.value for each in call.arguments if each.name == "stride"), None)
    node = around.declaration
    results = (node.results or ()) if isinstance(node, ast.Block) else ()
    for each in (part for result in results for part in walk(result)):
        if isinstance(each, ast.Binary) and each.operator == "//" and stride is not None:
            by = each.right.span.text
            if by != stride.span.text and isinstance(each.right, ast.Integer | ast.Name):
                words = f"the result is declared as one in {by}, and this moves by another stride"
                yield Slip(words, (Edit(stride.span, by),))


def _ids_joined(call: ast.Call, around: Around) -> Iterator[Slip]:
    """`concat(z, one_hot(label, 10), axis=1)` for `concat(z, label, axis=1)`."""
    ids = {each.name for each in around.declaration.inputs if each.type.dtype == "i32"}
    header = around.declaration.span.text.partition(":\n")[0]
    for each in (each.value for each in call.arguments if call.callee == "concat"):
        if isinstance(each, ast.Name) and each.text in ids:
            below = re.search(rf"\b{each.text} < (\w+)", header)
            code = f"one_hot({each.text}, {below[1]})" if below else f"f32({each.text})"
            words = f"`{each.text}` are whole numbers: join what they stand for"
            yield Slip(words, (Edit(each.span, code),))


def _column(statement: ast.Bind) -> Iterator[Slip]:
    """`score = (x |> v: linear(1))[..., 0]` for `score = x |> v: linear(1)`."""
    value = statement.value
    if not isinstance(value, ast.Pipe) or value.layer.callee != "linear":
        return
    given = value.layer.arguments
    if given and isinstance(given[0].value, ast.Integer) and given[0].value.value == 1:
        words = f"`{value.layer.span.text}` leaves an axis of size 1: take what is on it"
        yield Slip(words, (Edit(value.span, f"({value.span.text})[..., 0]"),))


def _examples_moved(call: ast.Call, whole: ast.Call | ast.Pipe, around: Around) -> Iterator[Slip]:
    """`x` for `rearrange(x, [n, s, d] -> [s, n, d])`, of examples on the first axis."""
    pattern = call.arguments[-1].value if call.arguments else None
    if call.callee != "rearrange" or not isinstance(pattern, ast.Rearrangement):
        return
    before, after = (
        [each.span.text for each in side.entries] for side in (pattern.source, pattern.target)
    )
    firsts = {each.type.shape.entries[0].span.text for each in around.declaration.inputs
              if each.type.shape.entries}  # fmt: skip
    is_moved = len(before) > 2 and after == [before[1], before[0], *before[2:]]
    value = whole.source if isinstance(whole, ast.Pipe) else call.arguments[0].value
    if is_moved and before[0] in firsts and value is not pattern:
        words = f"layers take the examples first, as [{', '.join(before)}]: leave this order"
        yield Slip(words, (Edit(whole.span, value.span.text),))


def _causal(pipe: ast.Pipe) -> Iterator[Slip]:
    """`pad(x, 2, before=(k - 1) * d) |> conv1d(c, k, dilation=d)` with another of both `d`."""
    padded, window = pipe.source, pipe.layer
    if not isinstance(padded, ast.Call) or (padded.callee, window.callee) != ("pad", "conv1d"):
        return
    before, dilation = (
        next((each.value for each in call.arguments if each.name == name), None)
        for call, name in ((padded, "before"), (window, "dilation"))
    )
    nameless = [each.value for each in window.arguments if each.name is None]
    k = next((each.value for each in window.arguments if each.name == "k"), None)
    k = nameless[1] if len(nameless) > 1 else k
    if before is None or k is None or not isinstance(k, ast.Integer | ast.Name):
        return
    back = str(k.value - 1) if isinstance(k, ast.Integer) else f"({k.text} - 1)"
    if dilation is not None:
        by = dilation.span.text
        is_bare = not isinstance(dilation, ast.Binary) or dilation.operator == "**"
        code = f"{back} * {by if is_bare else f'({by})'}"
        words = f"steps that are {by} apart: the first of {k.span.text} lies {code} back"
        yield Slip(words, (Edit(_with_brackets(before.span), code),))
    elif isinstance(before, ast.Binary) and before.operator == "*":
        by, end = before.right.span.text, window.arguments[-1].span.end
        words = f"the padding is that of steps that are {by} apart, and these are 1 apart"
        place = Span(window.span.source, end, end)
        yield Slip(words, (Edit(place, f", dilation={by}"),), is_only=False)


def _times(factor: str, value: ast.Node) -> str:
    if isinstance(value, ast.Integer) and value.value == 1:
        return factor
    text = value.span.text
    return f"{factor} * {text if isinstance(value, ast.Name | ast.Integer) else f'({text})'}"


def _value_of(name: ast.Name, around: Around) -> ast.Expression | None:
    """The value of a name that is bound once in a declaration."""
    found = [
        each.value for each in walk(around.declaration)
        if isinstance(each, ast.Bind) and [target.text for target in each.targets] == [name.text]
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def _counted_from_one(sum_: ast.Binary, around: Around) -> Iterator[Slip]:
    """`iota(s)` for `iota(s) + 1`, and `ids` for `ids + 1`."""
    sides = {sum_.left: sum_.right, sum_.right: sum_.left}
    for index, number in sides.items():
        is_one = isinstance(number, ast.Integer) and number.value == 1
        if sum_.operator == "+" and is_one and any(_is_index(each, around) for each in walk(index)):
            words = f"an index counts from 0, and `{sum_.span.text}` is one further"
            yield Slip(words, (Edit(_with_brackets(sum_.span), index.span.text),))


def _is_index(node: ast.Node, around: Around) -> bool:
    if isinstance(node, ast.Name):
        inputs = around.declaration.inputs
        return any(each.name == node.text and each.type.dtype == "i32" for each in inputs)
    return isinstance(node, ast.Call) and node.callee == "iota"


def _with_brackets(span: Span) -> Span:
    """A place with the brackets that stand right around it, if a call's are not meant."""
    text = span.source.text
    before, after = text[: span.start], text[span.end :]
    is_enclosed = before.endswith("(") and after.startswith(")")
    if is_enclosed and not before[:-1][-1:].isalnum():
        return Span(span.source, span.start - 1, span.end + 1)
    return span


def _other_sum(sum_: ast.Binary, around: Around) -> Iterator[Slip]:
    """`5 + classes` for `4 + classes`, where it is the other elsewhere in the declaration."""
    mine = _number_beside(sum_)
    if mine is None:
        return
    for each in walk(around.declaration):
        other = _number_beside(each) if isinstance(each, ast.Binary) else None
        if (
            isinstance(each, ast.Binary)
            and other is not None
            and other.value != mine.value
            and _rest(each, other) == _rest(sum_, mine)
        ):
            words = (
                f"line {sum_.span.line} counts `{sum_.span.text}`, and line {each.span.line} "
                f"`{each.span.text}`: {mine.value} or {other.value} is off"
            )
            yield Slip(words, (Edit(mine.span, other.span.text),))


def _number_beside(sum_: ast.Binary) -> ast.Integer | None:
    """The number of a sum of a number and something else."""
    numbers = [each for each in (sum_.left, sum_.right) if isinstance(each, ast.Integer)]
    return numbers[0] if sum_.operator in "+-" and len(numbers) == 1 else None


def _rest(sum_: ast.Binary, number: ast.Integer) -> tuple[str, str]:
    other = sum_.right if sum_.left is number else sum_.left
    return sum_.operator, other.span.text


def _without_features(pipe: ast.Pipe, around: Around) -> Iterator[Slip]:
    """`insert_axis(level, 1, 1) |> linear(d)` for `level |> linear(d)`, of one number each."""
    source = pipe.source
    is_converted = isinstance(source, ast.Call) and source.callee == "f32"
    if pipe.layer.callee == "linear" and (is_converted or isinstance(source, ast.Name)):
        value = _value_of(source, around) if isinstance(source, ast.Name) else source
        read = {
            each.text for each in walk(source if value is None else value)
            if isinstance(each, ast.Name) and each.text in around.inputs
        }  # fmt: skip
        code = source.span.text
        if read and all(around.rank(each) == 1 for each in read):
            words = (
                f"`{code}` is one number for each example, and `linear` takes the features\n"
                "from the last axis: give it an axis of size 1"
            )
            yield Slip(words, (Edit(source.span, f"insert_axis({code}, 1, 1)"),))


def _not_halved(statement: ast.Bind, around: Around) -> Iterator[Slip]:
    """`half = d // 2` for `half = d`, of what is joined from two parts of this size."""
    value = statement.value
    joins = any(
        isinstance(each, ast.Call) and each.callee == "concat" and len(each.arguments) == 3
        for each in walk(around.declaration)
    )
    if joins and isinstance(value, ast.Name) and value.text in around.sizes:
        name = statement.targets[0].text
        words = f"two parts of `{name}` are joined, and `{name}` is all of `{value.text}`"
        yield Slip(words, (Edit(value.span, f"{value.text} // 2"),))
