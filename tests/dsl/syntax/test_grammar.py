"""The committed tables are those of the grammar, and a bad grammar is refused."""

import pytest
from lark.exceptions import GrammarError

from meganeura_dsl import resources
from meganeura_dsl.syntax.parser import _tables
from meganeura_dsl.syntax.parser.grammar import TABLES, compile_grammar
from meganeura_dsl.syntax.parser.tree_builder import ACTIONS


def test_tables_are_those_of_the_grammar() -> None:
    fresh = compile_grammar(resources.grammar())
    assert fresh == TABLES.read_text(encoding="utf-8"), (
        "run python -m meganeura_dsl.syntax.parser.grammar"
    )


def test_a_conflict_in_the_grammar_is_refused() -> None:
    ambiguous = resources.grammar().replace("?product: signed", "?product: signed | sum PLUS sum")
    with pytest.raises(GrammarError, match=r"Reduce/Reduce|Shift/Reduce"):
        compile_grammar(ambiguous)


def test_every_rule_is_built_and_every_builder_used() -> None:
    rules = {action for _, _, action, _ in _tables.RULES} - {"", "*"}
    assert rules == set(ACTIONS)
