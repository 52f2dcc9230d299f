"""Makes the tree-sitter grammar of editors from `grammar/mgn.lark`.

Rules keep their names. A rule that Lark marks with `?`, which stands for its only child, is hidden;
an alternative behind `->` is a node of its own. The layout of lines is that of `src/scanner.c`.

`grammar.json` is written by this script, and `parser.c` by the tree-sitter CLI, 0.22 or newer:

    python scripts/build_tree_sitter.py

`parser.c` begins with a checksum of the grammar that it was generated from, and of itself.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Tree

from meganeura_dsl.syntax.parser.compiled_grammar import RESERVED

ROOT = Path(__file__).parents[1]
LARK = ROOT / "grammar" / "mgn.lark"
FOLDER = ROOT / "grammar" / "tree-sitter"
GENERATED = ("grammar.json", "parser.c", "node-types.json", "tree_sitter/parser.h")
"""The files of `src`, beside the scanner."""
ABI = "14"
"""The version of the tables; editors of 2022 and later take it."""

LAYOUT = ("_newline", "_indent", "_dedent", "_margin", "_anywhere", "_error")
"""The tokens of `scanner.c`, in its order."""

Node = dict[str, object]
Phrase = Tree[Token]

BLANK: Node = {"type": "BLANK"}


def symbol(name: str) -> Node:
    """A reference to a rule."""
    return {"type": "SYMBOL", "name": name}


def string(text: str) -> Node:
    """A word or a sign."""
    return {"type": "STRING", "value": text}


def several(kind: str, members: list[Node]) -> Node:
    """A `SEQ` or a `CHOICE` of members, or the only one."""
    return members[0] if len(members) == 1 else {"type": kind, "members": members}


def repeated(content: Node, kind: str = "REPEAT") -> Node:
    """A `REPEAT` of something, or a `REPEAT1`."""
    return {"type": kind, "content": content}


def renamed(content: Node, name: str) -> Node:
    """A node under another name."""
    return {"type": "ALIAS", "content": content, "named": True, "value": name}


class Translation:
    """The translation of the grammar; `rules` are those of tree-sitter, by name."""

    def __init__(self, text: str) -> None:
        lark: Any = Lark  # its types are partial
        reader = lark.open_from_package("lark", "lark.lark", ["grammars"], parser="lalr")
        items = cast("list[Phrase]", reader.parse(text).children)
        self.terminals: dict[str, Phrase] = {}
        self.phrases: dict[str, Phrase] = {}
        self.hidden: set[str] = set()
        self.aliases: Counter[str] = Counter()
        for item in items:
            if item.data not in ("rule", "token"):
                continue
            mark = str(item.children[0])
            name = mark.lstrip("?!")
            body = cast("Phrase", item.children[-1])
            (self.terminals if item.data == "token" else self.phrases)[name] = body
            if mark.startswith("?"):
                self.hidden.add(name)
            self.aliases.update(filter(None, map(alias_of, alternatives(body))))
        self.rules: dict[str, Node] = {
            "source_file": repeated(several("CHOICE", [symbol("_start"), symbol("_margin")]))
        }
        for name, body in self.phrases.items():
            if self._only_terminal(name) is None:
                self._rule(name, body)
        self._give_way()
        for name in self.terminals:
            if (pattern := self._pattern(name)) is not None and name != "BLANK":
                self.rules[name.lower()] = {"type": "PATTERN", "value": pattern}

    # --- rules -----------------------------------------------------------------------------------

    def _rule(self, name: str, body: Phrase) -> None:
        """A rule; if it has alternatives of another name, it is a choice of these and itself."""
        own: list[Node] = []
        others: list[Node] = []
        target = f"_{name}" if name in self.hidden else name
        for alternative in alternatives(body):
            phrase = self._phrase(cast("Phrase", alternative.children[0]))
            if alias := alias_of(alternative):
                others.append(self._aliased(name, alias, phrase))
            else:
                own.append(phrase)
        if others and name not in self.hidden:
            self.rules[f"_{name}"] = several("CHOICE", [*([symbol(name)] if own else []), *others])
            if own:
                self.rules[name] = several("CHOICE", own)
        else:
            self.rules[target] = several("CHOICE", own + others)

    def _aliased(self, rule: str, alias: str, phrase: Node) -> Node:
        """The phrase as a node of its own; a rule is made of it where it is longer than a node."""
        if phrase["type"] in ("SYMBOL", "STRING"):
            if phrase.get("name") == alias:
                return phrase
            if not str(phrase.get("name", "")).startswith("_"):
                return renamed(phrase, alias)
        if self.aliases[alias] == 1 and alias not in self.phrases:
            self.rules[alias] = phrase
            return symbol(alias)
        name = f"_{rule}_{alias}"
        others = [self.rules[name]] if name in self.rules else []
        self.rules[name] = several("CHOICE", [*others, phrase])
        return renamed(symbol(name), alias)

    def _reference(self, name: str) -> Node:
        """The node of a rule or a terminal of Lark."""
        if (terminal := self._only_terminal(name)) is not None:
            return self._reference(terminal)
        if name in self.phrases:
            is_choice = any(map(alias_of, alternatives(self.phrases[name])))
            return symbol(f"_{name}" if name in self.hidden or is_choice else name)
        if name not in self.terminals:
            return symbol(name.lower())
        if self._pattern(name) is not None:
            return symbol(name.lower())
        words = map(text_of, tokens_of(self.terminals[name], "STRING"))
        return several("CHOICE", [string(word) for word in words])

    def _only_terminal(self, name: str) -> str | None:
        """The terminal with a pattern that is all of a rule, as in `name: NAME`."""
        tokens = tokens_of(self.phrases[name], "TOKEN") if name in self.phrases else []
        if (
            len(tokens) == 1
            and self._pattern(str(tokens[0])) is not None
            and len([*self.phrases[name].find_data("expr")]) == 1
        ):
            return str(tokens[0])
        return None

    def _pattern(self, terminal: str) -> str | None:
        """The regular expression of a terminal, or None for words and signs."""
        if terminal not in self.terminals:
            return None
        found = tokens_of(self.terminals[terminal], "REGEXP")
        return str(found[0])[1:-1] if found else None

    # --- phrases ---------------------------------------------------------------------------------

    def _phrase(self, phrase: Phrase) -> Node:
        children = [*filter(None, phrase.children)]
        match str(phrase.data):
            case "expansions":
                return several("CHOICE", [self._phrase(cast("Phrase", each)) for each in children])
            case "expansion":
                return several("SEQ", [self._phrase(cast("Phrase", each)) for each in children])
            case "alias":
                return self._phrase(cast("Phrase", children[0]))
            case "maybe":
                return several("CHOICE", [self._phrase(cast("Phrase", children[0])), BLANK])
            case "name":
                return self._reference(str(children[0]))
            case "literal":
                text = text_of(cast("Token", children[0]))
                if text == "{":
                    return {"type": "IMMEDIATE_TOKEN", "content": string(text)}
                return string(text)
            case "expr":
                content = self._phrase(cast("Phrase", children[0]))
                return self._quantified(content, [str(each) for each in children[1:]])
            case kind:
                sys.exit(f"{LARK.relative_to(ROOT)}: `{kind}` has no translation yet")

    def _quantified(self, content: Node, operator: list[str]) -> Node:
        match operator:
            case []:
                return content
            case ["?"]:
                return several("CHOICE", [content, BLANK])
            case ["*"]:
                return repeated(content)
            case ["+"]:
                return repeated(content, "REPEAT1")
            case _:
                sys.exit(f"{LARK.relative_to(ROOT)}: `{operator}` has no translation yet")

    # --- words that are names --------------------------------------------------------------------

    def _give_way(self) -> None:
        """The words that are names though the grammar has a place for them: see `lark_parser`.

        tree-sitter takes a word for a keyword wherever one may stand. At the start of a statement
        names that are bound stand as well, and in the brackets of a feed the names of axes.
        """
        words = sorted({*self._first_words("statement")} - RESERVED)
        self.rules["_bound"] = name_or(words)
        self.rules["_axis_name"] = name_or(["each"])
        self.rules["_bound_names"] = replaced(self.rules["names"], symbol("_bound"), 1)
        bind = self.rules["bind"]
        text = json.dumps(bind).replace(
            json.dumps(symbol("names")), json.dumps(renamed(symbol("_bound_names"), "names")), 1
        )
        self.rules["bind"] = json.loads(text)
        self.rules["_atom"] = replaced(self.rules["_atom"], symbol("_axis_name"), 1)
        self.rules["call"] = replaced(self.rules["call"], symbol("_axis_name"), 1)

    def _first_words(self, rule: str) -> Iterator[str]:
        """The words that a rule may begin with; none of its parts is empty."""
        for alternative in alternatives(self.phrases[rule]):
            content = cast("Phrase", alternative.children[0])
            leading = next(leaves(content))
            token = cast("Token", leading.children[0])
            if leading.data == "literal":
                yield text_of(token)
            elif token in self.phrases:
                yield from self._first_words(str(token))


def leaves(phrase: Phrase) -> Iterator[Phrase]:
    """The words and references of a phrase, in their order."""
    for child in phrase.children:
        if isinstance(child, Tree):
            if child.data in ("name", "literal"):
                yield child
            else:
                yield from leaves(child)


def alternatives(body: Phrase) -> list[Phrase]:
    """The alternatives of a rule, each with its alias or None."""
    found = body.children if body.data == "expansions" else [body]
    return [cast("Phrase", each) for each in found]


def alias_of(alternative: Phrase) -> str:
    """The name behind `->`, or an empty text."""
    return str(alternative.children[1] or "")


def tokens_of(phrase: Phrase, kind: str) -> list[Token]:
    """The tokens of one kind in a part of Lark's grammar."""
    return [*phrase.scan_values(lambda each: isinstance(each, Token) and each.type == kind)]


def text_of(literal: Token) -> str:
    """The word or sign of a literal."""
    return json.loads(literal)


def name_or(words: list[str]) -> Node:
    """A name, or one of the words as a name."""
    return several("CHOICE", [symbol("name"), *(renamed(string(word), "name") for word in words)])


def replaced(rule: Node, by: Node, count: int) -> Node:
    """A rule with its first names replaced."""
    return json.loads(json.dumps(rule).replace(json.dumps(symbol("name")), json.dumps(by), count))


def grammar() -> str:
    """The content of `grammar.json`."""
    content = {
        "name": "meganeura",
        "word": "name",
        "rules": Translation(LARK.read_text()).rules,
        "extras": [
            {"type": "PATTERN", "value": "[ \\t\\r\\n]"},
            symbol("comment"),
            symbol("_anywhere"),
        ],
        "conflicts": [],
        "precedences": [],
        "externals": [symbol(name) for name in LAYOUT],
        "inline": [],
        "supertypes": [],
    }
    return json.dumps(content, indent=2) + "\n"


def stamp(text: str, parser: str) -> str:
    """The first line above a parser that was generated from a grammar."""
    checksum = sha256(f"{text}{parser}".encode()).hexdigest()
    return f"// SHA-256 of grammar.json and the lines below: {checksum}\n"


def main() -> None:
    """Write the grammar and its parser."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cli", default="tree-sitter", help="the tree-sitter CLI")
    cli = shutil.which(str(arguments.parse_args().cli))
    if cli is None:
        sys.exit("There is no tree-sitter CLI on the path: install 0.22 or newer, or give --cli.")
    text = grammar()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "src"
        source.mkdir()
        (source / "grammar.json").write_text(text)
        command = [cli, "generate", "--abi", ABI, "src/grammar.json"]
        if subprocess.run(command, cwd=folder, check=False).returncode != 0:
            sys.exit("The parser was not generated, and the files are as they were.")
        parser = source / "parser.c"
        generated = parser.read_text()
        parser.write_text(stamp(text, generated) + generated)
        for file in GENERATED:
            shutil.copy(source / file, FOLDER / "src" / file)


if __name__ == "__main__":
    main()
