"""Runs Lark's LALR parser over the tokens of a declaration, and builds the tree as it reduces.

The tables are those of the compiled grammar, and our scanner is the lexer. The symbols on Lark's
stack are tokens, and phrases with the part of the tree that they were reduced to.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax.parser.compiled_grammar import GRAMMAR, KEYWORDS, RESERVED
from meganeura_dsl.syntax.parser.scanner import END, Token
from meganeura_dsl.syntax.parser.tree_builder import ACTIONS
from meganeura_dsl.syntax.problems.text_problems import TooDeep

# What is imported above lets these be imported alone.
# isort: split
from lark.exceptions import UnexpectedToken
from lark.grammar import NonTerminal, Rule, Terminal
from lark.lexer import Lexer, LexerThread
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser import LALR_Parser

DEEPEST = 200
"""The deepest nesting of phrases; later stages recurse on the tree and rely on it."""

_NAME = "NAME"
_EACH = "EACH"
_BINDS = ("EQUAL", "COMMA")


@dataclass(frozen=True)
class Outcome:
    """The outcome of parsing a sequence of tokens.

    `value` is the tree: of all tokens if all were `understood`, else of a phrase that was complete
    before the first token that was not, or None. `accepts` are the kinds that could have followed.
    """

    value: object
    understood: int
    accepts: frozenset[str] = frozenset()


def run(source: Source, tokens: Sequence[Token]) -> Outcome:
    """Parse the tokens of one declaration; raises `ProblemError` for a phrase that is refused."""
    parser, index = _interactive(source, tokens), 0
    try:
        for index, _ in enumerate(parser.iter_parse()):  # noqa: B007 - the last one is reported below
            pass
    except UnexpectedToken as error:
        value = _value_at_end(parser, cast("_Symbol", error.token))
        return Outcome(value, index, _followers(source, tokens, index))
    return Outcome(cast("_Symbol", parser.result).value, len(tokens))


def _value_at_end(parser: InteractiveParser, token: "_Symbol") -> object:
    """The tree of all before a token, if that is a whole declaration."""
    end: Any = token._replace(type=END)
    try:
        return parser.feed_token(end).value
    except UnexpectedToken:
        return None


def _followers(source: Source, tokens: Sequence[Token], count: int) -> frozenset[str]:
    """The kinds of token that can follow the first `count` tokens.

    They are parsed anew: the token that was refused may have reduced some of them before.
    """
    parser = _interactive(source, tokens)
    deque(islice(parser.iter_parse(), count + 1), maxlen=0)
    return frozenset(cast("set[str]", parser.accepts()))


def _interactive(source: Source, tokens: Sequence[Token]) -> InteractiveParser:
    text: Any = (source, tokens)
    return _parser().parse_interactive(LexerThread(_LEXER, text), "start")


# --- symbols -------------------------------------------------------------------------------------


class _Symbol(NamedTuple):
    """A token or a phrase, with its place in the text and how deep phrases nest in it."""

    value: object
    source: Source
    start: int
    end: int
    depth: int = 0
    type: str = ""


class _ScannedText(Lexer):
    """Hands tokens to Lark. A word is a keyword only where the grammar has a place for it.

    Where it has a place for both, as at the start of a statement, a keyword that is not reserved
    gives way to a name that is about to be bound: `state = ...`.
    """

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
        source, tokens = cast("tuple[Source, Sequence[Token]]", lexer_state)
        parser = cast("Any", parser_state)
        states: Mapping[int, Container[str]] = parser.parse_conf.states
        for index, token in enumerate(tokens):
            kind = token.kind
            keyword = KEYWORDS.get(token.text)
            if keyword is not None:
                row = states[parser.position]
                following = tokens[index + 1].kind
                gives_way = token.text not in RESERVED and (
                    keyword not in row
                    or (_NAME in row and following in _BINDS)
                    or (keyword == _EACH and following != _NAME)
                )
                kind = _NAME if gives_way else keyword
            yield _Symbol(token, source, token.start, token.end, 0, kind)


_LEXER = _ScannedText()


# --- rules ---------------------------------------------------------------------------------------

_Reduction = Callable[[list[_Symbol]], _Symbol]


class _Rule(Rule):
    """A rule that equals itself alone, which is compared faster: a parse takes 15 % less."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = cast("Any", object.__eq__)


@cache
def _parser() -> LALR_Parser:
    """Lark's parser on the tables of the compiled grammar."""
    rules: dict[int, Rule] = {}
    reductions: dict[Rule, _Reduction] = {}
    symbols = {
        name: Terminal(name) if name.isupper() else NonTerminal(name)
        for name in GRAMMAR["tokens"].values()
    }
    for number, (origin, expansion, action, picks) in enumerate(GRAMMAR["rules"]):
        rule = _Rule(NonTerminal(origin), [symbols[name] for name in expansion])
        rules[number] = rule
        reductions[rule] = _reduction(origin, expansion, action, picks)
    states = dict(enumerate(GRAMMAR["states"]))
    lalr: Any = LALR_Parser
    return lalr.deserialize({**GRAMMAR, "states": states}, rules, reductions)


def _reduction(
    origin: str, expansion: Sequence[str], action: str, picks: Sequence[int | None]
) -> _Reduction:
    """Returns the function that makes a symbol of those that a rule expands to."""
    is_list = origin.startswith("_")
    if not (action or is_list) and len(expansion) == 1:
        return itemgetter(0)
    lists = [
        position
        for position, pick in reversed([*enumerate(picks)])
        if pick is not None and expansion[pick].startswith("_")
    ]

    def parts(symbols: list[_Symbol]) -> list[Any]:
        """The values that the rule picks, with the items of each list in its place."""
        values: list[Any] = [None if pick is None else symbols[pick].value for pick in picks]
        for position in lists:
            if position == 0:
                values[0].extend(values[1:])
                return values[0]
            values[position : position + 1] = values[position]
        return values

    def collect(symbols: list[_Symbol]) -> _Symbol:
        first, last = symbols[0], symbols[-1]
        depth = max(map(_depth, symbols))
        return _Symbol(parts(symbols), first.source, first.start, last.end, depth)

    build = ACTIONS.get(action, _child)

    def reduce(symbols: list[_Symbol]) -> _Symbol:
        first, last = symbols[0], symbols[-1]
        span = Span(first.source, first.start, last.end)
        value = build(span, *parts(symbols))
        depth = max(map(_depth, symbols)) + 1
        if depth > DEEPEST:
            raise ProblemError(TooDeep(span, DEEPEST))
        return _Symbol(value, first.source, first.start, last.end, depth)

    return collect if is_list else reduce


_depth = attrgetter("depth")


def _child(_: Span, value: object) -> object:
    return value
