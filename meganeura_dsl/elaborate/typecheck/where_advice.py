"""Advice for a clause of `where` that a call does not meet."""

import re
from collections.abc import Mapping
from itertools import zip_longest
from math import gcd

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layout_cures import (
    channels_moved,
    picture_moved,
    steps_moved,
)
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.proof_failures import reversed_fact
from meganeura_dsl.elaborate.problems.window_cures import keeping_cure, smaller_cure, unstrided_cure
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import (
    names_in,
)
from meganeura_dsl.elaborate.values import Axes, ElabValue, is_size, is_tensor
from meganeura_dsl.symbolic.assumptions import (
    Compare,
    Condition,
    show_condition,
)
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import bracketed

LARGEST_TRIED = 4096
"""Sizes that are tried when looking for the smallest that works."""


_LIMITS = {"<=": (False, 0), "<": (False, -1), ">=": (True, 0), ">": (True, -1)}
"""Comparisons of a size with its limit: true if the limit comes first, and what is added to it."""


def too_many_advice(inner: Frame, block: ast.Block, clause: ast.Expression, call: Span) -> str:
    """Advice for an axis that is longer than a number of the configuration, both of them known."""
    if not isinstance(clause, ast.Binary) or clause.operator not in _LIMITS:
        return ""
    is_first, more = _LIMITS[clause.operator]
    axis, limit = (clause.right, clause.left) if is_first else (clause.left, clause.right)
    most = inner.evaluate(limit) if isinstance(limit, ast.Name | ast.Integer) else None
    if not isinstance(axis, ast.Name) or not isinstance(most, int) or most + more < 1:
        return ""
    given, most = inner.names.get(axis.text), most + more
    places = [
        (item, at)
        for item in block.inputs
        for at, entry in enumerate(item.type.shape.entries)
        if isinstance(entry, ast.Name) and entry.text == axis.text
    ]
    if not places or not isinstance(given, int) or inner.module.is_library:
        return ""
    around = {} if inner.parent is None else inner.parent.names
    line, parts = call.source.line(call.line), list[str]()
    for item, at in places:
        value = inner.names[item.name]
        named = [name for name, each in around.items() if each is value and name in line]
        parts.append(f"`{named[0] if named else item.name}[{':, ' * at}:{most}]`")
    is_config = isinstance(limit, ast.Name) and limit.text in {x.name for x in block.parameters}
    other = f", or make it with `{limit.span.text}={given - more}`" if is_config else ""
    inputs = " and ".join(f"`{item.name}`" for item, _ in places)
    verb = "have" if len(places) > 1 else "has"
    return f"{inputs} {verb} {given} and may have {most}: pass {' and '.join(parts)}{other}"


def smallest_size_advice(
    inner: Frame,
    block: ast.Block,
    clause: ast.Expression,
) -> str:
    """The smallest size of an axis for which a clause about known sizes would hold, as advice."""
    axes = {
        entry.text
        for item in block.inputs
        for entry in item.type.shape.entries
        if isinstance(entry, ast.Name)
    }
    if isinstance(clause, ast.Binary) and clause.operator == "==":
        sides = (clause.left, clause.right)
        if not any(isinstance(each, ast.Binary) and each.operator == "%" for each in sides):
            return ""  # that two sizes are equal is no reason to change one of them
    groups = _divisors(inner, block, clause)
    if groups:
        return groups
    for name in size_names(clause):
        given = inner.names.get(name)
        if name not in axes or not isinstance(given, int):
            continue
        for size in range(given + 1, LARGEST_TRIED):
            inner.names[name] = size
            if clause_condition(clause, inner, block) is True:
                inner.names[name] = given
                return f"the smallest `{name}` that works is {size}{_or_divides(clause, given)}"
        inner.names[name] = given
    return ""


def _or_divides(clause: ast.Expression, given: int) -> str:
    """The words for the number nearest to that of `c % 32 == 0` that divides a size."""
    match clause:
        case ast.Binary(
            operator="==",
            left=ast.Binary(operator="%", right=ast.Integer(value=divisor)),
            right=ast.Integer(value=0),
        ) if gcd(divisor, given) > 1:
            common = gcd(divisor, given)
            return f";\n{given} is divided by {common}, if {divisor} may be that"
        case _:
            return ""


def _divisors(inner: Frame, block: ast.Block, clause: ast.Expression) -> str:
    """Advice on a number of the configuration that has to divide a size, both of them known."""
    match clause:
        case ast.Binary(
            operator="==",
            left=ast.Binary(operator="%", left=ast.Name(text=size), right=ast.Name(text=name)),
            right=ast.Integer(value=0),
        ):
            whole, given = inner.names.get(size), inner.names.get(name)
        case _:
            return ""
    if name not in {each.name for each in block.parameters} or isinstance(whole, bool):
        return ""
    if not (isinstance(whole, int) and isinstance(given, int) and 0 < whole <= LARGEST_TRIED):
        return ""
    fitting = [each for each in range(1, whole + 1) if whole % each == 0]
    near = min(fitting, key=lambda each: (abs(each - given), -each))
    if size not in {each.name for each in block.parameters}:
        shown = [*map(str, fitting)]
        dividing = f"{', '.join(shown[:-1])}{' and ' if shown[:-1] else ''}{shown[-1]}"
        return f"what divides {whole} is {dividing}: the nearest `{name}` is {near}"
    below, above = whole - whole % given, whole + given - whole % given
    others = f"{below} or {above}" if below else f"{above}"
    return f"for {name}={given} take {size}={others}, or for {size}={whole} take {name}={near}"


def reversed_division_advice(inner: Frame, part: Condition) -> str:
    """Advice for a division that is stated the other way round."""
    cure = reversed_fact(inner.facts, part)
    return "" if cure is None else f"{cure.text}:\n`{cure.code}`"


def output_pad_advice(inner: Frame, clause: ast.Expression) -> str:
    """Advice for a transposed convolution whose `output_pad` is not below its stride."""
    if not inner.module.is_library or clause.span.text != "output_pad < stride":
        return ""
    names = ("stride", "k", "pad", "dilation")
    stride, window, pad, dilation = (inner.names.get(name, "") for name in names)
    if stride == 1:
        return "`output_pad` adds rows that a stride left out, and a stride of 1 leaves out none"
    if not all(isinstance(each, int) for each in (stride, window, pad, dilation)):
        return ""
    assert isinstance(stride, int)
    assert isinstance(window, int)
    assert isinstance(pad, int)
    assert isinstance(dilation, int)
    extra = stride + 2 * pad - dilation * (window - 1) - 1
    if extra == 0:
        return f"leave `output_pad` out: the result is {stride} times the size without it"
    if 0 < extra < stride:
        return f"the result is {stride} times the size with `output_pad={extra}`"
    return f"it is {stride - 1} at most"


def padding_advice(inner: Frame, caller: Location, clause: ast.Expression) -> str:
    """Advice for a window that may not fit, in a block whose result has the size of its input.

    A window with a padding keeps the size, and then fits into any.
    """
    outermost = [inner, *inner.enclosing()][-1].declaration
    size = next((inner.names.get(name, "") for name in size_names(clause)), "")
    is_own = inner.module.is_library and clause.span.text.startswith("fits(")
    if not is_own or not is_size(size) or not isinstance(outermost, ast.Block):
        return ""
    declared = {
        entry.span.text
        for each in outermost.results or ()
        for entry in each.shape.entries
        if isinstance(entry, ast.Name | ast.Integer)
    }
    cure = keeping_cure(caller.span.text) if show(size) in declared else None
    return "" if cure is None else f"{cure.text}: `{cure.code}`"


def _called_with(block: ast.Block, caller: Location, values: Mapping[str, str]) -> str:
    """The call as it was written, but with these `values` of its configuration."""
    call = " ".join(caller.span.text.split())
    inside = bracketed(call, call.find("("))
    if inside is None:
        return call
    arguments, end = inside
    written = list[str]()
    for parameter, argument in zip_longest(block.parameters, arguments):
        if argument is None:
            break
        name, is_named, _ = argument.partition("=")
        key = name.strip() if is_named or parameter is None else parameter.name
        begin = f"{name.rstrip()}=" if is_named else ""
        written.append(f"{begin}{values[key]}" if key in values else argument)
    return f"{call[: call.find('(')]}({', '.join(written)}){call[end:]}"


def depthwise_advice(
    inner: Frame, block: ast.Block, caller: Location, clause: ast.Expression
) -> str:
    """Advice for a convolution with a group for each channel that comes in, and other channels."""
    groups, incoming = inner.names.get("groups", ""), inner.names.get("c_in", "")
    is_own = inner.module.is_library and clause.span.text == "c % groups == 0"
    if not (is_own and is_size(groups) and is_size(incoming)) or groups != incoming:
        return ""
    kept, asked = (shown_value(inner.names.get(name, "")) for name in ("c_in", "c"))
    call = _called_with(block, caller, {"c": kept, "groups": kept})
    return (
        f"a depthwise convolution keeps the channels:\n`{call}`,\n"
        f"and `{block.name.text}({asked}, 1)` behind it makes others; for several filters a "
        f"channel\nstate `{asked} % {kept} == 0`"
    )


def groups_advice(inner: Frame, block: ast.Block, caller: Location, clause: ast.Expression) -> str:
    """Advice for a convolution with a group for each channel that it makes, of which others come.

    They are of the configuration or of another axis: no fact of `where` is likely to hold.
    """
    groups, incoming, asked = (inner.names.get(name, "") for name in ("groups", "c_in", "c"))
    is_own = inner.module.is_library and clause.span.text == "c_in % groups == 0"
    if not (is_own and is_size(groups) and is_size(incoming) and is_size(asked)):
        return ""
    value = inner.names[block.inputs[0].name]
    if groups != asked or isinstance(groups, int) or not is_tensor(value):
        return ""
    if value.type.rank > 2 and value.type.shape[-1] == groups:
        return (
            f"`{block.name.text}` has its channels on axis 1, which is {show(incoming)} here: move "
            f"those of\naxis {value.type.rank - 1} there by a `rearrange` before it, and back "
            "behind it"
        )
    kept = show(incoming)
    return (
        "a depthwise convolution has a group for each channel that comes in:\n"
        f"`{_called_with(block, caller, {'c': kept, 'groups': kept})}`,\n"
        "and one of window 1 behind it makes others"
    )


def kept_channels_advice(inner: Frame, caller: Location, clause: ast.Expression) -> str:
    """Advice for a convolution that keeps its channels, and has other channels for its groups.

    That is a depthwise one by its form. Those for groups are ones that a layer of the block makes.
    """
    groups, incoming, asked = (inner.names.get(name, "") for name in ("groups", "c_in", "c"))
    is_own = inner.module.is_library and clause.span.text in (
        "c % groups == 0",
        "c_in % groups == 0",
    )
    if not (is_own and is_size(groups) and is_size(incoming) and asked == incoming):
        return ""
    call = " ".join(caller.span.text.split())
    found = re.search(r"\((?P<channels>[^(),]+),.*\bgroups\s*=\s*(?P<groups>\w+)", call)
    outermost = [inner, *inner.enclosing()][-1].declaration
    if found is None or isinstance(groups, int) or outermost is None:
        return ""
    others = outermost.span.text.replace(caller.span.text, "")
    makes = re.search(rf"\b(?:linear|conv[123]d)\({found['groups']}\s*,", others)
    if makes is None:
        return ""
    code = f"{call[: found.start('groups')]}{found['channels']}{call[found.end('groups') :]}"
    return (
        "a depthwise convolution has a group for each channel that comes in, and\n"
        f"`{found['groups']}` are other channels: `{code}`"
    )


def incoming_channels_advice(inner: Frame, caller: Location, clause: ast.Expression) -> str:
    """Advice for a convolution that is given its input channels, as in other systems."""
    incoming, asked = inner.names.get("c_in", ""), inner.names.get("c", "")
    is_own = inner.module.is_library and clause.span.text.startswith("fits(")
    if not (is_own and is_size(incoming) and is_size(asked)):
        return ""
    call = " ".join(caller.span.text.split())
    place = r"\s*([^(),=]+)"
    told = re.search(rf"\b(conv[123]d)\({place},{place},{place}(?=[,)])([^()]*\))", call)
    if told is None:
        return ""
    name, first, channels, window, rest = told.groups()
    if incoming != asked and not _is_likelier(channels, window):
        return ""
    if incoming == asked and channels in ("3", "5", "7") and window in ("1", "2"):
        return ""  # a window and its stride
    if incoming != asked:
        return (
            f"its arguments are channels, window and stride: for {channels} channels and a window\n"
            f"of {window} write `{name}({channels}, {window}{rest}`, as the {first} that "
            f"come in are never written{_other_calls(caller.span)}"
        )
    return (
        f"the channels that come in are never written: `{name}({channels}, {window}{rest}`\n"
        f"makes {channels} of the {show(incoming)} that come in, with a window of {window}"
        f"{_other_calls(caller.span)}"
    )


def _other_calls(span: Span) -> str:
    """The other convolutions of the file that are given their input channels correctly."""
    pattern = r"((?:[\w\[\]{}]+:\s*)?conv[123]d)\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)([^()]*\))"
    others = [
        f"`{found[1]}({found[3]}, {found[4]}{found[5]}`"
        for found in re.finditer(pattern, span.source.text)
        if not span.start <= found.start() < span.end and _is_likelier(found[3], found[4])
    ]
    if not others:
        return ""
    listed = ",\n".join(dict.fromkeys(others))
    return f";\nlikewise {listed}"


def _is_likelier(window: str, stride: str) -> bool:
    """True if a window and its stride are rather a number of channels and a window."""
    if not (window.isdecimal() and stride.isdecimal()):
        return False
    return int(window) >= 8 and int(window) % 2 == 0 and int(stride) % 2 == 1


def channels_last_advice(inner: Frame, caller: Location, clause: ast.Expression) -> str:
    """Advice for a convolution that is given its channels on the last axis, as of an embedding."""
    x, around = inner.names.get("x", ""), inner.parent
    block = [inner, *inner.enclosing()][-1].declaration
    if not clause.span.text.startswith("fits(") or not is_tensor(x) or around is None:
        return ""
    if not inner.module.is_library or not isinstance(block, ast.Block):
        return ""
    config, span = [each.name for each in block.parameters], caller.span
    beside = span.source.text[: span.start], span.source.text[span.end :]
    shape, known = x.type.shape, around.names
    is_input = any(
        is_tensor(each) and each.type.shape == shape for each in around.signature.values()
    )
    cure = picture_moved(shape, known, span.text, beside) if is_input else None
    window, dilation = (inner.names.get(name, 1) for name in ("k", "dilation"))
    if is_input and isinstance(window, int) and isinstance(dilation, int):
        least = dilation * (window - 1) + 1
        cure = cure or steps_moved(shape, least, known, span.text, beside)
    cure = cure or channels_moved(shape, known, span.text, beside, is_first=True, config=config)
    return "" if cure is None else f"{cure.text}:\n`{cure.code}`"


def window_advice(inner: Frame, caller: Location, clause: ast.Expression) -> str:
    """Advice for a window of the library that is wider than an axis of known size."""
    is_window = clause.span.text.startswith("fits(") or clause.span.text == "s + 2 * pad >= k"
    if not inner.module.is_library or not is_window:
        return ""
    name = next(iter(size_names(clause)), "")
    size, x, window = (inner.names.get(each, "") for each in (name, "x", "k"))
    if isinstance(size, Axes):
        size = min((each for each in size if isinstance(each, int)), default="")
    if not isinstance(size, int) or not isinstance(window, int):
        return ""
    if is_tensor(x):
        slower = unstrided_cure(x, window, inner.state.values.source_of)
        if slower is not None:
            return f"{slower.text}:\n`{slower.code}`"
    return smaller_cure(caller.span.text, size)


def axes_advice(inner: Frame, part: Condition) -> str:
    """Advice for an axis that is to divide another one: no fact of `where` is likely to hold."""
    outermost = [inner, *inner.enclosing()][-1].declaration
    divided = re.fullmatch(r"(\w+) % (\w+) == 0", show_condition(part))
    if divided is None or not isinstance(outermost, ast.Block):
        return ""
    entries = [entry for each in outermost.inputs for entry in each.type.shape.entries]
    axes = {each.text for each in entries if isinstance(each, ast.Name)}
    whole, divisor = divided.groups()
    if not {whole, divisor} <= axes - {each.name for each in outermost.parameters}:
        return ""
    return (
        f"{whole} and {divisor} are two axes of what `{outermost.name.text}` is given, and\n"
        f"nothing makes {divisor} divide {whole}: an axis may stand where the other is meant"
    )


def norm_width_advice(inner: Frame, block: ast.Block, clause: ast.Expression) -> str:
    """Advice for a norm of the library whose `eps` is a width, as other systems are given one."""
    eps = inner.names.get("eps", "")
    if clause.span.text != "eps < 1" or not is_size(eps) or not inner.module.is_library:
        return ""
    before = [
        show(value)
        for parameter in block.parameters[: [each.name for each in block.parameters].index("eps")]
        if is_size(value := inner.names.get(parameter.name, ""))
    ]
    call = block.name.text + (f"({', '.join(before)})" if before else "")
    return f"the width of what comes in is never written: `{call}`"


def causal_advice(inner: Frame, clause: ast.Expression, part: Condition) -> str:
    """Advice for causal attention between two sequences, whose positions have no common order."""
    is_causal = inner.module.is_library and "causal" in names_in(clause)
    if not (is_causal and isinstance(part, Compare)):
        return ""
    sides = (part.left, part.right)
    if not all(show(side).isidentifier() for side in sides):
        return ""
    return (
        f"queries of {show(part.left)} positions and keys of {show(part.right)} have no order in\n"
        "common: leave out `causal`; what one sequence is given of itself has one size"
    )


def equal_sizes_advice(part: Condition) -> str:
    """Returns advice for two sizes that have to be equal and are bound independently."""
    if not isinstance(part, Compare) or part.operator != "==" or isinstance(part.right, int):
        return ""
    return (
        f"nothing makes {show(part.left)} and {show(part.right)} equal: apply it to tensors for\n"
        "which it holds; if both are one size, write it with one name where they come from"
    )


def shown_value(value: ElabValue) -> str:
    """A number that is known, or a size; empty for anything else."""
    return repr(value) if isinstance(value, float) else show(value) if is_size(value) else ""
