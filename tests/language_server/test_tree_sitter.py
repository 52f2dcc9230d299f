"""The tree-sitter grammar of editors takes the programs of the language for what they are."""

import ctypes
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import zip_longest
from pathlib import Path
from runpy import run_path
from typing import cast

import pytest
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser import lark_parser
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration
from meganeura_dsl.syntax.parser.scanner import LAYOUT, scan
from tests.dsl.syntax.test_problems import AT_THE_TOP, HEADER, IN_A_BODY

ROOT = Path(__file__).parents[2]
GRAMMAR = ROOT / "grammar" / "tree-sitter"
SOURCES = GRAMMAR / "src"
SCRIPT = ROOT / "scripts" / "build_tree_sitter.py"
FOLDERS = ("stdlib_models", "benchmarks", "tests/dsl", "tests/fuzz", "tests/shape_bugs")
"""All that have programs; `nightly.toml` names those that wait, as the pages do."""
PAGES = ("README.md", "docs", "tests/spec")
FENCE = re.compile(r"^```mgn(?! escaped)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMPILE = ("cc", "-std=c11", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")

needs_compiler = pytest.mark.compiler

Leaf = tuple[str, str]
"""The kind of a token, which is itself for words and signs, and its text."""

Phrase = tuple[str, str]
"""The kind of a node of a tree, and its text."""


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """The language that `parser.c` and `scanner.c` are, compiled as editors do it."""
    library = tmp_path_factory.mktemp("tree_sitter") / "meganeura.so"
    files = (SOURCES / "parser.c", SOURCES / "scanner.c")
    subprocess.run([*COMPILE, "-I", SOURCES, "-o", library, *files], check=True)
    return loaded(library)


def loaded(library: Path) -> Language:
    """The language in a compiled parser."""
    function = ctypes.CDLL(str(library)).tree_sitter_meganeura
    function.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return Language(capsule(function(), b"tree_sitter.Language", None))


def tree(language: Language, text: str) -> Node:
    """The root of the tree of a text."""
    return Parser(language).parse(text.encode()).root_node


def text_of(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode()


def nodes(root: Node) -> Iterator[Node]:
    """The nodes of a tree, each before its children."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        left += reversed(node.children)


def leaves(root: Node) -> Iterator[Node]:
    """The tokens of a tree, comments apart."""
    for node in nodes(root):
        if not node.child_count and node.type != "comment" and node.start_byte < node.end_byte:
            yield node


OPEN = {"NAME": "name", "INTEGER": "integer", "REAL": "real", "STRING": "string"}
"""The tokens that are not words and signs of the language, as both grammars call them."""


def tokens_of_tree(root: Node) -> list[Leaf]:
    """The tokens as tree-sitter has them."""
    found = ((leaf.type, text_of(leaf)) for leaf in leaves(root))
    return [(kind if kind in OPEN.values() else text, text) for kind, text in found]


def tokens_of_text(text: str) -> list[Leaf]:
    """The tokens as our parser has them."""
    found: list[Leaf] = []
    for declaration in outline(Source("a.mgn", text)):
        span = declaration.span
        tokens = scan(span.source, span.start, span.end)
        for each in lark_parser._interactive(span.source, tokens).iter_parse():
            token = cast("lark_parser._Symbol", each)
            if token.type not in LAYOUT:
                word = text[token.start : token.end]
                found.append((OPEN.get(token.type, word), word))
    return found


KINDS: dict[type[ast.Node], str] = {
    ast.Import: "import", ast.Def: "definition", ast.Optimizer: "optimizer", ast.Model: "model",
    ast.Train: "train", ast.Parameter: "parameter", ast.Bind: "bind", ast.Part: "part",
    ast.If: "if", ast.For: "for", ast.Scan: "scan", ast.Repeat: "repeat", ast.Declare: "declare",
    ast.Layer: "layer_declared", ast.Update: "update", ast.Minimize: "minimize",
    ast.Project: "project", ast.Metric: "metric", ast.Show: "show", ast.Run: "run",
    ast.Setting: "setting", ast.Pipe: "pipe", ast.Conditional: "conditional",
    ast.Binary: "binary", ast.Unary: "unary", ast.Attribute: "attribute",
    ast.Subscript: "subscript", ast.Argument: "argument", ast.Rearrangement: "rearrangement",
}  # fmt: skip
"""The phrases that are nodes of both trees, as tree-sitter calls them."""


def phrases_of_tree(root: Node) -> Iterator[Phrase]:
    """The phrases as tree-sitter has them."""
    kinds = {*KINDS.values()}
    for node in nodes(root):
        kind = node.type.removesuffix("_part")
        if kind in kinds and node.is_named:
            yield kind, text_of(node).rstrip()


@cache
def phrases_of_text(text: str) -> Counter[Phrase] | None:
    """The phrases as our parser has them; None of what it refuses."""
    parsed = [parse_declaration(each) for each in outline(Source("a.mgn", text))]
    if not parsed or any(problems for _, problems in parsed):
        return None
    return Counter(phrase for found, _ in parsed for phrase in phrases_of_node(found))


def phrases_of_node(value: object) -> Iterator[Phrase]:
    """The phrases in a node, or in what a field of one holds."""
    if isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from phrases_of_node(each)
    elif isinstance(value, ast.Node):
        if kind := KINDS.get(type(value)):
            yield kind, value.span.source.text[value.span.start : value.span.end].rstrip()
        for field in fields(value):
            yield from phrases_of_node(getattr(value, field.name))


def differences(language: Language, texts: dict[str, str]) -> list[str]:
    """The texts that tree-sitter takes for something else than our parser does."""
    found: list[str] = []
    for name, text in texts.items():
        root = tree(language, text)
        if root.has_error:
            found.append(f"{name}: {root}")
        elif (ours := tokens_of_text(text)) != (theirs := tokens_of_tree(root)):
            pair = next(pair for pair in zip_longest(ours, theirs) if pair[0] != pair[1])
            found.append(f"{name}: {pair}")
        elif len(outline(Source(name, text))) != len(declarations(root)):
            found.append(f"{name}: {len(declarations(root))} declarations")
        elif (written := phrases_of_text(text)) is not None:
            read = Counter(phrases_of_tree(root))
            found += [f"{name}: only ours: {phrase}" for phrase in written - read]
            found += [f"{name}: only theirs: {phrase}" for phrase in read - written]
    return found


def declarations(root: Node) -> list[Node]:
    """The declarations of a file."""
    return [child for child in root.named_children if child.type != "comment"]


@needs_compiler
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_program_has_the_tokens_and_phrases_of_the_parser(
    language: Language, folder: str
) -> None:
    files = sorted((ROOT / folder).rglob("*.mgn"))
    assert files
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    assert differences(language, texts) == []


def test_every_folder_with_programs_is_named() -> None:
    all_ = {path for folder in ("stdlib_models", "benchmarks", "tests")
            for path in (ROOT / folder).rglob("*.mgn")}  # fmt: skip
    assert all_ == {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.mgn")}


@needs_compiler
@pytest.mark.parametrize("place", PAGES)
def test_every_program_of_the_pages_has_the_tokens_and_phrases_of_the_parser(
    language: Language, place: str
) -> None:
    root = ROOT / place
    texts = {
        f"{page.relative_to(ROOT)}, {number}": program
        for page in ([root] if root.is_file() else sorted(root.rglob("*.md")))
        for number, program in enumerate(FENCE.findall(page.read_text()))
    }
    read = {name: text for name, text in texts.items() if phrases_of_text(text) is not None}
    assert read
    assert differences(language, read) == []


NAMES = """\
block Net(block, has: int = 2)(whole: [n, d], where: f32[n, d]) -> [n, d]:
  state = whole + where
  run, metric = split(state)
  where, of = split(run)
  over = run * has  # return for import
  show = where(run > 0, metric, over)[of - 1] + each[each - 1]
    + each(each)
  y = show |> train.model: linear(d) |> layer: linear(d) |> in: linear(d, bias=false)
  update update = update
  for in in 0..has:
    y = y |> import{in}.state[in]: linear(d)
    # not the end

  if has == 1:
    y = y
  else if has == 2:
    y = -y
      - y
  else:
    y = y
# at the margin
  return y + state if has > 2 else minimize(y, maps=true)

train fit(v: [each each of each, 7], x: [each, n]):
  metric minimize = v
  minimize minimize
"""
"""Words where they are names, beside those that are none, and lines that go on."""


@needs_compiler
def test_words_are_names_where_the_parser_takes_them_for_names(language: Language) -> None:
    assert differences(language, {"names": NAMES}) == []
    assert differences(language, {"names": NAMES.replace("\n", "\r\n")}) == []
    leaf = Counter(leaf.type for leaf in leaves(tree(language, NAMES)))
    assert leaf["name"] > 60


@needs_compiler
def test_every_word_of_the_grammar_has_a_colour(language: Language) -> None:
    kinds = [language.node_kind_for_id(number) for number in range(language.node_kind_count)]
    assert {*KEYWORDS} <= {*kinds}
    coloured = (GRAMMAR / "queries" / "highlights.scm").read_text()
    words = {*re.findall(r'"(\w+)"', coloured), *re.findall(r"\((\w+)\)", coloured)}
    types = {"any", "bool", "bf16", "f16", "f32", "f64", "i32", "i64", "u8", "u32"}
    assert "(dtype) @type.builtin" in coloured
    assert {*KEYWORDS} - types <= words


# --- broken programs -----------------------------------------------------------------------------

FIRST = """\
block First(c)(x: [n, d]) -> [n, d]:
  for i in 0..c:
    x = x + x
  return x

"""
LAST = """\

block Last(c)(x: [n, d]) -> [n, d]:
  y = x |> fc: linear(c)
  return y
"""
SEEN = {"E0101", "E0102", "E0103", "E0104", "E0105", "E0108", "E0111", "E0112", "E0113"}
"""The codes of mistakes of which no tree can be made; others are found by later rules."""


def broken_programs() -> list[tuple[str, str]]:
    """The code of a mistake and a text with it, for each that the tests of the parser have."""
    around = [
        (code, f"{HEADER}  a = x + x\n{text}\n  b = a\n  return b\n") for code, text, _ in IN_A_BODY
    ]
    top = [(code, f"{text}\n") for code, text, _ in AT_THE_TOP]
    return [(code, re.sub("[«»]", "", text)) for code, text in around + top]


def is_kept(root: Node, name: str) -> bool:
    """True if a block of this name is whole."""
    blocks = [
        child for child in declarations(root) if child.type == "block" and not child.has_error
    ]
    return any(text_of(block.named_children[0]) == name for block in blocks)


@needs_compiler
def test_a_mistake_is_seen(language: Language) -> None:
    unseen = [
        text
        for code, text in broken_programs()
        if code in SEEN and not tree(language, FIRST + text + LAST).has_error
    ]
    assert unseen == []


@needs_compiler
def test_a_mistake_leaves_the_blocks_around_it(language: Language) -> None:
    roots = [tree(language, FIRST + text + LAST) for _, text in broken_programs()]
    assert len(roots) > 150
    assert sum(is_kept(root, "First") for root in roots) >= len(roots) - 1
    assert sum(is_kept(root, "Last") for root in roots) >= len(roots) - 1


@needs_compiler
def test_what_is_typed_leaves_the_block_below_it(language: Language) -> None:
    """A file with each beginning of a block before another one."""
    typed = "block New(d)(x: [n, c]) -> [n, d]:\n  y = x |> fc: linear(d, bias=false)\n  return y\n"
    roots = [tree(language, FIRST + typed[:end] + LAST) for end in range(len(typed))]
    assert all(is_kept(root, "First") for root in roots)
    assert all(is_kept(root, "Last") for root in roots)


# --- colours and folds ---------------------------------------------------------------------------

SAMPLE = """\
# mgn 1
from vision import ResNet
def twice(d) = 2 * d
block Net(d, f: block)(x: i32[n, c]) -> [n, d]:
  param w: [c]
  y = x.h |> encoder.layers{i}[0]: Block("gelu # 2", bias=true)
  return relu(y) + 1_000.5e-3 if d > 2 and c else y
train fit(image: [n]):
  minimize image
  run:
    batch = 64
"""
COLOURS = {
    ("# mgn 1", "comment"), ("from", "keyword"), ("vision", "module"), ("ResNet", "type"),
    ("def", "keyword"), ("twice", "function"), ("*", "operator"), ("Net", "type"),
    ("d", "variable.parameter"), ("x", "variable.parameter"), ("i32", "type.builtin"),
    ("param", "keyword"), ("w", "label"), ("h", "property"), ("|>", "operator"),
    ("encoder", "label"), ("layers", "label"), ("Block", "function"), ('"gelu # 2"', "string"),
    ("bias", "variable.parameter"), ("true", "constant.builtin"), ("return", "keyword"),
    ("relu", "function"), ("1_000.5e-3", "number"), ("2", "number"), ("and", "keyword.operator"),
    ("fit", "type"), ("image", "variable.parameter"), ("minimize", "keyword"), ("run", "keyword"),
    ("batch", "property"), (":", "punctuation.delimiter"), ("{", "punctuation.bracket"),
}  # fmt: skip


def captures(language: Language, file: str, text: str) -> list[tuple[Node, str]]:
    """The nodes that a file of queries captures, with their names."""
    query = Query(language, (GRAMMAR / "queries" / file).read_text())
    found = QueryCursor(query).captures(tree(language, text))
    return [(node, name) for name, nodes in found.items() for node in nodes]


@needs_compiler
def test_a_program_has_its_colours(language: Language) -> None:
    found = {(text_of(node), name) for node, name in captures(language, "highlights.scm", SAMPLE)}
    assert COLOURS - found == set()
    assert ("y", "function") not in found
    assert not {name for text, name in found if text in ("y", "n")} - {"variable.parameter"}


@needs_compiler
def test_no_token_has_two_colours(language: Language) -> None:
    text = "".join(path.read_text() for path in (ROOT / "stdlib_models").glob("*.mgn"))
    for program in (SAMPLE, NAMES, text):
        places = Counter(
            (node.start_byte, node.end_byte)
            for node, _ in captures(language, "highlights.scm", program)
        )
        assert [place for place, count in places.items() if count > 1] == []


@needs_compiler
def test_blocks_and_their_loops_fold(language: Language) -> None:
    folds = [text_of(node) for node, _ in captures(language, "folds.scm", FIRST + LAST)]
    assert {FIRST.strip(), LAST.strip(), "for i in 0..c:\n    x = x + x"} <= {*folds}


# --- the files -----------------------------------------------------------------------------------


def test_the_grammar_is_that_of_the_language() -> None:
    built = run_path(str(SCRIPT))
    text = (SOURCES / "grammar.json").read_text()
    assert text == built["grammar"](), f"run python {SCRIPT.relative_to(ROOT)}"


def test_the_parser_is_that_of_the_grammar() -> None:
    stamp = run_path(str(SCRIPT))["stamp"]
    grammar = (SOURCES / "grammar.json").read_text()
    first, parser = (SOURCES / "parser.c").read_text().split("\n", maxsplit=1)
    assert f"{first}\n" == stamp(grammar, parser), f"run python {SCRIPT.relative_to(ROOT)}"
    assert "#define LANGUAGE_VERSION 14\n" in parser


def test_the_scanner_has_the_tokens_of_the_grammar_in_their_order() -> None:
    grammar = json.loads((SOURCES / "grammar.json").read_text())
    names = [each["name"].removeprefix("_").upper() for each in grammar["externals"]]
    assert f"enum Token {{ {', '.join(names)} }};" in (SOURCES / "scanner.c").read_text()


def test_the_scanner_calls_what_editors_give_to_parsers_in_webassembly() -> None:
    """A parser that needs another function cannot be loaded there."""
    scanner = re.sub(r"//.*", "", (SOURCES / "scanner.c").read_text())
    defined = set(re.findall(r"^\w[\w *]*?(\w+)\([^;]*\{", scanner, re.MULTILINE))
    called = set(re.findall(r"(?<![\w>])(\w+)\(", scanner)) - {"if", "while", "for", "sizeof"}
    assert {"scan", "recover"} <= defined
    assert called - defined == {"calloc", "free", "memcpy", "strcmp"}


@needs_compiler
def test_the_commands_of_the_page_install_the_grammar(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "editors.md").read_text()
    commands = [
        block
        for block in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        if "cc " in block
    ]
    places = (
        (".config/nvim/parser", ".config/nvim/queries"),
        (".config/helix/runtime/grammars", ".config/helix/runtime/queries"),
    )
    assert len(commands) == len(places)
    for command, (parsers, queries) in zip(commands, places, strict=True):
        environment = {**os.environ, "HOME": str(tmp_path)}
        subprocess.run(["/bin/sh", "-euc", command], cwd=ROOT, env=environment, check=True)
        assert not tree(loaded(tmp_path / parsers / "meganeura.so"), FIRST + LAST).has_error
        installed = {path.name for path in (tmp_path / queries / "meganeura").iterdir()}
        assert installed == {path.name for path in (GRAMMAR / "queries").iterdir()}
