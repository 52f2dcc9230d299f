"""`frozen=true` and `training=false`: what a part in such a mode moves, draws and updates."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.transforms.optimizers.optimizers import AdamW
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

PART = """
block Part()(x: [n, 8]) -> [n, 8]:
  return x |> fc: linear(8) |> bn: batch_norm |> dropout(0.5)

model part   = Part()
model frozen = Part(frozen=true)

model thawed  = Part(frozen=false, training=2 > 1)
model refroze = thawed(frozen=true)
model thawed_again = frozen(frozen=false)
model at_rest = thawed(training=false)

block Given(f: block = part)(x: [n, 8]) -> [n, 8]:
  return x |> a: f

block Twice(f: block = part)(x: [n, 8]) -> [n, 8]:
  return x |> a: f(frozen=false) |> a

expect Given maps [n, 8] -> [n, 8]
expect Twice maps [n, 8] -> [n, 8]
"""
ALL = ["fc.weight", "fc.bias", "bn.weight", "bn.bias"]
STATES = ["bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]


def step_of(line: str) -> Graph:
    """The training step of a program with this line, of a parameter `y.weight` behind it."""
    text = f"{PART}\ntrain f(x: [batch, 8]):\n{line}\n"
    text += "  minimize mean((z |> y: linear(1, bias=false)) ** 2)\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine, [report.headline for report in result.reports]
    forward = pipeline.elaborate_train(result.program, "f", sizes={"batch": 4}, training=True).graph
    return training_step(forward, TrainingSettings(AdamW()))


def changed(graph: Graph) -> set[str]:
    """Returns the names that a step changes, without the optimizer and the last layer."""
    return {name for name in graph.updates if not name.startswith(("optimizer.", "y."))}


def names(path: str, parts: list[str]) -> set[str]:
    return {f"{path}.{part}" for part in parts}


@pytest.mark.parametrize(
    ("line", "moved", "draws"),
    [
        ("  z = x |> a: Part()", names("a", ALL + STATES), True),
        ("  z = x |> a: Part(frozen=true)", names("a", STATES), True),
        ("  z = x |> a: Part(frozen=false)", names("a", ALL + STATES), True),
        ("  z = x |> a: Part(training=false)", names("a", ALL), False),
        ("  z = x |> a: Part(training=1 > 2)", names("a", ALL), False),
        ("  z = x |> a: Part(training=training)", names("a", ALL + STATES), True),
        ("  z = x |> a: Part(training=false, frozen=true)", set[str](), False),
        ("  z = x |> a: frozen", names("a", STATES), True),
        ("  z = x |> a: frozen(frozen=false)", names("a", STATES), True),
        ("  z = x |> frozen(training=false)", set[str](), False),
        ("  layer a: frozen(frozen=false)\n  z = x |> a |> a", names("a", STATES), True),
        ("  z = x |> a: Given(Part(frozen=true), frozen=false)", names("a.a", STATES), True),
        ("  w = x |> a: thawed(frozen=true)\n  z = w |> a(frozen=false)", names("a", STATES), True),
        ("  z = x |> a: thawed", names("a", ALL + STATES), True),
        ("  z = x |> a: refroze", names("a", STATES), True),
        ("  z = x |> a: thawed_again", names("a", STATES), True),
        ("  z = x |> a: at_rest", names("a", ALL), False),
        ("  z = x |> a: at_rest(training=2 > 1)", names("a", ALL), False),
        ("  layer a: Part(frozen=true)\n  z = x |> a |> a(training=false)",
            names("a", STATES), True),
        ("  layer a: Part()\n  z = x |> a(frozen=true, training=false) |> a",
            names("a", ALL + STATES), True),
        ("  w = x |> a: Part(training=false, frozen=true)\n  z = w |> a", set[str](), False),
        ("  z = x |> Given(frozen)", names("a", STATES), True),
        ("  z = x |> Given(Part(frozen=true), training=false)", set[str](), False),
        ("  z = x |> Given(frozen=true)", names("a", STATES), True),
        ("  z = x |> Twice(Part(frozen=true))", names("a", STATES), True),
    ],
)  # fmt: skip
def test_what_a_part_moves(line: str, moved: set[str], draws: bool) -> None:  # noqa: FBT001
    graph = step_of(line)
    assert changed(graph) == moved
    assert any(isinstance(value.op, RandomBits) for value in graph.values) == draws


def test_gradients_pass_through_a_frozen_part() -> None:
    graph = step_of("  z = x |> first: linear(8, bias=false) |> a: Part(frozen=true)")
    assert changed(graph) == {"first.weight", *names("a", STATES)}


def test_the_mode_of_an_iteration() -> None:
    graph = step_of("  z = x\n  for i in 0..3:\n    z = z |> l[i]: linear(8, frozen=i < 2)")
    assert changed(graph) == {"l.2.weight", "l.2.bias"}


@pytest.mark.parametrize(
    ("argument", "code"),
    [("frozen=3", "E0203"), ("training=true", "E0225"), ("frozen=n > 1", "E0215")],
)
def test_what_is_no_mode(argument: str, code: str) -> None:
    text = (
        f"block A()(x: [n, 8]) -> [n, 8]:\n  return x |> a: linear(8, {argument})\nmodel a = A()\n"
    )
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert [report.code for report in reports] == [code]


def test_nothing_follows_from_a_clause_that_sizes_make_false() -> None:
    text = """
train f(x: [batch, 8]) where batch % 4 == 0:
  minimize mean(x |> y: linear(1, bias=false))
"""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine

    def parameters(batch: int, *, training: bool) -> list[str]:
        found = pipeline.elaborate_train(
            result.program, "f", sizes={"batch": batch}, training=training
        )
        return [each.name for each in found.parameters]

    assert parameters(8, training=True) == ["y.weight"]
    assert parameters(5, training=False) == ["y.weight"]
    with pytest.raises(ProblemError) as refused:
        parameters(5, training=True)
    report = refused.value.problem.report()
    assert (report.code, report.headline) == ("E0311", "`f` needs `batch % 4 == 0`")
