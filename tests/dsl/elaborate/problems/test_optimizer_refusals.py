"""Rules of programs that are refused, and others that are proved."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.problems.refusal import Refusal

HEAD = "optimizer o(lr: real)(p: [...s], g: [...s]) -> [...s]:\n"
TRAIN = """
train fit(x: [batch, 3]):
  minimize mean(x |> fc: linear(1))
"""


def rule(name: str, body: str, code: str, headline: str, label: str, head: str = HEAD) -> Refusal:
    return Refusal(name, f"{head}{body}", code, headline, label)


def header(name: str, head: str, headline: str, label: str) -> Refusal:
    return rule(name, "  return p - lr * g\n", "E0595", headline, label, f"{head}:\n")


FORM = "the optimizer `o`"
REFUSALS = (
    header(
        "default of an input",
        "optimizer o(lr: real)(p: [...s], g: [...s] = 0) -> [...s]",
        "`g` has a default, and a step always gives it",
        "leave it out",
    ),
    header(
        "gradient of another shape",
        "optimizer o(lr: real)(p: [...s], g: [n]) -> [...s]",
        "`g` has another shape than `p`",
        "a gradient has the shape of its parameter",
    ),
    header(
        "no result",
        "optimizer o(lr: real)(p: [...s], g: [...s])",
        f"{FORM} does not state that it returns the next `p`",
        "its result is [...s]",
    ),
    header(
        "half floats",
        "optimizer o(lr: real)(p: f16[...s], g: [...s]) -> [...s]",
        "`p` is f16, and optimizers compute in f32",
        "leave the element type out",
    ),
    header(
        "rate of whole numbers",
        "optimizer o(lr: size)(p: [...s], g: [...s]) -> [...s]",
        "`lr` is the learning rate",
        "a number above 0",
    ),
    header(
        "rate of 0",
        "optimizer o(lr: real = 0)(p: [...s], g: [...s]) -> [...s]",
        "`lr` is 0 unless it is given",
        "it is above 0",
    ),
    header(
        "gradient before the parameter",
        "optimizer o(lr: real)(g: [...s], p: [...s]) -> [...s]",
        "`g` is the parameter here, and `p` its gradient",
        "a rule takes a parameter, then its gradient",
    ),
    header(
        "argument named as a record's word",
        "optimizer o(lr: real, kind: real)(p: [...s], g: [...s]) -> [...s]",
        "`kind` is the name of something else where settings are kept",
        "this argument needs another name",
    ),
    header(
        "argument named as a word of Python",
        "optimizer o(lr: real, lambda: real)(p: [...s], g: [...s]) -> [...s]",
        "`lambda` is the name of something else where settings are kept",
        "this argument needs another name",
    ),
    header(
        "argument without kind",
        "optimizer o(lr: real, steps=5)(p: [...s], g: [...s]) -> [...s]",
        "`steps` has no kind that an argument of an optimizer has",
        "settings give it a number, a word or a text",
    ),
    header(
        "default of another kind",
        'optimizer o(lr: real, how: "a" or "b" = "c")(p: [...s], g: [...s]) -> [...s]',
        'the default of `how` is not "a" or "b"',
        "",
    ),
    rule("rate never read", "  return p - g\n", "E0595", f"{FORM} never reads `lr`",
         "schedules and groups would change nothing"),
    rule("choice by the rate", "  return p - g if lr > 0 else p\n", "E0203",
         "this needs a condition", "this is the tensor bool[]"),
    rule("another result", "  return lr * sum(p * g)\n", "E0303",
         "`o` returns another shape than it says", "found    f32[]"),
    rule("a layer", "  layer l: linear(3)\n  return p - lr * (g |> l)\n", "E0596",
         "an optimizer has no layers", "this has weights"),
    rule("a cache", "  cache m: [...s]\n  return p - lr * (g + m)\n", "E0596",
         "an optimizer has no caches", "an optimizer has states"),
    rule("random numbers of a layer", "  return p - lr * (g |> dropout(0.5))\n", "E0596",
         "an optimizer has no random numbers", "this draws some"),
    rule("updates of iterations", "  state m: [...s]\n  scan i in 0..3:\n    update m = m + g\n"
         "  return p - lr * m\n", "E0597", "the state `m` is updated twice",
         "it has its next value already"),
    rule("an update on one of two paths", "  state m: [...s]\n  if b:\n    update m = m + g\n"
         "  return p - lr * m\n", "E0597", "the state `m` is never updated", "it stays at 0",
         "optimizer o(lr: real, b: bool)(p: [...s], g: [...s]) -> [...s]:\n"),
    rule("a loss", "  minimize sum(p)\n  return p - lr * g\n", "E0124",
         "`minimize` does not belong in an `optimizer`", "this belongs in a `train`"),
    rule("an input of the training", f"  return p - lr * g * mean(x)\n{TRAIN}", "E0201",
         "nothing here is called `x`", "no value of this name"),
    rule("a layer that is none", "  return p - lr * g\n\nmodel m = o(lr=1.0)\n", "E0203",
         "this needs a layer or a function", "this is an optimizer"),
    rule("one pair of brackets", " = p - g\n", "E0131", "an optimizer has two pairs of brackets",
         "the first holds arguments, the second the parameter and its gradient",
         "optimizer o(p: [...s], g: [...s]) -> [...s]"),
)  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
def test_a_rule_is_refused_in_these_words(refusal: Refusal) -> None:
    reports = pipeline.check(Source("example.mgn", refusal.text), lambda _: None).reports
    others = [each for each in reports if each.code not in ("E0207", "E0222", "N0004")]
    assert [(each.code, each.headline) for each in others] == [(refusal.code, refusal.headline)]
    label = others[0].label
    assert label is not None
    assert label.text.split("\n")[0] == refusal.label


PROVED = {
    "a formula": "optimizer o(lr: real)(p: [...s], g: [...s]) -> [...s] = p - lr * g\n",
    "reductions of any rank": HEAD + "  return p - lr * sqrt(sum(p * p)) * g\n",
    "iterations": "optimizer o(lr: real, n: size = 3)(p: [...s], g: [...s]) -> [...s]:\n"
    "  x = g\n  for i in 0..n:\n    x = x * 0.5\n  return p - lr * x\n",
    "a scan": HEAD + "  x = g\n  scan i in 0..3:\n    x = x * 0.5\n  return p - lr * x\n",
    "a choice by a number": "optimizer o(lr: real, b: real)(p: [...s], g: [...s]) -> [...s]:\n"
    "  d = g + b * p if b > 0 and b < 1 else g\n  return p - lr * d\n",
    "matrices": "optimizer o(lr: real)(p: [m, n], g: [m, n]) -> [m, n]:\n"
    "  return p - lr * (g @ (g |> rearrange([m, n] -> [n, m])) @ g)\n",
    "a block of no weights": "block halved()(x: [...s]) -> [...s] = x / 2\n\n"
    + HEAD
    + "  return p - lr * (g |> halved)\n",
}


@pytest.mark.parametrize("name", PROVED)
def test_a_rule_is_proved_once_for_all_shapes(name: str) -> None:
    result = pipeline.check(Source("example.mgn", PROVED[name]), lambda _: None)
    assert result.reports == ()
    assert "o" in result.proved
