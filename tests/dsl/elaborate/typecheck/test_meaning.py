"""Notes on programs whose shapes are right: each mistake has one, and what is usual has none."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import LOAD

MEANING = ("N0009", "N0010", "N0011", "N0012", "N0013")


def notes(text: str) -> list[tuple[str, str | None]]:
    """The codes and cures of the notes on a meaning; the program has no error."""
    found = check(Source("net.mgn", text), LOAD)
    assert found.fine, [each.headline for each in found.reports]
    return [
        (each.code, None if each.help is None else each.help.code)
        for each in found.reports
        if each.code in MEANING
    ]


ATTENTION = """\
block Attention(heads)(x: [n, s, d], mask: bool[n, s]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  hidden = insert_axis(insert_axis(mask, 1, heads), 2, s)
  scores = q @ rearrange(q, [n, heads, s, e] -> [n, heads, e, s]) * (d // heads) ** -0.5
  scores = where(hidden, scores, -1e9)
  y = (softmax(scores) |> dropout(0.1)) @ q
  return y |> rearrange([n, heads, s, e] -> [n, s, heads * e])
"""
BY_HAND = """\
block Attention(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e])
  scores = q @ rearrange(q, [n, s, heads, e] -> [n, s, e, heads])
  return softmax(scores) @ q |> rearrange([n, s, heads, e] -> [n, s, heads * e])
"""
ROTATED = """\
block Attention(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0, (d // heads) % 2 == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e])
  y = attention(rope(q), rope(q), q)
  return y |> rearrange([n, s, heads, e] -> [n, s, heads * e])
"""
TURNED_EARLY = """\
block Attention(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0, (d // heads) % 2 == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e]) |> rope
  q = rearrange(q, [n, s, heads, e] -> [n, heads, s, e])
  return attention(q, q, q) |> rearrange([n, heads, s, e] -> [n, s, heads * e])
"""
STEPS_FIRST = """\
block Attention(heads)(x: [s, n, d]) -> [s, n, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([s, n, heads * e] -> [s, heads, n, e])
  return attention(q, q, q) |> rearrange([s, heads, n, e] -> [s, n, heads * e])
"""
BLOCK = "block Net(c)(x: [n, {}]) -> [n, {}]:\n  return x |> {}\n"
RECURRENT = """\
from recurrent import gru
block Net(classes, layers)(x: [n, s, 64]) -> [n, classes]
    where layers >= 1:
  y = x |> gru: gru({})
  return y[:, -1] |> fc: linear(classes)
"""
TABLE = "block Net({0}, {1})(ids: i32[n, s]) -> [n, s, {1}] = ids |> t: embedding({0}, {1})\n"
PICTURE = """\
block Net()(x: [n, 3, 224, 224]) -> [n, 10]:
  y = x |> c: {}
  return y |> mean(2, 3) |> fc: linear(10)
"""
NOISE = "block Net()(x: [n, s, d]) -> [n, s, d]:\n  return x + {}\n"
MASKED = """\
block Net()(x: [n, s], m: bool[n, s], mask: [n, s]) -> [n, s], [n, s], [n, s]:
  return softmax({}), mask, f32(m)
"""
PAIRS = """\
block Pairs()(a: [n, d], b: [n, d]) -> [n, n]:
  return softmax(a @ rearrange(b, [n, d] -> [d, n]), 0)
"""
SLOTS = """\
block Slots()(x: [n, s, d], slots: [n, k, d]) -> [n, k, d]:
  a = softmax(x @ rearrange(slots, [n, k, d] -> [n, d, k]), 2)
  return rearrange(a, [n, s, k] -> [n, k, s]) @ x
"""
MOVED = {
    "pictures": "rearrange([n, c, h, w] -> [n, h, w, c]) |> norm: layer_norm "
    "|> rearrange([n, h, w, c] -> [n, c, h, w])",
    "features": "rearrange([n, s, c] -> [n, c, s]) |> norm: batch_norm "
    "|> rearrange([n, c, s] -> [n, s, c])",
    "steps": "rearrange([n, s, d] -> [n, d, s]) |> conv: conv1d(c, 3, pad=1) "
    "|> rearrange([n, c, s] -> [n, s, c])",
}


@pytest.mark.parametrize(
    ("text", "code", "cure"),
    [
        (ATTENTION.replace("softmax(scores)", "softmax(scores, 1)"), "N0010", "softmax(scores)"),
        (ATTENTION.replace("softmax(scores)", "softmax(scores, 2)"), "N0010", "softmax(scores)"),
        (ATTENTION.replace("-1e9", "0"), "N0011", "where(mask, scores, -1e9)"),
        (BY_HAND, "N0010", "rearrange([n, s, heads * e] -> [n, heads, s, e])"),
        (ROTATED, "N0010", "rearrange([n, s, heads * e] -> [n, heads, s, e])"),
        (TURNED_EARLY, "N0010", "rearrange([n, s, heads * e] -> [n, heads, s, e])"),
        (STEPS_FIRST, "N0010", None),
        (BLOCK.format("d", "c", "fc: linear(c) |> softmax(0)"), "N0010", "softmax"),
        (
            BLOCK.format("c, h, w", "c, h, w", "norm: layer_norm"), "N0009",
            MOVED["pictures"],
        ),
        (
            BLOCK.format("s, d", "s, c", "fc: linear(c) |> norm: batch_norm"), "N0009",
            MOVED["features"],
        ),
        (
            BLOCK.format("s, d", "c, d", "f: layer_norm |> conv: conv1d(c, 3, pad=1)"), "N0009",
            MOVED["steps"],
        ),
        (BLOCK.format("3, h, w", "w", "a: conv2d(c, 3, pad=1) |> max(1, 2)"), "N0009", "max(2, 3)"),
        (TABLE.format("d", "vocab"), "N0012", "embedding(vocab, d)"),
        (RECURRENT.format("64, 128"), "N0012", "gru(128)"),
        (PICTURE.format("conv2d(3, 64, 3)"), "N0012", "conv2d(64, 3)"),
        (NOISE.format("random_normal([d])"), "N0013", "random_normal([n, s, d])"),
        (MASKED.format("x * f32(m)"), "N0011", "where(mask, scores, -1e9)"),
        (MASKED.format("x * mask"), "N0011", "where(mask, scores, -1e9)"),
        (MASKED.format("x + f32(m)"), "N0011", "where(mask, scores, -1e9)"),
    ],
)  # fmt: skip
def test_a_mistake_has_a_note(text: str, code: str, cure: str | None) -> None:
    assert notes(text) == [(code, cure)]


@pytest.mark.parametrize(
    "text",
    [
        ATTENTION,
        STEPS_FIRST.replace("n,", "rows,"),
        BLOCK.format("3, h, w", "c, h, w", "conv: conv2d(c, 3, pad=1) |> softmax(1)"),
        BLOCK.format("s, c", "s, c", "norm: layer_norm |> up: linear(c)"),
        BLOCK.format("c, h, w", "h, w", "a: conv2d(c, 3, pad=1) |> mean(1)"),
        TABLE.format("vocab", "d"),
        TABLE.format("positions", "width"),
        RECURRENT.format("64, 2"),
        RECURRENT.format("64, layers"),
        PICTURE.format("conv2d(64, 16, 16)"),
        NOISE.format("random_normal([n, s, d])"),
        NOISE.format("expand(random_normal([d]), [d] -> [n, s, d])"),
        MASKED.format("x + mask"),
        MASKED.format("where(m, x, -1e9)"),
        MASKED.format("where(x > 0, x, 0)"),
        "block Pool()(x: [n, d]) -> [d] = sum(x * softmax(x, 0), 0)\n",
        PAIRS,
        SLOTS,
    ],
)
def test_what_is_usual_has_none(text: str) -> None:
    assert notes(text) == []
