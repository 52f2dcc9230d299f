"""Translates calls of PyTorch and NumPy, once they are read from a text, to this language.

The axes of a value are read from the text of its block, as a file that does not parse has no types.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.other_name_forms import FORMS
from meganeura_dsl.diagnostics.other_name_words import GRADIENT
from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.syntax.problems.block_text import axes_of, bare, block_before, split_top
from meganeura_dsl.syntax.problems.foreign_layers import layer_cure

_AXIS_NAMES = re.compile(r"^(?:dim|dims|axis|axes|dim0|dim1|start_dim|shape|size|repeats)\s*=\s*")
_KEPT = re.compile(r"^keepdims?\s*=\s*(\w+)")
_INTEGER = re.compile(r"-?\d+")
SIMPLE = re.compile(r"-?[\w.]+(?:\([^()]*\)|\[[^\[\]]*\])*")
MOVES = ("transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "t")
SPLITS = ("view", "reshape", "flatten")
_JOINS = ("cat", "concat", "concatenate", "hstack", "vstack", "stack")
_LAYERS = ("dropout", "leaky_relu", "elu")
"""Layers that take a number before they are applied."""
_CONVOLUTIONS = {"Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d"}
_AMBIGUOUS = ("std", "var")
"""Functions that PyTorch and NumPy compute differently."""
_APPLIES = ("forward", "__call__", "call", "apply", "predict")
"""Methods by which other systems apply a model; that of JAX is given the weights first."""
_REDUCES = ("mean", "sum", "max", "min", "amax", "amin")


@dataclass(frozen=True)
class ForeignCall:
    """A call of another system: `value.function(arguments)(applied)`.

    `value` is empty for a function of a module. `before` is the text of the block up to the call,
    and `operand` the name that an operator before it joins it with, if there is one.
    """

    value: str
    function: str
    arguments: tuple[str, ...]
    applied: tuple[str, ...] = ()
    before: str = ""
    operand: str = ""

    def of_axes(self) -> Help | None:
        """Returns the form for known axes of the operand, or without any; None otherwise."""
        name = self.function
        subject, given, kept = self._operands()
        axes = axes_of(subject, self.before) if subject else None
        found: Help | None = None
        if name in _JOINS:
            found = _joined(name, subject if self.value else "", self.arguments)
        elif subject and axes is not None and name in MOVES:
            found = _moved(name, subject, axes, given)
        elif subject and axes is not None and name in SPLITS:
            given = ["1"] if name == "flatten" and not (given or self.value) else given
            found = _split(name, subject, axes, given)
        elif subject and axes is not None and name in ("unsqueeze", "expand_dims"):
            found = self._inserted(subject, axes, given)
        elif subject and name == "masked_fill" and len(given) == 2:
            found = _filled(subject, axes, given, axes_of(given[0], self.before))
        elif subject and name in _REDUCES:
            found = _reduced(name, subject, given, is_kept=kept)
        elif subject and name in ("softmax", "log_softmax"):
            last = given[0] if given else "-1"
            is_last = last == "-1" or (axes is not None and last == str(len(axes) - 1))
            found = Help("write", f"{name}{'' if is_last else f'(axis={last})'}({subject})")
        elif subject and name == "size" and given:
            found = Help("write", f"size({subject}, {given[0]})")
        elif subject and name in _LAYERS and given:
            found = Help("write", f"{subject} |> {name}({given[0].rpartition('=')[2]})")
        elif not self.value and name in ("zeros", "ones") and all(map(_is_size, self.arguments)):
            found = Help("write", f"{name}([{', '.join(self.arguments)}])")
        elif name == "einsum" and len(self.arguments) == 3:
            found = _product(*self.arguments, self.before)
        elif name in _CONVOLUTIONS and len(self.arguments) >= 3:
            found = self._convolution()
        if found is None and subject and axes is None:
            found = _joined_rest(name, subject, given)
        return found

    def help(self) -> Help:
        """Returns the form in this language, in the program's names as far as they are known."""
        name = self.function
        found = self._application() or self.of_axes() or self.of_triangle()
        if found is not None:
            return found
        layer = layer_cure(name, self.arguments, self.applied, self.before)
        if layer is not None:
            return layer
        if name == "grad" and (self.applied or len(self.arguments) < 2):
            return Help(GRADIENT)
        answer = other_names().get(name)
        code = self._substituted() if name not in _AMBIGUOUS else ""
        if code:
            return Help((answer.words if answer else "") or "write", code)
        if answer is not None:
            return answer.help()
        operands = [*([bare(self.value)] if self.value else []), *self.arguments]
        if self.applied:
            return Help("write", f"{name}({', '.join(self.arguments)})({', '.join(self.applied)})")
        return Help("write", f"{name}({', '.join(_plain(each) for each in operands)})")

    def _application(self) -> Help | None:
        """Returns the pipe that a model called by its method is; None for other methods."""
        if self.function not in _APPLIES or not self.value or not self.arguments:
            return None
        given = [each for each in self.arguments if "=" not in each] or ["x"]
        value = given[-1] if self.function == "apply" else given[0]
        return Help("a model or a layer is applied by a pipe", f"{value} |> {self.value}")

    def of_triangle(self) -> Help | None:
        """Returns the triangle of a matrix whose axes the text says; None for other calls."""
        operand, rest, _ = self._operands()
        operand = operand or (self.arguments[0] if self.arguments else "")
        if self.function not in _TRIANGLES or rest or not operand:
            return None
        filled = re.fullmatch(r"ones\(\[?([^\[\]]*)\]?\)", bare(operand))
        around = block_before(self.before)
        axes = split_top(filled[1]) if filled is not None else axes_of(operand, around)
        if axes is None or len(axes) != 2:
            return None
        rows, columns = axes
        words, sign = _TRIANGLES[self.function]
        mask = f"iota({columns}) {sign} insert_axis(iota({rows}), 1, {columns})"
        code = f"f32({mask})" if filled is not None else f"where({mask}, {operand}, 0)"
        return Help(words, code)

    def of_shape(self) -> Help | None:
        """Returns the tensor of the shape of the operand, such as zeros; None for other calls."""
        code = self._substituted()
        return Help("here it is", code) if code else None

    def _operands(self) -> tuple[str, list[str], bool]:
        """Returns the operand, the further positional arguments, and if axes are kept."""
        given = [] if not self.arguments else list(self.arguments)
        subject = self.value or (given.pop(0) if given else "")
        kept = any(found[1] in ("True", "true") for each in given if (found := _KEPT.match(each)))
        rest = [_plain(each) for each in given if not _KEPT.match(each)]
        if len(rest) == 1 and rest[0][:1] in ("(", "["):
            rest = split_top(rest[0][1:-1])
        subject = bare(subject)
        is_value = SIMPLE.fullmatch(subject) or self.value or " " in subject
        return (subject if subject and is_value else "", [each for each in rest if each], kept)

    def _inserted(self, subject: str, axes: list[str], given: Sequence[str]) -> Help | None:
        if len(given) != 1 or not _INTEGER.fullmatch(given[0]):
            return None
        place = int(given[0]) % (len(axes) + 1)
        one = [*axes[:place], "1", *axes[place:]]
        other = axes_of(self.operand, self.before) if self.operand else None
        if other is not None and len(other) == len(one):
            wide = [
                large if small == "1" else small for small, large in zip(one, other, strict=True)
            ]
            if wide == other and len(set(other)) == len(other):
                return Help(
                    "an axis of size 1 is never stretched: repeat it",
                    f"expand({subject}, {_list(axes)} -> {_list(other)})",
                )
        return Help("write", f"rearrange({subject}, {_list(axes)} -> {_list(one)})")

    def _convolution(self) -> Help:
        """A convolution without the number of channels that it is given."""
        settings = [each.replace("padding=", "pad=") for each in self.arguments[1:]]
        value = self.applied[0] if self.applied else "x"
        layer = _CONVOLUTIONS[self.function]
        return Help(
            "the channels of the input are never written",
            f"{value} |> conv1: {layer}({', '.join(settings)})",
        )

    def _substituted(self) -> str:
        """The code of a form in which the operands are those of this call; empty if none fits."""
        mine = [*([self.value] if self.value else []), *map(_plain, self.arguments), *self.applied]
        mine = [each for each in mine if each]
        found = [
            code
            for form, calls in FORMS.items()
            if self.function in calls
            if (code := _with_operands(form, calls[self.function], mine))
        ]
        return found[0] if found else ""


def _with_operands(form: str, call: str, mine: Sequence[str]) -> str:
    """A form with other operands than those of its example; empty if it needs more of them."""
    theirs = [_plain(each) for each in _operands_in(call)]
    if "[" in form or "\n" in form or len(theirs) != len(mine):
        return ""
    pairs = set(zip(theirs, mine, strict=True))
    if len({their for their, _ in pairs}) != len(pairs):
        return ""
    names: dict[str, str] = {}
    for their, my in pairs:
        if their == my:
            continue
        is_fraction, is_number = "." in their, re.fullmatch(r"-?[\d.e-]+", their) is not None
        if is_number and ("." in my) != is_fraction and re.fullmatch(r"-?[\d.e-]+", my):
            return ""
        if is_number and len(re.findall(rf"(?<![\w.]){re.escape(their)}(?![\w.])", form)) != 1:
            return ""
        if not is_number and not re.fullmatch(r"\w+", their):
            return ""
        names[their] = my if SIMPLE.fullmatch(my) or my[0] == "(" else f"({my})"
    free = set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[(:=])", form))
    layers = set(re.findall(r"\|>\s*(?:\w+:\s*)?([A-Za-z_]\w*)", form))
    if not free - layers - {"true", "false", "and", "or", "not"} <= set(theirs):
        return ""
    if not names:
        return form
    pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(
        rf"(?<![\w.])(?:{pattern})(?![\w.]|\s*:|\s*=(?!=))", lambda at: names[at[0]], form
    )


def _operands_in(call: str) -> list[str]:
    """The operands of a call in text: what is before the dot, and what is in brackets."""
    head, _, rest = call.partition("(")
    owner, _, _ = head.rpartition(".")
    groups, depth, start = list[str](), 0, 0
    text = f"({rest}"
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 1 and character == "(" and (at == 0 or text[at - 1] == ")"):
            start = at + 1
        if depth == 0 and character == ")":
            groups.append(text[start:at])
    found = [each for group in groups for each in split_top(group) if each]
    is_module = owner.split(".")[0] in MODULES or not owner
    return found if is_module else [owner, *found]


_TRIANGLES = {
    "tril": ("column j of row i is kept where j <= i", "<="),
    "triu": ("column j of row i is kept where j >= i", ">="),
}
"""The triangles of a matrix: in words, and how a column compares with its row."""
MODULES = (
    "F", "jax", "jnp", "keras", "lax", "layers", "math", "nn", "np", "numpy", "ops", "tf", "torch",
)  # fmt: skip
"""Modules that prefix the functions of other systems."""


def _named(axes: Sequence[str]) -> list[str]:
    """Axes of which those that are numbers have names, as a pattern takes the sizes that are there.

    Of pictures, channels are `c`.
    """
    free = [each for each in ("c", "h", "w", "e", "k") if each not in axes]
    free = free if len(axes) == 4 else [each for each in ("s", "d", "e", "k") if each not in axes]
    named = iter(free)
    return [next(named, each) if each.isdecimal() else each for each in axes]


def _product(equation: str, left: str, right: str, before: str) -> Help | None:
    """The product of matrices, or the sum of products, that an equation of two operands is.

    An axis is called as in the text before, where that says it, and else by its letter.
    """
    found = re.fullmatch(r"\W?(\w+),(\w+)->(\w*)\W?", equation.replace(" ", ""))
    if found is None:
        return None
    first, second, wanted = found.groups()
    if any(len(set(each)) != len(each) for each in found.groups()):
        return None
    text = "each letter is an axis, and a name here"
    if first == second:
        kept = [each for each in first if each in wanted]
        summed = [str(at) for at, each in enumerate(first) if each not in wanted]
        if kept != list(wanted):
            return None
        return Help(
            text, f"sum({left} * {right}, {', '.join(summed)})" if summed else f"{left} * {right}"
        )
    summed = [each for each in first if each in second and each not in wanted]
    leading = [each for each in first if each in second and each in wanted]
    rows = [each for each in first if each not in second]
    columns = [each for each in second if each not in first]
    if not len(summed) == len(columns) == 1 or not rows or (leading and len(rows) > 1):
        return None
    result = [*leading, *rows, *columns]
    if sorted(result) != sorted(wanted):
        return None
    names = _letters(((left, first), (right, second)), before)
    sides = (
        (left, first, [*leading, *rows, *summed]),
        (right, second, [*leading, *summed, *columns]),
    )
    code = " @ ".join(
        value
        if list(letters) == order
        else f"rearrange({value}, {_list([names[each] for each in letters])} -> "
        f"{_list([names[each] for each in order])})"
        for value, letters, order in sides
    )
    if result != list(wanted):
        left_, right_ = ([names[each] for each in order] for order in (result, wanted))
        code = f"rearrange({code}, {_list(left_)} -> {_list(right_)})"
    return Help(text, code)


def _letters(operands: Sequence[tuple[str, str]], before: str) -> dict[str, str]:
    """The name of each axis that is a letter of an equation."""
    names = dict[str, str]()
    for value, letters in operands:
        axes = axes_of(value, before) or []
        if len(axes) == len(letters):
            for letter, axis in zip(letters, axes, strict=True):
                if re.fullmatch(r"\w+", axis) and axis not in names.values():
                    names.setdefault(letter, axis)
    block = block_before(before)
    for letter in {each for _, letters in operands for each in letters} - names.keys():
        is_taken = re.search(rf"\b{letter}\s*(?:=|:)", block) or letter in names.values()
        names[letter] = f"{letter}_axis" if is_taken else letter
    return names


def _joined(name: str, value: str, arguments: Sequence[str]) -> Help | None:
    """A concatenation, of tensors in a list."""
    given = [*([value] if value else []), *arguments]
    if not given or given[0][:1] not in ("[", "("):
        return None
    parts = [each for each in split_top(given[0][1:-1]) if each]
    implied = {"hstack": "1", "vstack": "0", "concatenate": "0", "cat": "0", "stack": "0"}
    axis = _plain(given[1]) if len(given) > 1 else implied.get(name, "0")
    if name == "stack":
        parts = [f"insert_axis({each}, {axis}, 1)" for each in parts]
    return Help("write", f"concat({', '.join(parts)}, axis={axis})")


def _moved(name: str, subject: str, axes: list[str], given: Sequence[str]) -> Help | None:
    """The permutation of axes that a call of another library names, as `rearrange`."""
    places = [int(each) for each in given if _INTEGER.fullmatch(each)]
    rank = len(axes)
    if len(places) != len(given) or any(not -rank <= each < rank for each in places):
        return None
    if len(set(axes)) != rank:
        axes = _named(axes)
    places = [each % rank for each in places]
    order = list(range(rank))
    if not places and rank == 2:
        order = [1, 0]
    elif name in ("movedim", "moveaxis") and len(places) == 2:
        order.remove(places[0])
        order.insert(places[1], places[0])
    elif len(places) == rank and sorted(places) == order and name in ("permute", "transpose"):
        order = places
    elif len(places) == 2 and name != "permute":
        first, second = places
        order[first], order[second] = second, first
    else:
        return None
    return Help(
        "axes are moved by their names",
        f"rearrange({subject}, {_list(axes)} -> {_list([axes[at] for at in order])})",
    )


def _split(name: str, subject: str, axes: list[str], given: Sequence[str]) -> Help | None:
    """A reshape in which neighbouring axes are joined or one is split."""
    if name == "flatten":
        start = int(given[0]) if given and _INTEGER.fullmatch(given[0]) else 0
        if len(given) > 1 or not 0 <= start < len(axes):
            return None
        wanted = [*axes[:start], "-1"]
    else:
        of = re.escape(subject)
        sized = re.compile(rf"size\({of}, (\d+)\)|{of}\.shape\[(\d+)\]")
        wanted = [
            axes[int(found[1] or found[2])]
            if (found := sized.fullmatch(each)) and int(found[1] or found[2]) < len(axes)
            else each
            for each in given
        ]
        if len(wanted) == 2 < len(axes) and wanted[0] == "-1" and wanted[1].isdecimal():
            wanted = [axes[0], "-1"]
    if not wanted:
        return None
    head = 0
    while head < min(len(axes), len(wanted)) - 1 and axes[head] == wanted[head]:
        head += 1
    tail = 0
    while tail < min(len(axes), len(wanted)) - head - 1 and axes[-1 - tail] == wanted[-1 - tail]:
        tail += 1
    middle, parts = axes[head : len(axes) - tail], wanted[head : len(wanted) - tail]
    if len(parts) == 1:
        joined = " * ".join(f"({each})" if " " in each else each for each in middle)
        left, right = middle, [joined]
    elif len(middle) == 1:
        open_ = [each for each in parts if not re.fullmatch(r"\w+", each)]
        if len(open_) > 1:
            return None
        name = next(each for each in "ekpr" if each not in (*axes, *parts))
        right = [name if each in open_ else each for each in parts]
        left = [" * ".join(right)]
    else:
        return None
    start, end = axes[:head], axes[len(axes) - tail :]
    code = (
        f"rearrange({subject}, {_list([*start, *left, *end])} -> {_list([*start, *right, *end])})"
    )
    return Help("axes are split and joined by their names", code)


def _joined_rest(name: str, subject: str, given: Sequence[str]) -> Help | None:
    """All axes behind the first joined, of a value of which no axes are known."""
    is_rows = name in ("view", "reshape") and len(given) == 2 and given[1] == "-1"
    if not is_rows and not (name == "flatten" and given == ["1"]):
        return None
    first = given[0] if is_rows and re.fullmatch(r"[a-z]\w*", given[0]) else "n"
    text = "axes are joined by their names, all of the rest by theirs"
    return Help(text, f"rearrange({subject}, [{first}, ...rest] -> [{first}, product(rest)])")


def _filled(
    subject: str, axes: list[str] | None, given: Sequence[str], of: list[str] | None
) -> Help:
    """A value at the places of a mask."""
    mask, value = given
    if axes is not None and of is not None and len(of) < len(axes) and set(of) <= set(axes):
        mask = f"expand({mask}, {_list(of)} -> {_list(axes)})"
    return Help("write", f"where({mask}, {value}, {subject})")


def _reduced(name: str, subject: str, given: Sequence[str], *, is_kept: bool) -> Help | None:
    """A reduction, with its axis inserted again if it was kept."""
    if not all(_INTEGER.fullmatch(each) for each in given):
        return None
    name = {"amax": "max", "amin": "min"}.get(name, name)
    code = f"{name}({', '.join([subject, *given])})"
    if is_kept and given and (len(given) == 1 or not any(each[0] == "-" for each in given)):
        for axis in sorted(given, key=int):
            code = f"insert_axis({code}, {axis}, size({subject}, {axis}))"
        return Help("a reduction removes its axes: insert them again, with their sizes", code)
    return Help("write", code)


def _is_size(argument: str) -> bool:
    return re.fullmatch(r"[\w\s+*/-]+", argument) is not None


def _plain(argument: str) -> str:
    """An argument without the name by which axes are given."""
    return _AXIS_NAMES.sub("", argument)


def _list(axes: Sequence[str]) -> str:
    return f"[{', '.join(axes)}]"
