"""A check that summarizes layers finds what one that elaborates each of them finds."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.body.blocks import applications, layer_summaries
from meganeura_dsl.elaborate.body.expressions import deferred_numbers
from meganeura_dsl.elaborate.declarations import models, training_blocks
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.ir.objectives import reached
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits import work_budget
from meganeura_dsl.pipeline import CheckResult, Program, check, load
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.syntax import ast
from tests.effort import effort

PROGRAMS = effort(["digits_cnn", "recurrent"], [*standard_model_names()])


def found(elaboration: Elaboration) -> dict[str, object]:
    """All that a check asks of an elaboration: of bindings, the type of the first at a place."""
    bound: dict[tuple[Span, str], TensorType] = {}
    for each in elaboration.bindings:
        bound.setdefault((each.span, each.name), each.type)
    return {
        "parameters": [
            (each.name, each.type, each.kind, each.stored, each.initializer)
            for each in (*elaboration.parameters, *elaboration.caches)
        ],
        "inputs": elaboration.inputs,
        "outputs": {name: value.type for name, value in elaboration.graph.outputs.items()},
        "updates": {name: value.type for name, value in elaboration.graph.updates.items()},
        "bindings": bound,
        "notes": [note.report() for note in elaboration.notes],
        "stated": elaboration.facts.stated,
        "own": elaboration.own,
        "blocks": elaboration.blocks,
    }


def elaborations(program: Program, summaries: Summaries | None) -> Iterator[Elaboration]:
    """Every model of a program, and every `train` block."""
    module = program.module
    for model in module.models.values():
        for training in (False, True):
            yield models.elaborate_model(
                module, model, config={}, sizes=None, training=training, summaries=summaries
            )
    for train in module.trains.values():
        yield training_blocks.elaborate_train(
            module, train, sizes={}, training=True, summaries=summaries
        )


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
    run_body = applications.run_body
    for module in (applications, layer_summaries):
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
    assert {*second} <= {"ResNet", "Stage", "Residual"}
    assert second.count("Residual") < 3


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", dedent(text)), lambda _: None)


def walked(text: str, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    """Returns the result of a check without summaries."""
    with monkeypatch.context() as patch:
        patch.setattr(applications, "apply_summary", lambda *arguments: arguments[-1]())
        return checked(text)


BODIES = """\
block Twice(d)(x: [n, c]) -> [n, d]:
  y = x |> fc1: linear(d)
  return y |> fc2: linear(d)

block Halved(flag)(x: [n, c]) -> [n, c]:
  if flag:
    return x
  return x * 2

block Outer(f: block()(x: [a, b]) -> [a, b] = relu)(x: [n, c]) -> [n, c]:
  return x |> f()

block Frozen(d)(x: [n, c]) -> [n, d]:
  return stop_gradient(x |> fc: linear(d))

"""

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


@pytest.mark.parametrize("seeds", [range(each, each + 8) for each in range(0, 48, 8)])
def test_random_layers_are_what_they_are_when_each_is_elaborated(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        text = layers(seed)
        result = checked(text)
        assert texts(result) == texts(walked(text, monkeypatch)), text
        summaries, module = Summaries(), result.program.module
        for model in module.models.values():
            assert told(module, model, summaries) == told(module, model, None), text


def told(
    module: LinkedModule, model: ast.Model, summaries: Summaries | None
) -> dict[str, object] | str:
    """All that a check asks of a model, or why it is refused."""
    try:
        elaboration = models.elaborate_model(
            module, model, config={}, sizes=None, training=True, summaries=summaries
        )
    except ProblemError as error:
        return render(error.problem.report())
    return found(elaboration)


def texts(result: CheckResult) -> list[str]:
    """Returns the messages in full."""
    return [render(each) for each in result.reports]


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BODIES + dedent(program)
    quick, slow = checked(text), walked(text, monkeypatch)
    assert [each.severity.value for each in slow.problems].count("error") > 0
    assert texts(quick) == texts(slow)


ACCEPTED = {
    "what begins as the product of axes that are not counted": """\
        block Start()(x: [n, ...s]) -> [n, ...s]:
          param w: [4] = normal(1 / product(s))
          return x * sum(w)
        block Net(k)(x: [n, k, 8]) -> [n, k, 8] = x |> a: Start() |> b: Start()
        model a = Net(16)
        model b = Net(24)
        model c = Net(32)
        """,
    "rounds of a number beside a choice": """\
        block Layer(k, m)(x: [n, c]) -> [n, c]:
          for i in 0..c // 16:
            x = x |> r[i]: linear(c)
          if k > m:
            x = x + 1
          else:
            x = x |> f: linear(c)
          return x

        block Net(c, k, m)(x: [n, c]) -> [n, c]:
          return x |> one: Layer(k, m)

        model a = Net(48, 24, 8)
        model b = Net(48, 32, 8)
        model d = Net(64, 8, 24)
        model e = Net(48, 8, 24)
        model g = Net(32, 8, 24)

        expect e has 8 params
        expect e has 8 params, 9408 weights
        """,
    "a divisor that the left side keeps from zero, in layers": """\
        block A(k)(x: [n, c]) -> [n, c]:
          y = x
          if k > 8 and 24 % (k - 8) == 0:
            y = y + 1
          return y
        block N(a, b, e)(x: [n, 16]) -> [n, 16]:
          return x |> p: A(a) |> q: A(b) |> r: A(e)
        model m1 = N(9, 8, 10)
        """,
    "a divisor that the left side keeps from zero, in models": """\
        block B(k)(x: [n, c]) -> [n, c]:
          return x + (1 if k <= 8 or 24 // (k - 8) > 2 else 3)
        model a = B(9)
        model b = B(8)
        """,
}


@pytest.mark.parametrize("program", ACCEPTED.values(), ids=ACCEPTED)
def test_layers_of_other_numbers_are_their_own(program: str) -> None:
    """With summaries and without, every model is the same, and what is expected of it holds."""
    result = checked(dedent(program))
    assert result.fine, texts(result)
    known = Summaries()
    for quick, slow in zip(
        elaborations(result.program, known), elaborations(result.program, None), strict=True
    ):
        assert found(quick) == found(slow)


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
    quick, slow = checked(text), walked(text, monkeypatch)
    assert [each.code for each in slow.reports].count("N0002")
    assert texts(quick) == texts(slow)


STARTS = """\
block Layer(c)(x: [n, d]) -> [n, c]:
  param weight: [d, c] = uniform(2 / d ** 0.5)
  param gain: [c] = normal(1 / (c - 1))
  y = x |> fc: linear(d) |> mix: Mixed(d)
  return (d ** -0.5 * y) @ weight * gain

block Mixed(d)(x: [n, d], mask: bool[n, d] = true, bias: [n, d] = 0) -> [n, d]:
  return where(mask, x + bias, 0) |> norm: layer_norm

block Net(d, c)(x: [n, d]) -> [n, c]:
  return x |> layer: Layer(c)

"""


def test_parameters_begin_as_their_own_numbers_say() -> None:
    lines = [f"model m{width} = Net({width + 8}, {width})\n" for width in (16, 24, 40)]
    program = checked(STARTS + "".join(lines)).program
    summaries = Summaries()
    for summarized, walked in zip(
        elaborations(program, summaries), elaborations(program, None), strict=True
    ):
        assert found(summarized) == found(walked)
    assert any(summary is not None for summary in summaries.symbolic.values())


@pytest.mark.parametrize("layer", ["relu", "layer_norm", "linear(16)"])
def test_a_standard_layer_is_elaborated_once_for_all_sizes(layer: str) -> None:
    """Of a square, whose two sizes are equal, as of an oblong."""
    library = layer_summaries._of_library
    library.cache_clear()
    program = f"block A(h, w)(x: [n, 3, h, w]):\n  return x |> one: {layer}\n\n"
    assert checked(program + "model a = A(24, 40)\nmodel b = A(24, 24)\n").fine
    assert len(library().symbolic) == 1


FAMILY = """\
block Layer(d)(x: [n, c]) -> [n, d]:
  y = x |> fc: linear(d) |> relu
  if c == d:
    return x + y
  return y

block Stack(depth, d)(x: [n, c]) -> [n, d]:
  x = x |> stem: Layer(d)
  for i in 0..depth:
    x = x |> layers[i]: Layer(d)
  return x |> norm: batch_norm()

block Net(depth, d)(x: [n, 4 * d]) -> [n, 3]:
  return x |> stack: Stack(depth, d) |> fc: linear(3)

"""


def test_models_of_a_family_have_the_layers_of_their_own_numbers() -> None:
    """No number that a symbol stands for decides how many layers there are, or what they are."""
    family = [(depth, width) for depth in (8, 9, 12) for width in (16, 24, 40)]
    lines = [f"model m{depth}_{width} = Net({depth}, {width})\n" for depth, width in family]
    program = checked(FAMILY + "".join(lines)).program
    summaries = Summaries()
    pairs = zip(elaborations(program, summaries), elaborations(program, None), strict=True)
    for summarized, walked in pairs:
        assert found(summarized) == found(walked)
    assert any(summary is not None for summary in summaries.symbolic.values())


LOOKED_UP = """\
block Row(rows)(x: any[n, c], at: i32[]) -> [n, c]:
  param table: [rows, c] = zeros
  return x + table[at]

block Net(p0, p1, p2, p3, p4, p5, p6, p7)(x: [n, 4], a: i32[], b: i32[]) -> [n, 4]
    where 0 <= a, a < 8, 0 <= b, b < 9:
  if p0:
    x = x * 2
  if p1:
    x = x * 2
  if p2:
    x = x * 2
  if p3:
    x = x * 2
  if p4:
    x = x * 2
  if p5:
    x = x * 2
  if p6:
    x = x * 2
  if p7:
    x = x * 2
  y = x |> first: Row(8, a)
  return y |> second: Row({rows}, {at}) |> third: Row(9, b)

model net = Net(true, true, true, true, true, true, true, true)
"""
"""A program that no proof covers, as it has too many paths: its model is checked alone."""


@pytest.mark.parametrize(
    ("rows", "at", "fine"),
    [(8, "a", True), (8, "b", False), (9, "b", True), (8, "a + 1", False), (8, "at=9", False)],
)
def test_what_is_known_of_a_number_is_not_taken_for_what_is_of_another(
    rows: int, at: str, *, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOOKED_UP.format(rows=rows, at=at)
    assert checked(text).fine is walked(text, monkeypatch).fine is fine


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


def test_layers_that_are_not_elaborated_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values and rounds of a summary are those of the layer, so that limits stay limits."""
    text = BODIES + dedent(
        """\
        block Net()(x: [n, 4]) -> [n, 4]:
          for i in 0..40:
            x = x |> layers[i]: Twice(4)
          return x

        model net = Net()
        """
    )
    assert checked(text).fine
    monkeypatch.setattr(work_budget, "MOST_VALUES", 300)
    found = texts(checked(text))
    assert found == texts(walked(text, monkeypatch))
    assert "300 values" in str(found)


def test_steps_count_with_summaries_and_those_of_a_failure_do_not() -> None:
    def elaborate(summaries: Summaries | None) -> str:
        work_budget.spend(5 if summaries is None else 7)
        return "plain" if summaries is None else "summarized"

    def failing(summaries: Summaries | None) -> str:
        if elaborate(summaries) == "summarized":
            raise work_budget.OutOfWorkError("too much")
        return "plain"

    known = Summaries()
    assert work_budget.measured(lambda: layer_summaries.with_summaries(known, elaborate)) == (
        "summarized",
        7,
    )
    assert work_budget.measured(lambda: layer_summaries.with_summaries(known, failing)) == (
        "plain",
        5,
    )


def test_what_a_parameter_begins_as_is_found_once_and_costs_its_steps_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f"model m{width} = Net({width + 8}, {width})\n" for width in (16, 24, 40)]
    program, runs, known = checked(STARTS + "".join(lines)).program, list[str](), Summaries()
    evaluated = deferred_numbers._evaluated
    monkeypatch.setattr(
        deferred_numbers,
        "_evaluated",
        lambda number, frame: runs.append(number.parameter) or evaluated(number, frame),
    )

    def elaborate(model: ast.Model) -> tuple[Elaboration, int]:
        runs.clear()
        known.known.clear()
        return work_budget.measured(
            lambda: models.elaborate_model(
                program.module, model, config={}, sizes=None, training=False, summaries=known
            )
        )

    family = [*program.module.models.values()]
    for model in family * 2:  # the first application of a layer is none in symbols
        elaborate(model)
    for model in family:
        remembered, steps = elaborate(model)
        assert not runs
        with monkeypatch.context() as patch:
            patch.setattr(deferred_numbers, "_are_numbers", lambda _: False)
            anew, expected = elaborate(model)
        assert {"layer.weight", "layer.gain"} <= {*runs}
        assert found(remembered) == found(anew)
        assert steps == expected


DECLARED_AGAIN = {
    "all names": ("linear(4)", "linear(4)", "a.weight"),
    "one of two names": ("linear(4, bias=false)", "linear(4)", "a.weight"),
    "the other name": ("Biased", "linear(4)", "a.bias"),
    "no name": ("layer_norm", "", ""),
}


@pytest.mark.parametrize("names", DECLARED_AGAIN)
def test_a_summary_declares_no_weight_again(names: str) -> None:
    """The layers `b` and `c` are the second `a`, so that its weights are known by their summary."""
    first, second, twice = DECLARED_AGAIN[names]
    again = f" |> a: {second}" if second else ""
    text = (
        "block Biased()(x: [n, d]) -> [n, d]:\n  param bias: [d] = ones\n  return x + bias\n"
        "block Net(widths: list)(x: [n, 4]) -> [n, 4]:\n"
        "  for i in 0..len(widths):\n    x = x * widths[i]\n"
        f"  return x |> b: linear(4) |> c: linear(4) |> a: {first}{again}\n"
        "model net = Net([1, 2])\n"
    )
    told = [report for report in checked(text).reports if report.code != "N0001"]
    assert [(report.code, report.headline) for report in told] == (
        [("E0205", f"`{twice}` is defined twice")] if twice else []
    )
