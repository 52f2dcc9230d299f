"""Compiles `grammar/mgn.lark` with Lark into the tables that the parser runs on.

Building an LALR automaton takes Lark some 200 ms, and importing Lark 40 ms, which every start of
the command line would pay. Lark can cache the automaton, but as a pickle in the temporary folder,
and loading a pickle that others may have written runs their code. So the automaton is built once,
by hand after a change of the grammar, and committed as plain Python data:

    python -m meganeura_dsl.syntax.grammar

Loading `_tables.py` takes about 1 ms, and a test fails while it differs from the grammar. Lark is
run with `strict=True`: a conflict in the grammar is an error here, and never settled in silence.
"""

from pathlib import Path

from lark import Lark
from lark.grammar import Rule, Terminal
from lark.lexer import PatternStr, TerminalDef
from lark.parsers.lalr_analysis import ParseTableBase, Shift

from meganeura_dsl import resources

TABLES = Path(__file__).with_name("_tables.py")

_HEADER = '''"""The LALR tables of grammar/mgn.lark, written by `python -m meganeura_dsl.syntax.grammar`."""

# ruff: noqa
# fmt: off
'''


def compile_grammar(text: str) -> str:
    """The Python source of the tables of a grammar."""
    lark = Lark(text, parser="lalr", lexer="contextual", strict=True)
    table = lark.parse_interactive("").parser_state.parse_conf.parse_table
    symbols = [terminal for terminal in lark.terminals if terminal.name not in lark.ignore_tokens]
    sections = [
        _HEADER,
        _words(symbols),
        _patterns(symbols),
        _rules(lark.rules),
        _states(lark.rules, table),
    ]
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
    others.sort(key=lambda terminal: (-terminal.priority, -terminal.pattern.max_width, terminal.name))
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


def _states(rules: list[Rule], table: ParseTableBase[int]) -> str:
    """Each state as {symbol: action}: a state to shift to, or ~r to reduce by rule r."""
    numbers = {rule: number for number, rule in enumerate(rules)}
    order = _walk(table)
    renumbered = {state: number for number, state in enumerate(order)}
    lines: list[str] = []
    for state in order:
        row = {
            str(symbol): renumbered[argument] if action is Shift else ~numbers[argument]
            for symbol, (action, argument) in sorted(table.states[state].items())
        }
        lines.append(f"    {row!r},\n")
    accepted = renumbered[table.end_states["start"]]
    return (
        f"START = 0\n\nACCEPTED = {accepted}\n\n"
        f"STATES: tuple[dict[str, int], ...] = (\n{''.join(lines)})\n"
    )


def _walk(table: ParseTableBase[int]) -> list[int]:
    """The states in an order that depends on the grammar alone: breadth first, by symbol."""
    order = [table.start_states["start"]]
    seen = set(order)
    for state in order:
        for _, (action, argument) in sorted(table.states[state].items()):
            if action is Shift and argument not in seen:
                seen.add(argument)
                order.append(argument)
    return order


if __name__ == "__main__":
    TABLES.write_text(compile_grammar(resources.grammar()), encoding="utf-8")
