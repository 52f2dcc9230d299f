"""A check that summarizes layers finds what one that elaborates each of them finds."""

from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.body import elaborator, layer_summaries
from meganeura_dsl.elaborate.declarations import models, training_blocks
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.summary import Attempt, Summaries
from meganeura_dsl.ir.objectives import reached
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits import work_budget
from meganeura_dsl.pipeline import CheckResult, Program, check, load
from meganeura_dsl.resources import standard_model_names
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
    run_body = elaborator.Elaborator.run_body
    monkeypatch.setattr(
        elaborator.Elaborator,
        "run_body",
        lambda self, inner, block: runs.append(block.name.text) or run_body(self, inner, block),
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


def attempts_of(summaries: Summaries) -> list[Attempt]:
    """All that was tried in symbols."""
    return [each for attempts in summaries.general.values() for each in attempts]


def runs_of(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The blocks whose bodies are run for the models of a program, which is right, in order."""
    program, runs, summaries = checked(text).program, list[str](), Summaries()
    run_body = elaborator.Elaborator.run_body
    with monkeypatch.context() as patch:
        patch.setattr(
            elaborator.Elaborator,
            "run_body",
            lambda self, inner, block: runs.append(block.name.text) or run_body(self, inner, block),
        )
        for model in program.module.models.values():
            models.elaborate_model(
                program.module, model, config={}, sizes=None, training=False, summaries=summaries
            )
    for summarized, walked in zip(
        elaborations(program, Summaries()), elaborations(program, None), strict=True
    ):
        assert found(summarized) == found(walked)
    return runs


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", dedent(text)), lambda _: None)


def walked(text: str, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    """What a check finds that summarizes nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(elaborator, "apply_summary", lambda *arguments: arguments[-2]())
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
    "a parameter that two losses move": """\
        train fit(x: [batch, 4]):
          a = x |> a: Twice(4)
          minimize mean(a |> b: Twice(4))
          minimize mean(a |> c: Twice(4))
          run:
            data = "digits"
        """,
}


def texts(result: CheckResult) -> list[str]:
    """What is said, in full."""
    return [render(each) for each in result.reports]


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BODIES + dedent(program)
    quick, slow = checked(text), walked(text, monkeypatch)
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
    assert any(each.summary is not None for each in attempts_of(summaries))


def test_a_layer_that_is_called_again_is_matched_with_its_signature_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = BODIES + dedent(
        """\
        block Net()(x: [n, 4]) -> [n, 4]:
          for i in 0..40:
            x = x |> layers[i]: Twice(4)
          return x

        model net = Net()
        """
    )
    program, calls = checked(text).program, list[str]()
    match = elaborator.Elaborator._match
    monkeypatch.setattr(
        elaborator.Elaborator,
        "_match",
        lambda self, inner, block, span: (
            calls.append(block.name.text) or match(self, inner, block, span)
        ),
    )
    found = models.elaborate_model(
        program.module,
        program.module.models["net"],
        config={},
        sizes=None,
        training=False,
        summaries=Summaries(),
    )
    assert calls.count("Twice") < 3
    assert len(found.parameters) == 160


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
    assert any(each.summary is not None for each in attempts_of(summaries))


WAYS = """\
block Layer(d, groups=1)(x: [n, c]) -> [n, d] where d % groups == 0:
  y = x |> fc: linear(d)
  if c == d:
    y = y + x
  if d > 100 and groups > 1:
    y = y |> more: linear(d)
  return rearrange(y, [n, groups * k] -> [n, k, groups]) |> rearrange([n, k, g] -> [n, k * g])

block Net(a, b, groups)(x: [n, a]) -> [n, b]:
  return x |> one: Layer(a, groups) |> two: Layer(b, groups)

"""


def test_a_layer_goes_the_way_of_its_own_sizes_and_is_elaborated_once_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [(a, b, g) for g in (1, 2) for a in (16, 32, 64) for b in (32, 64, 128, 160)]
    lines = [f"model m{a}_{b}_{g} = Net({a}, {b}, {g})\n" for a, b, g in sizes]
    runs = runs_of(WAYS + "".join(lines), monkeypatch)
    # Of each number of groups: equal or not, and large or not where there are several groups;
    # and once more before, as a layer is elaborated in symbols where it is applied again.
    assert 6 <= runs.count("Layer") <= 10


IDLE = """\
block Branch(c, p: real)(x: [n, c]) -> [n, c]:
  return x |> fc: linear(c) |> drop_path({given}) |> dropout(p)

block Net(c)(x: [n, c]) -> [n, c]:
  for i in 0..12:
    x = x |> [i]: Branch(c, p=i / 20)
  return x

model net = Net(16)
"""


@pytest.mark.parametrize(("given", "most"), [("p", 1), ("p=p", 1), ("p / 2", 12)])
def test_layers_that_differ_in_what_only_training_reads_are_elaborated_once(
    given: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(IDLE.format(given=given), monkeypatch)
    assert runs.count("Branch") == most


READ = {
    "it is read": "x * p",
    "it is read in a condition": "(x * 2 if p > 0.5 else x)",
    "another block reads it": "x |> leaky_relu(p)",
    "it is given for more than a probability": "x |> scaled: Scaled(p)",
    "it is given in the mode of training": "x |> dropout(p, training=p > 2)",
}


@pytest.mark.parametrize("result", READ.values(), ids=READ)
def test_a_number_that_evaluation_reads_is_the_layer_s_own(
    result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""\
        block Scaled(p: real)(x: [n, c]) -> [n, c]:
          param weight: [c] = uniform(p)
          if training:
            x = x * p
          return x * weight

        block Branch(p: real)(x: [n, c]) -> [n, c]:
          return {result}

        block Net()(x: [n, 16]) -> [n, 16]:
          return x |> a: Branch(0.25) |> b: Branch(0.75)

        model net = Net()
        """
    assert runs_of(dedent(text), monkeypatch).count("Branch") == 2


def test_steps_do_not_depend_on_what_was_checked_before() -> None:
    """Standard layers that another program applied to other sizes make no difference to this."""

    def steps(text: str) -> int:
        budget = work_budget.Budget(10**9)
        with work_budget.within(budget):
            assert checked(text).fine
        return budget.spent

    line = "model m{0} = Net({0}, {1})\n"
    body = """\
block Net(c, d)(x: [n, c, h, w]) -> [n, d, h, w] where c % 8 == 0, d % 8 == 0:
  return x |> a: conv2d(d, 3, pad=1, groups=4) |> b: group_norm(8) |> c: conv2d(d, 1)

"""
    layer_summaries._of_library.cache_clear()
    first = steps(body + line.format(16, 32))
    layer_summaries._of_library.cache_clear()
    steps(body + line.format(24, 24) + line.format(8, 40) + line.format(48, 8))
    assert steps(body + line.format(16, 32)) == first


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
