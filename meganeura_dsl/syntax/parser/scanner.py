"""Cuts the text of one declaration into tokens, and finds the layout of its lines.

The patterns of tokens come from the grammar. Layout is decided here: a logical line ends with
`_NEWLINE` unless a bracket is open or the next line continues it, and a change of its indentation
gives `_INDENT` or `_DEDENT`. Tokens of layout have no width and stand at the end of what was
written before them, so that they never widen a span.
"""

import re
from typing import NamedTuple

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax.parser.compiled_grammar import GRAMMAR
from meganeura_dsl.syntax.problems import side_effects, text_problems

NEWLINE, INDENT, DEDENT, END = "_NEWLINE", "_INDENT", "_DEDENT", "$END"
LAYOUT = frozenset({NEWLINE, INDENT, DEDENT, END})

_ALTERNATIVES = (
    (NEWLINE, r"\r?\n"),
    *GRAMMAR["patterns"],
    ("UNTERMINATED", r'"[^\r\n]*'),
    ("UNKNOWN", r"."),
    ("EXHAUSTED", r"\Z"),
)
_BLANK = r"(?>(?:[ \t]+|#[^\n]*)*)"
_TOKEN = re.compile(
    f"{_BLANK}(?:{'|'.join(f'(?P<{kind}>{regex})' for kind, regex in _ALTERNATIVES)})"
)
_CONTINUES = re.compile(
    r"\|>|!=|[-+*/%@<>=]|(?:and|or)\b|where\b(?![ \t]*(?:=(?!=)|,))|else\b(?![ \t]*(?::|if\b))"
)
_UNFINISHED = ("COMMA", "EQUAL")
_FORBIDDEN = re.compile(
    r"(?m:^ *(?P<tab>\t)[ \t]*(?=[^\s#]))"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\r(?!\n)"
)
_NUMBER_LIKE = re.compile(r"[0-9A-Za-z_]*(?:\.(?!\.)[0-9A-Za-z_]*)*")
_CLOSES = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}
_SPLICED = re.compile(r"[0-9A-Za-z_}]")


class Token(NamedTuple):
    """One word, number, text or sign, or an event of layout; `kind` is a terminal's name."""

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
        position, line_start = self.start, self.start
        while match := _TOKEN.match(text, position, end):
            kind = match.lastgroup or ""
            start, position = match.span(kind)
            if kind == NEWLINE:
                line_start = position
                continue
            if kind == "EXHAUSTED":
                break
            if line_start >= 0 and not self.brackets:
                self._begin_line(start - line_start, start)
            line_start = -1
            token = Token(kind, match[kind], start, position)
            self._inspect(token)
            tokens.append(token)
        self._finish()
        return tokens

    def _begin_line(self, width: int, position: int) -> None:
        """Decide what a line begins, whose first token stands after `width` spaces."""
        if self.tokens:
            if self.tokens[-1].kind in _UNFINISHED:
                return
            if _CONTINUES.match(self.source.text, position, self.end):
                return
            if self.source.text[position] == "(" and self._awaits_brackets():
                return
            self._layout(NEWLINE)
        self._indent_to(width, position)

    def _awaits_brackets(self) -> bool:
        """True if all there is so far is `block name` or `block name(...)`, or of an `optimizer`.

        Its signature goes on, as nothing else begins with a bracket.
        """
        if self.tokens[0].text not in ("block", "optimizer") or len(self.indentations) > 1:
            return False
        names = closed = depth = 0
        for token in self.tokens:
            depth += (token.kind in _CLOSES.values()) - (token.kind in _CLOSES)
            closed += token.kind in _CLOSES and not depth
            names += not depth and token.kind not in _CLOSES
        return names == 2 and closed < 2

    def _indent_to(self, width: int, position: int) -> None:
        if width > self.indentations[-1]:
            self.indentations.append(width)
            self._layout(INDENT)
        inner = width
        while width < self.indentations[-1]:
            inner = self.indentations.pop()
            self._layout(DEDENT)
        if width != self.indentations[-1]:
            location = Span(self.source, position - width, position)
            outer = self.indentations[-1]
            raise ProblemError(text_problems.InconsistentIndentation(location, outer, inner))

    def _layout(self, kind: str) -> None:
        location = self.tokens[-1].end if self.tokens else self.start
        self.tokens.append(Token(kind, "", location, location))

    def _finish(self) -> None:
        if self.brackets:
            raise ProblemError(text_problems.UnclosedBracket(self._span(self.brackets[-1])))
        self._layout(NEWLINE)
        self._indent_to(0, self.end)
        self._layout(END)

    def _span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    # --- what the grammar never gets to see ------------------------------------------------------

    def _inspect(self, token: Token) -> None:
        """Match brackets, and refuse what is no token."""
        match token.kind:
            case "LPAR" | "LSQB":
                self.brackets.append(token)
            case "LBRACE":
                if not _SPLICED.match(self.source.text, token.start - 1):
                    raise self._unknown(token)
                self.brackets.append(token)
            case "RPAR" | "RSQB" | "RBRACE":
                self._close(token)
            case "INTEGER" | "REAL":
                self._refuse_malformed_number(token)
            case "UNTERMINATED":
                raise ProblemError(text_problems.UnterminatedString(self._span(token)))
            case "UNKNOWN":
                raise self._unknown(token)
            case _:
                pass

    def _unknown(self, token: Token) -> ProblemError:
        """The refusal of a character; of all of its line, if that is a call for a side effect."""
        text = self.source.text
        start = text.rfind("\n", 0, token.start) + 1
        start += len(text[start:]) - len(text[start:].lstrip(" "))
        called = side_effects.statement_problem(Span(self.source, start, token.start))
        return ProblemError(called or text_problems.UnknownCharacter(self._span(token)))

    def _close(self, token: Token) -> None:
        opening = self.brackets.pop() if self.brackets else None
        if opening is None or opening.kind != _CLOSES[token.kind]:
            location = None if opening is None else self._span(opening)
            raise ProblemError(text_problems.UnexpectedClosingBracket(self._span(token), location))

    def _refuse_malformed_number(self, number: Token) -> None:
        whole = _NUMBER_LIKE.match(self.source.text, number.start, self.end)
        if whole and whole.end() > number.end:
            raise ProblemError(text_problems.MalformedNumber(Span(self.source, *whole.span())))

    def _refuse_forbidden_characters(self) -> None:
        match = _FORBIDDEN.search(self.source.text, self.start, self.end)
        if match is None:
            return
        if match["tab"]:
            tab = Span(self.source, *match.span("tab"))
            raise ProblemError(text_problems.TabInIndentation(tab))
        raise ProblemError(text_problems.ForbiddenCharacter(Span(self.source, *match.span())))
