"""Python source as it is built: expressions with their precedence, and statements."""

import keyword
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

ANY, OR, AND, NOT, COMPARE, BIT_OR, BIT_AND, SUM, PRODUCT, SIGN, POWER, ATOM = range(12)
"""Precedence of operators, loosest first."""
BINDING = {
    "or": OR, "and": AND, "|": BIT_OR, "&": BIT_AND, "+": SUM, "-": SUM, "*": PRODUCT,
    "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "@": PRODUCT, "**": POWER,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARE),
}  # fmt: skip
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_SIMPLE = re.compile(r"-?[\w.]+(e-\d+)?")
"""A name, an attribute or a number."""
_STRING = re.compile(r'\w?"(?:[^"\\]|\\.)*"')
_BRACES = re.compile(r"\{([^{}]*)\}")
"""The part of a string or of a path that is computed."""
_KEYWORD = re.compile(r"(?<=[(\s])[A-Za-z_]\w*=(?![=\s])")


@dataclass(frozen=True)
class Code:
    """The text of an expression, and how tightly its outermost operator binds."""

    text: str
    binds: int = ATOM

    def within(self, least: int) -> str:
        """The text, in brackets where it binds less tightly than `least`."""
        return self.text if self.binds >= least else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def binary(operator: str, left: Code, right: Code) -> Code:
    """`left operator right`."""
    binds = BINDING[operator]
    if operator == "**":
        sides = left.within(ATOM), right.within(SIGN)
        space = "" if all(map(_SIMPLE.fullmatch, sides)) else " "
        return Code(f"{sides[0]}{space}**{space}{sides[1]}", binds)
    least_left = binds + 1 if binds == COMPARE else binds
    return Code(f"{left.within(least_left)} {operator} {right.within(binds + 1)}", binds)


def call(function: str, *arguments: Code | str, **named: Code | str) -> Code:
    """`function(arguments)`."""
    parts = [str(each) for each in arguments]
    parts += [f"{name.rstrip('_')}={value}" for name, value in named.items()]
    return Code(f"{function}({', '.join(parts)})")


def method(value: Code, name: str, *arguments: Code | str, **named: Code | str) -> Code:
    """`value.name(arguments)`."""
    return call(f"{value.within(ATOM)}.{name}", *arguments, **named)


def slice_text(ends: Sequence[str]) -> str:
    """`start:stop`, with spaces where an end is more than a name or a number."""
    is_simple = all(re.fullmatch(r"-?\w*", each) for each in ends)
    if is_simple:
        return ":".join(ends)
    start, stop = ends
    return f"{start}{' ' if start else ''}:{' ' if stop else ''}{stop}"


def tuple_text(items: Sequence[Code | str]) -> str:
    """`(a, b)`, `(a,)`."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(map(str, items))})"


def python_name(name: str, taken: frozenset[str]) -> str:
    """A name that is no word of Python and none of `taken`."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def class_name(name: str) -> str:
    """The name of a block as that of a class: `GhostBatchNorm` for `ghost_batch_norm`."""
    if not name.islower():
        return name
    return "".join(part.capitalize() for part in name.split("_"))


def function_name(name: str) -> str:
    """The name of a block as that of a function: `self_attention` for `SelfAttention`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name).lower()


# --- statements ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Line:
    """A statement of one line; without `effect` it goes where nothing reads what it binds."""

    text: str
    binds: tuple[str, ...] = ()
    effect: bool = True


@dataclass(eq=False)
class Create:
    """A layer, parameter or state that comes to be: `self.a.b = value`."""

    path: tuple[str, ...]
    """The key of the path: its parts, as they are written in the block."""
    parts: tuple["PathPart", ...]
    value: str
    kind: str = "module"
    then: tuple[str, ...] = ()
    """Statements behind it, where `{}` is the path."""


@dataclass(eq=False)
class Compound:
    """`head:` and a body; an `if` may have an `otherwise`."""

    head: str
    body: list["Statement"] = field(default_factory=list["Statement"])
    otherwise: list["Statement"] = field(default_factory=list["Statement"])
    binds: tuple[str, ...] = ()
    """The variable of a loop."""


Statement = Line | Create | Compound


@dataclass(frozen=True)
class PathPart:
    """A part of a path: a word, a word that is computed, or an index."""

    kind: str
    """`word`, `computed` or `index`."""
    text: str


def words_of(text: str) -> set[str]:
    """All names that a text reads: no attributes, no names of arguments, no words of strings."""
    code = _STRING.sub(lambda found: " ".join(_BRACES.findall(found[0])), text)
    return set(_WORD.findall(_KEYWORD.sub("", code)))


def texts(statements: Sequence[Statement]) -> Iterator[tuple[Statement, str]]:
    """All statements below, each with its own text."""
    for each in statements:
        match each:
            case Line(text=text):
                yield each, text
            case Create(parts=parts, value=value, then=then):
                read = [value, *then]
                for part in parts:
                    is_index = part.kind == "index"
                    read += [part.text] if is_index else _BRACES.findall(part.text)
                yield each, " ".join(read)
            case Compound(head=head, body=body, otherwise=otherwise):
                yield each, head
                yield from texts(body)
                yield from texts(otherwise)


def without_unread(statements: list[Statement], returned: str = "") -> list[Statement]:
    """The statements without those that only bind what nothing reads."""
    while True:
        read = words_of(returned)
        for each, text in texts(statements):
            if isinstance(each, Line) and each.binds and not each.effect:
                value = text.partition(" = ")[2]
                read |= words_of(value) - (set(each.binds) if len(each.binds) == 1 else set())
            else:
                read |= words_of(text)
        kept, changed = _kept(statements, read)
        statements = kept
        if not changed:
            return statements


def with_last_returned(statements: list[Statement]) -> list[Statement]:
    """The statements, where `x = y` and `return x` at their end are `return y`."""
    match statements:
        case [*before, Line(text=text, binds=(name,)), Line(text=last)] if (
            last == f"return {name}" and text.startswith(f"{name} = ")
        ):
            return [*before, Line(f"return {text.removeprefix(f'{name} = ')}")]
        case _:
            return statements


def _kept(statements: list[Statement], read: set[str]) -> tuple[list[Statement], bool]:
    kept: list[Statement] = []
    changed = False
    for each in statements:
        match each:
            case Line(binds=binds, effect=False) if read.isdisjoint(binds):
                changed = True
            case Compound():
                each.body, inner = _kept(each.body, read)
                each.otherwise, other = _kept(each.otherwise, read)
                changed = changed or inner or other
                if each.head.startswith("if ") and _content(each.body) == _content(each.otherwise):
                    kept += each.body
                    changed = True
                    continue
                if not each.body and each.otherwise and each.head.startswith("if "):
                    each.head = negated(each.head)
                    each.body, each.otherwise = each.otherwise, []
                if each.body:
                    kept.append(each)
                else:
                    changed = True
            case _:
                kept.append(each)
    return kept, changed


def _content(statements: Sequence[Statement]) -> list[Hashable]:
    """Returns lists that are equal for statements that do the same."""
    found: list[Hashable] = []
    for each in statements:
        match each:
            case Line(text=text):
                found.append(text)
            case Create(parts=parts, value=value, kind=kind, then=then):
                found.append((parts, value, kind, then))
            case Compound(head=head, body=body, otherwise=otherwise):
                found.append((head, tuple(_content(body)), tuple(_content(otherwise))))
    return found


_TURNED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negated(head: str) -> str:
    """`if not ...:` for `if ...:`."""
    text = head.removeprefix("if ")
    found = re.fullmatch(r"([\w.\[\]]+) (==|!=|<|<=|>|>=) ([\w.\[\]]+)", text)
    if found:
        return f"if {found[1]} {_TURNED[found[2]]} {found[3]}"
    if text.startswith("not ") and re.fullmatch(r"[\w.]+", text[4:]):
        return f"if {text[4:]}"
    return f"if not {text}" if re.fullmatch(r"[\w.]+", text) else f"if not ({text})"


_AUGMENTED = re.compile(r"(\w+) = \1 (\+|-|\*|//) (.+)")
_TIMES = re.compile(r"(\w+) = (\d+) \* \1")


def augmented(text: str) -> str:
    """`x += y` for `x = x + y`."""
    times = _TIMES.fullmatch(text)
    if times is not None:
        return f"{times[1]} *= {times[2]}"
    found = _AUGMENTED.fullmatch(text)
    if found is None:
        return text
    name, operator, rest = found.groups()
    is_simple = re.fullmatch(r"[\w.]+(\[[\w.]+\])*", rest) is not None
    is_sum = operator == "+" and re.fullmatch(r"[\w.\[\] *]+", rest) is not None
    return f"{name} {operator}= {rest}" if is_simple or is_sum else text
