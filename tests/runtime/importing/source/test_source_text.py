"""Texts that name PyTorch source and its examples."""

import pytest

from meganeura_runtime.importing.source.source_text import (
    Example,
    example,
    numbers_of,
    python_source,
)


def test_a_name_and_a_call_with_literals() -> None:
    plain = python_source("models/net.py:nets.Net")
    assert plain is not None
    assert (str(plain.path), plain.name, plain.is_called) == ("models/net.py", "nets.Net", False)
    called = python_source("net.py:Net(10, [2, -1], act='relu')")
    assert called is not None
    assert (called.name, called.args, called.kwargs) == ("Net", (10, [2, -1]), {"act": "relu"})
    bare = python_source("net.py")
    assert bare is not None
    assert not bare.name
    assert python_source("net.onnx") is None
    assert python_source("folder.py/net.onnx") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("net.py:Net(3", "is no name"),
        ("net.py:Net(width)", "`width` is not a literal"),
        ("net.py:Net(**{'a': 1})", "write each argument"),
        ("net.py:3", "`3` is not a name"),
        ("net.py:nets[0](3)", "`nets\\[0\\]` is not a name"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        python_source(text)


def test_sizes_are_numbers_and_names() -> None:
    assert example("x: f32[n, 3, h=48, w]") == Example("x", "f32", ("n", 3, "h", "w"), {"h": 48})
    assert example(" ids:i64[] ").sizes == ()
    both = [example("x: f32[n, 3, h=48, w]"), example("y: bool[m, w]")]
    assert numbers_of(both) == {"n": 2, "h": 48, "w": 32, "m": 3}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x f32[n]"], 'is not like "x: f32'),
        (["x: f64[n]"], "`f64` is no element type"),
        (["x: f32[n - 1]"], "`n - 1` in .* is no size"),
        (["x: f32[n, 0]"], "a size of 0"),
        (["x: f32[n, ]"], "`` in .* is no size"),
        (["x: f32[n=1]"], "with 2 or more"),
        (["x: f32[n=2]", "y: f32[n=3]"], "`n` is 2 and 3"),
        (["x: f32[n]", "x: f32[m]"], "two examples of `x`"),
    ],
)
def test_other_examples_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numbers_of([example(each) for each in texts])
