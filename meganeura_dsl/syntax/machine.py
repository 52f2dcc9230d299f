"""Runs the LALR tables: shifts tokens, reduces rules, and builds the tree as it reduces."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax import problems
from meganeura_dsl.syntax._tables import ACCEPTED, KEYWORDS, RESERVED, RULES, START, STATES
from meganeura_dsl.syntax.build import ACTIONS
from meganeura_dsl.syntax.tokens import END, Token

DEEPEST = 200
"""How deep phrases may nest; later stages recurse on the tree and rely on it."""

_NAME = "NAME"
_BINDS = ("EQUAL", "COMMA")


def run(source: Source, tokens: Sequence[Token]) -> tuple[object, int]:
    """The value of a whole sequence of tokens, and how many of them were understood.

    Where that is not all of them, the value is None, or that of a phrase complete before the rest.
    """
    machine = _Machine(source)
    for index, token in enumerate(tokens):
        kind = resolve(tokens, index, STATES[machine.states[-1]])
        if not machine.feed(kind, token):
            return (None, index) if not machine.feed(END, token) else (machine.values[-1], index)
    return machine.values[-1], len(tokens)


def resolve(tokens: Sequence[Token], index: int, row: dict[str, int]) -> str:
    """The kind of a token: a word is a keyword only where the grammar has a place for it."""
    token = tokens[index]
    keyword = KEYWORDS.get(token.text)
    if keyword is None or token.text in RESERVED:
        return keyword or token.kind
    if keyword not in row:
        return _NAME
    return _NAME if _NAME in row and tokens[index + 1].kind in _BINDS else keyword


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

    def feed(self, kind: str, token: Token) -> bool:
        """Take one token; False if it cannot follow what came before."""
        while True:
            if kind == END and self.states[-1] == ACCEPTED:
                return True
            action = STATES[self.states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                self.states.append(action)
                self.values.append(token)
                self.starts.append(token.start)
                self.ends.append(token.end)
                self.depths.append(0)
                return True
            self._reduce(*RULES[~action])

    def _reduce(self, symbol: str, size: int, action: str, picks: tuple[int, ...]) -> None:
        if size == 1 and action == "":
            self.states.pop()
        else:
            self._build(size, action, picks)
        self.states.append(STATES[self.states[-1]][symbol])

    def _build(self, size: int, action: str, picks: tuple[int, ...]) -> None:
        values, depths = self.values, self.depths
        bottom = len(values) - size
        end = self.ends[-1]
        start = self.starts[bottom] if size else end
        depth = max(depths[bottom:], default=0)
        parts = [values[pick] if pick else None for pick in picks]
        if action == "*":
            value = _joined(parts)
        elif action == "":
            value = parts[0]
            depth += 1
        else:
            value = ACTIONS[action](Span(self.source, start, end), *_joined(parts))
            depth += 1
        if depth > DEEPEST:
            raise ProblemError(problems.TooDeep(Span(self.source, start, end), DEEPEST))
        del self.states[len(self.states) - size :]
        for stack, top in ((values, value), (self.starts, start), (self.ends, end), (depths, depth)):
            del stack[bottom:]
            stack.append(top)


def _joined(parts: list[object]) -> list[object]:
    """The parts with those of a repetition in its place: at most one part is one."""
    for place, part in enumerate(parts):
        if isinstance(part, _Repetition):
            if place == 0:
                part.extend(parts[1:])
                return part
            return [*parts[:place], *part, *parts[place + 1 :]]
    return _Repetition(parts)
