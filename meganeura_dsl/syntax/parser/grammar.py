"""Compiles `grammar/mgn.lark` with Lark into the tables that Lark's parser runs on.

Building an LALR automaton takes Lark some 200 ms, which every start of the command line would pay.
Lark's own cache of it is a pickle, and loading a pickle runs the code of whoever wrote it. So the
automaton is built once after a change of the grammar, and committed as plain JSON:

    python -m meganeura_dsl.syntax.parser.grammar

While `grammar.json` is not that of the grammar, no text is parsed. Lark is run with `strict=True`:
a conflict in the grammar is an error here, and never settled in silence.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict, cast

from lark import Lark
from lark.exceptions import GrammarError
from lark.grammar import Rule, Terminal
from lark.lexer import PatternStr, TerminalDef

from meganeura_dsl import resources

COMPILED = Path(__file__).with_name("grammar.json")

SHIFT = 0

SERIES = ("1.2", "1.3")
"""The versions of Lark that build the same tables, and run them."""


class _Automaton(TypedDict):
    """An LALR automaton as Lark serializes it.

    An action is (0, the state to shift to) or (1, {"@": the number of the rule to reduce by}).
    """

    tokens: dict[int, str]
    states: dict[int, dict[int, tuple[int, Any]]]
    start_states: dict[str, int]
    end_states: dict[str, int]


def compile_grammar(text: str) -> str:
    """The content of `grammar.json` for a grammar."""
    lark = Lark(text, parser="lalr", lexer="contextual", strict=True)
    terminals = [terminal for terminal in lark.terminals if terminal.name not in lark.ignore_tokens]
    words = [terminal for terminal in terminals if _is_word(terminal)]
    content = {
        "grammar": sha256(text.encode()).hexdigest(),
        "lark": SERIES,
        "keywords": {terminal.pattern.value: terminal.name for terminal in words},
        "reserved": sorted(word.pattern.value for word in words if word.priority > 0),
        "patterns": _patterns(terminals),
        "rules": [_rule(rule) for rule in lark.rules],
        **_automaton(lark),
    }
    sections = [f"{_json(key)}:{_value(value)}" for key, value in content.items()]
    return f"{{\n{_lines(sections)}\n}}\n"


def _value(value: object) -> str:
    """JSON with a line for each item of a list, so that changes of it can be read."""
    if not isinstance(value, list):
        return _json(value)
    return f"[\n{_lines(map(_json, cast('list[object]', value)))}\n]"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _lines(texts: Iterable[str]) -> str:
    return ",\n".join(texts)


def _is_word(terminal: TerminalDef) -> bool:
    return isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalnum()


def _patterns(terminals: list[TerminalDef]) -> list[tuple[str, str]]:
    """All but words as (name, regular expression), in the order in which to try them."""
    others = [terminal for terminal in terminals if not _is_word(terminal)]
    others.sort(
        key=lambda terminal: (-terminal.priority, -terminal.pattern.max_width, terminal.name)
    )
    return [(terminal.name, terminal.pattern.to_regexp()) for terminal in others]


def _rule(rule: Rule) -> tuple[str, list[str], str, list[int | None]]:
    """A rule as (symbol, expansion, action, picks).

    The action is the entry of `ACTIONS` that builds the rule's value; it is "" if that is the value
    of the only child or a list, as repetitions are: Lark gives them names that begin with `_`. The
    picks are the children it is given; None stands for an optional part that is absent.
    """
    origin, picks = str(rule.origin.name), _picks(rule)
    if not rule.expansion:
        raise GrammarError(f"a phrase has a place in the text, and {rule} has none")
    is_list, is_child = origin.startswith("_"), rule.options.expand1 and len(picks) == 1
    action = str(rule.alias or ("" if is_list or is_child else origin))
    return origin, [str(symbol.name) for symbol in rule.expansion], action, picks


def _picks(rule: Rule) -> list[int | None]:
    absent = rule.options.empty_indices or (False,) * len(rule.expansion)
    symbols = iter(enumerate(rule.expansion))
    picks: list[int | None] = []
    for is_absent in absent:
        if is_absent:
            picks.append(None)
            continue
        index, symbol = next(symbols)
        dropped = isinstance(symbol, Terminal) and symbol.filter_out
        if rule.options.keep_all_tokens or not dropped:
            picks.append(index)
    return picks


def _automaton(lark: Lark) -> dict[str, object]:
    """Lark's serialized automaton, numbered in a way that depends on the grammar alone.

    Symbols are numbered by name, and states breadth first by symbol.
    """
    serializable: Any = lark
    data, _ = serializable.memo_serialize([Rule])
    automaton = cast("_Automaton", data["parser"]["parser"])
    rules = {rule["@"]: number for number, rule in enumerate(data["rules"])}
    symbols = sorted(automaton["tokens"].values())
    rows = {
        state: sorted(
            (symbols.index(automaton["tokens"][token]), action) for token, action in row.items()
        )
        for state, row in automaton["states"].items()
    }
    start, end = automaton["start_states"]["start"], automaton["end_states"]["start"]
    numbers = {start: 0}
    order = [start]
    for state in order:
        for _, (kind, target) in rows[state]:
            if kind == SHIFT and target not in numbers:
                numbers[target] = len(numbers)
                order.append(target)
    return {
        "tokens": dict(enumerate(symbols)),
        "states": [
            {
                symbol: (SHIFT, numbers[target])
                if kind == SHIFT
                else (kind, {"@": rules[target["@"]]})
                for symbol, (kind, target) in rows[state]
            }
            for state in order
        ],
        "start_states": {"start": 0},
        "end_states": {"start": numbers[end]},
    }


if __name__ == "__main__":
    COMPILED.write_text(compile_grammar(resources.grammar()), encoding="utf-8")
