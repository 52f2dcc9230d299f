"""Writes the TextMate grammar of the editor extension from the words of `grammar/mgn.lark`.

A word of the language is a name wherever the grammar has no place for it. TextMate knows no
grammar, so each group of words below says what stands around them where they are words. That
what it colours is right is tested on every program of the repository.
"""

import argparse
import json
import sys
from pathlib import Path

from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS

ROOT = Path(__file__).parents[1]
FILE = ROOT / "grammar" / "vscode" / "syntaxes" / "mgn.tmLanguage.json"

TYPES = ("any", "bool", "bf16", "f16", "f32", "f64", "i32", "i64", "u8", "u32")
CONSTANTS = ("true", "false")
OPERATORS = ("and", "or", "not")
CONTROL = ("if", "else", "for", "return")
"""With the constants and the operators these are the words that are never names."""
NAMING = ("def", "block", "optimizer", "model", "train")
OPENING = ("from", "expect")
"""The first word of a declaration that gives no name."""
LOOPS = ("scan", "repeat")
"""With `for`, the words of loops."""
STATEMENTS = ("param", "frozen", "state", "cache", "layer", "update", "project")
"""The first word of a statement, where a name follows."""
VALUES = ("minimize",)
"""The first word of a statement, where a value follows."""
OUTPUTS = ("metric", "show")
"""The first word of a statement, where a name and `=` follow."""
BETWEEN = ("has", "holds", "maps", "whole", "where", "in", "while", "over", "import")
"""Words between two others of a line."""
RAGGED = ("each", "of")
"""The words of a size that each example has for itself, `[each v of batch]`."""
OTHER = ("run",)

GROUPS = (
    *(TYPES, CONSTANTS, OPERATORS, CONTROL, NAMING, OPENING),
    *(LOOPS, STATEMENTS, VALUES, OUTPUTS, BETWEEN, RAGGED, OTHER),
)


def any_of(words: tuple[str, ...]) -> str:
    """A group of the pattern language that takes each of the words, whole."""
    return rf"\b(?:{'|'.join(words)})\b"


def rule(scope: str, match: str) -> dict[str, object]:
    """A rule that gives its whole match one scope."""
    return {"name": f"{scope}.mgn", "match": match}


def captured(match: str, *scopes: str) -> dict[str, object]:
    """A rule that gives each group of its match a scope."""
    captures = {str(at): {"name": f"{scope}.mgn"} for at, scope in enumerate(scopes, 1) if scope}
    return {"match": match, "captures": captures}


PATH = r"[\w.]*(?:[{\[][^{}\[\]]*[}\]][\w.]*)*"
"""A label: names with dots, indices and splices."""

RULES = (
    rule("comment.line.number-sign", r"#.*$"),
    rule("string.quoted.double", r'"[^"\n]*"'),
    captured(
        rf"^({'|'.join(NAMING)})\s+(\w+)", "storage.type.declaration", "entity.name.type.class"
    ),
    rule("keyword.control.import", rf"^{any_of(OPENING)}(?=\s+\w)"),
    captured(
        rf"^\s*({'|'.join(STATEMENTS)})\b(?=\s+[A-Za-z_\[])(?:\s+(param)\b(?=\s+\w))?",
        "storage.modifier",
        "storage.modifier",
    ),
    captured(
        rf"^\s*(for|{'|'.join(LOOPS)})\s+(\w+)\s+(in)\b",
        "keyword.control",
        "variable.other",
        "keyword.control",
    ),
    captured(rf"^\s*({'|'.join(OUTPUTS)})\s+(?=\w+\s*=)", "keyword.control"),
    captured(rf"^\s*({'|'.join(VALUES)})\b(?!\s*(?:[=,.]|\[[^\]]*\]\s*=))", "keyword.control"),
    captured(rf"^\s*({'|'.join(OTHER)})\s*(?=:)", "keyword.control"),
    captured(
        rf"(\|>)\s*((?=[\w\[]){PATH})\s*(?=:)",
        "keyword.operator.pipe",
        "entity.name.label",
    ),
    captured(r":\s*(block)\b(?=\s*[(,)=])", "storage.type"),
    rule("constant.numeric.float", r"\b\d[\d_]*(?:\.\d[\d_]*(?:[eE][-+]?\d+)?|[eE][-+]?\d+)\b"),
    rule("constant.numeric.integer", r"\b\d[\d_]*\b"),
    captured(
        rf"(?<=\[)({RAGGED[0]})\s+(\w+)\s+({RAGGED[1]})\b(?=\s+\w)",
        "keyword.other",
        "variable.other",
        "keyword.other",
    ),
    rule("constant.language", rf"(?<!\.){any_of(CONSTANTS)}"),
    rule("keyword.operator.word", rf"(?<!\.){any_of(OPERATORS)}"),
    rule("keyword.control", rf"(?<!\.){any_of(CONTROL)}"),
    rule("support.type", rf"(?<![\w.]){any_of(TYPES)}(?=\s*\[)"),
    rule(
        "keyword.other",
        rf"(?:(?<=[\w)\]\"}}]\s)|(?<=:\s)|^\s*)(?<!\.){any_of(BETWEEN)}(?=\s+[\w\[(\"-])",
    ),
    rule("entity.name.function", r"\b[A-Za-z_]\w*(?=\s*\()"),
    rule("variable.other", r"\b[A-Za-z_]\w*"),
    rule("keyword.operator", r"\|>|->|\.\.\.?|\*\*|//|[=!<>]=|[-+*/%@<>=]"),
    rule("punctuation", r"[()\[\]{},:.]"),
)


def grammar() -> str:
    """The text of the grammar; fails if a word of the language is in no group, or one is not."""
    words = [word for group in GROUPS for word in group]
    known = [word for word in KEYWORDS if word.isidentifier()]
    if sorted(words) != sorted(known):
        sys.exit(f"the groups do not fit the grammar: {sorted({*words} ^ {*known})}")
    content = {
        "name": "Meganeura",
        "scopeName": "source.mgn",
        "comment": "Written by scripts/build_textmate.py: change it there.",
        "fileTypes": ["mgn"],
        "patterns": RULES,
    }
    return json.dumps(content, indent=2) + "\n"


def main() -> None:
    """Write the grammar, or with `--check` compare it with the file."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing")
    if not arguments.parse_args().check:
        FILE.write_text(grammar())
    elif FILE.read_text() != grammar():
        sys.exit(f"{FILE.relative_to(ROOT)} is another: run scripts/build_textmate.py")


if __name__ == "__main__":
    main()
