"""Calls and settings of other systems: whoever follows the first cure has what was meant."""

import pytest

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.settings.settings_problems import UnknownSetting
from tests.dsl.elaborate.problems.cures import errors, follow

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
SHARE = """\
block Net(classes)(x: [n, 64]) -> [n, classes] = x |> fc: linear(classes)
model net = Net(10)
train fit(image: [batch, 64], label: i32[batch]):
  logits = image |> net
  minimize cross_entropy(logits, label)
  metric share = {}
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
CALLED = """\
block Tab(classes)(x: [n, 30]) -> [n, classes]:
  h = linear(64, activation="relu")(x)
  return h |> head: linear(classes)
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
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
    ],
)  # fmt: skip
def test_the_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


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


SAME = """\
block Net(c)(x: [n, c_in, h, w]) -> [n, c, (h - 1) // STRIDE + 1, (w - 1) // STRIDE + 1]:
  CALL
"""


@pytest.mark.parametrize("asked", ['pad="same"', 'padding="same"'])
@pytest.mark.parametrize(
    ("given", "stride", "sides"),
    [
        ("5", 1, "pad=2"),
        ("3, dilation=2", 1, "pad=2"),
        ("4", 1, "before=1, after=2"),
        ("2, dilation=3", 1, "before=1, after=2"),
        ("3, 2", 2, "more_2 // 2, more_2 - more_2 // 2"),
        ("4, stride=3", 3, "more_2 // 2, more_2 - more_2 // 2"),
    ],
)
def test_padding_that_is_called_same_is_exact(
    given: str, stride: int, sides: str, asked: str
) -> None:
    """The cure is proved to give as many as TensorFlow: `ceil(h / stride)` for all sizes."""
    text = SAME.replace("STRIDE", str(stride))
    (first, *_) = errors(text.replace("CALL", f"return x |> c1: conv2d(c, {given}, {asked})"))
    assert first.help is not None
    assert first.help.code is not None
    assert sides in first.help.code
    *lines, last = first.help.code.split("\n")
    last = last if last.startswith("x |> ") else f"x |> {last}"
    cured = "\n  ".join((*lines, f"return {last}"))
    assert errors(text.replace("CALL", cured)) == []


@pytest.mark.parametrize("call", ["max_pool(2, pad='same')", 'c1: conv2d(c, 2, 3, pad="same")'])
def test_padding_that_is_called_same_is_not_guessed(call: str) -> None:
    call = call.replace("'", '"')
    (first, *_) = errors(SAME.replace("STRIDE", "1").replace("CALL", f"return x |> {call}"))
    assert first.help is None or "pad=" not in (first.help.code or "")
