"""A token that the grammar cannot place, with what is known around it."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax.parser.scanner import LAYOUT, Token


@dataclass(frozen=True)
class Failure:
    """The token at `index` cannot follow those before it; `accepts` are the kinds that could."""

    source: Source
    tokens: Sequence[Token]
    index: int
    accepts: frozenset[str]

    @property
    def token(self) -> Token:
        """The token itself."""
        return self.tokens[self.index]

    @property
    def previous(self) -> Token:
        """The token before; at the start, one of no kind."""
        if self.index:
            return self.tokens[self.index - 1]
        return Token("", "", self.token.start, self.token.start)

    @property
    def following(self) -> Token:
        """The token after; at the end, the last one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    @property
    def line(self) -> Sequence[Token]:
        """The tokens before this one on its logical line."""
        return self.line_before(self.index)

    def line_before(self, index: int) -> Sequence[Token]:
        """The tokens of a logical line that stand before an index."""
        start = index
        while start and self.tokens[start - 1].kind not in LAYOUT:
            start -= 1
        return self.tokens[start:index]

    @property
    def head(self) -> Token:
        """The first token of the logical line."""
        return self.line[0] if self.line else self.token

    @property
    def follows_targets(self) -> bool:
        """True if names were read that only a `=` could make a statement of."""
        return self.accepts - {"LSQB"} == frozenset({"EQUAL", "COMMA"})

    @property
    def is_in_brackets(self) -> bool:
        """True if a bracket is open."""
        kinds = [token.kind for token in self.line]
        opened = sum(map(kinds.count, ("LPAR", "LSQB", "LBRACE")))
        return opened > sum(map(kinds.count, ("RPAR", "RSQB", "RBRACE")))

    def accepts_only(self, *kinds: str) -> bool:
        """True if these kinds and no others could stand here."""
        return self.accepts == frozenset(kinds)

    def span(self, token: Token) -> Span:
        """Returns the span of a token."""
        return Span(self.source, token.start, token.end)

    @property
    def between(self) -> str:
        """The text between this token and the one before."""
        return self.source.text[self.previous.end : self.token.start]

    @property
    def gap(self) -> Span:
        """Returns the span of that text, as far as it is on the line of the token before."""
        start = self.previous.end
        return Span(self.source, start, start + len(self.between.split("\n")[0]))
