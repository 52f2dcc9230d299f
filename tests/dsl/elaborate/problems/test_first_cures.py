"""The first cure of a mistake is the one that is meant; no cure makes two free sizes divide."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")


def first(text: str) -> Report:
    return next(
        each for each in check(Source("net.mgn", text), LOAD).reports if each.code != "E0207"
    )


TWO_INPUTS = """\
block Pair()(x: [n, t, d], m: [n, s, d]) -> [n, t, d]:
  return m |> out: linear(d)
"""
PATCHES = """\
block Patches(d, image, patch)(x: [n, 3, image, image]) -> [n, (image // patch) ** 2, d]
    where image % patch == 0:
  param positions: [(image // patch) ** 2, d] = normal(0.02)
  tokens = x |> proj: conv2d(d, patch) |> rearrange([n, d, h, w] -> [n, h * w, d])
  return tokens + positions
"""
DEPTHWISE = """\
block Separable(c)(x: [n, c_in, h, w]) -> [n, c, h, w]:
  return x |> a: conv2d(c, 3, pad=1, groups=c) |> b: conv2d(c, 1)
"""
LAYOUT = """\
block Module(k)(x: [n, s, d]) -> [n, s, d]
    where k % 2 == 1:
  return x |> a: conv1d(d, k, pad=k // 2, groups=d)
"""
JOINED = """\
block Both()(x: [n, s, d], y: [n, s, d]) -> [n, s, 2 * d]:
  return concat(x, y, axis=1)
"""
NO_RETURN = """\
block Net(d)(x: [n, d]) -> [n, d]:
  y = x |> a: linear(d)
  out = relu(x + y)
"""
TWO_RESULTS = """\
block two()(x: [n]) -> [n], [n]:
  return x, x
block f()(x: [n]) -> [n]:
  a = x |> two
  return a
"""
ARGMAX = """\
block Net(c)(x: [n, 4]) -> [n, c] = x |> fc: linear(c)
model net = Net(c=3)
train fit(x: [batch, 4], label: i32[batch]):
  scores = x |> net
  predicted = argmax(scores, 1)
  minimize cross_entropy(predicted, label)
"""


@pytest.mark.parametrize(
    ("text", "code", "said", "cure"),
    [
        (TWO_INPUTS, "E0303", "both come from the inputs", None),
        (PATCHES, "E0301", "moves by 1", "proj: conv2d(d, patch, stride=patch)"),
        (DEPTHWISE, "E0311", "conv2d(c_in, 3, pad=1, groups=c_in)`", None),
        (LAYOUT, "E0311", "channels on axis 1, which is s here", None),
        (JOINED, "E0303", "joined along this axis", "concat(x, y, axis=2)"),
        (NO_RETURN, "E0214", "give back", "return out"),
        (TWO_RESULTS, "E0203", "name each of them", "a, _other = x |> two"),
        (ARGMAX, "E0307", "these are classes", "cross_entropy(scores, label)"),
    ],
)
def test_the_first_cure(text: str, code: str, said: str, cure: str | None) -> None:
    report = first(text)
    assert report.help is not None
    assert (report.code, said in report.help.text) == (code, True)
    assert (report.help.code, report.help.edits) == (cure, ())


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (PATCHES, "conv2d(d, patch)", "conv2d(d, patch, stride=patch)"),
        (DEPTHWISE, "conv2d(c, 3, pad=1, groups=c)", "conv2d(c_in, 3, pad=1, groups=c_in)"),
        (JOINED, "axis=1", "axis=2"),
        (NO_RETURN, "x + y)\n", "x + y)\n  return out\n"),
        (TWO_RESULTS, "a = x", "a, _other = x"),
        (ARGMAX, "cross_entropy(predicted", "cross_entropy(scores"),
    ],
)
def test_the_cure_ends_the_error(text: str, old: str, new: str) -> None:
    code = first(text).code
    cured = check(Source("net.mgn", text.replace(old, new)), LOAD).reports
    assert not [each for each in cured if each.code == code]


def test_no_parameter_is_given_a_polynomial() -> None:
    text = PATCHES.replace("conv2d(d, patch)", "conv2d(d, patch, pad=1)")
    report = first(text)
    assert report.code == "E0301"
    assert report.help is None or "param" not in (report.help.code or "")


FREE_AXES = """\
block Split(parts)(x: [n, c]) -> [n, parts, c // parts]
    where c % parts == 0:
  return rearrange(x, [n, parts * k] -> [n, parts, k])
block Mix()(x: [n, s, d]) -> [n, d, s // d]:
  return x[:, :, 0] |> Split(d)
"""
TOLD_CHANNELS = """\
block Net()(x: [n, 3, h, w]) -> [n, 16, h, w]:
  return x |> c1: conv2d(3, 16, 3, pad=1)
"""


def test_no_fact_makes_one_axis_of_the_inputs_divide_another() -> None:
    found = first(FREE_AXES)
    text = str(found)
    assert found.code == "E0311"
    assert "state it where the sizes come from" not in str(found)
    assert "two axes" in text
    assert "an axis may stand where the other is meant" in text


def test_a_number_of_the_configuration_that_divides_an_axis_is_a_fact() -> None:
    divided = FREE_AXES.replace("Mix()", "Mix(heads)").replace("Split(d)", "Split(heads)")
    found = first(divided.replace("[n, d, s // d]", "[n, heads, s // heads]"))
    assert found.code == "E0311"
    assert "where s % heads == 0" in str(found)


def test_a_convolution_that_is_told_what_comes_in_is_written_without_it() -> None:
    found = first(TOLD_CHANNELS)
    assert found.code == "E0311"
    assert "state it where the sizes come from" not in str(found)
    assert "`conv2d(16, 3, pad=1)`" in str(found)
    right = TOLD_CHANNELS.replace("conv2d(3, 16, 3", "conv2d(16, 3")
    assert check(Source("net.mgn", right), LOAD).fine


@pytest.mark.parametrize(
    ("size", "call", "cure"),
    [
        ("h", "conv2d(c, 3, bias=false)", "conv2d(c, 3, pad=1, bias=false)"),
        ("h", "conv2d(c, 3, groups=c, bias=false)", "conv2d(c, 3, pad=1, groups=c, bias=false)"),
        ("h", "conv2d(c, 5, dilation=2)", "conv2d(c, 5, pad=4, dilation=2)"),
        ("8", "conv2d(c, 3, dilation=4)", "conv2d(c, 3, pad=4, dilation=4)"),
    ],
)
def test_an_argument_that_is_named_is_no_window_of_pytorch(size: str, call: str, cure: str) -> None:
    shape = f"[n, c, {size}, {size}]"
    text = f"block R(c)(x: {shape}) -> {shape}:\n  return x |> a: {call}\n"
    found = first(text)
    assert found.code == "E0311"
    assert f"`a: {cure}`" in str(found)
    assert "a window of" in str(found)
    assert "never written" not in str(found)
    assert check(Source("net.mgn", text.replace(call, cure)), LOAD).fine


RESULTS = """\
block three()(x: [n]) -> [n], [n], [n]:
  return x, 2 * x, 3 * x
block f()(x: [n]) -> [n]:
  out = x |> three
BODY
"""


@pytest.mark.parametrize(
    ("body", "said", "code", "cured"),
    [
        (
            "  a = out[0]\n  b = out[1]\n  c = out[2]\n  return a + b * c",
            "leave out `a = out[0]`, `b = out[1]` and `c = out[2]`",
            "a, b, c = x |> three",
            "  return a + b * c",
        ),
        (
            "  last = out[-1]\n  return last",
            "leave out `last = out[-1]`",
            "_other0, _other1, last = x |> three",
            "  return last",
        ),
        (
            "  out0 = relu(x)\n  a = out[1]\n  return out[0] + a + out0",
            "`out[1]` is `a` and `out[0]` is `out0_`",
            "out0_, a, _other = x |> three",
            "  out0 = relu(x)\n  return out0_ + a + out0",
        ),
        (
            "  y = relu(x)\n  x = out[0]\n  return x + y",
            "`out[0]` is `out0`",
            "out0, _other1, _other2 = x |> three",
            "  y = relu(x)\n  x = out0\n  return x + y",
        ),
        (
            "  out = out[0] + out[1]\n  return out * out[0]",
            "`out[0]` is `out0` and `out[1]` is `out1`",
            "out0, out1, _other = x |> three",
            "  out = out0 + out1\n  return out * out[0]",
        ),
        (
            "  a = out[1]\n  out = relu(a)\n  return a * out[0]",
            "leave out `a = out[1]`",
            "_other0, a, _other2 = x |> three",
            "  out = relu(a)\n  return a * out[0]",
        ),
        (
            "  return out[0] * out[0]",
            "name each of them: `out[0]` is `out0`",
            "out0, _other1, _other2 = x |> three",
            "  return out0 * out0",
        ),
        (
            "  return out[7]",
            "name each of them, in their order",
            "out, _other1, _other2 = x |> three",
            "  return out",
        ),
    ],
)
def test_results_that_are_taken_by_an_index_have_their_names(
    body: str, said: str, code: str, cured: str
) -> None:
    found = first(RESULTS.replace("BODY", body))
    assert found.help is not None
    assert (found.code, found.help.code) == ("E0203", code)
    assert said in found.help.text
    right = RESULTS.replace("out = x |> three\nBODY", f"{code}\n{cured}")
    assert check(Source("net.mgn", right), LOAD).fine


def test_a_window_and_a_stride_are_no_channels_of_pytorch() -> None:
    text = "block R(c)(x: [n, c, h, w]) -> [n, c]:\n  return x |> a: CALL |> mean(2, 3)\n"
    assert "never written" not in str(first(text.replace("CALL", "conv2d(c, 3, 2)")))
    assert "`conv2d(32, 3)`" in str(first(text.replace("CALL", "conv2d(c, 32, 3)")))


def test_a_pattern_that_is_given_a_name_of_its_scope_is_written_without_it() -> None:
    text = "block f(heads)(x: [n, heads * 4]) -> [n, heads, 4]:\n"
    call = "rearrange(x, [n, heads * k] -> [n, heads, k]"
    found = first(f"{text}  return {call}, heads=heads)\n")
    assert found.code == "E0202"
    assert f"{call})" in str(found)
    assert check(Source("net.mgn", f"{text}  return {call})\n"), LOAD).fine
