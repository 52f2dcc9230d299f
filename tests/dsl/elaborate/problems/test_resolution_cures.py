"""Of rows and columns that do not meet, the cure is the skip, padding or resolution that fits."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check


def refused(text: str) -> Report:
    return next(
        each
        for each in check(Source("net.mgn", text), lambda *_: None).reports
        if each.code != "E0207"
    )


UNET = """\
block Double(c)(x: [n, k, h, w]) -> [n, c, h, w]:
  return x |> a: conv2d(c, 3, pad=1) |> relu
block Unet(c)(image: [n, 1, h, w]) -> [n, c, h, w]
    where h % 4 == 0, w % 4 == 0:
  e1 = image |> enc1: Double(c)
  e2 = e1 |> max_pool(2) |> enc2: Double(2 * c)
  e3 = e2 |> max_pool(2) |> enc3: Double(4 * c)
  x = concat(e3 |> upsample(2), e2, axis=1) |> dec2: Double(2 * c)
  up = x |> upsample(2)
  return concat({}, axis=1) |> dec1: Double(c)
"""
AUTOENCODER = """\
block Ae(c)(image: [n, 1, h, w]) -> [n, 1, h, w]
    where h % 4 == 0, w % 4 == 0:
  x = image |> e1: conv2d(c, 3, 2, pad=1) |> relu |> e2: conv2d(c, 3, 2, pad=1)
  return x |> d1: conv_transpose2d(c, 3, 2, pad=1{0}) |> relu |> d2: conv_transpose2d(1, 3, 2, pad=1{0})
"""  # noqa: E501 - the layers are cured at once
PADDED = ", output_pad=1"
UP = """\
block Up(c)(x: [n, 2 * c, h, w], skip: [n, c, 2 * h, 2 * w]) -> [n, 2 * c, 2 * h, 2 * w]:
  y = x |> up: conv_transpose2d(c, 3, 2, pad=1{})
  return concat(y, skip, axis=1)
"""
WAVE = """\
block Wave(c)(x: [n, c, t]) -> [n, c, t]
    where t % 2 == 0:
  y = x |> down: conv1d(c, 3, 2, pad=1) |> relu
  return x + (y |> up: conv_transpose1d(c, 3, 2, pad=1{}))
"""
RESIDUAL = """\
block Stage(c)(x: [n, k, h, w]) -> [n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1]:
  y = x |> a: conv2d(c, 3, 2, pad=1) |> relu |> b: conv2d(c, 3, pad=1)
  return {} + y
"""
CHANNELS = """\
block Stage(c)(x: [n, k, h, w]) -> [n, c, h, w]:
  y = x |> shortcut: conv2d(c, 3, pad=1)
  return {} + y
"""
PYRAMID = """\
block Fpn(c)(fine: [n, k, 2 * h, 2 * w], coarse: [n, l, h, w]) -> [n, c, 2 * h, 2 * w]:
  p = fine |> a: conv2d(c, 1)
  q = coarse |> b: conv2d(c, 1)
  return p + {}
"""
JOIN = """\
block Join(c)(x: [n, c, h, w], skip: [n, c, 2 * h, 2 * w]) -> [n, 2 * c, 2 * h, 2 * w]:
  return concat({}, skip, axis=1)
"""
SKIPPED = """\
block Unet(c)(x: [n, 3, h, w]) -> [n, c, h, w]
    where h % 2 == 0, w % 2 == 0:
  a = x |> a: conv2d(c, 3, pad=1) |> relu
  b = a |> max_pool(2) |> b: conv2d(c, 3, pad=1) |> relu
  return concat(a, {}, axis=1) |> o: conv2d(c, 1)
"""
WINDOW = """\
block Layer(c)(x: [n, k, h, w]) -> [n, c, h, w]:
  return x |> a: conv2d(c, 3{}) |> relu
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "wrong", "right"),
    [
        (UNET, "E0320", "concat(up, e1, axis=1)", "up, e2", "up, e1"),
        (UNET, "E0320", "concat(up, e1, axis=1)", "up, e3", "up, e1"),
        (AUTOENCODER, "E0303", "d2: conv_transpose2d(1, 3, 2, pad=1, output_pad=1)", "", PADDED),
        (UP, "E0320", "up: conv_transpose2d(c, 3, 2, pad=1, output_pad=1)", "", PADDED),
        (WAVE, "E0301", "up: conv_transpose1d(c, 3, 2, pad=1, output_pad=1)", "", PADDED),
        (
            RESIDUAL, "E0301", "x |> shortcut: conv2d(c, 1, stride=2)",
            "x", "(x |> shortcut: conv2d(c, 1, stride=2))",
        ),
        (
            RESIDUAL.replace("a:", "shortcut:"), "E0301", "x |> shortcut2: conv2d(c, 1, stride=2)",
            "x", "(x |> shortcut2: conv2d(c, 1, stride=2))",
        ),
        (
            CHANNELS, "E0301", "x |> shortcut2: conv2d(c, 1)",
            "x", "(x |> shortcut2: conv2d(c, 1))",
        ),
        (PYRAMID, "E0301", "q |> upsample(2)", "q", "(q |> upsample(2))"),
        (JOIN, "E0320", "x |> upsample(2)", "x", "x |> upsample(2)"),
        (SKIPPED, "E0320", "b |> upsample(2)", "b", "b |> upsample(2)"),
        (WINDOW, "E0311", "`a: conv2d(c, 3, pad=1)`", "", ", pad=1"),
    ],
)  # fmt: skip
def test_the_cure_is_what_makes_the_sizes_meet(
    text: str, code: str, cure: str, wrong: str, right: str
) -> None:
    report = refused(text.format(wrong))
    assert report.code == code
    assert report.help is not None
    assert cure in f"{report.help.text} {report.help.code}"
    assert report.help.edits == ()
    cured = check(Source("net.mgn", text.format(right)), lambda *_: None)
    assert cured.fine, cured.reports


def test_a_value_is_not_joined_with_what_is_computed_from_it() -> None:
    text = """\
block Join(c)(x: [n, 3, 64, 64]) -> [n, c, 32, 32]:
  a = x |> e: conv2d(c, 3, pad=1)
  u = a |> max_pool(2)
  v = {}
  return concat(u, a, axis=1) |> o: conv2d(c, 1)
"""
    codes = [refused(text.format(v)).help for v in ("u", "f32(u > 0)", "u |> w: conv2d(c, 1)")]
    assert [each and each.code for each in codes] == ["u |> upsample(2)"] * 3
    other = refused(text.format("a |> avg_pool(2)")).help
    assert other is not None
    assert other.code == "concat(u, v, axis=1)"


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("conv_transpose2d(c, 2, 2, output_pad=2)", "leave `output_pad` out"),
        ("conv_transpose2d(c, 3, 2, pad=1, output_pad=2)", "with `output_pad=1`"),
        ("conv_transpose2d(c, 3, output_pad=1)", "a stride of 1 leaves out none"),
    ],
)
def test_an_output_pad_that_is_too_large_is_told_the_one_that_fits(layer: str, said: str) -> None:
    text = f"block Up(c)(x: [n, c, h, w]) -> [n, c, 2 * h, 2 * w]:\n  return x |> up: {layer}\n"
    report = refused(text)
    assert report.code == "E0311"
    assert report.help is not None
    assert said in report.help.text


@pytest.mark.parametrize("pad", ["2", "-1", "p"])
def test_an_output_pad_out_of_range_names_no_other_operation(pad: str) -> None:
    text = (
        "block Up(p)(x: [n, c, t], w: [c, k, 3]) -> [n, k, 2 * (t - 1) + 3 + p]:\n"
        f"  return conv_transpose(x, w, stride=2, output_pad={pad})\n"
    )
    report = refused(text)
    assert "`output_pad` is" in report.headline
    assert "gradient" not in report.headline


def test_an_index_that_begins_at_1_is_made_smaller_before_a_fact_is_stated() -> None:
    text = (
        "block Net(places, d)(x: [n, s, d]) -> [n, s, d]:\n"
        "  return x + ((iota(s) + 1) |> table: embedding(places, d))\n"
    )
    report = refused(text)
    assert report.code == "N0005"
    assert report.help is not None
    assert report.help.text.startswith("an index counts from 0, and `iota(s) + 1` begins at 1")


def test_an_operand_with_calls_in_it_is_written_whole() -> None:
    text = (
        "block Net(d)(x: [128, d]) -> [128, d]:\n"
        "  return x + ((1 + minimum(iota(128), 99)) |> table: embedding(100, d))\n"
    )
    report = refused(text)
    assert report.code == "E0323"
    assert report.help is not None
    assert "`1 + minimum(iota(128), 99)` goes up to 100" in report.help.text


def test_a_size_that_is_to_be_even_is_not_told_to_be_large_enough() -> None:
    text = """\
block Unet(c)(x: [n, 3, h, w]) -> [n, c, h, w]{}:
  a = x |> a: conv2d(c, 3, pad=1) |> relu
  b = a |> max_pool(2) |> b: conv2d(c, 3, pad=1) |> relu
  return concat(a, b |> upsample(2), axis=1) |> o: conv2d(c, 1)
"""
    found = check(Source("net.mgn", text.format("")), lambda *_: None).reports
    assert [each.code for each in found] == ["E0312"]
    assert found[0].help is not None
    assert "h % 2 == 0" in found[0].help.edits[0].text
    stated = text.format(" where h % 2 == 0, w % 2 == 0")
    assert check(Source("net.mgn", stated), lambda *_: None).fine
