"""Graphs as text that people read, and that reads back as the same graph.

    %0 = Input(name="x", dtype=f32, shape=[n, 3]) : f32[n, 3]
    %1 = Sum(%0, axes=[1]) : f32[n]                              # head (net.mgn:7)
    output "loss" = %1

Values are numbered as they come. Of an op with several results, `.1` after its arguments says which
one a value is. What follows `#` is for people only. An output that has a role is written with the
fields of `ir.outputs`: `output Shown(name="digits") = %1`. A graph that is an attribute of an
op stands above the op, under a number:

    body @0:
      %0 = Input(name="carry.0", dtype=f32, shape=[n]) : f32[n]
      output "carry.0" = %0
    %1 = Scan(%0, body=@0, iterations=8, ...).0 : f32[n]
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from math import isfinite
from typing import Literal, assert_never, get_args, get_origin, get_type_hints

from meganeura_dsl.ir.graph import Body, Graph, Op, Origin, Value
from meganeura_dsl.ir.outputs import ROLES, IndexCheck, OutputRole
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Dim, Size, dim, show

Attribute = bool | int | float | str | Dim | DType | Op | Body | tuple["Attribute", ...]


class GraphTextError(Exception):
    """A text that is no graph; the message begins with the number of the line."""


def format_graph(graph: Graph, *, origins: bool = True) -> str:
    """The text of a graph: one line for each value, output and update.

    Without `origins` it depends only on what the graph means: there are no comments, and checks of
    indices have no locations.
    """
    numbers = {value.id: number for number, value in enumerate(graph.values)}
    lines: list[str] = []
    bodies: dict[Body, int] = {}
    for value in graph.values:
        for body in value.op.bodies:
            if body not in bodies:
                lines.append(f"body @{len(bodies)}:")
                lines += [_INSIDE + line for line in _lines(body, origins=origins)]
                bodies[body] = len(bodies)
        lines.append(_value_line(value, numbers, bodies, origins=origins))
    for word, roots in (("output", graph.outputs), ("update", graph.updates)):
        names = {name: _name(name, origins=origins) for name in roots}
        lines += [f"{word} {names[name]} = %{numbers[root.id]}" for name, root in roots.items()]
    return "\n".join(lines) + "\n"


_INSIDE = "  "
"""The indentation of a line of a body."""


def _lines(body: Body, *, origins: bool) -> list[str]:
    return format_graph(body.graph, origins=origins).splitlines()


def _value_line(
    value: Value, numbers: dict[int, int], bodies: Mapping[Body, int], *, origins: bool
) -> str:
    call = _call(value.op, bodies, [f"%{numbers[operand.id]}" for operand in value.operands])
    result = f".{value.index}" if value.op.multiple_results else ""
    comment = _comment(value.origin) if origins else ""
    return f"%{numbers[value.id]} = {call}{result} : {value.type}{comment}"


def _call(op: Op, bodies: Mapping[Body, int], operands: Sequence[str] = ()) -> str:
    attributes = [
        f"{each.name}={_attribute(getattr(op, each.name), bodies)}" for each in fields(op)
    ]
    return f"{type(op).__name__}({', '.join((*operands, *attributes))})"


def _name(name: str, *, origins: bool) -> str:
    """Returns the text of the name of an output or an update, as `"loss"`."""
    if not isinstance(name, OutputRole):
        return json.dumps(name)
    if isinstance(name, IndexCheck) and not origins:
        name = replace(name, location="")
    named = (f"{each}={_attribute(getattr(name, each), {})}" for each in name.field_types())
    return f"{type(name).__name__}({', '.join(named)})"


def format_op(op: Op) -> str:
    """The text of an op without bodies, and without operands: `Input(name="x", dtype=f32, ...)`."""
    return _call(op, {})


def _comment(origin: Origin) -> str:
    location = f"({origin.location})" if origin.span else ""
    words = " ".join(word for word in (origin.path, location) if word)
    return f"  # {words}" if words else ""


def _attribute(value: Attribute, bodies: Mapping[Body, int]) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Dim():
            return show(value)
        case float():
            return repr(value) if isfinite(value) else f"{value:+}"
        case str():
            return json.dumps(value)
        case DType():
            return value.value
        case Op():
            return _call(value, bodies)
        case Body():
            return f"@{bodies[value]}"
        case tuple():
            return f"[{', '.join(_attribute(each, bodies) for each in value)}]"
        case _:
            assert_never(value)


def parse_graph(text: str, ops: Iterable[type[Op]], origins: Sequence[Origin] = ()) -> Graph:
    """The graph of a text, its ops among `ops`. Types are taken as written: see `verify`.

    A text does not hold the origins of its values; they are taken from `origins`, if there are any.
    """
    classes = {op.__name__: op for op in ops}
    return _graph(list(enumerate(text.splitlines(), start=1)), classes, origins)


def _graph(
    lines: Sequence[tuple[int, str]], classes: Mapping[str, type[Op]], origins: Sequence[Origin]
) -> Graph:
    """The graph of some lines with their numbers."""
    values: list[Value] = []
    bodies: list[Body] = []
    roots: dict[str, dict[str, Value]] = {"output": {}, "update": {}}
    at = 0
    while at < len(lines):
        number, written = lines[at]
        at += 1
        try:
            line = _Line(written, classes, bodies)
            if line.is_empty:
                continue
            if line.peek == "body":
                line.body()
                start = at
                while at < len(lines) and lines[at][1].startswith(_INSIDE):
                    at += 1
                inside = [
                    (position, text.removeprefix(_INSIDE)) for position, text in lines[start:at]
                ]
                bodies.append(Body(_graph(inside, classes, ())))
            elif line.peek in roots:
                word, name, root = line.root()
                roots[word][name] = _known(values, root)
            else:
                origin = origins[len(values)] if origins else Origin()
                values.append(line.value(values, origin))
        except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
            raise GraphTextError(f"line {number}: {error}") from error
    return Graph(tuple(values), roots["output"], roots["update"])


@cache
def _hints(op: type[Op]) -> dict[str, object]:
    """The types of the attributes of an op."""
    return get_type_hints(op)


def _may_be_listed(item: Attribute) -> bool:
    return not isinstance(item, float)


def _known(values: list[Value], number: int) -> Value:
    if number >= len(values):
        raise ValueError(f"%{number} is not defined above")
    return values[number]


HIGHEST_POWER = 64
"""A size to a higher power is no size, and would take long to compute."""

LARGEST_NUMBER = 1 << 64
"""No number of a graph is larger."""
MOST_FACTORS = 400
"""Names and floors in all products of a size; a size of more would take long to compute with."""

TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<value>%\d+)
  | (?P<body>@\d+)
  | (?P<real>[-+](?:inf|nan)\b|\d+(?:\.\d*(?:e[-+]?\d+)?|e[-+]?\d+))
  | (?P<result>\.\d+)
  | (?P<whole>\d+)
  | (?P<name>[^\W\d][\w.']*)
  | (?P<mark>//|\*\*|[-+*/()\[\]=:,])
  | (?P<comment>\#.*)
  | (?P<end>$)
  )""",
    re.VERBOSE,
)


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    start = 0
    while start < len(line):
        found = TOKEN.match(line, start)
        if found is None or found.lastgroup is None:
            raise ValueError(f"`{line[start:].strip()}` cannot be read")
        if found.lastgroup not in ("comment", "end"):
            yield found.lastgroup, found[found.lastgroup]
        start = found.end()
    yield "end", ""


def _bounded(size: Size) -> Size:
    """The size itself; raises `ValueError` if it is too large to be one of a graph."""
    numbers = [size] if isinstance(size, int) else size.terms.values()
    if any(abs(number) > LARGEST_NUMBER for number in numbers):
        raise ValueError("a number is too large for a graph")
    if isinstance(size, Dim) and sum(map(len, size.terms)) > MOST_FACTORS:
        raise ValueError("a size is too long for a graph")
    return size


@cache
def _judge(hint: object) -> Callable[[Attribute], bool]:
    """Returns a test that an attribute has a type of its field; a bool is no number."""
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return lambda value: value in parts
    if get_origin(hint) is tuple:
        inner = _judge(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(inner, value))
    kinds = tuple(each for each in parts or (hint,) if isinstance(each, type))
    if float in kinds:
        kinds = (*kinds, int)
    if bool in kinds or int not in kinds:
        return lambda value: isinstance(value, kinds)
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def _kind_of(value: Attribute) -> str:
    """Returns the kind of an attribute that has the wrong type."""
    match value:
        case bool():
            return "true or false, and should not be"
        case float():
            return "a real number, and should not be"
        case Dim():
            return f"the size {show(value)}, and should be known"
        case str():
            return "a text that it cannot be"
        case tuple():
            return "a list that it cannot be"
        case _:
            return f"{value}, which it cannot be"


class _Line:
    """One line, read from left to right."""

    def __init__(self, line: str, classes: Mapping[str, type[Op]], bodies: Sequence[Body]) -> None:
        self._classes = classes
        self._bodies = bodies
        self._tokens = list(_tokens(line))
        self._at = 0
        self.is_empty = len(self._tokens) == 1

    @property
    def peek(self) -> str:
        """The next token."""
        return self._tokens[self._at][1]

    def root(self) -> tuple[str, str, int]:
        """`output "loss" = %1`, or `output Shown(name="digits") = %1`."""
        word = self._take("name")
        is_role = word == "output" and self._kind == "name"
        name = self._role() if is_role else json.loads(self._take("text"))
        self._mark("=")
        number = int(self._take("value")[1:])
        self._take("end")
        return word, name, number

    def _role(self) -> OutputRole:
        name = self._take("name")
        if name not in ROLES:
            raise ValueError(f"a text or a role is expected, not `{name}`")
        role = ROLES[name]
        hints = role.field_types()
        operands, attributes = self._arguments(hints)
        if operands or list(attributes) != list(hints):
            raise ValueError(f"`{name}` has the attributes {', '.join(hints)}")
        return role(**attributes)

    def body(self) -> None:
        """`body @1:`, above the lines of a body."""
        self._take("name")
        if self._take("body") != f"@{len(self._bodies)}":
            raise ValueError(f"the next body is @{len(self._bodies)}")
        self._mark(":")
        self._take("end")

    def value(self, values: list[Value], origin: Origin) -> Value:
        """`%1 = Sum(%0, axes=[1]) : f32[n]`, after the values above it."""
        if self._take("value") != f"%{len(values)}":
            raise ValueError(f"the next value is %{len(values)}")
        self._mark("=")
        op, operands = self._call()
        index = int(self._take("result")[1:]) if op.multiple_results else 0
        self._mark(":")
        marked = TensorType(DType(self._take("name")), self._sizes())
        self._take("end")
        found = tuple(_known(values, operand) for operand in operands)
        return Value(len(values), op, found, marked, origin, index)

    def _call(self) -> tuple[Op, list[int]]:
        """`Sum(%0, axes=[1])`: an op, and the numbers of its operands."""
        name = self._take("name")
        if name not in self._classes:
            raise ValueError(f"there is no op `{name}`")
        op = self._classes[name]
        operands, attributes = self._arguments(_hints(op))
        wanted = [each.name for each in fields(op)]
        if list(attributes) != wanted:
            raise ValueError(f"`{name}` has the attributes {', '.join(wanted) or '(none)'}")
        return op(**attributes), operands

    def _nested(self) -> Op:
        """An op that is an attribute of another: it has no operands."""
        op, operands = self._call()
        if operands:
            raise ValueError(f"`{type(op).__name__}` has operands, and is an attribute")
        return op

    def _known_body(self) -> Body:
        number = int(self._take("body")[1:])
        if number >= len(self._bodies):
            raise ValueError(f"@{number} is not defined above")
        return self._bodies[number]

    def _arguments(self, hints: dict[str, object]) -> tuple[list[int], dict[str, Attribute]]:
        operands: list[int] = []
        attributes: dict[str, Attribute] = {}
        self._mark("(")
        while not self._has(")"):
            if operands or attributes:
                self._mark(",")
            if self._kind == "value":
                operands.append(int(self._take("value")[1:]))
                continue
            name = self._take("name")
            self._mark("=")
            hint = hints.get(name)
            if hint is DType:
                attributes[name] = DType(self._take("name"))
            elif isinstance(hint, type) and issubclass(hint, Op):
                attributes[name] = self._nested()
            elif hint is Body:
                attributes[name] = self._known_body()
            else:
                attributes[name] = self._attribute()
            if name in hints and not _judge(hints[name])(attributes[name]):
                raise ValueError(f"`{name}` is {_kind_of(attributes[name])}")
        return operands, attributes

    def _attribute(self) -> Attribute:
        if self.peek in ("true", "false"):
            return self._take("name") == "true"
        if self.peek == "[":
            return tuple(self._list())
        if self._kind == "text":
            return str(json.loads(self._take("text")))
        if self._kind == "real":
            return float(self._take("real"))
        if self.peek == "-" and self._tokens[self._at + 1][0] == "real":
            self._mark("-")
            return -float(self._take("real"))
        return self._size()

    def _list(self) -> Iterator[Attribute]:
        self._mark("[")
        first = True
        while not self._has("]"):
            if not first:
                self._mark(",")
            first = False
            item = self._attribute()
            if not _may_be_listed(item):
                raise ValueError(f"a list holds sizes, not {item}")
            yield item

    def _sizes(self) -> tuple[Size, ...]:
        return tuple(size for size in self._list() if isinstance(size, int | Dim))

    def _size(self) -> Size:
        total = -self._term() if self._has("-") else self._term()
        while self.peek in ("+", "-"):
            total = _bounded(total + self._term() if self._has("+") else self._minus(total))
        return total

    def _minus(self, total: Size) -> Size:
        self._mark("-")
        return total - self._term()

    def _term(self) -> Size:
        total = self._power()
        while self.peek in ("*", "//"):
            if self._has("*"):
                total = _bounded(total * self._power())
            else:
                self._mark("//")
                total = total // self._power()
        return total

    def _power(self) -> Size:
        base = self._atom()
        if not self._has("**"):
            return base
        exponent = int(self._take("whole"))
        if exponent > HIGHEST_POWER:
            raise ValueError(f"{exponent} is too high a power for a size")
        total: Size = 1
        for _ in range(exponent):
            total = _bounded(total * base)
        return total

    def _atom(self) -> Size:
        if self._has("("):
            inside = self._size()
            self._mark(")")
            return inside
        if self._kind == "whole":
            return _bounded(int(self._take("whole")))
        name = self._take("name")
        if name != "ceil" or not self._has("("):
            return dim(name)
        above = self._size()
        self._mark("/")
        below = self._atom()
        self._mark(")")
        return (above + below - 1) // below

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _has(self, mark: str) -> bool:
        """True if `mark` comes next; if so it is taken."""
        found = self._tokens[self._at] == ("mark", mark)
        self._at += found
        return found

    def _mark(self, mark: str) -> None:
        if not self._has(mark):
            raise ValueError(f"`{mark}` is expected before `{self.peek or 'the end'}`")

    def _take(self, kind: str) -> str:
        found, text = self._tokens[self._at]
        if found != kind:
            raise ValueError(f"a {kind} is expected, not `{text or 'the end'}`")
        self._at += 1
        return text
