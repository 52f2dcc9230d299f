"""Notes on programs whose shapes are right: each mistake has one, and what is usual has none."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import LOAD

MEANING = (*(f"N00{each:02}" for each in range(9, 21)),)


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
POOLED = """\
block Pooled()(x: [n, s, d], keep: bool[n, s]) -> [n, d]:
  w = f32(keep)
  return sum(x * insert_axis(w, 2, d), 1) / {}
"""
NORMED = """\
block Unit()(x: [n, d]) -> [n, d]:
  y = {}
  return y / insert_axis(sqrt(sum(y ** 2, {}) + 1e-8), {})
"""
STEP = """\
block Step(room)(x: [n, 2, s, d], position: i32[]) -> [n, 2, s, d]
    where 0 <= position, position + s <= room:
  cache keys: [n, 2, room, d]
  update keys[:, :, position:position + s] = x
  return attention(x, keys, keys{})
"""
GRAPH = """\
block Near()(x: [v, d], source: i32[e], target: i32[e]) -> [v, d]
    where 0 <= source, source < v, 0 <= target, target < v:
  degree = scatter_add(target, ones([e]), v)
  near = scatter_add({}, v)
  return near / insert_axis(maximum(degree, 1), 1, d)
"""
EXPERT = """\
block Expert()(x: [v, d], chosen: i32[e]) -> [v, d]
    where 0 <= chosen, chosen < v:
  return scatter_add(chosen, gather(x, chosen) |> fc: linear(d), v)
"""
LANGUAGE = """\
block Words(vocab, d)(ids: i32[n, s]) -> [n, s, vocab]:
  x = ids |> table: embedding(vocab, d) |> rearrange([n, s, d] -> [n, 1, s, d])
  y = attention(x, x, x{})
  return y |> rearrange([n, 1, s, d] -> [n, s, d]) |> head: linear(vocab)
model words = Words(vocab=100, d=16)
train next_word(ids: i32[batch, 33]):
  logits = ids[:, :32] |> words
  minimize cross_entropy(logits, ids[:, {}])
"""
MASKED_LOSS = """\
train fit(x: [batch, 4], label: i32[batch]):
  minimize masked_cross_entropy(ignore=-1)(x |> fc: linear(3), label)
"""
RECALL = """\
block Words(vocab, d)(ids: i32[n, s]) -> [n, s, vocab]:
  x = ids |> table: embedding(vocab, d) |> rearrange([n, s, d] -> [n, 1, s, d])
  return attention(x, x, x) |> rearrange([n, 1, s, d] -> [n, s, d]) |> head: linear(vocab)
model words = Words(vocab=100, d=16)
train recall(ids: i32[batch, 33]):
  minimize cross_entropy(ids |> words, ids)
"""
TRAINED = """\
block Net()(x: [n, 8]) -> [n, 8]:
  return x |> fc: linear(8)
model net = Net()
train fit(x: [batch, 8], keep: bool[batch, 8]):
  w = f32(keep)
  z = (x |> net) + {}
  minimize sum(w / sum(w) * (z - x) ** 2)
  run:
    data     = "x.npz"
    batch    = 32
    steps    = 500
    schedule = cosine(warmup={})
"""
MOVED = {
    "pictures": "rearrange([n, c, h, w] -> [n, h, w, c]) |> norm: layer_norm "
    "|> rearrange([n, h, w, c] -> [n, c, h, w])",
    "features": "rearrange([n, s, c] -> [n, c, s]) |> norm: batch_norm "
    "|> rearrange([n, c, s] -> [n, s, c])",
    "steps": "rearrange([n, s, d] -> [n, d, s]) |> conv: conv1d(c, 3, pad=1) "
    "|> rearrange([n, c, s] -> [n, s, c])",
}

COMPARED = "block Pairs()(ids: i32[n, s]) -> bool[n, s, s]:\n  return {}\n"


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
        (POOLED.format("maximum(sum(w), 1)"), "N0015", "sum(w, 1)"),
        (NORMED.format("x", "0", "0, n"), "N0015", "sum(y ** 2, 1)"),
        (
            STEP.format(", causal=true"), "N0016",
            "attention(x, keys, keys, causal=true, offset=position)",
        ),
        (STEP.format(""), "N0016", "attention(x, keys, keys, causal=true, offset=position)"),
        (
            GRAPH.format("source, gather(x, source)"), "N0017",
            "scatter_add(target, gather(x, source), v)",
        ),
        (LANGUAGE.format(", causal=true", ":32"), "N0014", None),
        (LANGUAGE.format("", "1:"), "N0014", "attention(x, x, x, causal=true)"),
        (TRAINED.format("random_normal([8])", 50), "N0013", "random_normal([batch, 8])"),
        (TRAINED.format("random_normal([batch, 8])", 500), "N0018", "warmup=50"),
        (MASKED.format("x * f32(m)"), "N0011", "where(mask, scores, -1e9)"),
        (MASKED.format("x * mask"), "N0011", "where(mask, scores, -1e9)"),
        (MASKED.format("x + f32(m)"), "N0011", "where(mask, scores, -1e9)"),
        (
            COMPARED.format("insert_axis(ids, 1, s) == insert_axis(ids, 1, s)"), "N0019",
            "insert_axis(ids, 2, s)",
        ),
        (COMPARED.format("insert_axis(ids > ids, 1, s)"), "N0019", None),
    ],
)  # fmt: skip
def test_a_mistake_has_a_note(text: str, code: str, cure: str | None) -> None:
    assert notes(text) == [(code, cure)]


TURNED = """\
block Reader(heads)(ids: i32[n, s]) -> [n, heads, s, 8]:
  row = insert_axis(iota(s), 1, s)
  column = insert_axis(iota(s), 0, s)
  ahead = expand({}, [s, t] -> [n, heads, s, t])
  words = expand({}, [n, t] -> [n, heads, s, t])
  x = ids |> embed: embedding(50, heads * 8, padding=0)
  q = x |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  return attention(q, q, q, mask=ahead and words)
"""
SEEN = {
    "row < column": "each query sees only the keys after it, and the last one sees none",
    "column > row": "each query sees only the keys after it, and the last one sees none",
    "not (column <= row)": "each query sees only the keys after it, and the last one sees none",
    "f32(row) <= f32(column)": "each query sees only itself and the keys after it",
    "row > column": "each query sees only the keys before it, and the first one sees none",
    "not (row <= column or row < 2)": (
        "each query sees only the keys before it, and the first one sees none"
    ),
}


@pytest.mark.parametrize("ahead", SEEN)
def test_a_mask_that_is_turned_round_has_a_note(ahead: str) -> None:
    found = check(Source("net.mgn", TURNED.format(ahead, "ids != 0")), LOAD)
    assert [(each.code, each.headline) for each in found.reports] == [
        ("N0020", f"with this mask {SEEN[ahead]}")
    ]


@pytest.mark.parametrize("words", ["ids == 0", "not (ids != 0)"])
def test_a_mask_of_padding_alone_has_a_note(words: str) -> None:
    assert notes(TURNED.format("row >= column", words)) == [("N0020", "ids != 0")]


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        ("row >= column", "ids != 0"),
        ("not (row < column)", "not (ids == 0)"),
        ("row < column or row >= 2", "ids != 0"),
        ("not (row < column and row < 2)", "ids != 0"),
        ("row + 4 > column", "ids == 7"),
        ("column <= row", "ids > 0"),
    ],
)
def test_a_mask_that_hides_what_is_usual_has_none(ahead: str, words: str) -> None:
    assert notes(TURNED.format(ahead, words)) == []


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
        POOLED.format("insert_axis(maximum(sum(w, 1), 1), 1, d)"),
        NORMED.format("x", "1", "1, d"),
        NORMED.format("x - expand(mean(x, 0), [d] -> [n, d])", "0", "0, n"),
        STEP.format(", causal=true, offset=position"),
        STEP.format(", mask=expand(iota(room) <= position, [room] -> [n, 2, s, room])"),
        GRAPH.format("target, gather(x, source)"),
        GRAPH.format("source, gather(x, source) * gather(x, target)"),
        EXPERT,
        RECALL,
        MASKED_LOSS,
        LANGUAGE.format(", causal=true", "1:"),
        TRAINED.format("random_normal([batch, 8])", 50),
        NOISE.format("random_normal([n, s, d])"),
        NOISE.format("expand(random_normal([d]), [d] -> [n, s, d])"),
        MASKED.format("x + mask"),
        MASKED.format("where(m, x, -1e9)"),
        MASKED.format("where(x > 0, x, 0)"),
        "block Pool()(x: [n, d]) -> [d] = sum(x * softmax(x, 0), 0)\n",
        PAIRS,
        SLOTS,
        COMPARED.format("insert_axis(ids, 2, s) == insert_axis(ids, 1, s)"),
        "block Nan()(x: [n, d]) -> bool[n, d] = x != x\n",
    ],
)
def test_what_is_usual_has_none(text: str) -> None:
    assert notes(text) == []
