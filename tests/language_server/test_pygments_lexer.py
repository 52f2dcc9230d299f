"""Pygments colours every program, and its lexer is an entry point."""

import tomllib
from pathlib import Path

from pygments.token import Comment, Keyword, Name, Token

from meganeura.pygments_lexer import MgnLexer

ROOT = Path(__file__).parents[2]


def test_no_program_has_a_text_that_is_no_token() -> None:
    programs = [*(ROOT / "stdlib_models").rglob("*.mgn")]
    assert len(programs) > 30
    for path in programs:
        tokens = [*MgnLexer(stripnl=False).get_tokens(path.read_text())]
        assert [text for kind, text in tokens if kind is Token.Error] == [], path
        assert "".join(text for _, text in tokens) == path.read_text()


def test_words_are_what_they_are_in_the_language() -> None:
    found = {*MgnLexer().get_tokens("block Net()(x: i32[n]):  # 1\n  return x |> fc: linear(2)\n")}
    assert {
        (Keyword.Declaration, "block"), (Name.Class, "Net"), (Keyword.Type, "i32"),
        (Comment.Single, "# 1"), (Keyword, "return"), (Name.Label, "fc"), (Name.Function, "linear"),
    } <= found  # fmt: skip


def test_the_lexer_is_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = project["entry-points"]["pygments.lexers"]
    assert entry == {"meganeura": f"{MgnLexer.__module__}:{MgnLexer.__name__}"}
