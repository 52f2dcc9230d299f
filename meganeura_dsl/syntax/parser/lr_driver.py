"""Runs the LALR tables: shifts tokens, reduces rules, and builds the tree as it reduces."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax.parser._tables import ACCEPTED, KEYWORDS, RESERVED, RULES, START, STATES
from meganeura_dsl.syntax.parser.scanner import END, Token
from meganeura_dsl.syntax.parser.tree_builder import ACTIONS
from meganeura_dsl.syntax.problems.text_problems import TooDeep

DEEPEST = 200
"""How deep phrases may nest; later stages recurse on the tree and rely on it."""

_NAME = "NAME"
_BINDS = ("EQUAL", "COMMA")


@dataclass(frozen=True)
class Outcome:
    """What became of a sequence of tokens.

    `value` is the tree: of all tokens if all were `understood`, else of a phrase that was complete
    before the first token that was not, or None. `accepts` are the kinds that could have followed.
    """

    value: object
    understood: int
    accepts: frozenset[str] = frozenset()


def run(source: Source, tokens: Sequence[Token]) -> Outcome:
    """Run the tables over the tokens of one declaration."""
    machine = _Machine(source)
    for index, token in enumerate(tokens):
        if not machine.feed(machine.kind(tokens, index), token):
            accepts = _followers(source, tokens, index)
            value = machine.values[-1] if machine.feed(END, token) else None
            return Outcome(value, index, accepts)
    return Outcome(machine.values[-1], len(tokens))


def _followers(source: Source, tokens: Sequence[Token], count: int) -> frozenset[str]:
    """The kinds of token that can follow the first `count` tokens."""
    machine = _Machine(source)
    for index in range(count):
        machine.feed(machine.kind(tokens, index), tokens[index])
    row = STATES[machine.states[-1]]
    return frozenset(kind for kind in row if _can_shift(list(machine.states), kind))


def _can_shift(states: list[int], kind: str) -> bool:
    """Whether a token of this kind is shifted after some reductions, of which states suffice."""
    while (action := STATES[states[-1]].get(kind)) is not None and action < 0:
        symbol, size, _, _ = RULES[~action]
        del states[len(states) - size :]
        states.append(STATES[states[-1]][symbol])
    if kind == END:
        return states[-1] == ACCEPTED
    return action is not None and not kind.islower()


class _Repetition(list[object]):
    """What a repetition of the grammar has collected so far."""


class _Machine:
    """The stacks of a shift-reduce parser; those of values run parallel to each other."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.states = [START]
        self.values: list[object] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.depths: list[int] = []

    def kind(self, tokens: Sequence[Token], index: int) -> str:
        """The kind of a token here: a word is a keyword only where the grammar has a place for it.

        Where it has a place for both, as at the start of a statement, a keyword that is not
        reserved gives way to a name that is about to be bound: `state = ...`.
        """
        token = tokens[index]
        keyword = KEYWORDS.get(token.text)
        if keyword is None or token.text in RESERVED:
            return keyword or token.kind
        row = STATES[self.states[-1]]
        if keyword not in row or (_NAME in row and tokens[index + 1].kind in _BINDS):
            return _NAME
        return keyword

    def feed(self, kind: str, token: Token) -> bool:
        """Take one token; False if it cannot follow what came before."""
        states = self.states
        while (action := STATES[states[-1]].get(kind)) is not None:
            if action >= 0:
                states.append(action)
                self.values.append(token)
                self.starts.append(token.start)
                self.ends.append(token.end)
                self.depths.append(0)
                return True
            symbol, size, rule, picks = RULES[~action]
            if size != 1 or rule:
                self._reduce(size, rule, picks)
            del states[len(states) - size :]
            states.append(STATES[states[-1]][symbol])
        return kind == END and states[-1] == ACCEPTED

    def _reduce(self, size: int, action: str, picks: tuple[int, ...]) -> None:
        """Replace the topmost values by the one that the rule makes of them."""
        bottom = len(self.values) - size
        end = self.ends[-1]
        start = self.starts[bottom] if size else end
        depth = max(self.depths[bottom:], default=0)
        parts = [self.values[pick] if pick else None for pick in picks]
        value: object
        match action:
            case "*":
                value = _joined(parts)
            case "":
                value = parts[0]
                depth += 1
            case _:
                value = ACTIONS[action](Span(self.source, start, end), *_joined(parts))
                depth += 1
        if depth > DEEPEST:
            raise ProblemError(TooDeep(Span(self.source, start, end), DEEPEST))
        self.values[bottom:] = (value,)
        self.starts[bottom:] = (start,)
        self.ends[bottom:] = (end,)
        self.depths[bottom:] = (depth,)


def _joined(parts: list[object]) -> list[object]:
    """The parts, with the items of a repetition in its place; at most one part is one."""
    for place, part in enumerate(parts):
        if isinstance(part, _Repetition):
            if place == 0:
                part.extend(parts[1:])
                return part
            return [*parts[:place], *part, *parts[place + 1 :]]
    return _Repetition(parts)
