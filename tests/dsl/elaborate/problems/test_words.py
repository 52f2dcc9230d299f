"""Messages that name the cure: what a reader of the language's own words would do next works."""

from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check
from meganeura_dsl.resources import standard_models

MESSAGES = {
    "a block as a value": (
        "block Mlp(width)(x: [n, width]) -> [n, width] = x\nmodel a = Mlp(linear)\n",
        "E0203",
        ("this needs a size", "this is the block `linear`"),
        ("did you mean",),
    ),
    "a function as a value": (
        "block A()(x: [n]) -> [n]:\n  return x + sqrt\n",
        "E0203",
        ("this is the function `sqrt`",),
        ("did you mean",),
    ),
    "a value as a layer": (
        "block Mlp(layer)(x: [n, d]) -> [n, d]:\n  return x |> fc: layer(d)\n",
        "E0203",
        (
            "this needs a layer or a function",
            "a parameter that takes a block says so: `layer: block`",
        ),
        ("did you mean",),
    ),
    "whole division of integers": (
        "block A()(x: i32[n], y: i32[n]) -> i32[n] = x // y\n",
        "E0307",
        ("write `i32(floor((f32(x) + 0.5) / f32(y)))`",),
        ("convert with",),
    ),
    "whole division of floats": (
        "block A()(x: [n]) -> [n] = (x + 1) // 2\n",
        "E0307",
        ("write `floor((x + 1) / 2)`\n",),
        ("convert with", "2 ** 22"),
    ),
    "remainder": (
        "block A()(x: i32[n], y: i32[]) -> i32[n] = x % y\n",
        "E0307",
        ("write `x - y * i32(floor((f32(x) + 0.5) / f32(y)))`",),
        ("convert with",),
    ),
    "a brace behind a space": (
        "block A(d)(x: [n, d]) -> [n, d]:\n  i = 1\n  return x |> layer {i}: linear(d)\n",
        "E0108",
        ("a number in a label follows its word: `layer{i}:`",),
        ("bodies are indented",),
    ),
    "a brace as a body": (
        "block A(d)(x: [n, d]) -> [n, d] {\n  return x\n}\n",
        "E0108",
        ("bodies are indented",),
        ("in a label",),
    ),
    "a flag without default": (
        "block A(wide)(x: [n]) -> [n]:\n  return x if wide and n > 1 else 2 * x\n",
        "E0220",
        ("`wide` is a size, and this needs a condition", "wide: bool"),
        (),
    ),
    "a flag without default, turned round": (
        "block A(wide)(x: [n]) -> [n]:\n  return x if not wide else 2 * x\n",
        "E0220",
        ("say what it is     wide: bool",),
        (),
    ),
    "a size as a condition": (
        "block A(d=3)(x: [n]) -> [n]:\n  return x if not d else 2 * x\n",
        "E0220",
        ("`d` is a size, and this needs a condition",),
        ("say what it is",),
    ),
    "a text without default": (
        'block A(act)(x: [n]) -> [n]:\n  return x if act == "gelu" else 2 * x\n',
        "E0404",
        ('a choice compares `act` with the text "gelu"',),
        ("not whole",),
    ),
    "a flag among sizes": (
        """\
        block A(wide=false)(x: [n, d]) -> [n, d] where d >= 2 or wide:
          return concat(x[:, 1:], x[:, :1], axis=1) if wide else x
        """,
        "E0305",
        ("d=1  wide=true ",),
        ("wide=1", "wide=True"),
    ),
    "a colon without a body": (
        "block A(k)(x: [n]) -> [n]:\n  if k > 2\n  return k * x\n",
        "E0112",
        ("help: write a colon     if k > 2:\n",),
        (),
    ),
    "a line that ends with a word that stays before its operand": (
        "block A(k)(x: [n]) -> [n]:\n  y = not\n    k\n  return x if y else 2 * x\n",
        "E0129",
        ("help: begin the next line with the operator     not k\n",),
        (),
    ),
    "a name that is like more than three others": (
        """\
        block A()(x: [n]) -> [n]:
          width1 = x
          width2 = x
          width3 = x
          width4 = x
          return width1 + width2 + width3 + width4 + width
        """,
        "E0201",
        ("did you mean `width4`, `width3` or `width2`?\n",),
        ("`width1`",),
    ),
    "no classes": (
        "from whisper import whisper_words\nmodel a = whisper_words(classes=0)\n",
        "E0220",
        ("`out` of `linear` takes a whole number from 1", "this is the size 0"),
        ("that is",),
    ),
    "a layer of a block applied twice": (
        """\
        block Fc()(x: [n, 3]) -> [n, 3]:
          return x |> fc: linear(3)

        block Two()(x: [n, 3]) -> [n, 3]:
          return x |> Fc() |> Fc()

        model two = Two()
        """,
        "E0205",
        ("this is reached more than once", "label the block around it where that is applied"),
        ("`|> fc`",),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_leads_on(name: str) -> None:
    text, code, said, unsaid = MESSAGES[name]
    reports = check(Source("example.mgn", dedent(text)), _standard).reports
    shown = [render(report) + "\n" for report in reports if report.code == code]
    assert shown, [render(report) for report in reports]
    for words in said:
        assert any(words in each for each in shown), "\n".join(shown)
    for words in unsaid:
        assert not any(words in each for each in shown), "\n".join(shown)


def _standard(words: tuple[str, ...]) -> Source | None:
    file = standard_models() / f"{words[0]}.mgn"
    return Source(f"{words[0]}.mgn", file.read_text(encoding="utf-8"))


SIGNATURES = [
    "block Clip(a)\n    (x: [n, a],\n     y: [n, a]) -> [n, a]:\n  z = x + y\n  return z\n",
    "block Clip\n    (a)\n    (x: [n, a], y: [n, a])\n    -> [n, a]:\n  return x + y\n",
    "block Clip(a)  # a comment\n  # and another\n  (x: [n, a], y: [n, a]) -> [n, a] = x + y\n",
]


@pytest.mark.parametrize("text", SIGNATURES)
def test_a_signature_goes_on_with_its_brackets(text: str) -> None:
    result = check(Source("example.mgn", text), lambda _: None)
    assert (result.reports, result.proved) == ((), ("Clip",))


@pytest.mark.parametrize(
    "text",
    [
        "block A()(x: [n, 3]) -> [n, 3] = x |> f: linear\n  (3)\n",
        "block A()(x: [n, 3]) -> [n, 3]:\n  y = x |> f: linear\n  (3)\n  return y\n",
        "block A()(x: [n, 3]) -> [n, 3]:\n  (x)\n  return x\n",
        "def f(n)\n  (n) = n\n",
    ],
)
def test_nothing_else_goes_on_with_a_bracket(text: str) -> None:
    reports = check(Source("example.mgn", text), lambda _: None).reports
    assert any(report.severity is Severity.ERROR for report in reports)


TWICE = """\
block Net(d, bias=true)(x: [n, 3]) -> [n, d]:
  return x |> fc: linear(d, bias=bias) |> norm: batch_norm

block Half()(x: [n, 3]) -> [n, 4]:
  return x |> net

model net = Net(4)

train fit(x: [batch, 3], y: [batch, 3]):
{body}
  minimize mean((a - b) ** 2)
"""


@pytest.mark.parametrize(
    "body",
    [
        "a = x |> net\nb = y |> net",
        "a = net(x)\nb = y |> net()",
        "a = x |> net(bias=false)\nb = y |> net(bias=false)",
        "a = x |> net\nb = y |> Half()",
        "a = x |> g: net\nb = y |> g",
        "a = x |> net\nb = zeros([batch, 4])\nfor i in 0..3:\n  b = (y + i) |> net",
    ],
)
def test_a_model_applied_again_is_the_same_weights(body: str) -> None:
    text = TWICE.format(body="\n".join(f"  {line}" for line in body.split("\n")))
    result = check(Source("example.mgn", text), lambda _: None)
    assert result.fine, [render(report) for report in result.reports]


@pytest.mark.parametrize(
    "body",
    [
        "a = x |> net\nb = y |> net(bias=false)",
        "a = x |> net(d=5)\nb = y |> net",
        "a = x |> net\nb = y |> fc: linear(4)",
    ],
)
def test_a_model_with_other_arguments_is_other_weights(body: str) -> None:
    text = TWICE.format(body="\n".join(f"  {line}" for line in body.split("\n")))
    reports = check(Source("example.mgn", text), lambda _: None).reports
    (report,) = (each for each in reports if each.code == "E0205")
    assert report.help is not None
    assert "`|> `" not in report.help.text
