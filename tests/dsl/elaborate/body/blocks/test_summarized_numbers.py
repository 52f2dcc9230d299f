"""A summary stands for layers of its own numbers alone, and its steps count."""

from textwrap import dedent

import pytest

from meganeura_dsl.elaborate.body.blocks import layer_summaries
from meganeura_dsl.elaborate.body.expressions import deferred_numbers
from meganeura_dsl.elaborate.declarations import models
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.limits import work_budget
from meganeura_dsl.syntax import ast
from tests.dsl.elaborate.body.blocks.summarized import (
    BODIES,
    checked,
    checked_by_layers,
    elaborations,
    found,
    texts,
)

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
    "iterations of a number beside a choice": """\
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
    assert checked(text).fine is checked_by_layers(text, monkeypatch).fine is fine


def test_layers_that_are_not_elaborated_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values and iterations of a summary are those of the layer, so that limits stay limits."""
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
    assert found == texts(checked_by_layers(text, monkeypatch))
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
