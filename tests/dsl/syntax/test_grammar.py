"""The compiled grammar is that of the grammar, fits Lark, and a bad grammar is refused."""

import json
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from lark.exceptions import GrammarError

from meganeura_dsl import resources
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.syntax.parser import compiled_grammar
from meganeura_dsl.syntax.parser.compiled_grammar import GRAMMAR, lark_version, load
from meganeura_dsl.syntax.parser.grammar import COMPILED, SERIES, compile_grammar
from meganeura_dsl.syntax.parser.tree_builder import ACTIONS

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_compiled_grammar_is_that_of_the_grammar() -> None:
    fresh = compile_grammar(resources.grammar())
    assert fresh == COMPILED.read_text(encoding="utf-8"), (
        "run python -m meganeura_dsl.syntax.parser.grammar"
    )


def test_a_conflict_in_the_grammar_is_refused() -> None:
    ambiguous = resources.grammar().replace("?product: signed", "?product: signed | sum PLUS sum")
    with pytest.raises(GrammarError, match=r"Reduce/Reduce|Shift/Reduce"):
        compile_grammar(ambiguous)


def test_a_phrase_without_tokens_is_refused() -> None:
    empty = resources.grammar().replace('feeds: "(" (feed', 'feeds: ["("] (feed')
    empty = empty.replace('","?)? ")"\nfeed:', '","?)? [")"]\nfeed:')
    with pytest.raises(GrammarError, match="a phrase has a place in the text, and <feeds"):
        compile_grammar(empty)


def test_every_rule_is_built_and_every_builder_used() -> None:
    assert {action for _, _, action, _ in GRAMMAR["rules"]} - {""} == set(ACTIONS)


# --- what cannot be parsed with ------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(ProblemError, match="E0190") as caught:
        load(path)
    return caught.value.problem.report().headline.removeprefix(
        "the compiled grammar cannot be used: "
    )


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grammar.json"
    assert refusal(path) == "there is no `grammar.json`"
    content = COMPILED.read_bytes()
    for damaged in (b"", content[:-100], b"[]", b"null", b'{"grammar": 1}', b"\xff\xfe"):
        path.write_bytes(damaged)
        assert refusal(path) == "`grammar.json` is damaged", damaged


def test_the_tables_of_another_grammar_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    edited = resources.grammar() + "// edited\n"
    monkeypatch.setattr(resources, "grammar", lambda: edited)
    assert refusal(COMPILED) == "`grammar.json` is that of another grammar"


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("1.1.9", "Lark 1.1.9 is installed"),
        ("1.30.0", "Lark 1.30.0 is installed"),
        ("", "Lark is not installed"),
    ],
)
def test_another_lark_is_refused(version: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_grammar, "lark_version", lambda: version)
    assert refusal(COMPILED) == f"it is for Lark 1.2 and 1.3, and {found}"


def test_the_version_of_lark_is_that_of_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lark_version() == metadata.version("lark")
    monkeypatch.setitem(sys.modules, "lark", None)
    assert not lark_version()


def test_the_distribution_depends_on_the_versions_of_lark_that_fit() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    (lark,) = (each for each in project["dependencies"] if each.startswith("lark"))
    oldest, newest = (tuple(map(int, series.split("."))) for series in (SERIES[0], SERIES[-1]))
    assert lark == f"lark>={oldest[0]}.{oldest[1]}.2,<{newest[0]}.{newest[1] + 1}"
    assert json.loads(COMPILED.read_bytes())["lark"] == list(SERIES)
