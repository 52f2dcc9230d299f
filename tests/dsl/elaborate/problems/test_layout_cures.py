"""Of a tensor that is laid out in another way than is taken, the cure is the `rearrange` of it."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")
NET = """\
block Net()(x: {}) -> [n, 10]{}:
  return {} |> fc: linear(10)
model net = Net()
train fit(image: {}, label: {}):
  logits = {}
  minimize cross_entropy({})
"""
CONV = "x |> c1: conv2d(8, 3, pad=1) |> mean(2, 3)"
PICTURE, CLASS, BOTH = "[n, 3, h, w]", "i32[batch]", "logits, label"


def net(
    declared: str,
    body: str,
    image: str,
    where: str = "",
    *,
    label: str = CLASS,
    logits: str = "image |> net",
    given: str = BOTH,
) -> str:
    return NET.format(declared, where, body, image, label, logits, given)


def refused(text: str) -> Report:
    return check(Source("net.mgn", text), LOAD).reports[0]


SEGMENTATION = """\
block Seg()(x: [n, 3, h, w]) -> [n, 5, h, w] = x |> c1: conv2d(5, 3, pad=1)
model net = Seg()
train fit(image: [batch, 3, h, w], label: i32[batch, h, w]):
  minimize cross_entropy(image |> net, label)
"""
LAYER = """\
block Net()(x: {}) -> [n, 5]
    where h >= 4, w >= 4:
  return x |> {} |> fc: linear(5)
model net = Net()
"""
CASES = [
    # the program, the code of its first error, what is written, what the cure writes
    (
        net(PICTURE, CONV, "[batch, 32, 32, 3]"), "E0308",
        "|> net", "|> rearrange([batch, h, w, c] -> [batch, c, h, w]) |> net",
    ),
    (
        net(PICTURE, CONV, "[batch, h, w, 3]"), "E0308",
        "|> net", "|> rearrange([batch, h, w, c] -> [batch, c, h, w]) |> net",
    ),
    (
        net(PICTURE, CONV, "[batch, 32, 32, 3]", logits="net(image / 255)"), "E0308",
        "net(image / 255)",
        "net(rearrange(image / 255, [batch, h, w, c] -> [batch, c, h, w]))",
    ),
    (
        net("[n, s, 40]", "x |> mean(1)", "[batch, 40, frames]"), "E0308",
        "|> net", "|> rearrange([batch, d, frames] -> [batch, frames, d]) |> net",
    ),
    (
        net("[n, 784]", "x", "[batch, 1, 28, 28]"), "E0302",
        "|> net", "|> rearrange([batch, 1, h, w] -> [batch, h * w]) |> net",
    ),
    (
        net("[n, 784]", "x", "[batch, 28, 28]"), "E0302",
        "|> net", "|> rearrange([batch, h, w] -> [batch, h * w]) |> net",
    ),
    (
        net("[n, 3072]", "x", "[batch, 3, 32, 32]"), "E0302",
        "|> net", "|> rearrange([batch, c, h, w] -> [batch, c * h * w]) |> net",
    ),
    (
        net("[n, 1, 28, 28]", CONV, "[batch, 28, 28]"), "E0302",
        "|> net", "|> rearrange([batch, h, w] -> [batch, 1, h, w]) |> net",
    ),
    (
        net("[n, 1, 28, 28]", CONV, "[batch, 784]"), "E0302",
        "|> net", "|> rearrange([batch, 1 * 28 * 28] -> [batch, 1, 28, 28]) |> net",
    ),
    (
        net("[n, 100, 1, 1]", CONV, "[batch, 100]"), "E0302",
        "|> net", "|> rearrange([batch, k] -> [batch, k, 1, 1]) |> net",
    ),
    (
        net("[n, 784]", "x", "[batch, 784]", label="i32[batch, 1]"), "E0503",
        "(logits, label)", "(logits, rearrange(label, [batch, 1] -> [batch]))",
    ),
    (
        SEGMENTATION, "E0503",
        "(image |> net, label)",
        "(rearrange(image |> net, [batch, c, h, w] -> [batch, h, w, c]), label)",
    ),
]  # fmt: skip
WORDS = """\
block Lm()(x: i32[n, s]) -> [n, s, 50] = x |> e: embedding(50, 16) |> fc: linear(50)
model net = Lm()
train fit(ids: i32[batch, s], label: i32[{}]):
  logits = ids |> net
  flat = rearrange(logits, [batch, s, v] -> [batch * s, v])
  metric spread = mean(flat)
  minimize {}
"""
BOUND = WORDS.replace("  flat", "  d = 3\n  flat").replace("mean(flat)", "d * mean(flat)")
"""A name that the rearrangement cannot have, as it is another size."""
CASES += [
    (
        WORDS.format("batch, s", "cross_entropy(flat, label)"), "E0503",
        "(flat, label)", "(flat, rearrange(label, [batch, s] -> [batch * s]))",
    ),
    (
        WORDS.format("batch * s", "cross_entropy(logits, label)"), "E0503",
        "(logits, label)", "(rearrange(logits, [batch, s, d] -> [batch * s, d]), label)",
    ),
    (
        BOUND.format("batch * s", "cross_entropy(logits, label)"),
        "E0503", "(logits, label)", "(rearrange(logits, [batch, s, c] -> [batch * s, c]), label)",
    ),
    (
        LAYER.format("[n, h, w, 3]", "c1: conv2d(8, 3) |> mean(2, 3)"), "E0206",
        "|> c1: conv2d(8, 3)",
        "|> rearrange([n, h, w, c] -> [n, c, h, w]) |> c1: conv2d(8, 3)",
    ),
    (
        LAYER.format("[n, h, w, 3]", "norm: batch_norm |> mean(2, 3)"), "E0206",
        "|> norm: batch_norm",
        "|> rearrange([n, h, w, c] -> [n, c, h, w]) |> norm: batch_norm",
    ),
    (
        LAYER.format("[n, 3, h, w]", "norm: layer_norm |> mean(1, 2)"), "E0206",
        "|> norm: layer_norm",
        "|> rearrange([n, c, h, w] -> [n, h, w, c]) |> norm: layer_norm",
    ),
]  # fmt: skip


PICTURES = """\
block Net()(image: {}) -> [n, 5]:
  return image{} |> mean(2, 3) |> fc: linear(5)
model net = Net()
"""


@pytest.mark.parametrize(
    ("shape", "call", "old", "new"),
    [
        (
            "[n, 28, 28, 1]", " |> c1: conv2d(8, 3)", "c1: conv2d(8, 3)",
            "rearrange([n, h, w, 1] -> [n, 1, h, w]) |> c1: conv2d(8, 3)",
        ),
        (
            "[n, 32, 48, 3]", " / 255 |> c1: conv2d(8, 5)", "c1: conv2d(8, 5)",
            "rearrange([n, h, w, c] -> [n, c, h, w]) |> c1: conv2d(8, 5)",
        ),
        (
            "[n, 224, 224, 4]", " |> c1: conv2d(8, 7, 2) |> relu", "c1: conv2d(8, 7, 2)",
            "rearrange([n, h, w, c] -> [n, c, h, w]) |> c1: conv2d(8, 7, 2)",
        ),
    ],
)  # fmt: skip
def test_pictures_of_known_size_with_their_channels_last_are_rearranged(
    shape: str, call: str, old: str, new: str
) -> None:
    text = PICTURES.format(shape, call)
    report = refused(text)
    assert report.code == "E0311"
    assert f"`{new}`" in str(report)
    assert f"{shape} has them on the last axis" in str(report)
    assert "the smallest" not in str(report)
    assert check(Source("net.mgn", text.replace(old, new)), LOAD).fine


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ("[n, 3, 28, 1]", " |> c1: conv2d(8, 3)"),  # three channels first, one column
        ("[n, 256, 25, 1]", " |> c1: conv2d(8, 3)"),  # features of a line of text
        ("[n, 64, 32, 2]", " |> c1: conv2d(8, 3)"),
        ("[n, 3, 28, 3]", " |> c0: conv2d(28, 1) |> c1: conv2d(8, 5)"),  # no input
    ],
)
def test_features_of_few_columns_are_not_taken_for_channels(shape: str, call: str) -> None:
    report = refused(PICTURES.format(shape, call))
    assert report.code == "E0311"
    assert "rearrange" not in str(report)


@pytest.mark.parametrize(("text", "code", "old", "new"), CASES)
def test_the_cure_is_a_rearrangement_that_ends_the_error(
    text: str, code: str, old: str, new: str
) -> None:
    report = refused(text)
    assert report.code == code
    assert report.help is not None
    assert report.help.code is not None
    assert report.help.code in f"cross_entropy{new}"
    assert report.help.edits == ()
    assert text.count(old) == 1
    cured = check(Source("net.mgn", text.replace(old, new)), LOAD)
    assert cured.fine, cured.reports


@pytest.mark.parametrize(
    ("declared", "image"),
    [
        ("[n, 3, h, w]", "[batch, 32, 32, 1]"),  # neither layout has three channels
        ("[n, 3, h, w]", "[batch, 4, 32, 1]"),
        ("[n, 784]", "[batch, 3, 28, 28]"),  # three times as many elements
        ("[n, 1, 28, 28]", "[batch, 3, 784]"),
        ("[n, 3, 8, 8]", "[batch, 3, 8]"),
    ],
)
def test_no_rearrangement_is_offered_that_does_not_fit(declared: str, image: str) -> None:
    body = "x" if declared == "[n, 784]" else CONV
    report = refused(net(declared, body, image))
    assert report.code in ("E0302", "E0308")
    assert report.help is None or "rearrange(" not in str(report.help.code)


def test_labels_without_i32_are_said_to_be_taken_for_one_hot_targets() -> None:
    report = refused(net("[n, 784]", "x", "[batch, 784]", label="[batch]"))
    assert report.code == "E0503"
    assert report.help is not None
    assert "class indices are  i32[batch]" in report.help.text
    assert "without `i32`" in str(report.label)


def test_one_logit_has_no_rows_of_classes() -> None:
    text = """\
block Net()(x: [n, 4]) -> [n, 1] = x |> fc: linear(1)
model net = Net()
train fit(x: [batch, 4], y: i32[batch]):
  minimize bce(net(x), y)
"""
    report = refused(text)
    assert report.code == "E0307"
    assert report.help is not None
    assert report.help.code == "f32(y)"


def test_labels_of_sequences_do_not_make_classes_of_their_steps() -> None:
    report = refused(net("[n, s, 8]", "x", "[batch, s, 8]").replace("-> [n, 10]", "-> [n, s, 10]"))
    assert report.code == "E0503"
    assert report.help is not None
    assert report.help.code is None
    assert "i32[batch, s]" in report.help.text


@pytest.mark.parametrize(
    ("shape", "layer", "cure"),
    [
        ("[n, c_in, 32, 32]", "conv2d(8, 3)", "block Net(c_in)"),
        ("[n, c_in, 128]", "conv1d(8, 3)", "block Net(c_in)"),
        ("[n, 16, d]", "layer_norm", "block Net(d)"),
        (
            "[n, h, w, 3]",
            "conv2d(8, 1)",
            "rearrange([n, h, w, c] -> [n, c, h, w]) |> l: conv2d(8, 1)",
        ),
        (
            "[n, 16, h, w]",
            "layer_norm",
            (
                "rearrange([n, c, h, w] -> [n, h, w, c]) |> l: layer_norm "
                "|> rearrange([n, h, w, c] -> [n, c, h, w])"
            ),
        ),
    ],
)
def test_channels_are_moved_where_the_names_of_the_axes_say_so(
    shape: str, layer: str, cure: str
) -> None:
    text = f"block Net()(x: {shape}) -> f32[]:\n  return mean(x |> l: {layer})\nmodel net = Net()\n"
    report = refused(text)
    assert report.help is not None
    assert (report.code, report.help.code) == ("E0206", cure)
    if cure.startswith("block"):
        size = cure.removeprefix("block Net(").removesuffix(")")
        text = text.replace("= Net()", f"= Net({size}=64)")
    new = cure if cure.startswith("block") else f"x |> {cure}"
    old = "block Net()" if cure.startswith("block") else f"x |> l: {layer}"
    assert old in text
    assert check(Source("net.mgn", text.replace(old, new)), LOAD).fine
