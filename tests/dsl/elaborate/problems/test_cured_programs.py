"""Mistakes in whole programs: the first cure, written where it belongs, gives the right one."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")

TEXT_CNN = """\
block TextCnn(words, d, filters)(ids: i32[n, s]) -> [n, filters]
    where s >= 3:
  x = ids |> embed: embedding(words, d)
  return x |> conv: conv1d(filters, 3) |> relu |> max(2)
model cnn = TextCnn(words=200, d=10, filters=12)
"""
MOVED = "rearrange([n, s, d] -> [n, d, s]) |> conv: conv1d(filters, 3)"
HEAD = """\
train fit(x: [batch, 8], kind: [batch, 20]):
  pred = x |> head: linear(25)
  minimize bce(pred[..., {}:], kind)
"""
PADDED = """\
block Words(words, d)(ids: i32[n, s]) -> [n, s, d]:
  return ids |> embed: embedding({})
"""
CONVNEXT = """\
block ConvNext(c)(x: [n, 3, h, w]) -> [n, c, h, w]:
  x = x |> stem: conv2d(c, 3, pad=1)
  return x + (x |> {})
model net = ConvNext(c=8)
"""
THERE, BACK = "[n, d, h, w]", "[n, h, w, d]"
NORMED = f"rearrange({THERE} -> {BACK}) |> norm: {{}} |> rearrange({BACK} -> {THERE})"
LISTED = """\
block States(hidden)(x: [n, s, 16]) -> [n, s, hidden]:
  h = zeros([n, hidden])
  outs = []
  scan t in 0..s:
    h = tanh(concat(x[:, t], h, axis=1) |> cell: linear(hidden))
    outs = outs + [insert_axis(h, 1, 1)]
  return concat(outs, axis=1)
"""
WIDTHS = """\
block Tower(widths: list[3])(x: [n, 64]) -> [n, 8]:
  for i in 0..4:
    x = x |> fc[i]: linear(widths[i]) |> relu
  return x |> last: linear(8)
model tower = Tower(widths=[32, 16, 8])
"""
DRAWN = """\
block Sample(latent)(x: [n, d]) -> [n, latent]:
  mu = x |> mu: linear(latent)
  return mu + {}
"""
CHOSEN = """\
train dqn(now: [batch, 8], action: i32[batch], best: [batch]):
  values = now |> q: linear(4)
  taken = {}
  minimize {}
"""
PICKED = "gather(values, action, axis=1)"
OWN = "gather(values, insert_axis(action, 1, 1), axis=1, batch=1)[:, 0]"


UNMERGED = """\
block Encoder(d, heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  a = attention(q, q, q)
  return x + (a |> proj: linear(d))
"""
MERGED = "rearrange([n, heads, s, hd] -> [n, s, heads * hd]) |> proj: linear(d)"
PIXELS = """\
train fit(image: i32[batch, 16], y: [batch, 1]):
  minimize mse(image / 255 |> fc: linear(1), y)
"""
MAPS = """\
block Up(z)(x: [n, z]) -> [n, 1, 8, 8]:
  h = x |> fc: linear(8 * 4 * 4) |> relu
  return h |> up: conv_transpose2d(1, 2, 2)
"""
SPLIT = "rearrange([n, 8 * 4 * 4] -> [n, 8, 4, 4]) |> up: conv_transpose2d(1, 2, 2)"
TWO = """\
block Two()(x: [n, d]) -> [n, d]:
  a, b = {}
  return a + b
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
        (TEXT_CNN, "E0311", MOVED, {"conv: conv1d(filters, 3)": MOVED}),
        (HEAD.format(4), "E0503", "pred[..., 5:]", {"4:": "5:"}),
        *(
            (
                PADDED.format(f"{first}, {second}"), "E0202", f"embedding({right}",
                {f"({first}": "(words", second: right.partition(", ")[2].removesuffix(")")},
            )
            for first, second, right in (
                ("words", "d, padding_idx=0", "words, d, padding=0)"),
                ("words", "embedding_dim=d", "words, d=d)"),
            )
        ),
        *(
            (
                CONVNEXT.format(f"norm: {layer}"), "E0206", NORMED.format(layer),
                {f"norm: {layer}": NORMED.format(layer)},
            )
            for layer in ("layer_norm", "rms_norm")
        ),
        (
            LISTED, "E0309", "outs[:, t] = h",
            {
                "  outs = []\n": "", "outs = outs + [insert_axis(h, 1, 1)]": "outs[:, t] = h",
                "concat(outs, axis=1)": "outs",
            },
        ),
        (UNMERGED, "E0301", MERGED, {"proj: linear(d)": MERGED}),
        (PIXELS, "E0320", "f32(image) / 255", {"image / 255": "f32(image) / 255"}),
        (MAPS, "E0302", SPLIT, {"up: conv_transpose2d(1, 2, 2)": SPLIT}),
        (
            TWO.format("[x, 2 * x, 3 * x]"), "E0203", "a, b, _other2 = [x, 2 * x, 3 * x]",
            {"a, b": "a, b, _other2"},
        ),
        (TWO.format("2 * x"), "E0203", "a = 2 * x", {"a, b": "a", "a + b": "a"}),
        (WIDTHS, "E0203", "for i in 0..len(widths):", {"0..4": "0..len(widths)"}),
        *(
            (DRAWN.format(call), "E0201", cure, {call: cure})
            for call, cure in (
                ("randn_like(mu)", "random_normal(shape(mu))"),
                ("rand_like(mu)", "random_uniform(shape(mu))"),
                ("zeros_like(mu)", "zeros(shape(mu))"),
                ("full_like(mu, 2.0)", "full(shape(mu), 2.0)"),
            )
        ),
        *(
            (CHOSEN.format(PICKED, loss), wanted, OWN, {PICKED: OWN})
            for loss, wanted in (
                ("mse(taken, best)", "E0503"), ("mse(0.5 * taken, best)", "E0503"),
            )
        ),
    ],
)  # fmt: skip
def test_the_first_cure_is_the_program_that_was_meant(
    text: str, code: str, cure: str, edits: dict[str, str]
) -> None:
    found = check(Source("net.mgn", text), LOAD).reports
    report = next(each for each in found if each.severity is Severity.ERROR)
    assert report.code == code
    assert report.help is not None
    assert cure in f"{report.help.text} {report.help.code}"
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    cured = check(Source("net.mgn", text), LOAD)
    assert not [each for each in cured.reports if each.severity is Severity.ERROR], cured.reports


@pytest.mark.parametrize("sizes", ["[batch, 3], y: [batch, 4]", "[batch, 3], y: [batch, 3, 1]"])
def test_a_target_of_another_size_is_not_told_to_become_the_prediction(sizes: str) -> None:
    text = f"train fit(x: {sizes}):\n  minimize mse(x |> fc: linear(5), y)\n"
    (report,) = check(Source("net.mgn", text), LOAD).reports
    assert report.code == "E0503"
    assert report.help is not None
    assert "such as" not in report.help.text


def test_whole_numbers_in_a_function_of_floats_are_told_to_be_converted() -> None:
    text = "block Root()(x: i32[n]) -> [n] = sqrt(x)\n"
    (report,) = check(Source("net.mgn", text), LOAD).reports
    assert report.code == "E0320"
    assert "f32(x)" in str(report.help)


def test_a_label_of_a_size_of_the_data_is_told_what_labels_take() -> None:
    text = "block Net()(x: [n, 8]) -> [n, 8] = x |> fc{n}: linear(8)\n"
    (report,) = check(Source("net.mgn", text), LOAD).reports
    assert report.code == "E0226"
    assert "`fc[i]:`" in str(report.help)


@pytest.mark.parametrize(("name", "code"), [("h", "heads * e"), ("q", "q = 3")])
def test_a_short_name_of_a_known_size_is_told_that(name: str, code: str) -> None:
    text = f"""\
block Split(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  y = x |> rearrange([n, s, {name} * e] -> [n, {name}, s, e])
  return y |> rearrange([n, heads, s, e] -> [n, s, heads * e])
"""
    report = check(Source("net.mgn", text), LOAD).reports[0]
    assert report.code == "E0201"
    assert report.help is not None
    assert str(report.help.code).startswith(f"{code}    # {name} * e")
    if name == "h":
        cured = check(
            Source("net.mgn", text.replace("h * e", "heads * e").replace("h,", "heads,")), LOAD
        )
        assert cured.fine
