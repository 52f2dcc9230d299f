"""Cures of widths, counts and parts: whoever follows the first one has what was meant."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import LOAD, errors, follow

SCALED = """\
block Attn(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  scores = q @ rearrange(q, [n, heads, s, hd] -> [n, heads, hd, s]) * hd ** -0.5
  return softmax(scores) @ q |> rearrange([n, heads, s, hd] -> [n, s, heads * hd])
"""
LAST_STATE = """\
from recurrent import gru
block Sentiment(h, classes)(x: [n, s, d]) -> [n, classes]:
  y, state = x |> gru: gru(h)
  return state |> fc: linear(classes)
"""
UNMINIMIZED = """\
block Net(classes)(x: [n, 16]) -> [n, classes] = x |> fc: linear(classes)
model net = Net(classes=10)
train fit(x: [batch, 16], label: i32[batch]):
  loss = cross_entropy(x |> net, label)
"""
FIXED_BATCH = """\
block Net()(x: [32, 16]) -> [32, 10] = x |> fc: linear(10)
model net = Net()
train fit(x: [batch, 16], label: i32[batch]):
  minimize cross_entropy(x |> net, label)
"""
CACHE = """\
block Keys(capacity)(x: [n, s, d], position: i32[] = 0) -> [n, capacity, d]
    where 0 <= position, position + s <= capacity:
  cache keys: [n, capacity, d]
  update keys[:, position] = x
  return keys
"""
CONCAT = """\
block Vit(d)(x: [n, s, d]) -> [n, s + 1, d]:
  param token: [1, 1, d] = normal(0.02)
  return concat(token, x, axis=1)
"""
LAST_AXIS = """\
block Net(c)(image: [n, h, w, 3]) -> [n, h, w, c]:
  return image |> conv: conv2d(c, 3, pad=1) |> relu
"""
LAYERS = """\
from recurrent import lstm
block Net(h)(x: [n, s, d]) -> [n, s, h] = x |> lstm: lstm(d, h)
"""
DECODER = """\
block Decoder()(z: [n, 16]) -> [n, 1, 8, 8]:
  return z |> fc: linear(128) |> rearrange([n, h * 8] -> [n, 1, h, 8])
"""
CROSS = """\
block Cross(heads)(x: [n, t, d], memory: [n, s, e]) -> [n, t, d]
    where d % heads == 0, e % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])
  k = memory |> k: linear(e) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  v = memory |> v: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  return attention(q, k, v) |> rearrange([n, heads, t, hd] -> [n, t, heads * hd])
"""
METHOD = UNMINIMIZED.replace(
    "  loss = cross_entropy(x |> net,", "  minimize cross_entropy(net.forward(x),"
)
MOVED = (
    "rearrange([n, h, w, 3] -> [n, 3, h, w]) |> conv: conv2d(c, 3, pad=1) "
    "|> rearrange([n, c, h, w] -> [n, h, w, c])"
)


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
        (SCALED, "E0201", "hd = size(q, 3)", {"  scores": "  hd = size(q, 3)\n  scores"}),
        (
            LAST_STATE, "E0203", "y = x |> gru: gru(h)\nstate = y[:, -1]",
            {"y, state = x |> gru: gru(h)": "y = x |> gru: gru(h)\n  state = y[:, -1]"},
        ),
        (UNMINIMIZED, "E0502", "minimize loss", {"label)\n": "label)\n  minimize loss\n"}),
        (FIXED_BATCH, "E0308", None, {"[32, ": "[n, "}),
        (
            CACHE, "E0303", "keys[:, position:position + s]",
            {"keys[:, position]": "keys[:, position:position + s]"},
        ),
        (
            CONCAT, "E0320", "concat(expand(token, [1, 1, d] -> [n, 1, d]), x, axis=1)",
            {"concat(token,": "concat(expand(token, [1, 1, d] -> [n, 1, d]),"},
        ),
        (LAST_AXIS, "E0303", MOVED, {"conv: conv2d(c, 3, pad=1)": MOVED}),
        (LAYERS, "E0303", "lstm: lstm(h)", {"lstm(d, h)": "lstm(h)"}),
        (DECODER, "E0303", "fc: linear(64)", {"128": "64"}),
        (CROSS, "E0308", "k: linear(d)", {"k: linear(e)": "k: linear(d)", ", e % heads == 0": ""}),
        (METHOD, "E0138", "x |> net", {"net.forward(x)": "x |> net"}),
    ],
)  # fmt: skip
def test_the_first_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


def test_the_header_with_a_number_of_examples_is_named() -> None:
    (report,) = errors(FIXED_BATCH)
    assert report.help is not None
    assert "`x: [n, 16]`" in report.help.text


def test_the_argument_that_differs_is_named() -> None:
    """Inputs that share a size are compared one by one, and the last one is not blamed for all."""
    (report,) = errors(CROSS)
    assert report.headline == "`attention` cannot take this tensor as `k`"


def test_a_window_wider_than_what_is_left_is_compared_with_it() -> None:
    text = """\
block Net()(x: [n, 1, 8, 8]) -> [n, 10]:
  x = x |> c1: conv2d(16, 3) |> max_pool(2) |> c2: conv2d(32, 5)
  return mean(x, 2, 3) |> fc: linear(10)
"""
    (report,) = errors(text)
    assert report.help is not None
    assert "wider than the 3" in report.help.text
    for call in ("c2: conv2d(32, 3)", "c2: conv2d(32, 5, pad=1)"):
        assert f"`{call}`" in report.help.text
        assert errors(text.replace("c2: conv2d(32, 5)", call)) == []


def test_a_value_is_not_unused_where_the_line_that_binds_it_is_refused() -> None:
    codes = [each.code for each in check(Source("net.mgn", LAST_STATE), LOAD).reports]
    assert codes == ["E0203"]
    codes = [each.code for each in check(Source("net.mgn", UNMINIMIZED), LOAD).reports]
    assert codes == ["E0502"]


@pytest.mark.parametrize("name", ["bce_with_logits", "bce_loss", "ce_loss", "cross_entropy_loss"])
def test_losses_under_short_names_are_known(name: str) -> None:
    text = f"block Net()(x: [n], y: [n]) -> [] = {name}(x, y)\n"
    (report,) = errors(text)
    assert report.help is not None
    assert "(logits, " in report.help.text


SHUFFLED = """\
from vision import pixel_shuffle
block Scale(r)(x: [n, c, h, w]) -> [n, 3, r * h, r * w]:
  return x |> up: conv2d(3 * r, 3, pad=1) |> pixel_shuffle(r)
"""


def test_a_layer_makes_the_multiple_that_a_call_takes() -> None:
    cure = "up: conv2d(3 * r ** 2, 3, pad=1)"
    follow(SHUFFLED, "E0308", cure, {"up: conv2d(3 * r, 3, pad=1)": cure})


@pytest.mark.parametrize(
    ("width", "given", "said"),
    [("c * 2 * r", "3", "a multiple of 2*r"), ("c * c", "r", "`c * c` of a whole number")],
)
def test_a_size_that_a_call_leaves_open_has_no_symbol_in_a_message(
    width: str, given: str, said: str
) -> None:
    """The name `c` of the other block is taken in the caller: its symbol is another."""
    text = f"block Half(r)(x: [n, {width}]) -> [n] = mean(x, 1)\n"
    text += f"block Net(r)(x: [n, c, {given}]) -> [c] = mean(x, 0) |> Half(r)\n"
    (shown,) = (str(each) for each in errors(text) if each.code == "E0308")
    assert (said in shown, "c'" in shown) == (True, False)
