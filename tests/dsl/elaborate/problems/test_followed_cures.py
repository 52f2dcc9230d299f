"""Whoever follows the first cure of a usual mistake has what was meant, and no other error.

Each program is refused with the code and the cure, and is fine where the cure is written.
"""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import LOAD, errors, follow

SHORTCUT = """\
block Down()(x: [n, 64, 56, 56]) -> [n, 128, 28, 28]:
  y = x |> c1: conv2d(128, 3, 2, pad=1) |> b1: batch_norm |> relu |> c2: conv2d(128, 3, pad=1)
  return relu(x + y)
"""
NEXT = """\
block Lm(vocab, d)(ids: i32[n, s]) -> [n, s, vocab]:
  return ids |> embed: embedding(vocab, d) |> out: linear(vocab)
model lm = Lm(vocab=96, d=8)
train fit(ids: i32[batch, 129]):
  logits = ids[:, :128] |> lm
  minimize cross_entropy(logits, ids)
"""
LAST = """\
from recurrent import lstm
block Sentiment(vocab, d, classes)(ids: i32[n, s]) -> [n, classes]:
  y = ids |> embed: embedding(vocab, d) |> rnn: lstm(d)
  return y |> fc: linear(classes)
"""
CHANNELS_LAST = """\
block Tcn(c)(x: [n, t, d]) -> [n, t, c]:
  y = x |> conv: conv1d(c, 3, pad=1) |> relu
  return y
"""
MOVED = (
    "rearrange([n, t, d] -> [n, d, t]) |> conv: conv1d(c, 3, pad=1) "
    "|> rearrange([n, c, t] -> [n, t, c])"
)
LATENT = """\
block Vae()(mu: [n, 8], logvar: [n, 8]) -> [n, 8]:
  return mu + exp(0.5 * logvar) * random_normal([n, 16])
"""
LEVEL = """\
block Noisy()(x: [n, 1, 8, 8], level: [n]) -> [n, 1, 8, 8]:
  return sqrt(level) * x
"""
HEADS = """\
block Heads(heads)(x: [n, s, d]) -> [n, s, d]
    where heads % d == 0:
  q = x |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  return q |> rearrange([n, heads, s, hd] -> [n, s, heads * hd])
"""
BARE = """\
block Autoencoder(z)(x: [n, d]) -> [n, d]:
  code = x |> enc: linear(z) |> tanh
  code |> dec: linear(d)
"""
GAN = """\
block Net(d)(x: [n, 64]) -> [n, d] = x |> fc: linear(d)
model generator = g: Net(64)
model critic    = d: Net(1)
train gan(x: [batch, 64]):
  fake = x |> generator
  d_loss = mean(x |> critic) - mean(fake |> critic)
  minimize d_loss
  minimize mean(fake |> critic) over generator
"""
UNREAD = """\
block Mixer(hidden)(x: [n, s, d]) -> [n, s, d]:
  h = x |> norm: layer_norm
  y = x |> up: linear(hidden) |> gelu |> down: linear(d)
  return x + y
"""
MASKED = """\
block Encoder()(q: [n, 6, 64, 16], keep: i32[n, 64]) -> [n, 6, 64, 16]:
  return attention(q, q, q, mask=bool(keep))
"""
TABLE = """\
block Embed(vocab, positions, d)(ids: i32[n, s]) -> [n, s, d]:
  param pos: [s, d] = normal(0.02)
  return (ids |> tok: embedding(vocab, d)) + pos
model embed = Embed(vocab=500, positions=128, d=32)
"""
SKIPPED = """\
block Bottleneck(c)(x: [n, c_in, h, w]) -> [n, c, h, w]:
  y = x |> conv1: conv2d(c, 1)
  shortcut = x |> down: conv2d(c, 1)
  {}
"""
OPEN = """\
block Ffn(mult)(x: [n, s, d]) -> [n, s, d]:
  return x + (x |> ln: layer_norm |> up: linear(mult * d) |> gelu |> down: linear(d))
model ffn = Ffn(mult=4)
"""
OPEN_CHANNELS = """\
block Cnn(classes)(x: [n, c_in, h, w]) -> [n, classes]:
  return x |> conv1: conv2d(16, 3, pad=1) |> mean(2, 3) |> fc: linear(classes)
model cnn = Cnn(10)
"""
STATES = """\
from recurrent import lstm
block Last(hidden)(x: [n, s, d]) -> [n, hidden]
    where s >= 1:
  out, state = x |> rnn: lstm(hidden)
  return out[:, -1]
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
        (
            SHORTCUT, "E0301", "x |> shortcut: conv2d(128, 1, stride=2)",
            {"x + y": "(x |> shortcut: conv2d(128, 1, stride=2)) + y"},
        ),
        (NEXT, "E0503", "ids[:, 1:]", {"logits, ids": "logits, ids[:, 1:]"}),
        (LAST, "E0303", "y[:, -1] |> fc: linear(classes)", {"return y": "return y[:, -1]"}),
        (
            CHANNELS_LAST, "E0303",
            MOVED, {"x |> conv: conv1d(c, 3, pad=1)": f"x |> {MOVED}"},
        ),
        (LATENT, "E0301", "random_normal([n, 8])", {"16": "8"}),
        (
            LEVEL, "E0301", "expand(sqrt(level), [n] -> [n, 1, 8, 8])",
            {"sqrt(level)": "expand(sqrt(level), [n] -> [n, 1, 8, 8])"},
        ),
        (HEADS, "E0304", "where d % heads == 0", {"heads % d": "d % heads"}),
        (BARE, "E0132", "return code |> dec: linear(d)", {"  code |>": "  return code |>"}),
        (
            GAN, "E0508", "minimize d_loss over critic",
            {"minimize d_loss": "minimize d_loss over critic"},
        ),
        (
            UNREAD, "E0207", "y = h |> up: linear(hidden) |> gelu |> down: linear(d)",
            {"y = x": "y = h"},
        ),
        (
            MASKED, "E0302", "insert_axis(insert_axis(bool(keep), 1, 6), 2, 64)",
            {"bool(keep)": "insert_axis(insert_axis(bool(keep), 1, 6), 2, 64)"},
        ),
        (
            TABLE, "E0207", "param pos: [positions, d] = normal(0.02)",
            {
                "[s, d] = normal": "[positions, d] = normal", "+ pos": "+ pos[:s]",
                "-> [n, s, d]:": "-> [n, s, d]\n    where s <= positions:",
            },
        ),
        *(
            (SKIPPED.format(wrong), "E0207", right, {wrong: right})
            for wrong, right in (
                ("return relu(y)", "return relu(y + shortcut)"),
                ("return y", "return y + shortcut"),
            )
        ),
        (
            OPEN, "E0206", "block Ffn(d, mult)",
            {"Ffn(mult)": "Ffn(d, mult)", "(mult=4": "(d=64, mult=4"},
        ),
        (
            OPEN_CHANNELS, "E0206", "block Cnn(c_in, classes)",
            {"Cnn(classes)": "Cnn(c_in, classes)", "Cnn(10)": "Cnn(c_in=64, classes=10)"},
        ),
        (
            STATES, "E0203", "out = x |> rnn: lstm(hidden)\nstate = out[:, -1]",
            {"out, state": "out", "return out[:, -1]": "state = out[:, -1]\n  return state"},
        ),
    ],
)  # fmt: skip
def test_the_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


ONE = """\
block Pool(d)(x: [n, s, d]) -> [n, s, 1]:
  return x |> score: linear({}) |> {}
"""


def test_a_softmax_of_one_element_is_noted() -> None:
    (note,) = check(Source("net.mgn", ONE.format(1, "softmax")), LOAD).reports
    assert note.help is not None
    assert (note.code, note.help.code) == ("N0008", "softmax(1)")


@pytest.mark.parametrize(("width", "then"), [("1", "softmax(1)"), ("1", "sigmoid")])
def test_a_softmax_over_more_is_not_noted(width: str, then: str) -> None:
    assert check(Source("net.mgn", ONE.format(width, then)), LOAD).reports == ()


TRAIN = """\
block Net(width)(x: [n, 2]) -> [n, width] = x |> fc: linear(width)
model net = Net({})
train fit(x: [batch, 2], y: i32[batch], t: [batch, {}]):
  z = x |> net
  minimize mse(z, t) + mean(f32(y))
  metric shown = mean(f32({}))
"""


@pytest.mark.parametrize(
    "chosen",
    ["argmax(z, 1)", "argmin(z, -1)", "softmax(z)", "cross_entropy(z, y)", "cross_entropy(z, t)"],
)
def test_a_choice_of_one_class_is_noted_in_a_training(chosen: str) -> None:
    (note,) = check(Source("net.mgn", TRAIN.format(1, 1, chosen)), LOAD).reports
    assert note.code == "N0008"
    assert check(Source("net.mgn", TRAIN.format(2, 2, chosen)), LOAD).reports == ()


def test_a_number_of_the_configuration_may_be_one() -> None:
    text = "block Pool(k)(x: [n, d]) -> [n, k] = x |> fc: linear(k) |> softmax\n"
    model = "block Fed(k)(x: [n, 4]) -> [n, k] = x |> p: Pool(k)\nmodel one = Fed(1)\n"
    assert check(Source("net.mgn", text + model), LOAD).reports == ()


LENET = """\
block LeNet(classes)(image: [n, 1, h, w]) -> [n, classes]:
  x = image |> conv1: conv2d(6, 5, pad=2) |> relu |> max_pool(2) |> conv2: conv2d(16, 5) |> relu
  x = x |> max_pool(2) |> rearrange([n, c, a, b] -> [n, c * a * b])
  return x |> fc1: linear(120) |> relu |> fc2: linear(classes)
"""


def test_a_flattened_picture_of_any_size_is_told_before_the_least_sizes_of_its_windows() -> None:
    text = f"{LENET}model lenet = LeNet(10)\n"
    (only,) = errors(text)
    assert only.help is not None
    assert (only.code, only.help.code) == ("E0206", "image: [n, 1, 28, 28]")
    assert not only.help.edits
    assert errors(text.replace("[n, 1, h, w]", "[n, 1, 28, 28]")) == []


def test_without_a_model_of_it_the_least_sizes_are_what_is_missing() -> None:
    assert {each.code for each in errors(LENET)} == {"E0311"}


def test_an_unused_name_may_be_declared_by_more_than_a_name() -> None:
    text = "block f()(x: [n, d], (y): [n]) -> [n, d]:\n  param a{1}: [d] = ones\n  return x\n"
    assert all(each.code for each in errors(text))


@pytest.mark.parametrize(
    "change",
    [
        {"shortcut": "other"},
        {"return relu(y)": "return relu(y) * 2"},
        {"  return": "  if c > 2:\n    return y\n  return"},
        {"down: conv2d(c, 1)": "down: conv2d(2 * c, 1)"},
        {"x |> down: conv2d(c, 1)": "argmax(x, 1)"},
        {"x |> down: conv2d(c, 1)": "shape(x)"},
    ],
)
def test_nothing_is_added_that_is_no_shortcut_or_has_no_one_place(change: dict[str, str]) -> None:
    text = SKIPPED.format("return relu(y)")
    for old, new in change.items():
        text = text.replace(old, new)
    (first, *_) = errors(text)
    assert (first.code, first.help and first.help.code) == ("E0207", None)


def test_a_size_that_is_no_channels_is_not_made_a_parameter() -> None:
    text = OPEN.replace("[n, s, d]) -> [n, s, d]", "[n, d, s]) -> [n, d, s]").replace("d)", "s)")
    (first, *_) = errors(text)
    assert first.help is not None
    assert (first.code, first.help.code) == ("E0206", None)
    assert "if they are on another" in first.help.text


def test_a_recurrent_block_of_the_file_may_give_its_state() -> None:
    text = """\
block lstm(d)(x: [n, s, d]) -> [n, s, d], [n, s, d]:
  return x, x
block Last(d)(x: [n, s, d]) -> [n, s, d]:
  out, state = x |> lstm(d)
  return out
"""
    (first,) = errors(text)
    assert (first.code, first.help and first.help.code) == ("E0207", None)
