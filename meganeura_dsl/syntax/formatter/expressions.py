"""Spells expressions, types and paths canonically: the fewest brackets, and one way of spacing."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.line_breaking import HEADER_INDENT, Break, Item, Mark
from meganeura_dsl.syntax.pipe_readings import needs_brackets

_LEVELS = {
    "or": 2, "and": 3, "not": 4, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "@": 7, "**": 9,
}  # fmt: skip
"""Precedence of operators. Below them are conditionals and pipes."""

_CONDITIONAL, PIPE, CONDITION, _NEGATION, _ATOM = 0, 1, 2, 8, 10
_PER_BRACKET = 20
"""The rank that each bracket adds to a break: outer brackets break first."""

Part = TypeVar("Part", bound=ast.Node)


class Phrase:
    """The items of one logical line, in the making."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._depth = 0

    # --- parts of any phrase ---------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Add a text."""
        self.items.append(text)

    def mark(self) -> Mark:
        """Remember this place, so that lines can be aligned with it."""
        mark = Mark()
        self.items.append(mark)
        return mark

    def pause(
        self, mark: Mark, before: Span, after: Span, rank: int, *, joint: str = " ", shift: int = 0
    ) -> None:
        """Allow a break between what was written at two places; it is made if it was there."""
        is_written = "\n" in before.source.text[before.end : after.start]
        rank += self._depth * _PER_BRACKET
        self.items.append(Break(mark, rank, after.start, is_written, joint, shift))

    def listed(
        self, parts: Sequence[Part], spell: Callable[[Part], None], *, is_one_line: bool = False
    ) -> None:
        """Parts with commas between them, aligned with the first unless on one line."""
        mark = self.mark()
        for number, part in enumerate(parts):
            if number and is_one_line:
                self.write(", ")
            elif number:
                self.write(",")
                self.pause(mark, parts[number - 1].span, part.span, _CONDITIONAL)
            spell(part)

    def bracketed(
        self,
        brackets: str,
        parts: Sequence[Part],
        spell: Callable[[Part], None],
        *,
        is_one_line: bool = False,
    ) -> None:
        """Parts in brackets, which are `()`, `[]` or `{}`."""
        self.write(brackets[0])
        self._depth += 1
        self.listed(parts, spell, is_one_line=is_one_line)
        self._depth -= 1
        self.write(brackets[1])

    def stacked(self, brackets: str, parts: Sequence[Part], spell: Callable[[Part], None]) -> None:
        """Parts in brackets, each on its own line; the last bracket has one too.

        It is for headers, which begin in the first column.
        """
        margin = Mark()
        self.write(brackets[0])
        self._depth += 1
        for number, part in enumerate(parts):
            if number:
                self.write(",")
            self._break(margin, part.span.start, HEADER_INDENT)
            spell(part)
        self._depth -= 1
        self._break(margin, parts[-1].span.end, 0)
        self.write(brackets[1])

    def _break(self, mark: Mark, position: int, shift: int) -> None:
        """Begin a new line."""
        made = Break(mark, _CONDITIONAL, position, is_written=True, shift=shift, closes=not shift)
        self.items.append(made)

    @property
    def is_broken(self) -> bool:
        """True if it takes several lines however wide they are."""
        return any(isinstance(item, Break) and item.is_written for item in self.items)

    @property
    def width(self) -> int:
        """Columns of its last line, if no break is made that need not be."""
        columns = 0
        for item in self.items:
            if isinstance(item, Break) and item.is_written:
                columns = item.shift
            elif not isinstance(item, Mark):
                columns += len(item.joint if isinstance(item, Break) else item)
        return columns

    # --- expressions -----------------------------------------------------------------------------

    def expression(self, node: ast.Expression) -> None:
        """An expression where the grammar allows any."""
        self._spell(node, _CONDITIONAL)

    def condition(self, node: ast.Expression) -> None:
        """An expression where the grammar allows no bare pipe and no conditional."""
        self._spell(node, CONDITION)

    def choice(self, node: ast.Expression) -> None:
        """An expression where the grammar allows no bare pipe, as a `:` could follow it."""
        if isinstance(node, ast.Conditional):
            self._conditional(node, CONDITION, self.choice)
        else:
            self.condition(node)

    def _spell(self, node: ast.Expression, least: int) -> None:
        """An expression in round brackets, if it binds less tightly than asked for."""
        if _level(node) >= least:
            self._bare(node)
        else:
            self.bracketed("()", (node,), self.expression)

    def _bare(self, node: ast.Expression) -> None:
        match node:
            case ast.Name():
                self.write(node.text)
            case ast.Integer() | ast.Real():
                self.write(_number(node.span, node.value))
            case ast.Text():
                self.write(f'"{node.value}"')
            case ast.Boolean():
                self.write("true" if node.value else "false")
            case ast.ListOf():
                self.bracketed("[]", node.items, self.choice)
            case ast.Unary():
                self.write("not " if node.operator == "not" else "-")
                self._spell(node.operand, _level(node))
            case ast.Binary():
                self._binary(node)
            case ast.Conditional():
                self._conditional(node, PIPE, self.expression)
            case ast.Pipe():
                self._pipes(node)
            case ast.Call():
                self.call(node)
            case ast.Attribute():
                is_number = isinstance(node.base, ast.Integer | ast.Real)
                self._spell(node.base, _ATOM + is_number)
                self.write(f".{node.name}")
            case ast.Spliced():
                self._spell(node.base, _ATOM)
                self.bracketed("{}", (node.value,), self.choice)
            case ast.Subscript():
                self._spell(node.base, _ATOM)
                self.bracketed("[]", node.entries, self.entry)
            case _:
                assert_never(node)

    def _binary(self, node: ast.Binary) -> None:
        level = _level(node)
        is_power, is_comparison = node.operator == "**", level == _LEVELS["=="]
        mark = self.mark()
        self._spell(node.left, level + (is_power or is_comparison))
        shift = 0 if self._depth else -len(node.operator) - 1
        self.pause(mark, node.left.span, node.right.span, level, shift=shift)
        self.write(f"{node.operator} ")
        self._spell(node.right, _NEGATION if is_power else level + 1)

    def _conditional(
        self, node: ast.Conditional, least: int, otherwise: Callable[[ast.Expression], None]
    ) -> None:
        mark = self.mark()
        self._spell(node.then, least)
        self.write(" if ")
        self.condition(node.condition)
        self.pause(mark, node.condition.span, node.otherwise.span, _CONDITIONAL)
        self.write("else ")
        otherwise(node.otherwise)

    def _pipes(self, node: ast.Pipe) -> None:
        """A chain of pipes, aligned with the first of them."""
        stages = [node]
        while isinstance(stages[0].source, ast.Pipe):
            stages.insert(0, stages[0].source)
        first = Mark()
        start = self.mark()
        source = stages[0].source
        self._spell(source, _ATOM + 1 if needs_brackets(source) else CONDITION)
        for stage in stages:
            is_first = stage is stages[0]
            self.pause(start if is_first else first, stage.source.span, stage.layer.span, PIPE)
            if is_first:
                self.items.append(first)
            self.write("|> ")
            self.layer(stage.layer)

    def entry(self, entry: ast.Entry) -> None:
        """Writes an entry of a subscript, for one axis or several."""
        if isinstance(entry, ast.EllipsisEntry):
            self.write("...")
            return
        if not isinstance(entry, ast.Range):
            self.choice(entry)
            return
        if entry.start is not None:
            self.choice(entry.start)
        self.write(":")
        if entry.stop is not None:
            self.choice(entry.stop)

    # --- calls -----------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> None:
        """A call with its brackets, even if they are empty."""
        self._callee(node)
        self.bracketed("()", node.arguments, self._argument)
        if node.inputs:
            self.bracketed("()", node.inputs, self._argument)

    def layer(self, node: ast.Call) -> None:
        """A call after a pipe: with its label, and without brackets that are empty."""
        if node.label is not None:
            self.path(node.label)
            self.write(": ")
        if node.arguments or node.inputs:
            self.call(node)
        else:
            self._callee(node)

    def _callee(self, node: ast.Call) -> None:
        if node.path is None:
            self.write(node.callee)
        else:
            self.path(node.path)

    def _argument(self, node: ast.Argument) -> None:
        if node.name is not None:
            equals = " = " if isinstance(node.value, ast.Conditional) else "="
            self.write(node.name + equals)
        if isinstance(node.value, ast.Rearrangement):
            self.pattern(node.value.source)
            self.write(" -> ")
            self.pattern(node.value.target)
        else:
            self.expression(node.value)

    # --- paths, types and parts of headers -------------------------------------------------------

    def path(self, node: ast.Path) -> None:
        """A path, such as `layers[i].conv`, or `.` if it has no parts."""
        if not node.parts:
            self.write(".")
        for position, part in enumerate(node.parts):
            if isinstance(part, str):
                self.write(f".{part}" if position else part)
            elif isinstance(part, ast.Splice):
                self.bracketed("{}", (part.value,), self.choice)
            else:
                self.bracketed("[]", (part,), self.choice)

    def type(self, node: ast.Type, of: ast.Name | None = None) -> None:
        """A type, such as `i32[n]`, or `i32[each v of batch]` where `of` is `batch`."""
        self.write(node.dtype or "")
        if of is None:
            self.pattern(node.shape)
            return
        first, *others = node.shape.entries
        self.bracketed("[]", (first, *others), partial(self._ragged_axis, first, of.text))

    def _ragged_axis(
        self, first: ast.Expression | ast.Rest, of: str, entry: ast.Expression | ast.Rest
    ) -> None:
        if entry is first:
            self.write("each ")
        self._axis(entry)
        if entry is first:
            self.write(f" of {of}")

    def pattern(self, node: ast.Pattern) -> None:
        """A shape, such as `[...batch, d]`."""
        self.bracketed("[]", node.entries, self._axis)

    def _axis(self, entry: ast.Expression | ast.Rest) -> None:
        if isinstance(entry, ast.Rest):
            self.write(f"...{entry.name}")
        else:
            self.choice(entry)

    def parameter(self, node: ast.Parameter) -> None:
        """A config parameter, such as `stride=1` or `causal: bool = false`."""
        self.write(node.name)
        if node.kind is not None:
            self.write(": ")
            self._kind(node.kind)
        if node.default is not None:
            self.write("=" if node.kind is None else " = ")
            self.expression(node.default)

    def _kind(self, node: ast.ConfigKind) -> None:
        match node:
            case ast.NamedKind():
                self.write(node.name)
                if node.length is not None:
                    self.bracketed("[]", (node.length,), self.choice)
            case ast.TextKind():
                self.write(" or ".join(f'"{option.value}"' for option in node.options))
            case ast.BlockKind():
                self._block_kind(node)
            case _:
                assert_never(node)

    def _block_kind(self, node: ast.BlockKind) -> None:
        self.write("block")
        if node.header is None:
            return
        self.bracketed("()", node.header.parameters, self.parameter)
        self.bracketed("()", node.header.inputs, self.input)
        self.write(" -> ")
        results = node.header.results or ()
        if len(results) == 1:
            self.result(results[0])
        else:
            self.bracketed("()", results, self.result)

    def result(self, node: ast.Result) -> None:
        """A result, such as `[n, c]` or `logits: [n, c]`."""
        if node.name is not None:
            self.write(f"{node.name}: ")
        self.type(node)

    def input(self, node: ast.Input) -> None:
        """An input, such as `x: [n, d]`, `x: whole [v, d]` or `mask: bool[s, t] = true`."""
        self.write(f"{node.name}: whole " if node.whole else f"{node.name}: ")
        self.type(node.type, node.of)
        if node.default is not None:
            self.write(" = ")
            self.expression(node.default)

    def count(self, node: ast.Count) -> None:
        """A count, such as `62 params`."""
        self.write(f"{_number(node.span, node.number)} {node.unit}")

    def held(self, node: ast.Held) -> None:
        """A parameter and its shape, such as `fc.bias: [1000]`."""
        self.path(node.path)
        self.write(": ")
        self.type(node.type)


def _number(span: Span, value: float) -> str:
    """A number as it was written, such as `1e-5` or `1_000`, where that is known."""
    written = next(iter(span.text.split()), "")
    return written if written and float(written) == value else repr(value)


def _level(node: ast.Expression) -> int:
    """Returns the precedence of an expression."""
    match node:
        case ast.Conditional():
            return _CONDITIONAL
        case ast.Pipe():
            return PIPE
        case ast.Unary():
            return _LEVELS["not"] if node.operator == "not" else _NEGATION
        case ast.Binary():
            return _LEVELS[node.operator]
        case _:
            return _ATOM
