"""Compiles `grammar/mgn.lark` with Lark into the tables that the parser runs on.

Building an LALR automaton takes Lark some 200 ms, and importing Lark 40 ms, which every start of
the command line would pay. Lark can cache the automaton, but as a pickle in the temporary folder,
and loading a pickle that others may have written runs their code. So the automaton is built once,
by hand after a change of the grammar, and committed as plain Python data:

    python -m meganeura_dsl.syntax.parser.grammar

Loading `_tables.py` takes about 1 ms, and a test fails while it differs from the grammar. Lark is
run with `strict=True`: a conflict in the grammar is an error here, and never settled in silence.
"""

from pathlib import Path
from typing import TypedDict, cast

from lark import Lark
from lark.grammar import Rule, Terminal
from lark.lexer import PatternStr, TerminalDef

from meganeura_dsl import resources

TABLES = Path(__file__).with_name("_tables.py")

_HEADER = '''"""The LALR tables of grammar/mgn.lark, written by `grammar.py` beside it."""

# ruff: noqa: E501, Q000
# fmt: off
'''


class _Automaton(TypedDict):
    """An LALR automaton as Lark serialises it; actions are (0, state) or (1, rule)."""

    tokens: dict[int, str]
    states: dict[int, dict[int, tuple[int, object]]]
    start_states: dict[str, int]
    end_states: dict[str, int]


def compile_grammar(text: str) -> str:
    """The Python source of the tables of a grammar."""
    lark = Lark(text, parser="lalr", lexer="contextual", strict=True)
    symbols = [terminal for terminal in lark.terminals if terminal.name not in lark.ignore_tokens]
    sections = [_HEADER, _words(symbols), _patterns(symbols), _rules(lark.rules), _states(lark)]
    return "\n".join(sections)


def _is_word(terminal: TerminalDef) -> bool:
    return isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalnum()


def _words(terminals: list[TerminalDef]) -> str:
    """Keywords by spelling, and those of them that can never be names (priority 1)."""
    words = [terminal for terminal in terminals if _is_word(terminal)]
    keywords = {terminal.pattern.value: terminal.name for terminal in words}
    reserved = sorted(terminal.pattern.value for terminal in words if terminal.priority > 0)
    return f"KEYWORDS: dict[str, str] = {keywords!r}\n\nRESERVED = frozenset({reserved!r})\n"


def _patterns(terminals: list[TerminalDef]) -> str:
    """The other terminals as (name, regular expression), in the order in which to try them."""
    others = [terminal for terminal in terminals if not _is_word(terminal)]
    others.sort(
        key=lambda terminal: (-terminal.priority, -terminal.pattern.max_width, terminal.name)
    )
    lines = [f"    ({terminal.name!r}, {terminal.pattern.to_regexp()!r}),\n" for terminal in others]
    return f"PATTERNS: tuple[tuple[str, str], ...] = (\n{''.join(lines)})\n"


def _rules(rules: list[Rule]) -> str:
    """Each rule as (symbol, length, action, picks).

    The action names what builds the rule's value: a function of `build`, "" for the value of the
    only child, or "*" for the list that a repetition collects. The picks are the children it is
    given, as offsets from the top of the stack; 0 stands for an optional part that is absent.
    """
    lines = [f"    {(str(rule.origin.name), len(rule.expansion), _action(rule), _picks(rule))!r},\n"
             for rule in rules]  # fmt: skip
    return f"RULES: tuple[tuple[str, int, str, tuple[int, ...]], ...] = (\n{''.join(lines)})\n"


def _action(rule: Rule) -> str:
    if rule.alias is not None:
        return str(rule.alias)
    if rule.origin.name.startswith("__"):
        return "*"
    return "" if rule.options.expand1 and len(_picks(rule)) == 1 else str(rule.origin.name)


def _picks(rule: Rule) -> tuple[int, ...]:
    absent = rule.options.empty_indices or (False,) * len(rule.expansion)
    symbols = iter(enumerate(rule.expansion))
    picks: list[int] = []
    for is_absent in absent:
        if is_absent:
            picks.append(0)
            continue
        index, symbol = next(symbols)
        dropped = isinstance(symbol, Terminal) and symbol.filter_out
        if rule.options.keep_all_tokens or not dropped:
            picks.append(index - len(rule.expansion))
    return tuple(picks)


def _states(lark: Lark) -> str:
    """Each state as {symbol: action}: a state to shift to, or ~r to reduce by rule r."""
    data = lark.serialize()  # pyright: ignore[reportUnknownMemberType]  (lark leaves it untyped)
    automaton = cast("_Automaton", data["parser"]["parser"])
    rules = cast("list[object]", data["rules"])
    table = {
        state: {
            automaton["tokens"][symbol]: target if isinstance(target, int) else ~rules.index(target)
            for symbol, (_, target) in row.items()
        }
        for state, row in automaton["states"].items()
    }
    numbers = _renumbered(table, automaton["start_states"]["start"])
    lines = [f"    {_row(table[state], numbers)!r},\n" for state in numbers]
    accepted = numbers[automaton["end_states"]["start"]]
    return (
        f"START = 0\n\nACCEPTED = {accepted}\n\n"
        f"STATES: tuple[dict[str, int], ...] = (\n{''.join(lines)})\n"
    )


def _renumbered(table: dict[int, dict[str, int]], start: int) -> dict[int, int]:
    """New numbers of the states that depend on the grammar alone: breadth first, by symbol."""
    numbers = {start: 0}
    order = [start]
    for state in order:
        for _, target in sorted(table[state].items()):
            if target >= 0 and target not in numbers:
                numbers[target] = len(numbers)
                order.append(target)
    return numbers


def _row(row: dict[str, int], numbers: dict[int, int]) -> dict[str, int]:
    return {
        symbol: target if target < 0 else numbers[target] for symbol, target in sorted(row.items())
    }


if __name__ == "__main__":
    TABLES.write_text(compile_grammar(resources.grammar()), encoding="utf-8")
