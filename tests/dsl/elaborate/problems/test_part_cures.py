"""Of parts that are not there, and of classes that stand where rows do, the cure is what is meant.

The code of each cure is put in the place of what is wrong, and then nothing is.
"""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")


def refused(text: str) -> Report:
    return check(Source("net.mgn", text), LOAD).reports[0]


SCAN = """\
block Cell(d)(x: [n, s, k]) -> [n, s{less}, d]
    where s >= 3:
  h = zeros([n, d])
  {scan}:
    u = {read}
    h = tanh((u |> a: linear(d)) + (h |> b: linear(d)))
    y[:, {write}] = h
  return y
"""
PARTS = """\
block Encoder(latent)(x: [n, 784]) -> [n, latent], [n, latent]:
  h = x |> a: linear(400) |> relu |> {}
  return h[:, :latent], h[:, latent:]
"""
FIXED = """\
block Encoder()(x: [n, 784]) -> [n, 20], [n, 20]:
  h = x |> {}
  return h[:, :20], h[:, 20:]
"""
FLAT = """\
block Net()(x: [n, 3, 32, 32]) -> [n, 10]:
  y = x |> c1: conv2d(8, 5) |> max_pool(2) |> rearrange([n, c, h, w] -> [n, c, h * w])
  return {}
"""
APART = """\
block Siamese(d)(a: [n, k], b: [n, k]) -> [n]:
  u = a |> e: linear(d)
  v = b |> e
  return {}
"""
STEPS = """\
block Tcn(c)(x: [n, t, d]) -> [n, t, c]:
  return x |> {} |> relu
"""
TURNED = (
    "rearrange([n, t, d] -> [n, d, t]) |> a: conv1d(c, 3, pad=1) "
    "|> rearrange([n, c, t] -> [n, t, c])"
)
NEXT = """\
block Lm(v)(ids: i32[n, s]) -> [n, s, v] = ids |> t: embedding(v, 16) |> fc: linear(v)
model net = Lm(v=50)
train fit(ids: i32[batch, 33]):
  logits = ids |> net
  minimize cross_entropy(logits[:, :32], {})
"""
TRAIN = """\
block Net()(x: [n, 784]) -> [n, 10] = x |> fc: linear(10)
model net = Net()
train fit(image: [batch, 784], label: i32[batch]):
  logits = image |> net
  minimize {}
"""


@pytest.mark.parametrize(
    ("text", "code", "wrong", "right"),
    [
        (PARTS, "E0305", "b: linear(latent)", "b: linear(2 * latent)"),
        (FIXED, "E0305", "b: linear(20)", "b: linear(40)"),
        (
            FLAT, "E0303", "y |> fc: linear(10)",
            "y |> rearrange([n, 8, 196] -> [n, 8 * 196]) |> fc: linear(10)",
        ),
        (APART, "E0303", "sum((u - v) ** 2)", "sum((u - v) ** 2, 1)"),
        (STEPS, "E0303", "a: conv1d(c, 3, pad=1)", TURNED),
        (NEXT, "E0503", "ids", "ids[:, 1:]"),
        (TRAIN.format("mse(logits, {})"), "E0307", "label", "one_hot(label, 10)"),
        (
            TRAIN.format("-mean(sum({} * log_softmax(logits), 1))"), "E0307",
            "label", "one_hot(label, 10)",
        ),
        (
            TRAIN.format("mean(log(1 + exp({} * logits)))"), "E0307",
            "-label", "-one_hot(label, 10)",
        ),
        (
            TRAIN.format("mean(sum(logits * {}, 1))"), "E0307",
            "label", "one_hot(label, 10)",
        ),
    ],
)  # fmt: skip
def test_the_code_of_the_cure_stands_in_place_of_what_is_wrong(
    text: str, code: str, wrong: str, right: str
) -> None:
    report = refused(text.format(wrong))
    assert report.code == code
    assert report.help is not None
    assert (report.help.code, report.help.edits) == (right, ())
    assert check(Source("net.mgn", text.format(right)), LOAD).fine


@pytest.mark.parametrize(
    ("scan", "read", "write", "cured"),
    [
        ("scan t in 0..s", "x[:, t + 1]", "t", "scan t in 0..s - 1"),
        ("scan t in 0..s", "x[:, t - 1]", "t - 1", "scan t in 1..s"),
        ("scan t in 1..s", "x[:, t - 2]", "t - 2", "scan t in 2..s"),
        ("scan t in 0..s", "mean(x[:, t:t + 3], 1)", "t", "scan t in 0..s - 2"),
        ("scan t in 0..s + 1", "x[:, t]", "t", "scan t in 0..s"),
    ],
)
def test_iterations_that_read_what_is_not_there_are_told_which_do(
    scan: str, read: str, write: str, cured: str
) -> None:
    counts = {"scan t in 0..s - 1": " - 1", "scan t in 1..s": " - 1", "scan t in 0..s": ""}
    less = counts.get(cured, " - 2")
    report = refused(SCAN.format(less=less, scan=scan, read=read, write=write))
    assert report.code == "E0315"
    assert report.help is not None
    assert (report.help.code, report.help.edits) == (cured, ())
    cured_text = SCAN.format(less=less, scan=cured, read=read, write=write)
    assert check(Source("net.mgn", cured_text), LOAD).fine


def test_an_entry_that_is_at_no_fixed_distance_of_the_index_has_no_iterations() -> None:
    text = SCAN.format(less="", scan="scan t in 0..s", read="x[:, 2 * t]", write="t")
    report = refused(text)
    assert report.code == "E0315"
    assert report.help is None


def test_grad_in_a_formula_is_told_to_stand_where_the_formula_is_used() -> None:
    text = "def slope(f, x) = grad(f, x)\nblock Net()(x: [n]) -> [n] = slope(mean(x * x), x)\n"
    report = refused(text)
    assert report.code == "E0216"
    assert report.help is not None
    assert report.help.code == "y = slope(...)\ng = grad(y, x)"


def test_floats_that_are_to_be_class_indices_are_declared_or_converted() -> None:
    text = "block Net()(x: [n], y: [n, 10]) -> [n, 10] = one_hot(x, 10) * y\n"
    report = refused(text)
    assert report.code == "E0203"
    assert report.help is not None
    assert report.help.code == "i32(x)"
    assert "`i32[n]`" in report.help.text


@pytest.mark.parametrize(
    ("written", "declared", "meant"),
    [
        ("pairs[:, 1]", "i32[2, e]", "pairs[1]"),
        ("pairs[1]", "i32[e, 3]", "pairs[:, 1]"),
        ("pairs[:, 1]", "i32[d, e]", None),
        ("pairs[:, 1]", "i32[2, e, 2]", None),
        ("pairs[:, 2]", "i32[2, e]", None),
    ],
)
def test_an_entry_of_an_open_axis_may_be_meant_of_a_written_one(
    written: str, declared: str, meant: str | None
) -> None:
    """A fact such as `e >= 2` would hide that the axes are confused, and is not advised then."""
    body = f"  u = {written}\n  return zeros([n]) + sum(f32(u))\n"
    text = f"block Net(n)(pairs: {declared}) -> [n]:\n{body}"
    report = refused(text)
    assert report.code == "E0305"
    assert report.help is not None
    assert report.help.code == meant
    assert bool(report.help.edits) == (meant is None)
