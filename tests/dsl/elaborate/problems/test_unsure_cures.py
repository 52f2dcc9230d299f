"""No cure lets a mistake be proved: code is what is meant, and words say what is not sure."""

import pytest

from tests.dsl.elaborate.problems.cures import errors, follow

ATTENTION = """\
block Attention(heads)(x: [n, s, d], memory: [n, t, d]) -> [n, s, d]
    where d % heads == 0:
  q = {} |> q: linear(d) |> rearrange([n, {}, heads * e] -> [n, heads, {}, e])
  k = {} |> k: linear(d) |> rearrange([n, {}, heads * e] -> [n, heads, {}, e])
  y = attention(q, k, k) |> rearrange({} -> [n, s, heads * e])
  return x + (y |> o: linear(d))
"""
SWAPPED = ATTENTION.format(
    "memory", "t", "t", "x", "s", "s", "[n, heads, s, e]",
)  # fmt: skip
UNMOVED = ATTENTION.format("x", "s", "s", "memory", "t", "t", "[n, s, heads, e]")
UNPACKED = """\
block Encoder(hidden)(x: [n, s, d]) -> [n, s, hidden], [n, hidden]:
  y = x |> fc: linear(hidden) |> relu
  return y, y[:, -1]

block Sentiment(hidden)(x: [n, s, 50]) -> [n, 2]:
  last, _all = x |> encoder: Encoder(hidden)
  return last |> fc: linear(2)
"""
CAUSAL = """\
block Causal(k, dilation)(x: [n, c, t]) -> [n, c, t]:
  y = x |> conv: conv1d(c, k, pad=dilation * (k - 1), dilation=dilation)
  return relu(x + y)
"""
DIRECTIONS = """\
from recurrent import lstm

block Tagger(hidden, tags)(x: [n, s, d]) -> [n, s, tags]:
  f = x |> forward: lstm(hidden)
  b = x |> backward: lstm(hidden, backwards=true)
  return concat(f, b, axis=1) |> out: linear(tags)
"""
LAST = "block Last()(x: [n, s, d]) -> [n, d]:\n  return x[:, s] |> norm: layer_norm\n"
POOLED = "block Pooled()(x: [n, s, d]) -> [n, d] = x\n"
WIDER = "block Wider(c)(x: [n, s, d]) -> [n, s, d] = x |> fc: linear(c)\n"
OTHER = "block Other()(x: [n, d]) -> [n, 2] = x\n"


WORDS = [
    (
        UNPACKED,
        "E0303",
        "`Encoder` has 2 results, in this order: f32[n, s, hidden], f32[n, hidden]",
    ),
    (SWAPPED, "E0304", "make them of `x`, which has s, and the keys and values of `memory`"),
    (POOLED, "E0303", "there are more axes than declared: `s` (axis 1)"),
    (WIDER, "E0303", "axis 2 is d before `fc: linear(c)`, as declared, and c behind it"),
    (OTHER, "E0303", "axis 1 is d, and 2 is declared"),
]
CURES = [
    (DIRECTIONS, "E0303", "concat(f, b, axis=2)", {"axis=1": "axis=2"}),
    (CAUSAL, "E0301", "y = y[:, :, :t]", {"  return": "  y = y[:, :, :t]\n  return"}),
    (LAST, "E0305", "x[:, -1]", {"x[:, s]": "x[:, -1]"}),
    (
        UNMOVED, "E0304", "[n, heads, s, e] -> [n, s, heads * e]",
        {"[n, s, heads, e]": "[n, heads, s, e]"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "said"), WORDS)
def test_what_may_be_meant_otherwise_is_explained(text: str, code: str, said: str) -> None:
    report = errors(text)[0]
    assert report.help is not None
    words = " ".join(report.help.text.split())
    assert (report.code, said in words, report.help.code) == (code, True, None)


@pytest.mark.parametrize(("text", "code", "cure", "edits"), CURES)
def test_the_cure_is_the_program_that_is_meant(
    text: str, code: str, cure: str, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


def test_the_steps_of_a_sequence_are_no_width_of_a_layer() -> None:
    report = errors(CAUSAL.replace("pad=dilation * (k - 1)", "pad=dilation * k"))[0]
    assert "linear" not in str(report.help)


def test_a_place_of_an_axis_is_no_range() -> None:
    assert "`x[i]`" in errors(LAST)[0].headline
