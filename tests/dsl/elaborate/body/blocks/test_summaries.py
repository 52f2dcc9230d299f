"""A check that summarizes layers finds what one that elaborates each of them finds."""

from itertools import pairwise
from random import Random
from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.body.blocks import block_application, layer_summaries
from meganeura_dsl.elaborate.declarations import models, training_blocks
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.ir.objectives import reached
from meganeura_dsl.pipeline import check, load
from meganeura_dsl.resources import standard_model_names
from tests.dsl.elaborate.body.blocks.summarized import (
    BODIES,
    checked,
    checked_by_layers,
    elaborations,
    found,
    texts,
    told,
)
from tests.effort import effort

PROGRAMS = effort(["digits_cnn", "recurrent"], [*standard_model_names()])


@pytest.mark.parametrize("name", PROGRAMS)
def test_summaries_change_nothing_that_is_asked(name: str) -> None:
    program, summaries = load(name), Summaries()
    pairs = zip(elaborations(program, summaries), elaborations(program, None), strict=True)
    for summarized, walked in pairs:
        assert found(summarized) == found(walked)
    assert summaries.known or not program.models


def test_a_layer_is_elaborated_once_for_models_of_all_depths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, runs = load("resnet"), list[str]()
    run_body = block_application.run_body
    for module in (block_application, layer_summaries):
        monkeypatch.setattr(
            module,
            "run_body",
            lambda inner, block: runs.append(block.name.text) or run_body(inner, block),
        )
    counts, summaries = [0], Summaries()
    for name in ("resnet18", "resnet34"):
        model = program.module.models[name]
        models.elaborate_model(
            program.module, model, config={}, sizes=None, training=False, summaries=summaries
        )
        counts.append(len(runs))
    first, second = (runs[before:after] for before, after in pairwise(counts))
    assert {"ResNet", "Stage", "Residual", "BasicBlock"} <= {*first}
    assert {*second} <= {"ResNet", "Features", "Stage", "Residual"}
    assert second.count("Residual") < 3


REFUSED = {
    "a parameter in the place of one that a layer has": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          param b.bias: [4] = ones
          y = x |> a: linear(4)
          return y |> b: linear(4)
        model net = Net()
        """,
    "a layer in the place of another, which has more": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          y = x |> a: linear(4) |> b: linear(4, bias=false)
          return y |> c: linear(4) |> b: linear(4)
        model net = Net()
        """,
    "the path of a weight twice": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          y = x |> a: Twice(4)
          z = y |> b: Twice(4)
          return z |> b: Twice(4)

        model net = Net()
        """,
    "where a size came from": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          y = x |> a: Twice(4) |> b: Twice(4)
          z = x |> c: Twice(3)
          return y + z

        model net = Net()
        """,
    "a number where a flag is due": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          y = x |> Halved(true)
          return y |> Halved(1)

        model net = Net()
        """,
    "a number in a block where a flag is due": """\
        block Net()(x: [n, 4]) -> [n, 4]:
          y = x |> Outer(f=Halved(true))
          return y |> Outer(f=Halved(1))

        model net = Net()
        """,
    "a loss that reaches nothing": """\
        train fit(x: [batch, 4]):
          a = x |> a: Frozen(4)
          minimize mean(a |> b: Twice(4)) over b
          minimize mean(x |> c: Frozen(4)) over c
          run:
            data = "digits"
        """,
    "a divisor that is 0 for one of the numbers": """\
        block Net(c)(x: [n, 4]) -> [n, 4]:
          return x |> Rows(96 // (c - 24))

        block Rows(k)(x: [n, 4]) -> [n, 4]:
          return x * k

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(24)
        """,
    "a scale that is no number for one of the numbers": """\
        block Net(c)(x: [n, 4]) -> [n, 4]:
          return x |> Scaled(c)

        block Scaled(c)(x: [n, 4]) -> [n, 4]:
          half = c // 2
          return x * (1 / (half - 12))

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(24)
        """,
    "a first value that is no number for one of the numbers": """\
        block Net(c)(x: [n, c]) -> [n, c]:
          return x |> layer: Near(c)

        block Near(c)(x: [n, c]) -> [n, c]:
          param weight: [c] = uniform(1 / (c - 24))
          return x * weight

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(24)
        """,
    "more elements than can be counted for one of the numbers": """\
        block Net(c)(x: [n, 8]) -> [n, 8]:
          return x |> layer: Near(c) |> back: linear(8)

        block Near(c)(x: [n, d]) -> [n, c]:
          y = x |> first: linear(c, bias=false)
          return y |> second: linear(c)

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(4_000_000_000)
        """,
    "more elements of a value in a layer than can be counted for one of the numbers": """\
        block Net(c)(x: [n, 8]) -> [n, 8]:
          return x |> Near(c)

        block Near(c)(x: [n, d]) -> [n, d]:
          return x + sum(full([c, c], 1.0))

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(4_000_000_000)
        """,
    "more elements of a value in a layer of a layer, which another had too": """\
        block First(c)(x: [n, 8]) -> [n, 8]:
          return x |> Around(c)

        block Second(c)(x: [n, 8]) -> [n, 8]:
          return x |> Beside(c)

        block Around(c)(x: [n, d]) -> [n, d]:
          return x |> Near(c)

        block Beside(c)(x: [n, d]) -> [n, d]:
          return 2 * (x |> Near(c))

        block Near(c)(x: [n, d]) -> [n, d]:
          return x + sum(full([c, c], 1.0))

        model first = First(32)
        model other = First(48)
        model wide = Second(32)
        model wider = Second(48)
        model none = Second(4_000_000_000)
        """,
    "a layer that is given what its signature excludes, the third time": """\
        block Net(c)(x: [n, 4]) -> [n, 4]:
          y = x |> a: linear(c) |> b: Near(16) |> back: linear(4)
          return y

        block Near(groups)(x: [n, c]) -> [n, c] where c % groups == 0:
          return x |> fc: linear(c)

        model wide = Net(32)
        model wider = Net(48)
        model none = Net(24)
        """,
    "a parameter that the data sizes, where others did not": """\
        block Near()(x: [n, c]) -> [n, c]:
          return x |> norm: rms_norm

        block Net(c)(x: [n, c]) -> [n, c]:
          return x |> near: Near()

        block Open()(x: [n, c]) -> [n, c]:
          return x |> near: Near()

        model wide = Net(16)
        model wider = Net(24)
        model none = Open()
        """,
    "a number that is too small for one of the sizes": """\
        block Net(c)(x: [n, c]) -> [n, c]:
          return x |> Near(24)

        block Near(most)(x: [n, c]) -> [n, c] where c <= most:
          return x |> fc: linear(c)

        model first = Net(16)
        model second = Net(20)
        model third = Net(28)
        """,
    "a number that only the facts of a layer read": """\
        block Drop(p: real)(x: [n, c]) -> [n, c] where p < 1:
          if training:
            x = x * p
          return x
        block Branch(p: real)(x: [n, c]) -> [n, c]:
          return x |> fc: linear(c) |> Drop(p)
        block Net(p: real, q: real)(x: [n, 16]) -> [n, 16]:
          return x |> a: Branch(p) |> b: Branch(q)
        model net = Net(0.25, 1.5)
        """,
    "a number that only a default reads": """\
        block Drop(p: real, q: real = 1 / (p - 1.5))(x: [n, c]) -> [n, c]:
          if training:
            x = x * p
          return x + q
        block Branch(p: real)(x: [n, 16]) -> [n, 16]:
          return x |> fc: linear(16) |> Drop(p)
        block Net(p: real, q: real)(x: [n, 16]) -> [n, 16]:
          return x |> a: Branch(p) |> b: Branch(q)
        model net = Net(0.25, 1.5)
        """,
    "a number that only the type of a result reads": """\
        block Drop2(p: real)(x: [n, c]) -> [n, 16 if p > 1 else c]:
          if training:
            x = x * p
          return x
        block Branch(p: real)(x: [n, 16]) -> [n, 16]:
          return x |> fc: linear(17) |> Drop2(p) |> fc2: linear(16)
        block Net(p: real, q: real)(x: [n, 16]) -> [n, 16]:
          return x |> a: Branch(p) |> b: Branch(q)
        model net = Net(0.25, 1.5)
        """,
    "a parameter that two losses move": """\
        train fit(x: [batch, 4]):
          a = x |> a: Twice(4)
          minimize mean(a |> b: Twice(4))
          minimize mean(a |> c: Twice(4))
          run:
            data = "digits"
        """,
}


SIZES = (1, 2, 3, 7, 8, 9, 16)
STEPS = (
    "x = x |> up{at}: linear(k)",
    "x = x |> same{at}: linear(d)",
    "x = x |> up{at}: linear(c * k)",
    "if k == d:\n    x = 2 * x |> equal{at}: linear(c)",
    "if k > {size}:\n    x = x |> deep{at}: linear(k)",
    "if d >= {size}:\n    x = x |> wide{at}: linear(c, bias=false)",
    "if d % 2 == 0:\n    x = x |> even{at}: linear(d // 2)",
    "if c == {size}:\n    x = concat(x, x, axis=1)",
    "x = x[:, :k]",
    "x = rearrange(x, [n, e * 2] -> [n, e, 2])[:, :, 0]",
    "x = x |> norm{at}: layer_norm",
    "layer late{at}: linear(c, bias=false)\n  x = x |> early{at}: linear(k) |> late{at}",
    "x = dropout(x, 0.1) + full([n, 1], k)[0, 0]",
    "param w{at}: [k, c] = normal(1 / k)\n  x = x * mean(w{at})",
    "param b{at}: [c] = uniform(1.0 / d)\n  x = x + mean(b{at})",
    "state s{at}: [k] = ones\n  if training:\n    update s{at} = 0.5 * s{at} + mean(x)",
    "for i in 0..c:\n    x = x |> stack{at}[i]: linear(k)",
    "scan t in 0..c:\n    x = tanh(x + f32(t))",
    "x = (x - mean(x, axis=0, keep=true)) if n > 1 else x",
)


def layers(seed: int) -> str:
    """A model of random blocks, each applied to several sizes and with several numbers."""
    random = Random(seed)
    text = ""
    for number in range(2):
        steps = [random.choice(STEPS) for _ in range(random.randint(1, 3))]
        if number:
            steps.insert(random.randrange(2), "x = x |> part{at}: Part0(c, {size}, f)")
        lines = [each.format(at=at, size=random.choice(SIZES)) for at, each in enumerate(steps)]
        body = "\n  ".join(lines)
        text += (
            f"block Part{number}(k, c=3, f=relu)(x: [n, d]):\n  {body}\n  return c * k * x |> f\n\n"
        )
    for number in range(3):
        given = [
            f"a{at}: Part{random.randrange(2)}({random.choice(SIZES)}"
            + random.choice(("", ", 2", ", 3", ", c=8, f=tanh", ", f=abs"))
            + ")"
            for at in range(3)
        ]
        size, piped = random.choice(SIZES), " |> ".join(given)
        text += f"block Net{number}()(x: [n, {size}]):\n  return x |> {piped}\n\n"
        text += f"model net{number} = Net{number}()\n\n"
    return text


@pytest.mark.parametrize("seeds", [range(at, at + 8) for at in range(0, effort(8, 480), 8)])
def test_random_layers_are_what_they_are_when_each_is_elaborated(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        text = layers(seed)
        result = checked(text)
        assert texts(result) == texts(checked_by_layers(text, monkeypatch)), text
        summaries, module = Summaries(), result.program.module
        for model in module.models.values():
            assert told(module, model, summaries) == told(module, model, None), text


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BODIES + dedent(program)
    quick, slow = checked(text), checked_by_layers(text, monkeypatch)
    assert [each.severity.value for each in slow.problems].count("error") > 0
    assert texts(quick) == texts(slow)


def test_a_note_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm may be over one element in one application of a layer, and over many in another."""
    text = """\
        block Rows(c)(x: [n, c]) -> [n, c]:
          return x |> fc: linear(c) |> norm: batch_norm()

        train fit(x: [batch, 16]):
          y = x |> a: Rows(16) |> b: Rows(16)
          z = rearrange(y, [batch, 4 * c] -> [4 * batch, c])
          minimize mean(z |> c: Rows(4) |> d: Rows(4))
          run:
            data = "digits"
        """
    quick, slow = checked(text), checked_by_layers(text, monkeypatch)
    assert [each.code for each in slow.reports].count("N0002")
    assert texts(quick) == texts(slow)


def test_what_a_gradient_reaches_is_known_through_a_summary() -> None:
    program = check(
        Source(
            "net.mgn",
            BODIES
            + dedent(
                """\
                train fit(x: [batch, 4]):
                  a = x |> a: Twice(4) |> b: Twice(4)
                  f = a |> f: Frozen(4) |> g: Frozen(4)
                  minimize mean(f |> c: Twice(4))
                  run:
                    data = "digits"
                """
            ),
        ),
        lambda _: None,
    ).program
    train = program.module.trains["fit"]
    for summaries in (Summaries(), None):
        elaboration = training_blocks.elaborate_train(
            program.module, train, sizes={}, training=True, summaries=summaries
        )
        names = {f"c.fc{number}.{each}" for number in (1, 2) for each in ("weight", "bias")}
        assert reached(elaboration.graph.outputs["loss"]) == names
