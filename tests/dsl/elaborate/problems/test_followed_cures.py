"""Whoever follows the first cure of a usual mistake has what was meant, and no other error.

Each program is refused with the code and the cure, and is fine where the cure is written.
"""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models
from meganeura_dsl.settings.settings_problems import UnknownSetting

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")


def errors(text: str) -> list[Report]:
    found = check(Source("net.mgn", text), LOAD).reports
    return [each for each in found if each.severity is Severity.ERROR]


OVER_TIME = """\
block LastState(hidden)(x: [n, s, d]) -> [n, hidden]:
  h = zeros([n, hidden])
  for t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))
  return h
"""
BY_POSITION = """\
block Positionwise(d)(x: [n, s, d]) -> [n, d]:
  h = zeros([n, d])
  for t in 0..s:
    h = tanh(h + (x[:, t] |> fc[t]: linear(d)))
  return h
model m = Positionwise(4)
"""
DEEP = """\
block Deep(depth, d)(x: [n, d]) -> [n, d]:
  for _i in 0..depth:
    x = x + (x |> fc: linear(d))
  return x
"""
IN_TRAIN = """\
train fit(x: [batch, s, 4], y: [batch, 4]):
  h = zeros([batch, 4])
  for t in 0..s:
    h = h + (x[:, t] |> fc[t]: linear(4))
  minimize mse(h, y)
"""

DILATED = """\
block Wave(c)(x: [n, c, t]) -> [n, c, t]
    where t >= 3:
  y = x |> filter: conv1d(c, 3, pad=1, dilation=2) |> tanh
  g = x |> gate: conv1d(c, 3, pad=1, dilation=2) |> sigmoid
  return x + (y * g |> mix: conv1d(c, 1))
"""
UP = """\
block Up(c)(x: [n, c_in, h, w]) -> [n, c, 2 * h, 2 * w]:
  return x |> up: conv_transpose2d({}) |> bn: batch_norm |> relu
"""
DIGITS = """\
block Cnn()(x: [n, 1, 28, 28]) -> [n, 10]:
  y = x |> a: conv2d(8, 3) |> relu |> max_pool(2) |> b: conv2d(8, 3) |> relu |> max_pool(2)
  return y |> rearrange([n, 8, 7, 7] -> [n, 8 * 7 * 7]) |> fc: linear(10)
"""
BOTTLENECK = """\
block Bottleneck(c)(x: [n, 4 * c, h, w]) -> [n, 4 * c, h, w]
    where h >= 3, w >= 3:
  y = x |> c1: conv2d(c, 1) |> b1: batch_norm |> relu |> c2: conv2d(c, 3) |> b2: batch_norm |> relu
  return relu(x + (y |> c3: conv2d(4 * c, 1) |> b3: batch_norm))
"""
INCEPTION = """\
block Inception(c)(x: [n, d, h, w]) -> [n, 3 * c, h, w]
    where h >= 5, w >= 5:
  a = x |> a: conv2d(c, 1) |> relu
  b = x |> b: conv2d(c, 3, pad=1) |> relu
  e = x |> e: conv2d(c, 5, pad=1) |> relu
  return concat(a, b, e, axis=1)
"""
STEM = """\
block Stem()(x: [n, 3, 224, 224]) -> [n, 8, 56, 56]:
  return x |> c1: conv2d(8, 7, 2) |> relu |> max_pool(3, 2)
"""
SKIP = """\
block UNet(c)(x: [n, 1, 64, 64]) -> [n, c, 60, 60]:
  a = x |> e0: conv2d(c, 3) |> relu |> e1: conv2d(c, 3) |> relu
  up = a |> max_pool(2) |> m: conv2d(2 * c, 3, pad=1) |> relu |> u: conv_transpose2d(c, 3, 2)
  return concat(up, a, axis=1) |> d0: conv2d(c, 3, pad=1) |> relu
"""

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
SCANNED = """\
block Rnn(hidden)(x: [n, s, d]) -> [n, hidden]:
  h = zeros([n, hidden])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))
    y[:, t] = h
  return y
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

CARRIED = """\
block Rnn(hidden)(x: [n, s, d]) -> [n, s, hidden]:
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden, bias=false)))
    y[:, t] = h
  return y
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
DENSE = """\
block Mlp(classes)(x: [n, 30]) -> [n, classes]:
  h = Dense(64, activation="relu")(x)
  return h |> fc: linear(classes)
"""
EINSUM = """\
block Similarity(d)(a: [n, q, e], b: [n, k, f]) -> [n, q, k]:
  a = a |> pa: linear(d)
  b = b |> pb: linear(d)
  return einsum("bqd,bkd->bqk", a, b)
"""
PADDED = """\
block Embedder(out)(x: [n, 3, h, w]) -> [n, out]:
  features = x |> conv1: conv2d(24, 3, {}) |> silu
  return features |> mean(2, 3) |> proj: linear(out)
"""

LISTED = """\
block Pyramid()(x: [n, 3, 32, 32]) -> [n, 48]:
  pooled = []
  for i in 0..2:
    x = x |> conv[i]: conv2d(16 * 2 ** i, 3, 2, pad=1)
    pooled.append(mean(x, 2, 3))
  return concat(pooled, axis=1)
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

TOWER = """\
block Tower(widths: list, rates: list)(x: [n, 64]) -> [n, 8]
    where len(widths) == 2, len(rates) == 2:
  {}
    x = x |> fc[{}]: linear({}) |> dropout({})
  return x |> last: linear(8)
model tower = Tower([128, 64], [0.1, 0.2])
"""
EACH = TOWER.format("for i, w in enumerate(widths):", "i", "w", "rates[i]")
TURNED = TOWER.format("for i in reversed(range(2)):", "i", "widths[i]", "rates[i]")
LISTS = TOWER.format("for i, (w, p) in enumerate(zip(widths, rates)):", "i", "w", "p")
STEPPED = """\
block Dilated(c)(x: [n, c, t]) -> [n, c, t]:
  for i in {}:
    x = x |> conv[i]: conv1d(c, 3, pad=i + 1, dilation=i + 1)
  return x
"""
NUMBERS = """\
block Tower()(x: [n, 64]) -> [n, 32]:
  for w in [128, 64, 32]:
    x = x |> fc{w}: linear(w) |> relu
  return x
"""
ROWS = """\
block Rows()(x: [s, d]) -> [d]:
  h = zeros([d])
  scan row in x:
    h = tanh(h + row)
  return h
"""
DEPTH = """\
block Deep(depth)(x: [n, d]) -> [n, d]:
  for i in depth:
    x = x |> norm[i]: rms_norm
  return x
"""

SHARE = """\
block Net(classes)(x: [n, 64]) -> [n, classes] = x |> fc: linear(classes)
model net = Net(10)
train fit(image: [batch, 64], label: i32[batch]):
  logits = image |> net
  minimize cross_entropy(logits, label)
  metric share = {}
"""
APPENDED = """\
block Ema()(x: [n, s, d]) -> [n, s, d]:
  h = zeros([n, d])
  out = []
  scan t in 0..s:
    h = 0.9 * h + 0.1 * x[:, t]
    out.append(h)
  return out
"""
DRAWN = """\
block Sample()(mu: [n, d], spread: [n, d]) -> [n, d]:
  return mu + spread * {}
"""
MOVED_PARTS = """\
block Net(d)(x: [n, 64]) -> [n, d] = x |> fc: linear(d)
model generator = g: Net(64)
model critic    = d: Net(1)
train gan(x: [batch, 64]):
  fake = x |> generator
  minimize mean(x |> critic) - mean(fake |> critic) over critic
  minimize mean(fake |> critic) over {}
"""

NEW_AXIS = """\
block Masked(d)(x: [n, s, k], mask: [n, s]) -> [n, d]:
  y = x |> fc: linear(d) |> tanh
  z = y[:, :, :]
  return sum({}, 1)
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
CALLED = """\
block Tab(classes)(x: [n, 30]) -> [n, classes]:
  h = linear(64, activation="relu")(x)
  return h |> head: linear(classes)
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
        (OVER_TIME, "E0205", "scan t in 0..s:", {"for t in 0..s:": "scan t in 0..s:"}),
        (
            BY_POSITION, "E0233", "scan t in 0..s:",
            {"for t in 0..s:": "scan t in 0..s:", "fc[t]": "fc"},
        ),
        (
            BY_POSITION, "E0233", "scan t in 0..s:",
            {"x: [n, s, d]": "x: [n, 16, d]", "0..s": "0..16"},
        ),
        (IN_TRAIN, "E0233", "scan t in 0..s:", {"for t": "scan t", "fc[t]": "fc"}),
        (
            SHORTCUT, "E0301", "x |> shortcut: conv2d(128, 1, stride=2)",
            {"x + y": "(x |> shortcut: conv2d(128, 1, stride=2)) + y"},
        ),
        (NEXT, "E0503", "ids[:, 1:]", {"logits, ids": "logits, ids[:, 1:]"}),
        (LAST, "E0303", "y[:, -1] |> fc: linear(classes)", {"return y": "return y[:, -1]"}),
        (SCANNED, "E0303", "y[:, -1]", {"return y": "return y[:, -1]"}),
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
        (
            CARRIED, "E0201", "h = zeros([n, hidden])",
            {"  scan": "  h = zeros([n, hidden])\n  scan"},
        ),
        (BARE, "E0132", "return code |> dec: linear(d)", {"  code |>": "  return code |>"}),
        (
            GAN, "E0508", "minimize d_loss over critic",
            {"minimize d_loss": "minimize d_loss over critic"},
        ),
        (
            DENSE, "E0201", "x |> fc: linear(64) |> relu",
            {
                'Dense(64, activation="relu")(x)':
                "x |> fc2: linear(64) |> relu"
            },
        ),
        (
            EINSUM, "E0201", "a @ rearrange(b, [n, k, d] -> [n, d, k])",
            {'einsum("bqd,bkd->bqk", a, b)': "a @ rearrange(b, [n, k, d] -> [n, d, k])"},
        ),
        (
            PADDED.format("pading=1"), "E0202", "conv1: conv2d(24, 3, pad=1)",
            {"pading=1": "pad=1"},
        ),
        (
            PADDED.format("padding=1"), "E0202", "conv1: conv2d(24, 3, pad=1)",
            {"padding=1": "pad=1"},
        ),
        (
            LISTED, "E0138", "pooled = pooled + [mean(x, 2, 3)]",
            {"pooled.append(mean(x, 2, 3))": "pooled = pooled + [mean(x, 2, 3)]"},
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
        (
            EACH, "E0135", "for i in 0..len(widths):",
            {"for i, w in enumerate(widths)": "for i in 0..len(widths)", "(w)": "(widths[i])"},
        ),
        (
            TURNED, "E0135", "for i in 0..2:",
            {
                "reversed(range(2))": "0..2", "linear(widths[i])": "linear(widths[2 - 1 - i])",
                "dropout(rates[i])": "dropout(rates[2 - 1 - i])",
            },
        ),
        (
            LISTS, "E0135", "for i in 0..len(widths):",
            {
                "for i, (w, p) in enumerate(zip(widths, rates))": "for i in 0..len(widths)",
                "(w)": "(widths[i])", "(p)": "(rates[i])",
            },
        ),
        *(
            (
                STEPPED.format(over), "E0135", f"for i in 0..{count}:",
                {over: f"0..{count}", "=i + 1": f"={number} + 1"},
            )
            for over, count, number in (
                ("range(0, 6, 2)", 3, "2 * i"), ("range(1, 6, 2)", 3, "1 + 2 * i"),
                ("reversed(range(1, 3))", 2, "2 - i"), ("range(4, -1, -2)", 3, "4 - 2 * i"),
            )
        ),
        (
            NUMBERS, "E0135", "values = [128, 64, 32]\nfor i in 0..len(values):",
            {
                "for w in [128, 64, 32]:": "values = [128, 64, 32]\n  for i in 0..len(values):",
                "{w}": "{values[i]}", "(w)": "(values[i])",
            },
        ),
        (
            ROWS, "E0135", "scan i in 0..size(x, 0):",
            {"row in x": "i in 0..size(x, 0)", "+ row": "+ x[i]"},
        ),
        (DEPTH, "E0135", "for i in 0..depth:", {"in depth:": "in 0..depth:"}),
        *(
            (
                SHARE.format(call), "E0201", "mean(argmax(logits, 1) == label)",
                {call: "mean(argmax(logits, 1) == label)"},
            )
            for call in (
                "accuracy(logits, label)", "accuracy_score(label, logits)",
                "top1(argmax(logits, 1), label)",
            )
        ),
        (
            APPENDED, "E0138", "out[:, t] = h",
            {"  out = []\n": "", "out.append(h)": "out[:, t] = h"},
        ),
        *(
            (
                DRAWN.format(call), "E0203", "random_normal(shape(mu))",
                {call: "random_normal(shape(mu))"},
            )
            for call in ("random_normal(mu)", "(mu |> random_normal)")
        ),
        (
            MOVED_PARTS.format("generator.parameters()"), "E0138",
            "minimize mean(fake |> critic) over generator", {".parameters()": ""},
        ),
        (
            MOVED_PARTS.format("list(generator.fc.parameters())"), "E0101", None,
            {"list(generator.fc.parameters())": "g.fc"},
        ),
        *(
            (
                NEW_AXIS.format(total), "E0121", "insert_axis(mask, 2, d)",
                {"mask[:, :, None]": "insert_axis(mask, 2, d)", "  z = y[:, :, :]\n": ""},
            )
            for total in ("mask[:, :, None] * y", "y * mask[:, :, None]")
        ),
        (
            NEW_AXIS.format("z * mask[:, :, None]"), "E0121", "insert_axis(mask, 2, size(z, 2))",
            {"mask[:, :, None]": "insert_axis(mask, 2, size(z, 2))"},
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
        (OPEN_CHANNELS, "E0206", "x: [n, 64, h, w]", {"c_in": "64"}),
        (
            STATES, "E0207", "out = x |> rnn: lstm(hidden)", {"out, state": "out"},
        ),
        (
            CALLED, "E0204", "x |> fc: linear(64) |> relu",
            {'linear(64, activation="relu")(x)': "x |> fc: linear(64) |> relu"},
        ),
        (
            PADDED.format('padding="same"'), "E0202", "conv1: conv2d(24, 3, pad=1)",
            {'padding="same"': "pad=1"},
        ),
        (
            PADDED.format('padding="valid"'), "E0202", "conv1: conv2d(24, 3, pad=0)",
            {'padding="valid"': "pad=0", "[n, out]:": "[n, out]\n    where h >= 3, w >= 3:"},
        ),
        (DEEP, "E0205", "fc[i]: linear(d)", {"_i": "i", "fc": "fc[i]"}),
        (
            DILATED, "E0301",
            "filter: conv1d(c, 3, pad=2, dilation=2)\ngate: conv1d(c, 3, pad=2, dilation=2)",
            {"pad=1": "pad=2"},
        ),
        (
            UP.format("c, 3, 2, pad=1, bias=false"), "E0303",
            "up: conv_transpose2d(c, 3, 2, pad=1, output_pad=1, bias=false)",
            {"pad=1": "pad=1, output_pad=1"},
        ),
        (
            UP.format("c, 3, stride=2"), "E0303",
            "up: conv_transpose2d(c, 3, stride=2, pad=1, output_pad=1)",
            {"stride=2": "stride=2, pad=1, output_pad=1"},
        ),
        (
            UP.format("c, 4, 2"), "E0303", "up: conv_transpose2d(c, 4, 2, pad=1)",
            {"c, 4, 2": "c, 4, 2, pad=1"},
        ),
        (
            DIGITS, "E0304", "a: conv2d(8, 3, pad=1)\nb: conv2d(8, 3, pad=1)",
            {"conv2d(8, 3)": "conv2d(8, 3, pad=1)"},
        ),
        (BOTTLENECK, "E0301", "c2: conv2d(c, 3, pad=1)", {"(c, 3)": "(c, 3, pad=1)"}),
        (INCEPTION, "E0320", "e: conv2d(c, 5, pad=2)", {"5, pad=1": "5, pad=2"}),
        (
            STEM, "E0303", "c1: conv2d(8, 7, 2, pad=3)\nmax_pool(3, 2, pad=1)",
            {"7, 2": "7, 2, pad=3", "(3, 2)": "(3, 2, pad=1)"},
        ),
        (
            SKIP, "E0320", "u: conv_transpose2d(c, 3, 2, pad=1, output_pad=1)",
            {"(c, 3, 2)": "(c, 3, 2, pad=1, output_pad=1)"},
        ),
    ],
)  # fmt: skip
def test_the_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    first = errors(text)[0]
    assert first.help is not None
    assert (first.code, first.help.code) == (code, cure)
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    assert errors(text) == []


def test_a_round_that_returns_is_the_first_one() -> None:
    text = BY_POSITION.replace("h = tanh(h + (x[:, t] |> fc[t]: linear(d)))", "return x[:, t]")
    assert errors(text.replace("return x[:, t]", "return x[:, t] |> fc[t]: linear(d)")) == []


# Two windows could lose less, and nothing says which of them is meant.
EITHER = """\
block A(c)(x: [n, c, 32, 32]) -> [n, c, 30, 30]:
  return x |> a: conv2d(c, 3) |> b: conv2d(c, 3, pad=0, dilation=3) |> d: conv2d(c, 3)
"""
# An even window has no padding on both sides that keeps the size.
EVEN = """\
block A(c)(x: [n, c, t]) -> [n, c, t]
    where t >= 4:
  return x + (x |> a: conv1d(c, 4))
"""


@pytest.mark.parametrize("text", [EITHER, EVEN])
def test_no_argument_is_offered_where_none_is_the_one(text: str) -> None:
    (first, *_) = errors(text)
    assert first.help is None or "pad=" not in (first.help.code or "")


def test_a_name_that_a_refused_line_binds_is_known() -> None:
    text = PADDED.format("padding=1").replace("return features", "return feature")
    cures = [each.help for each in errors(text)]
    said = [cure.text for cure in cures if cure]
    assert said == ["`padding` is called `pad`", "did you mean `features`?"]


RUN = """\
block Net()(x: [n, 64]) -> [n, 10] = x |> fc: linear(10)
model net = Net()
train fit(x: [batch, 64], label: i32[batch]):
  minimize cross_entropy(x |> net, label)
  run:
    data = "digits.safetensors"
    batch = 32
    optimizer = sgd(lr=1e-3, momentum=0.9)
    {}
"""


@pytest.mark.parametrize(
    ("line", "name", "cure"),
    [
        ("schedule = cosine(T_max=200, eta_min=1e-5)", "T_max", "steps=200"),
        ("schedule = cosine(T_max=200, eta_min=1e-5)", "eta_min", "final=0.01"),
        ("schedule = cosine(num_warmup_steps=20)", "num_warmup_steps", "warmup=20"),
        ("learning_rate = 3e-3", "learning_rate", "optimizer = sgd(momentum=0.9, lr=3e-3)"),
    ],
)
def test_a_setting_of_other_systems_keeps_its_value(line: str, name: str, cure: str) -> None:
    source = Source("net.mgn", RUN.format(line))
    start = source.text.index(line.partition(" = ")[2] if "(" in line else line)
    within, known = ("cosine", ("warmup", "steps", "final")) if "(" in line else ("", ("data",))
    span = Span(source, start, len(source.text) - 1)
    report = UnknownSetting(span, name, within, known).report()
    assert report.help is not None
    assert report.help.code == cure


@pytest.mark.parametrize(
    ("equation", "code"),
    [
        ("nsd,nkd->nsk", "a @ rearrange(c, [n, k, d] -> [n, d, k])"),
        ("nsd,nsd->ns", "sum(a * c, 2)"),
        ("nsd,nsd->nsd", "a * c"),
        ("nsd,kd->nsk", "a @ rearrange(c, [k, d] -> [d, k])"),
        ("nsd,ndk->nks", "rearrange(a @ c, [n, s, k] -> [n, k, s])"),
    ],
)
def test_an_equation_of_letters_is_that_product(equation: str, code: str) -> None:
    head = "block Product()(a: [n, s, d], c: [n, k, d]) -> [n]:\n"
    text = f'{head}  return einsum("{equation}", a, c)\n'
    if ",kd" in equation:
        text = text.replace("c: [n, k, d]", "c: [k, d]")
    if ",ndk" in equation:
        text = text.replace("c: [n, k, d]", "c: [n, d, k]")
    (first, *_) = errors(text)
    assert first.help is not None
    assert first.help.code == code


def test_an_equation_that_is_no_product_is_told_no_code() -> None:
    text = 'block P()(a: [n, s], c: [n, k]) -> [n]:\n  return einsum("ns,nk,n->n", a, c, a)\n'
    (first, *_) = errors(text)
    assert first.help is not None
    assert first.help.code is None


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


@pytest.mark.parametrize("over", ["range(0, 6, c)", "range(0, 6, 0)", "range(3, 3, 2)"])
def test_a_range_whose_rounds_are_not_known_is_told_no_other_one(over: str) -> None:
    (first, *_) = errors(STEPPED.format(over))
    assert first.help is not None
    assert (first.code, first.help.text) == ("E0135", "write a range, such as")


def test_a_size_that_is_no_channels_is_not_made_a_parameter() -> None:
    text = OPEN.replace("[n, s, d]) -> [n, s, d]", "[n, d, s]) -> [n, d, s]").replace("d)", "s)")
    (first, *_) = errors(text)
    assert first.help is not None
    assert (first.code, first.help.code) == ("E0206", None)
    assert "if they are on another" in first.help.text


def test_each_convolution_that_is_told_what_comes_in_is_named() -> None:
    text = """\
block Cifar()(x: [n, 3, 32, 32]) -> [n, 10]:
  x = x |> conv1: conv2d(3, 16, 3, pad=1) |> relu |> conv2: conv2d(16, 32, 3, pad=1) |> relu
  return x |> mean(2, 3) |> fc: linear(10)
model cifar = Cifar()
"""
    (first, *_) = errors(text)
    assert first.help is not None
    assert "`conv1: conv2d(16, 3, pad=1)`" in first.help.text
    assert "`conv2d(32, 3, pad=1)`" in first.help.text
    assert errors(text.replace("(3, 16", "(16").replace("(16, 32", "(32")) == []


@pytest.mark.parametrize("given", ["24, 4, stride=1", "24, k=4"])
def test_an_even_window_is_told_no_padding_that_keeps_the_size(given: str) -> None:
    text = PADDED.format('padding="same"').replace("24, 3", given)
    (first, *_) = errors(text)
    assert first.help is not None
    assert "pad=2" not in (first.help.code or "")


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


LABELS = """\
block Deep(depth, d)(x: [n, d]) -> [n, d]:
  for i in 0..depth:
    y = x |> body.norm: layer_norm |> body.fc: linear(d) |> relu
    x = x + (y |> out: linear(d))
  return x |> last: linear(d)
"""


def test_all_labels_of_a_loop_are_told_to_have_its_index() -> None:
    (report,) = errors(LABELS)
    assert report.code == "E0205"
    assert report.help is not None
    assert report.help.text == (
        "give each label in the loop its index:\n`body[i].norm`, `body[i].fc`, `out[i]`"
    )
    assert report.help.code == "body[i].norm: layer_norm"
    assert not errors(LABELS.replace("body.", "body[i].").replace("out:", "out[i]:"))
