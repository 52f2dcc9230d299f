"""Writes a syntax tree as canonical text: `meganeura fmt`.

Spacing, brackets and alignment are decided here. Blank lines and the line breaks of the author are
preserved, as they carry meaning to people; comments stay with the code they belong to.
"""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter import statements as sentences
from meganeura_dsl.syntax.formatter.expressions import Phrase
from meganeura_dsl.syntax.formatter.line_breaking import Comments, lay_out

_STEP = 2
_COMMENT = re.compile(r'"[^"\n]*"|(#[^\r\n]*)')
_ELSE = re.compile(r"^[ \t]*(else)\b", re.MULTILINE)


def find_comments(source: Source) -> tuple[Span, ...]:
    """The comments of a text, in order."""
    found = (match.span(1) for match in _COMMENT.finditer(source.text))
    return tuple(Span(source, start, end) for start, end in found if start >= 0)


def format_module(module: ast.Module, comments: Sequence[Span]) -> str:
    """The canonical text of a module, with its comments."""
    writer = _Writer(module.source, Comments(comments))
    writer.declarations(module.declarations)
    return "".join(f"{line}\n" for line in writer.lines)


class _Writer:
    def __init__(self, source: Source, comments: Comments) -> None:
        self.source = source
        self.comments = comments
        self.lines: list[str] = []
        self.done = 0
        """The offset in the source up to which everything is written."""
        self.opens_body = True
        """True if the next line is the first of a body, above which no blank line stands."""
        self.margin = 0
        """The indentation of the last logical line."""

    # --- lines -----------------------------------------------------------------------------------

    def line(self, indent: int, start: int, end: int, phrase: Phrase) -> None:
        """One logical line, which was written from `start` to `end`, below its comments."""
        self.comments_of_body(indent, start)
        self.comments_above(indent, start)
        self.blank_line_above(start)
        newline = self.source.text.find("\n", end)
        stop = len(self.source.text) if newline < 0 else newline
        self.lines.extend(lay_out(phrase.items, indent, self.comments, stop))
        self.done = max(self.done, end)
        self.margin = indent

    def comments_of_body(self, indent: int, position: int) -> None:
        """The comments that are indented further than what follows: they end the body above."""
        if self.margin <= indent:
            return
        column = Span(self.source, position, position).column
        while (comment := self.comments.first(position)) and comment.column > column:
            self.comments_above(self.margin, comment.end)

    def comments_above(self, indent: int, position: int) -> None:
        """The comments before an offset, each on its own line."""
        for comment in self.comments.take(position):
            self.blank_line_above(comment.start)
            self.lines.append(" " * indent + comment.text.rstrip())
            self.done = comment.end

    def blank_line_above(self, position: int) -> None:
        """A blank line, if there was one above an offset; none at the beginning of a body."""
        if re.search(r"\n[ \t\r]*\n", self.source.text[self.done : position]):
            self.blank_line()
        self.opens_body = False

    def blank_line(self) -> None:
        """A blank line, unless there is one, or the body only begins."""
        if not self.opens_body and self.lines[-1]:
            self.lines.append("")

    # --- declarations ----------------------------------------------------------------------------

    def declarations(self, nodes: Sequence[ast.Declaration]) -> None:
        """All declarations, and the comments after the last."""
        widths = self.widths(nodes)
        previous: ast.Declaration | None = None
        for node in nodes:
            self.comments_of_body(0, node.span.start)
            if previous is not None and not _are_akin(previous, node):
                self.blank_line()
            self.declaration(node, widths.get(node, 0))
            previous = node
        end = len(self.source.text)
        self.comments_of_body(0, end)
        self.comments_above(0, end)

    def widths(self, nodes: Sequence[ast.Declaration]) -> dict[ast.Declaration, int]:
        """The width of the longest name among adjacent models, so that their `=` are aligned."""
        groups: list[list[ast.Model]] = []
        for node in nodes:
            if not isinstance(node, ast.Model):
                continue
            if groups and not self.are_apart(groups[-1][-1], node):
                groups[-1].append(node)
            else:
                groups.append([node])
        widths: dict[ast.Declaration, int] = {}
        for group in groups:
            widths.update(dict.fromkeys(group, max(len(each.name.text) for each in group)))
        return widths

    def are_apart(self, first: ast.Node, second: ast.Node) -> bool:
        """True if another line stands between two nodes."""
        return self.source.text.count("\n", first.span.end, second.span.start) > 1

    def declaration(self, node: ast.Declaration, width: int) -> None:
        """One declaration, with its body."""
        phrase, start = sentences.declaration(node, width), node.span.start
        match node:
            case ast.Block() | ast.Optimizer() if not sentences.is_formula(node):
                self.line(0, start, _last(node).end, phrase)
                self.body(_STEP, node.body)
            case ast.Train():
                self.line(0, start, _last(node).end, phrase)
                self.body(_STEP, node.body)
            case _:
                self.line(0, start, node.span.end, phrase)

    # --- statements ------------------------------------------------------------------------------

    def body(self, indent: int, statements: Sequence[ast.Statement]) -> None:
        """The statements below a line that ends with a colon."""
        self.opens_body = True
        for node in statements:
            self.statement(indent, node)

    def statement(self, indent: int, node: ast.Statement) -> None:
        """One statement, with its body."""
        phrase, start = sentences.statement(node), node.span.start
        match node:
            case ast.If():
                self.line(indent, start, node.condition.span.end, phrase)
                self.branches(indent, node)
            case ast.For() | ast.Scan():
                self.line(indent, start, node.stop.span.end, phrase)
                self.body(indent + _STEP, node.body)
            case ast.Run():
                self.line(indent, start, start, phrase)
                self.settings(indent + _STEP, node.settings)
            case _:
                self.line(indent, start, node.span.end, phrase)

    def branches(self, indent: int, node: ast.If) -> None:
        """Writes the lines after the first line of an `if`."""
        self.body(indent + _STEP, node.then)
        if not node.otherwise:
            return
        phrase = Phrase()
        phrase.write("else")
        start = self.position_of_else(node)
        match node.otherwise:
            case (ast.If() as nested,):
                phrase.write(" ")
                phrase.items.extend(sentences.statement(nested).items)
                self.line(indent, start, nested.condition.span.end, phrase)
                self.branches(indent, nested)
            case _:
                phrase.write(":")
                self.line(indent, start, start, phrase)
                self.body(indent + _STEP, node.otherwise)

    def position_of_else(self, node: ast.If) -> int:
        """Returns the position of the `else` of an `if`, where no node of the tree begins."""
        start, end = node.then[-1].span.end, node.otherwise[0].span.start
        found = _ELSE.search(self.source.text, start, end)
        return found.start(1) if found else end

    def settings(self, indent: int, settings: Sequence[ast.Setting]) -> None:
        """The settings of a `run`, their `=` aligned."""
        self.opens_body = True
        widest = max((len(sentences.setting_name(setting)) for setting in settings), default=0)
        for node in settings:
            phrase = sentences.statement(node, widest)
            self.line(indent, node.span.start, node.span.end, phrase)


def _last(node: ast.Block | ast.Optimizer | ast.Train) -> Span:
    """The last part of the header of a declaration that has a body."""
    results = () if isinstance(node, ast.Train) else node.results or ()
    return (node.name, *node.inputs, *results, *node.where)[-1].span


def _are_akin(first: ast.Declaration, second: ast.Declaration) -> bool:
    """True if no blank line need stand between two declarations: one-liners of one kind."""
    return _kind(first) == _kind(second) is not None


def _kind(node: ast.Declaration) -> str | None:
    match node:
        case ast.ExpectHas() | ast.ExpectHolds() | ast.ExpectMaps():
            return "expect"
        case ast.Train():
            return None
        case ast.Block() | ast.Optimizer():
            return "formula" if sentences.is_formula(node) else None
        case _:
            return type(node).__name__
