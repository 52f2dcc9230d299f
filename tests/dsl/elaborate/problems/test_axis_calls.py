"""First cures of calls that lay out axes, of strides, windows, patterns and widths."""

import pytest

from tests.dsl.elaborate.problems.cures import errors, follow

LOSS = """\
train fit(logits: [n, s, v], next: i32[n, s]):
  minimize mean(logits) + cross_entropy(rearrange(logits, [n, s, v] -> [n, v, s]), next)
"""
GATE = """\
block Gate(experts)(x: [n, top, experts], share: [n, top]) -> [n, top, experts]:
  return x * insert_axis(share, 1, experts)
"""
MASK = """\
block Mask(heads)(x: [n, heads, s, t], keep: bool[n, t]) -> [n, heads, s, t]:
  return where(expand(keep, [n, t] -> [n, heads, t, s]), x, 0)
"""
TAKEN = """\
block Taken()(q: [n, a], action: i32[n], goal: [n]) -> [n]:
  taken = gather(q, insert_axis(action, 1, 1), axis=1)[:, 0]
  return taken - goal
"""
SHORTCUT = """\
block Down(c, stride)(x: [n, d, h, w]) -> [n, c, (h - 1) // stride + 1, (w - 1) // stride + 1]:
  y = x |> a: conv2d(c, 3, stride, pad=1) |> relu |> b: conv2d(c, 3, pad=1)
  s = x |> down: conv2d(c, 1, bias=false) |> norm: batch_norm
  return y + s
"""
LENET = """\
block Net()(x: [n, 1, 28, 28]) -> [n, 400]:
  y = x |> a: conv2d(6, 5) |> max_pool(2) |> b: conv2d(16, 5) |> max_pool(2)
  return y |> rearrange([n, 16, 5, 5] -> [n, 16 * 5 * 5])
"""
GROUPS = """\
block Keys(heads, groups)(x: [n, s, d]) -> [n, groups, s, d // heads] where d % heads == 0:
  e = d // heads
  return x |> k: linear(groups * e) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
"""
SHUFFLE = """\
block Pixels()(x: [n, c * 4, h, w]) -> [n, c, h * 2, w * 2]:
  return x |> rearrange([n, c * 4, h, w] -> [n, c, h * 2, w * 2])
"""
SPEECH = """\
block Encoder(c)(x: [n, t, 80]) -> [n, t, c]:
  return x |> a: conv1d(c, 3, pad=1) |> b: conv1d(c, 3, pad=1) |> norm: layer_norm
"""
CAUSAL = """\
block Causal(c, k)(x: [n, d, t]) -> [n, c, t] where k >= 2:
  return x |> conv: conv1d(c, k, pad=k - 1)
"""
LONG = """\
block Bert(most)(ids: i32[n, s], kind: i32[n, s]) -> [n, s, 8] where s <= most:
  return (ids |> word: embedding(most, 8)) + (kind |> sort: embedding(2, 8))

block Use()(ids: i32[n, 9], kind: i32[n, 9]) -> [n, 8, 8]:
  return ids |> bert: Bert(8)(kind)
"""
NORM = """\
block Norm(c)(x: [n, d, h, w]) -> [n, d, h, w] where d % 32 == 0, c % 2 == 0:
  return x |> norm: group_norm(32)

block Use()(x: [n, 48, h, w]) -> [n, 48, h, w]:
  return x |> norm: Norm(2)
"""
LABEL = """\
block Label(classes)(x: [n, 8], y: i32[n]) -> [n, 8]:
  return x + (one_hot(y, classes) |> emb: linear(16))
"""
MEAN = """\
block Ensemble(k)(x: [n, 8]) -> [n, 3]:
  y = zeros([n, 3])
  for i in 0..k:
    y = y + (x |> fc[i]: linear(3))
  return mean(y, 1)
"""
PIXELS = "[n, c * 2 * b, h, w] -> [n, c, h * 2, w * b]"
KEYS = "[n, s, groups * e] -> [n, groups, s, e]"

CURES = [
    (GATE, "E0301", "insert_axis(share, 2, experts)", "insert_axis(share, 1, experts)"),
    (
        MASK, "E0301", "expand(keep, [n, t] -> [n, heads, s, t])",
        "expand(keep, [n, t] -> [n, heads, t, s])",
    ),
    (
        TAKEN, "E0301", "gather(q, insert_axis(action, 1, 1), axis=1, batch=1)",
        "gather(q, insert_axis(action, 1, 1), axis=1)",
    ),
    (
        SHORTCUT, "E0301", "down: conv2d(c, 1, stride=stride, bias=false)",
        "down: conv2d(c, 1, bias=false)",
    ),
    (LENET, "E0304", "a: conv2d(6, 5, pad=2)", "a: conv2d(6, 5)"),
    (GROUPS, "E0304", KEYS, "[n, s, heads * e] -> [n, heads, s, e]"),
    (SHUFFLE, "E0304", PIXELS, "[n, c * 4, h, w] -> [n, c, h * 2, w * 2]"),
    (CAUSAL, "E0303", "(x |> conv: conv1d(c, k, pad=k - 1))[:, :, :t]",
     "x |> conv: conv1d(c, k, pad=k - 1)"),
    (LABEL, "E0301", "emb: linear(8)", "emb: linear(16)"),
    (MEAN, "E0303", "y / k", "mean(y, 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "cure", "old"), CURES)
def test_the_first_cure_is_right(text: str, code: str, cure: str, old: str) -> None:
    follow(text, code, cure, {old: cure})


def test_channels_are_moved_around_all_convolutions_of_a_sequence() -> None:
    there = "rearrange([n, t, 80] -> [n, 80, t]) |> a: conv1d(c, 3, pad=1)"
    back = "b: conv1d(c, 3, pad=1) |> rearrange([n, c, t] -> [n, t, c])"
    edits = {"a: conv1d(c, 3, pad=1)": there, "b: conv1d(c, 3, pad=1)": back}
    follow(SPEECH, "E0303", f"{there}\n{back}", edits)


def test_logits_that_fit_are_not_rearranged() -> None:
    follow(
        LOSS, "E0503", "cross_entropy(logits, next)",
        {"cross_entropy(rearrange(logits, [n, s, v] -> [n, v, s]), next)":
         "cross_entropy(logits, next)"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LONG, "pass `ids[:, :8]` and `kind[:, :8]`, or make it with `most=9`"),
        (NORM, "48 is divided by 16, if 32 may be that"),
    ],
)
def test_numbers_that_a_clause_forbids_have_others(text: str, words: str) -> None:
    cure = errors(text)[0].help
    assert cure is not None
    assert words in " ".join(cure.text.split())


@pytest.mark.parametrize("joined", ["y + p", "concat(y, p, axis=1)"])
def test_all_axes_that_need_a_fact_have_it_at_once(joined: str) -> None:
    width = "c" if "+" in joined else "2 * c"
    text = f"""\
block Down(c)(x: [n, c, h, w]) -> [n, {width}, (h + 1) // 2, (w + 1) // 2] where h >= 2, w >= 2:
  y = x |> a: conv2d(c, 3, 2, pad=1)
  p = x |> avg_pool(2)
  return {joined}
"""
    edits = {"w >= 2:": "w >= 2, h % 2 == 0, w % 2 == 0:"}
    follow(text, "E0312", None, edits)


def test_labels_count_the_rows() -> None:
    text = """\
train fit(logits: [n, n], other: [n, d]):
  minimize mean(other) + cross_entropy(logits, iota(d))
"""
    first = errors(text)[0].help
    assert first is not None
    assert first.code == "iota(n)"
