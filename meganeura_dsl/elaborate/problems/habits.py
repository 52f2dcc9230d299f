"""Cures of what is written by the habits of PyTorch and NumPy, from the text of the problem."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.einops_cures import of_text
from meganeura_dsl.elaborate.problems.gather_cures import picked_by_ids
from meganeura_dsl.elaborate.problems.same_padding import same_padding
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor, show_shape
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import block_before, block_rest, split_top

_NAMED_AXES = ("dim", "dims", "axis", "axes")
_TWICE = ("create_graph", "retain_graph", "persistent", "allow_unused", "has_aux")
"""Arguments of functions of PyTorch, TensorFlow and JAX that give gradients."""
_ELSEWHERE = {
    "padding": "pad", "kernel_size": "k", "kernel": "k", "ksize": "k", "size": "k",
    "strides": "stride", "dilation_rate": "dilation", "output_padding": "output_pad",
    "out_channels": "c", "filters": "c", "use_bias": "bias", "num_groups": "groups",
    "num_heads": "heads", "n_heads": "heads", "n_head": "heads", "nhead": "heads",
    "out_features": "out", "units": "out", "num_layers": "layers", "n_layers": "layers",
    "is_causal": "causal", "attn_mask": "mask", "scale_factor": "scale", "p": "rate",
    "negative_slope": "slope", "num_embeddings": "vocabulary", "input_dim": "vocabulary",
    "embedding_dim": "d", "output_dim": "d", "padding_idx": "padding",
}  # fmt: skip
"""Arguments of layers in PyTorch and Keras, by the names that they have here."""
_ACTIVATIONS = {
    **{name: name for name in ("relu", "relu6", "tanh", "sigmoid", "softmax", "gelu", "silu")},
    **{name: name for name in ("elu", "mish", "leaky_relu", "softplus", "log_softmax")},
    "swish": "silu", "leakyrelu": "leaky_relu", "logsoftmax": "log_softmax",
    "linear": "", "none": "", "identity": "",
}  # fmt: skip
"""Activations that layers of Keras take; "" is none."""
_KEEPS = ("keepdim", "keepdims")
_LISTED = re.compile(r"\b(?:dim|dims|axis|axes)\s*=\s*(?:\[([^\]]*)\]|([^,)]*))")
_KEPT = re.compile(r"\s*,?\s*\bkeepdims?\s*=\s*\w+")
_INTEGER = re.compile(r"-?\d+")
_QUOTIENT = re.compile(r"\s*(?<!/)/(?!/)\s*")
_INSIDE = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_OPERAND = rf"(?:[\w.]+(?:{_INSIDE}|\[[^\[\]]*\])?|{_INSIDE})"
_SET = re.compile(r"(update )?([^=]+\]) =(?!=) ?(.+)")


def of_arguments(callee: str, unknown: str, span: Span) -> Help | None:
    """The call that an argument of another system stands for; None if this is none of those."""
    call = " ".join(span.text.split())
    kept = _KEPT.search(call)
    if kept and unknown in (*_KEEPS, *_NAMED_AXES):
        return _kept_axes(_plain_axes(_KEPT.sub("", call)), piped_into(span))
    if unknown in _NAMED_AXES:
        return Help("axes are given by their place", _plain_axes(call))
    if callee == "grad":
        if unknown in _TWICE:
            return Help("leave it out: a gradient is a value, which may be differentiated again")
        return Help("by what comes second, and is a name", "grad(scalar, x)")
    text = of_text(callee, call)
    if text is not None:
        return text
    if unknown and callee in ("rearrange", "expand", "repeat", "reduce"):
        given = re.search(rf"\b{unknown}\s*=\s*([\w.]+)", call)
        if given and given[1] == unknown:
            left = re.sub(rf"\s*,\s*\b{unknown}\s*=\s*{unknown}\b", "", call)
            return Help(f"a pattern reads `{unknown}` from its scope: leave the argument out", left)
        words = "a pattern reads names in scope: name the size before"
        return Help(words, f"{unknown} = {given[1] if given else 8}")
    return None


def of_other_name(unknown: str, known: Sequence[str], call: str) -> Help | None:
    """The call with an argument that other systems call otherwise, or that is almost called so.

    `known` are the arguments that the call does not give. None if none of them is meant.
    """
    same = _same_padding(unknown, known, call) or _activated(unknown, call)
    if same is not None:
        return same
    names = {other: name for other, name in _ELSEWHERE.items() if name in known}
    near = get_close_matches(unknown, [*names, *known], n=1, cutoff=0.8)
    inside = [name for name in known if len(name) > 2 and name in unknown.split("_")]
    near = near or (inside if len(inside) == 1 else [])
    shown = " ".join(call.split())
    given = re.search(rf"\b{unknown}\s*=\s*([^,]+)", shown)
    if not near or given is None or given[1].strip()[:1] in "\"'":
        return None
    right = names.get(near[0], near[0])
    flag = {"True": "true", "False": "false"}
    value = flag.get(given[1].rstrip(") "), "")
    code = re.sub(rf"\b{unknown}\s*=\s*", f"{right}=", shown)
    if value:
        code = code.replace(f"{right}={given[1].rstrip(') ')}", f"{right}={value}")
    return Help(f"`{unknown}` is called `{right}`", code)


def _same_padding(unknown: str, known: Sequence[str], call: str) -> Help | None:
    """A convolution with the padding that `padding="same"` stands for; None for other arguments."""
    shown = " ".join(call.split())
    asked = re.search(rf"\b{unknown}\s*=\s*[\"'](same|valid)[\"']", shown, re.IGNORECASE)
    if asked is None or "pad" not in known:
        return None
    if asked[1].lower() == "valid":
        return Help("without padding is the default", shown.replace(asked[0], "pad=0"))
    return same_padding(call, asked[0])


def _activated(unknown: str, call: str) -> Help | None:
    """`linear(8) |> relu` for `linear(8, activation="relu")`; None for other arguments."""
    shown = " ".join(call.split())
    given = re.search(rf", *{unknown} *= *[\"']?(?:[\w.]+\.)?(\w+)[\"']?(?=[,)])", shown)
    if given is None or unknown not in ("activation", "act", "nonlinearity"):
        return None
    plain, name = shown.replace(given[0], "", 1), _ACTIVATIONS.get(given[1].lower())
    if name is None:
        return None
    return Help("what follows a layer is piped behind it", f"{plain} |> {name}" if name else plain)


def of_incoming(callee: str, call: str) -> Help | None:
    """Returns a call without the channels that come in, with which calls elsewhere begin.

    The call has one argument more by its place than the layer takes. None for other layers.
    """
    if not re.fullmatch(r"conv(_transpose)?[123]d|linear", callee):
        return None
    found = re.fullmatch(rf"(?:.*:\s*)?{callee}\((.*)\)", " ".join(call.split()))
    given = split_top(found[1]) if found else []
    if len([each for each in given if "=" not in each]) < 2:
        return None
    text = "the channels that come in are never written"
    return Help(text, f"{callee}({', '.join(given[1:])})")


def _plain_axes(call: str) -> str:
    """A call whose axes are given by their place: `mean(x, dim=[1, 2])` is `mean(x, 1, 2)`."""
    return _LISTED.sub(lambda found: found[1] or found[2], call).replace("(, ", "(")


def _kept_axes(call: str, piped: str) -> Help:
    """A reduction whose axes are inserted again, as often as they were; `piped` goes into it."""
    name, _, inside = call.removesuffix(")").partition("(")
    given = [each for each in (piped, *split_top(inside)) if each]
    axes = [int(each) for each in given if _INTEGER.fullmatch(each)]
    values = [each for each in given if not _INTEGER.fullmatch(each)]
    reduced = f"{name}({', '.join([*values, *map(str, axes)])})"
    if not axes:
        return Help("a single number meets any shape: leave it out", reduced)
    base = values[0] if values else "x"
    behind = sorted(axis for axis in axes if axis < 0)
    for axis in (*sorted(axis for axis in axes if axis >= 0), *behind):
        at = axis + sum(other > axis for other in behind) if axis < 0 else axis
        reduced = f"insert_axis({reduced}, {at}, size({base}, {axis}))"
    gone = "the axis is gone: it is" if len(axes) == 1 else "the axes are gone: each is"
    whole = f", in place of `{piped} |> ...`" if piped else ""
    return Help(f"{gone} inserted again, as often as it was{whole}", reduced)


def piped_into(span: Span) -> str:
    """The name that a pipe gives to a call; empty if it is called without one."""
    found = re.search(r"([\w.]+)\s*\|>\s*$", span.source.text[: span.start])
    return found[1] if found else ""


def of_subscript(span: Span, entry: str, given: ElabValue, base: Tensor) -> Help | None:
    """Returns the cure for a bool tensor, indices or a list in brackets; None otherwise."""
    found = _SET.fullmatch(" ".join(span.text.split()))
    part, value = (found[2], found[3]) if found else (" ".join(span.text.split()), None)
    name, inside = _subscripted(part)
    written = split_top(inside)
    axis = written.index(entry) if entry in written else 0
    if is_tensor(given) and given.type.dtype is DType.BOOL:
        mask = spread(entry, given.type.shape, base.type.shape, axis)
        text = "sizes may not depend on data: keep all, and choose element by element"
        if found and value:
            changed = f"where({mask}, {value.replace(part, name)}, {name})"
            return Help(text, f"{found[1] or ''}{name} = {changed}")
        return Help(text, f"where({mask}, {name}, 0)")
    if isinstance(given, list):
        text = "entries are gathered along an axis"
        return Help(text, f"gather({name}, constant({entry}), axis={axis})")
    if not is_tensor(given) or given.type.dtype not in (DType.I32, DType.U32):
        return None
    return picked_by_ids(span, name, written, axis, given, base)


def _subscripted(part: str) -> tuple[str, str]:
    """Returns what a subscript takes a part of, and what stands in its brackets."""
    depth = 0
    for at in reversed(range(len(part))):
        depth += (part[at] == "]") - (part[at] == "[")
        if not depth:
            return part[:at], part[at + 1 : -1]
    return part, ""


def spread(written: str, shape: Shape, of: Shape, axis: int = 0) -> str:
    """Returns code that repeats a tensor over the other axes of a larger shape."""
    if len(shape) in (0, len(of)):
        return written
    if len(set(of)) == len(of) and shape == of[axis : axis + len(shape)]:
        return f"expand({written}, {show_shape(shape)} -> {show_shape(of)})"
    for at in (*range(axis), *range(axis + len(shape), len(of))):
        written = f"insert_axis({written}, {at}, {of[at]})"
    return written


def operation_at(span: Span) -> str:
    """An operation with both of its operands, from the place of its sign; empty if one is long."""
    text = span.source.text
    left = re.search(rf"({_OPERAND})[ ]*$", text[: span.start])
    right = re.match(rf"[ ]*({_OPERAND})", text[span.end :])
    return f"{left[1]} {span.text} {right[1]}" if left and right else ""


def of_choice(
    choice: ast.If | ast.Conditional,
    rest: tuple[ast.Statement, ...],
    condition: Shape,
    shapes: Mapping[str, Shape],
) -> Help:
    """Returns the cure for a choice that depends on data, by names whose shapes are given."""
    text = "what a program does is settled before there is data; values are chosen"
    asked = " ".join(choice.condition.span.text.split())
    if isinstance(choice, ast.Conditional):
        ways = (_short(choice.then), _short(choice.otherwise))
        largest = shapes.get(ways[0], shapes.get(ways[1], condition))
        return Help(text, f"where({spread(asked, condition, largest)}, {ways[0]}, {ways[1]})")
    then, otherwise = _bound(choice.then), _bound(choice.otherwise or rest[:1])
    if then and otherwise and {*then, *otherwise} == {""}:
        return Help(text, f"return where({asked}, {then['']}, {otherwise['']})")
    last = rest[-1] if rest else None
    if {*then} == {""} and not choice.otherwise and isinstance(last, ast.Return) and last.values:
        early = f"stops = {asked}\nearly = {then['']}"
        value = _short(last.values[0])
        text = f"{text}:\nthe last line stands in place of `{last.span.text}`"
        return Help(text, f"{early}\nreturn where(stops, early, {value})")
    then, otherwise = _bound(choice.then), _bound(choice.otherwise)
    names = [name for name in {**then, **otherwise} if name]
    if not names:
        return Help(f"{text} by\n`where({asked}, y, z)`")
    lines = [f"chosen = {asked}"] if len(names) > 1 else []
    short = "chosen" if lines else asked
    for name in names:
        wide = spread(short, condition, shapes.get(name, condition))
        lines.append(f"{name} = where({wide}, {then.get(name, name)}, {otherwise.get(name, name)})")
    return Help(text, "\n".join(lines))


def _bound(statements: Sequence[ast.Statement]) -> dict[str, str]:
    """Returns the expression bound to each name, `""` for `return`; empty for other statements."""
    found: dict[str, str] = {}
    for each in statements:
        match each:
            case ast.Bind(targets=(target,), value=value) if target.text not in found:
                found[target.text] = _short(value)
            case ast.Return(values=(value,)):
                found[""] = _short(value)
            case _:
                return {}
    return found


def _short(node: ast.Expression) -> str:
    written = " ".join(node.span.text.split())
    return f"({written})" if isinstance(node, ast.Pipe) else written


def of_whole_number(name: str, given: ElabValue, span: Span) -> Help | None:
    """The cure where a layer of the library takes a whole number, and something else is given."""
    written = span.text
    bound = bound_before(span)
    if is_quotient(written) or is_quotient(bound):
        text = "a quotient of whole numbers, rounded down, is `//`"
        whole = _QUOTIENT.sub(" // ", bound or written)
        return Help(text, f"{written} = {whole}" if bound else f"{name}={whole}")
    if name == "pad" and given == "valid":
        return Help("leave it out: without padding is the default", f"{name}=0")
    if isinstance(given, list) and len({str(each) for each in given}) == 1:
        return Help("it is one number for all axes", f"{name}={given[0]}")
    return None


def is_quotient(written: str) -> bool:
    """True if there is a division in a text that is not rounded."""
    return _QUOTIENT.search(written) is not None


def bound_before(span: Span) -> str:
    """Returns the last expression bound to a name before; empty if none, or for a parameter."""
    if not re.fullmatch(r"[^\W\d]\w*", span.text):
        return ""
    block = block_before(span.source.text[: span.start])
    found = re.findall(rf"^\s+{span.text}\s*=\s*([^\n#]+)", block, re.MULTILINE)
    return found[-1].strip() if found else ""


def used_in_place(span: Span) -> Help | None:
    """The next line that goes on from the value behind a norm in place of what the norm gives.

    `span` is the name that is never used. None where the line that binds it ends with no norm.
    """
    lines = span.source.text.split("\n")
    name, line = span.text, lines[span.line - 1]
    if not name.isidentifier():
        return None
    norm = r"(?:\w+:\s*)?\w*norm\w*(?:\([^()]*\))?"
    bound = re.fullmatch(rf"(\s+){name}\s*=\s*(\w+)\s*\|>\s*{norm}\s*", line)
    if bound is None:
        return None
    for other in lines[span.line :]:
        if other.strip() and not other.startswith(bound[1]):
            return None
        if re.match(rf"\s*{bound[2]}\s*=", other):
            return None
        if re.search(rf"(?:=|return)\s*{bound[2]}\s*\|>", other):
            code = re.sub(rf"\b{bound[2]}(\s*\|>)", rf"{name}\1", other.strip(), count=1)
            return Help(
                f"what follows goes on from `{bound[2]}`: if `{name}` is meant, write", code
            )
    return None


def of_states(span: Span) -> Help | None:
    """A recurrent layer of the library bound to one name, where a line binds its state too."""
    line = span.source.line(span.line)
    found = re.fullmatch(r"\s*(\w+), *[^=|]*= *(.*\|> *(?:\w+: *)?(lstm|gru|rnn)\b.*)", line)
    if found is None or found[1] == span.text:
        return None
    if not re.search(rf"^from recurrent import .*\b{found[3]}\b", span.source.text, re.MULTILINE):
        return None
    text = f"`{found[3]}` gives what each step gave, and no state: the last is `{found[1]}[:, -1]`"
    return Help(text, f"{found[1]} = {found[2].strip()}")


def added_to_result(span: Span, types: Mapping[str, TensorType]) -> Help | None:
    """The last line with a shortcut added, where it is computed and never used.

    `span` is the name that is never used, and `types` are those of names of the block. None for
    names that no shortcut has, for another type than that of the result, and where the block
    returns more than a name, or a function of a name.
    """
    if not re.search(r"shortcut|residual|skip|identity", span.text):
        return None
    rest = block_rest(span.source.text[span.end :])
    found = re.findall(r"^\s+return (?:(\w+)\((\w+)\)|(\w+))[ ]*$", rest, re.MULTILINE)
    if len(found) != 1 or found[0][1:] == ("", span.text):
        return None
    function, inside, alone = found[0]
    type_ = types.get(span.text)
    if type_ is None or not type_.dtype.is_float or types.get(inside or alone) != type_:
        return None
    total = f"{inside or alone} + {span.text}"
    code = f"return {function}({total})" if function else f"return {total}"
    return Help(f"add it to the result, or call it `_{span.text}` to keep it", code)


def table_of_configuration(span: Span, sizes: Sequence[str], unused: str = "") -> Help | None:
    """A weight with a row for each of as many as may come, of which those that do are taken.

    `span` is a `param` whose first axis is a size of the data, one of `sizes`, or stands in the
    block that holds it. `unused` is the parameter that says how many; if it is not given, it is
    the one that the block does not use.
    """
    text = span.source.text
    start = text.rfind("\nblock ", 0, span.start + 1) + 1
    block = block_rest(text[start:])
    if "param " not in block:
        return None
    found = re.search(r"^\s+param (\w+): \[(\w+)((?:, [^\]]*)?)\](.*)$", block, re.MULTILINE)
    header = re.match(r"block \w+\(([^()]*)\)\(([^()]*)\)", block)
    if found is None or header is None:
        return None
    axes = re.findall(r"\w+", " ".join(re.findall(r"\[([^\]]*)\]", header[2])))
    names = [re.split(r"\W", each)[0] for each in split_top(header[1])]
    free = [each for each in names if each and len(re.findall(rf"\b{each}\b", block)) == 1]
    if found[2] not in (sizes or axes) or found[2] not in axes or found[2] in names:
        return None
    most = unused or (free[0] if len(free) == 1 else "")
    if not most or most not in names:
        return None
    text = (
        f"a weight has a row for each of `{most}`, and `{found[1]}[:{found[2]}]` is those that\n"
        f"come, with `where {found[2]} <= {most}`"
    )
    return Help(text, f"param {found[1]}: [{most}{found[3]}]{found[4]}")


def indexed(label: str, index: str) -> str:
    """A label whose first part has the index of a loop: `layers[i].conv`."""
    first, dot, rest = label.partition(".")
    return f"{first}[{index}]{dot}{rest}"


def labels_in_loop(span: Span) -> tuple[str, ...]:
    """The labels without an index of all layers in the innermost `for` that a line stands in."""
    lines = span.source.text.split("\n")
    header = _header_around(span)
    if header is None:
        return ()
    depth = len(lines[header]) - len(lines[header].lstrip())
    body = list[str]()
    for line in lines[header + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        body.append(line.partition("#")[0])
    found = re.findall(r"\|>\s*([A-Za-z_]\w*(?:\.\w+)*)\s*:", "\n".join(body))
    return tuple(dict.fromkeys(found))


def loop_around(span: Span) -> str:
    """The index of the innermost `for` that a line stands in; empty if there is none."""
    header = _header_around(span)
    if header is None:
        return ""
    return span.source.text.split("\n")[header].split()[1]


def _header_around(span: Span) -> int | None:
    """The line of the innermost `for` that a line stands in, counted from 0."""
    lines = span.source.text.split("\n")[: span.line]
    depth = len(lines[-1]) - len(lines[-1].lstrip())
    for at in range(len(lines) - 2, -1, -1):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent >= depth:
            continue
        if re.match(r"\s*for \w+ in\b", line):
            return at
        depth = indent
    return None
