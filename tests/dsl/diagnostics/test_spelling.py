"""A misspelt word is corrected only if one slip leads to one known word."""

import pytest

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.spelling import corrected, meant


@pytest.mark.parametrize(
    ("word", "known", "right"),
    [
        ("imgae", ["image", "label"], "image"),
        ("imag", ["image"], "image"),
        ("imaage", ["image"], "image"),
        ("inage", ["image"], "image"),
        ("adm", ["sgd", "adam", "adamw"], "adam"),
        ("image", ["image"], None),
        ("imegae", ["image"], None),
        ("conv2", ["conv1"], None),
        ("conv", ["conv1"], None),
        ("cnov1", ["conv1", "conv2"], "conv1"),
        ("xs", ["x"], None),
        ("abd", ["abc"], None),
        ("left", ["lift", "loft"], None),
        ("left", ["lift", "lift"], "lift"),
        ("abcd", ["badc"], None),
        ("", ["a"], None),
        ("image", [], None),
    ],
)
def test_which_word_is_meant(word: str, known: list[str], right: str | None) -> None:
    assert meant(word, known) == right


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("imgae", 0),
        ("f(imgae=3)", 2),
        ("f(imgae, imgae)", None),
        ("imgaes + 1", None),
        ("f()", None),
    ],
)
def test_the_word_is_replaced_where_it_stands_once(text: str, at: int | None) -> None:
    source = Source("net.mgn", f"  {text}")
    cure = corrected(Span(source, 2, len(source.text)), "imgae", ["image"], "did you mean it?")
    assert cure.text == "did you mean it?"
    found = [(edit.span.start - 2, edit.span.text, edit.text) for edit in cure.edits]
    assert found == ([] if at is None else [(at, "imgae", "image")])
