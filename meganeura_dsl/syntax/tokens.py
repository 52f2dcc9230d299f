"""Cuts the text of one declaration into tokens, and finds the layout of its lines.

The patterns of tokens come from the grammar. Layout is decided here: a logical line ends with
`_NEWLINE` unless a bracket is open or the next line continues it, and a change of its indentation
gives `_INDENT` or `_DEDENT`. Tokens of layout have no width and stand at the end of what was
written before them, so that they never widen a span.
"""

import re
from typing import NamedTuple

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax import problems
from meganeura_dsl.syntax._tables import PATTERNS

NEWLINE, INDENT, DEDENT, END = "_NEWLINE", "_INDENT", "_DEDENT", "$END"
LAYOUT = frozenset({NEWLINE, INDENT, DEDENT, END})

_SKIP = r"(?>(?:[ \t]+|#[^\n]*)*)"
_ALTERNATIVES = [(NEWLINE, r"\r?\n"), *PATTERNS]
_TOKEN = re.compile(f"{_SKIP}(?:{'|'.join(f'(?P<{name}>{regex})' for name, regex in _ALTERNATIVES)})")
_BLANK = re.compile(_SKIP)
_LINE_START = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*([ \t]*)")
_CONTINUES = re.compile(
    r"\|>|[-+*/%@<>=]|!=|(?:and|or|where)\b|else\b(?![ \t]*(?::|if\b))"
)
_FORBIDDEN = re.compile(
    r"(?m:^ *(?P<tab>\t)[ \t]*(?=[^\s#]))"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]|\r(?!\n)"
)
_NUMBER_LIKE = re.compile(r"[0-9.]?[0-9A-Za-z_]*(?:\.[0-9_][0-9A-Za-z_]*)?")
_CLOSES = {"RPAR": "LPAR", "RSQB": "LSQB"}


class Token(NamedTuple):
    """One word, number, text or sign, or an event of layout; `kind` is a terminal of the grammar."""

    kind: str
    text: str
    start: int
    end: int


def scan(source: Source, start: int, end: int) -> list[Token]:
    """The tokens of `source.text[start:end]`, which begins at the start of a line."""
    return _Scanner(source, start, end).scan()


class _Scanner:
    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.tokens: list[Token] = []
        self.brackets: list[Token] = []
        self.indentations = [0]

    def scan(self) -> list[Token]:
        self._refuse_forbidden_characters()
        text, end, tokens = self.source.text, self.end, self.tokens
        position = self._begin_line(self.start)
        while match := _TOKEN.match(text, position, end):
            kind = match.lastgroup or ""
            begin, position = match.span(kind)
            if kind == NEWLINE:
                if not self.brackets:
                    position = self._begin_line(position)
                continue
            token = Token(kind, match[kind], begin, position)
            tokens.append(token)
            if kind in ("LPAR", "LSQB"):
                self.brackets.append(token)
            elif kind in _CLOSES:
                self._close(token)
            elif kind in ("INTEGER", "REAL"):
                self._refuse_malformed_number(token)
        self._refuse_rest(position)
        self._finish()
        return tokens

    def _begin_line(self, position: int) -> int:
        """Skip empty lines, then decide what the next line with something in it begins."""
        match = _LINE_START.match(self.source.text, position, self.end)
        assert match is not None
        position = match.end()
        if position == self.end or self.source.text[position] == "#":
            return position
        if _CONTINUES.match(self.source.text, position, self.end):
            return position
        self._end_line()
        self._indent_to(len(match[1]), position)
        return position

    def _end_line(self) -> None:
        if self.tokens:
            self._layout(NEWLINE)

    def _indent_to(self, width: int, position: int) -> None:
        if width > self.indentations[-1]:
            self.indentations.append(width)
            self._layout(INDENT)
            return
        while width < self.indentations[-1]:
            self.indentations.pop()
            self._layout(DEDENT)
        if width != self.indentations[-1]:
            place = Span(self.source, position - width, position)
            raise ProblemError(
                problems.InconsistentIndentation(place, (*self.indentations, self.indentations[-1]))
            )

    def _layout(self, kind: str) -> None:
        place = self.tokens[-1].end if self.tokens else self.start
        self.tokens.append(Token(kind, "", place, place))

    def _finish(self) -> None:
        if self.brackets:
            raise ProblemError(problems.UnclosedBracket(self._span(self.brackets[-1])))
        self._end_line()
        self._indent_to(0, self.end)
        self._layout(END)

    def _close(self, token: Token) -> None:
        opening = self.brackets.pop() if self.brackets else None
        if opening is None or opening.kind != _CLOSES[token.kind]:
            place = None if opening is None else self._span(opening)
            raise ProblemError(problems.UnexpectedClosingBracket(self._span(token), place))

    def _span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def _refuse_forbidden_characters(self) -> None:
        match = _FORBIDDEN.search(self.source.text, self.start, self.end)
        if match is None:
            return
        if match["tab"]:
            raise ProblemError(problems.TabInIndentation(Span(self.source, *match.span("tab"))))
        raise ProblemError(problems.ForbiddenCharacter(Span(self.source, *match.span())))

    def _refuse_malformed_number(self, number: Token) -> None:
        whole = _NUMBER_LIKE.match(self.source.text, number.start, self.end)
        assert whole is not None
        if whole.end() > number.end:
            raise ProblemError(problems.MalformedNumber(Span(self.source, *whole.span())))

    def _refuse_rest(self, position: int) -> None:
        """Nothing but blanks may follow the last token that was understood."""
        match = _BLANK.match(self.source.text, position, self.end)
        assert match is not None
        position = match.end()
        if position == self.end:
            return
        character = Span(self.source, position, position + 1)
        if character.text == '"':
            stop = self.source.text.find("\n", position, self.end)
            stop = self.end if stop < 0 else stop
            raise ProblemError(problems.UnterminatedString(Span(self.source, position, stop)))
        raise ProblemError(problems.UnknownCharacter(character))
