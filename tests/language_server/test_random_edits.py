"""Texts as they are while somebody types: nothing in them ends the server."""

from random import Random

from lsprotocol.types import Position

from meganeura.language_server.analysis import analyse
from meganeura.language_server.code_actions import code_actions, formatting
from meganeura.language_server.code_lenses import code_lenses
from meganeura.language_server.completion import completion
from meganeura.language_server.diagnostics import diagnostics
from meganeura.language_server.hover import hover
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura.language_server.navigation import (
    definition,
    document_symbols,
    folding_ranges,
    references,
)
from meganeura.language_server.rename import RenameError, rename, renamed_range
from meganeura.language_server.semantic_tokens import semantic_tokens
from meganeura.language_server.signature_help import signature_help
from tests.effort import effort

EDITS = effort(80, 10_000)
START = """\
# Ümlaut 🎉
def down(h, s) = (h - 1) // s + 1
block A(c, stride=1)(x: [n, d], ...m) -> [n, c]:
  y = x |> head.fc[0]: linear(c) |> relu
  for i in 0..2:
    y = y |> layers[i]: linear(c)
  if c != 3:
    y = y + 1
  return y
model a = A(4)
expect a has 6 params
train fit(x: [batch, 4], y: i32[batch]):
  minimize cross_entropy(a(x), y)
  run:
    batch = 2
    optimizer["*.bias"] = sgd(lr=0.1)
"""
PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        ":",
        "|>",
        "=",
        ",",
        "\n",
        "  ",
        "#",
        '"',
        "{",
        "..",
        "\r",
        "\t",
        "🎉",
        "ä",
    ),
    *(
        "block B",
        "model ",
        "train t",
        "expect ",
        "from nn import ",
        "x",
        "y",
        "c",
        "0",
        "1.5",
        "|> l: ",
    ),
    *("for i in 0..n:\n", "if c > 2:\n", "run:\n", "param w: [c]", "layer l: linear(2)", "return "),
)


def edited(random: Random, text: str) -> str:
    """A text with a piece put in, taken out or moved."""
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 0, 1, 2, 8)))
    return text[:start] + random.choice((*PIECES, "")) + text[end:]


def ask(text: str, random: Random) -> None:
    """Ask everything there is to ask, at a random place."""
    analysis = analyse("file:///programs/typed.mgn", text, {})
    offset = random.randrange(len(text) + 1)
    position = analysis.positions.position(offset)
    whole = analysis.positions.whole()
    for problem in diagnostics(analysis):
        assert problem.range.start <= problem.range.end <= whole.end
    for hint in inlay_hints(analysis):
        assert Position(0, 0) <= hint.position <= whole.end
    assert all(each >= 0 for each in semantic_tokens(analysis).data)
    code_actions(analysis, whole)
    formatting(analysis)
    folding_ranges(analysis)
    document_symbols(analysis)
    code_lenses(analysis)
    hover(analysis, position)
    definition(analysis, position)
    references(analysis, position)
    completion(analysis, text, offset)
    signature_help(analysis, text, offset)
    if renamed_range(analysis, position) is not None and random.random() < 0.1:
        try:
            rename(analysis, position, "renamed", {})
        except RenameError:
            return


def test_random_edits_end_nothing() -> None:
    random, text = Random(0), START
    for number in range(EDITS):
        text = START if number % 20 == 0 else edited(random, text)
        try:
            ask(text, random)
        except Exception as error:
            error.add_note(repr(text))
            raise
