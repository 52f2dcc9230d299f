"""A misspelt word is corrected only if one slip leads to one known word."""

import pytest

from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.spelling import corrected, meant


@pytest.mark.parametrize(
    ("word", "known", "right"),
    [
        ("imgae", ["image", "label"], "image"),
        ("imge", ["image"], None),
        ("lables", ["labels"], "labels"),
        ("hiden", ["hidden"], "hidden"),
        ("hiddn", ["hidden"], "hidden"),
        ("pda", ["pad"], None),
        ("btahc", ["batch"], None),
        ("bacth", ["batch"], "batch"),
        ("padd", ["pad"], None),
        ("imaage", ["image"], "image"),
        ("inage", ["image"], "image"),
        ("adm", ["sgd", "adam", "adamw"], None),
        ("adma", ["sgd", "adam", "adamw"], "adam"),
        ("image", ["image"], None),
        ("imegae", ["image"], None),
        ("conv2", ["conv1"], None),
        ("conv", ["conv1"], None),
        ("cnov1", ["conv1", "conv2"], "conv1"),
        ("xs", ["x"], None),
        ("abd", ["abc"], None),
        ("lefty", ["lifty", "lofty"], None),
        ("lefty", ["lifty", "lifty"], "lifty"),
        ("abcd", ["badc"], None),
        ("relux", ["relu"], None),
        ("relo", ["relu"], None),
        ("tanhh", ["tanh"], None),
        ("", ["a"], None),
        ("image", [], None),
    ],
)
def test_which_word_is_meant(word: str, known: list[str], right: str | None) -> None:
    assert meant(word, known) == right


def test_a_name_of_another_system_is_not_misspelt() -> None:
    """Not even one of many letters, such as `arctanh` beside a block `arctan_h`."""
    known = [f"{name}{more}" for name in foreign_names() for more in ("s", "_")]
    assert not [name for name in foreign_names() if meant(name, known)]
    assert meant("arctanhx", ["arctanh"]) == "arctanh"


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
