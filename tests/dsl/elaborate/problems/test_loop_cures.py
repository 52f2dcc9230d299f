"""Loops and scans: whoever follows the first cure has what was meant, and no other error."""

import pytest

from tests.dsl.elaborate.problems.cures import errors, follow

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
SCANNED = """\
block Rnn(hidden)(x: [n, s, d]) -> [n, hidden]:
  h = zeros([n, hidden])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))
    y[:, t] = h
  return y
"""
CARRIED = """\
block Rnn(hidden)(x: [n, s, d]) -> [n, s, hidden]:
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden, bias=false)))
    y[:, t] = h
  return y
"""
LISTED = """\
block Pyramid()(x: [n, 3, 32, 32]) -> [n, 48]:
  pooled = []
  for i in 0..2:
    x = x |> conv[i]: conv2d(16 * 2 ** i, 3, 2, pad=1)
    pooled.append(mean(x, 2, 3))
  return concat(pooled, axis=1)
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
APPENDED = """\
block Ema()(x: [n, s, d]) -> [n, s, d]:
  h = zeros([n, d])
  out = []
  scan t in 0..s:
    h = 0.9 * h + 0.1 * x[:, t]
    out.append(h)
  return out
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
        (SCANNED, "E0303", "y[:, -1]", {"return y": "return y[:, -1]"}),
        (
            CARRIED, "E0201", "h = zeros([n, hidden])",
            {"  scan": "  h = zeros([n, hidden])\n  scan"},
        ),
        (
            LISTED, "E0138", "pooled = pooled + [mean(x, 2, 3)]",
            {"pooled.append(mean(x, 2, 3))": "pooled = pooled + [mean(x, 2, 3)]"},
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
        (
            APPENDED, "E0138", "out[:, t] = h",
            {"  out = []\n": "", "out.append(h)": "out[:, t] = h"},
        ),
        (DEEP, "E0205", "fc[i]: linear(d)", {"_i": "i", "fc": "fc[i]"}),
    ],
)  # fmt: skip
def test_the_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


def test_an_iteration_that_returns_is_the_first_one() -> None:
    text = BY_POSITION.replace("h = tanh(h + (x[:, t] |> fc[t]: linear(d)))", "return x[:, t]")
    assert errors(text.replace("return x[:, t]", "return x[:, t] |> fc[t]: linear(d)")) == []


@pytest.mark.parametrize("over", ["range(0, 6, c)", "range(0, 6, 0)", "range(3, 3, 2)"])
def test_a_range_whose_iterations_are_not_known_is_told_no_other_one(over: str) -> None:
    (first, *_) = errors(STEPPED.format(over))
    assert first.help is not None
    assert (first.code, first.help.text) == ("E0135", "write a range, such as")


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
