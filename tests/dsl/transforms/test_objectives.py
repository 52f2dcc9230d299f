"""Several objectives in one step: which values each of them meets, and what each moves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import dedent, indent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemsError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.objectives import Moved, reached
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.pipeline import Program, elaborate_train, load_text
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Sgd
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import (
    TrainingError,
    TrainingSettings,
    optimized_training_step,
    training_step,
)

RATE = 0.25
SGD = TrainingSettings(Sgd(RATE))
A, B, X = 3.0, 5.0, 2.0
"""The parameters `a` and `b`, and the input, a scalar for each example."""


def forward(body: str, *, training: bool = True) -> Graph:
    """The graph of a `train` block of two scalars a and b, and a mean x of its input."""
    text = "train fit(data: [batch]):\n  param a: [] = 0\n  param b: [] = 0\n  x = mean(data)\n"
    sink = Sink()
    source = Source("fit.mgn", text + indent(dedent(body), "  "))
    module = Linker(lambda _: None, sink).link(source)
    assert not sink.has_errors, sink.reports
    sizes = {"batch": 1}
    return elaborate_train(Program(module), "fit", sizes=sizes, training=training).graph


def taken(graph: Graph, **more: float) -> dict[str, float]:
    """Returns the results of a step, by the names of its outputs and updates."""
    verify(graph)
    values = {"a": A, "b": B, "data": X, **more}
    leaves = Interpreter(graph).leaves
    feeds: Mapping[str, Array] = {
        name: np.full(
            [1] if name == "data" else [],
            values.get(name, 0.0),
            np.float64 if leaf.type.dtype is DType.F32 else np.int32,
        )
        for name, leaf in leaves.items()
    }
    results = Interpreter(graph, Precision.DOUBLE).run(feeds)
    return {name: float(x) for name, x in {**results.outputs, **results.updates}.items()}


def step(body: str, settings: TrainingSettings = SGD, **more: float) -> dict[str, float]:
    """A step as it is made, which equals the optimized one."""
    graph = forward(body)
    found = taken(training_step(graph, settings), **more)
    optimized = optimized_training_step(graph, settings, RewriteOptions()).graph
    assert taken(optimized, **more) == pytest.approx(found)
    return found


@pytest.mark.parametrize("stopped", ["round(a)", "floor(a)", "stop_gradient(a)", "f32(i32(a))"])
def test_a_gradient_reaches_nothing_behind_what_has_no_slope(stopped: str) -> None:
    for body, names in ((f"{stopped} * b * x", {"b"}), (f"({stopped} + a) * b", {"a", "b"})):
        (loss,) = forward(f"minimize {body}").outputs.values()
        assert reached(loss) == names


def test_what_follows_sees_the_moved_parameter() -> None:
    """The second loss meets a' = a - rate * b * x; its slope in b is a' x."""
    found = step("minimize a * b * x over a\nminimize a * b * x over b")
    moved = A - RATE * B * X
    assert found["a"] == moved
    assert found["b"] == B - RATE * moved * X
    assert found["loss"] == A * B * X + moved * B * X
    assert found.keys() == {"loss", "a", "b"}


def test_what_stands_above_both_moves_at_the_same_time() -> None:
    found = step("first = a * b * x\nminimize first over a\nminimize first over b")
    assert (found["a"], found["b"]) == (A - RATE * B * X, B - RATE * A * X)
    assert found["loss"] == 2 * A * B * X


def test_a_move_is_a_constant_below() -> None:
    """The first move depends on b, and the second loss on the move; its slope in b is 1."""
    found = step("minimize a * b over a\nminimize a * a + b over b")
    assert found["b"] == B - RATE
    assert found["loss"] == A * B + (A - RATE * B) ** 2 + B


def test_a_value_keeps_its_weights_and_a_name_means_the_last() -> None:
    body = """\
        old = 10 * a
        minimize a * x over a
        metric old = old
        metric new = 10 * a
    """
    found = step(body)
    assert (found["old"], found["new"]) == (10 * A, 10 * (A - RATE * X))


def test_without_over_an_objective_moves_all_that_it_reaches() -> None:
    found = step("minimize a * x\nmetric new = a\nmetric same = b")
    assert (found["new"], found["same"]) == (A - RATE * X, B)
    assert "b" not in found
    found = step("minimize a * x\nminimize b * a * x")
    assert found["b"] == B - RATE * (A - RATE * X) * X


def test_one_objective_may_move_a_part() -> None:
    found = step("minimize a * b over b\nmetric first = a\nmetric second = b")
    assert "a" not in found
    assert (found["first"], found["second"]) == (A, B - RATE * A)


def test_over_a_name_is_not_over_those_that_begin_with_it() -> None:
    found = step("param ab: [] = 0\nminimize a * x + ab * x over a\nminimize ab * b over ab")
    assert found["a"] == A - RATE * X
    assert found["ab"] == -RATE * B


def test_of_several_intervals_the_last_that_matches_counts() -> None:
    settings = TrainingSettings(Sgd(RATE), every=(("*", 3), ("b", 1)))
    found = step("minimize a * x + b * x", settings)
    assert (found["a"], found["b"]) == (A, B - RATE * X)


def test_a_later_objective_that_is_not_finite_leaves_everything_as_it_was() -> None:
    """The slope of sqrt at 0 is infinite."""
    settings = TrainingSettings(Sgd(RATE), skip_not_finite=True)
    body = """\
        state seen: [] = 0
        minimize a * x over a
        update seen = seen + 1
        minimize (b - 5) ** 0.5 over b
    """
    found = step(body, settings, seen=7.0)
    assert (found["update.skipped"], found["seen"], found["b"]) == (1, 7, B)


@pytest.mark.parametrize(
    ("first", "second", "skipped"),
    [("a * x", "b * x", 0), ("(a - 3) ** 0.5", "b * x", 1), ("a * x", "(b - 5) ** 0.5", 1)],
)
def test_a_step_is_skipped_where_any_objective_is_not_finite(
    first: str, second: str, skipped: int
) -> None:
    body = f"state n: [] = 0\nminimize {first} over a\nupdate n = n + 1\nminimize {second} over b"
    found = step(body, TrainingSettings(Sgd(RATE), skip_not_finite=True), n=7.0)
    assert (found["update.skipped"], found["n"]) == (skipped, 8 - skipped)
    # The slope of an objective that is not finite moves nothing.
    assert found["a"] == (A if "0.5" in first else A - RATE * X)
    assert found["b"] == (B if "0.5" in second else B - RATE * X)


@pytest.mark.parametrize(("left_out", "start"), [("a", A), ("b", B)])
def test_an_objective_that_is_left_out_takes_no_step_of_the_others(
    left_out: str, start: float
) -> None:
    """Parameters move as if they were alone; Adam's corrections follow the steps it made."""
    losses = {"a": "a * x", "b": "b * x", left_out: f"({left_out} - {start:g}) ** 0.5"}
    body = "\n".join(f"minimize {loss} over {name}" for name, loss in losses.items())
    settings = TrainingSettings(Adam(RATE), skip_not_finite=True)
    moves = "b" if left_out == "a" else "a"
    found = after_steps(forward(body), settings, 3)
    alone = after_steps(forward(f"minimize {moves} * x over {moves}"), settings, 3)
    for both, one in zip(found, alone, strict=True):
        assert both["update.skipped"] == 1
        assert both[moves] == pytest.approx(one[moves])


def test_nothing_is_skipped_where_nothing_moves() -> None:
    settings = TrainingSettings(Sgd(RATE), groups=(("*", None),), skip_not_finite=True)
    found = step("state n: [] = 0\nminimize a * x\nupdate n = n + 1", settings, n=7.0)
    assert found == {"loss": A * X, "update.skipped": 0, "n": 8}


def test_a_state_follows_what_moved() -> None:
    body = """\
        state mean: [] = 0
        minimize a * x over a
        update mean = 0.5 * mean + a
        minimize b * mean over b
    """
    found = step(body, mean=8.0)
    moved = A - RATE * X
    assert found["mean"] == 4 + moved
    assert found["b"] == B - RATE * (4 + moved)


def test_what_is_frozen_counts_as_moved_where_it_is() -> None:
    """A parameter that its settings freeze is what it was, for all objectives."""
    settings = TrainingSettings(Sgd(RATE), groups=(("a", None),))
    found = step("minimize a * x over a\nminimize a * b over b", settings)
    assert "a" not in found
    assert found["b"] == B - RATE * A


def test_what_follows_a_move_is_not_parted_from_it() -> None:
    """Gradients alone, or the update alone: of several objectives if none reads what one moved."""
    for part in (StepPart.GRADIENTS, StepPart.UPDATE):
        settings = TrainingSettings(Sgd(RATE), part=part)
        with pytest.raises(TrainingError, match="reads the weights that it moved"):
            training_step(forward("minimize a * x over a\nminimize a * b over b"), settings)
        with pytest.raises(TrainingError, match="reads the weights that it moved"):
            training_step(forward("minimize a * x\nmetric new = a"), settings)
        graph = training_step(forward("minimize a * x over a\nminimize b * x * x over b"), settings)
        fed = taken(graph, **{"gradient.a": 7, "gradient.b": 9})
        if part is StepPart.GRADIENTS:
            assert (fed["gradient.a"], fed["gradient.b"]) == (X, X * X)
        else:
            assert fed == {"a": A - RATE * 7, "b": B - RATE * 9}


def test_each_objective_is_clipped_by_itself() -> None:
    settings = TrainingSettings(Sgd(RATE), clip_norm=0.5)
    found = step("minimize 30 * a over a\nminimize 0.25 * b over b", settings)
    assert found["a"] == pytest.approx(A - RATE * 0.5)
    assert found["b"] == pytest.approx(B - RATE * 0.25)


def test_what_moves_at_every_third_step() -> None:
    """At steps 3, 6, ... as if there were no others: moments and corrections do not see those."""
    adam = Adam(RATE, weight_decay=0.1)
    body = "minimize a * x over a\nminimize b * b over b\nmetric after = b"
    seldom = after_steps(forward(body), TrainingSettings(adam, every=(("b", 3),)), 7)
    first, second = after_steps(forward("minimize b * b over b"), TrainingSettings(adam), 2)
    wanted = [{"b": B}, {"b": B}, first, first, first, second, second]
    for found, expected in zip(seldom, wanted, strict=True):
        assert found["b"] == found["after"] == pytest.approx(expected["b"])
        moment = "optimizer.b.exp_avg_sq"
        assert found[moment] == pytest.approx(expected.get(moment, 0))
    assert len({each["a"] for each in seldom}) == len(seldom)


def after_steps(graph: Graph, settings: TrainingSettings, steps: int) -> list[dict[str, float]]:
    """Returns the results of each step, from the values that the one before it leaves."""
    made = optimized_training_step(graph, settings, RewriteOptions()).graph
    found: list[dict[str, float]] = []
    kept: dict[str, float] = {}
    for _ in range(steps):
        found.append(taken(made, **kept))
        kept = {name: found[-1][name] for name in made.updates}
    return found


def test_three_objectives_and_paths_together() -> None:
    body = """\
        param c: [] = 0
        minimize a * b over a, b
        minimize a * c + b over c
    """
    found = step(body, c=7.0)
    assert found["a"] == A - RATE * B
    assert found["b"] == B - RATE * A
    assert found["c"] == 7 - RATE * (A - RATE * B)


def test_in_evaluation_nothing_moves() -> None:
    body = "minimize a * b * x over a\nminimize a * x + b over b"
    graph = forward(body, training=False)
    assert list(graph.outputs) == ["loss"]
    assert taken(graph) == {"loss": A * B * X + A * X + B}


def test_what_no_move_changes_is_computed_once() -> None:
    body = "y = exp(a * x)\nminimize y * b over b\nminimize y * b over a"
    step_graph = training_step(forward(body), SGD)
    names = [type(value.op).__name__ for value in step_graph.values]
    assert names.count("Exp") == 1


def test_a_step_has_no_leaf_but_those_of_the_program() -> None:
    graph = forward("minimize a * x\nmetric new = a")
    moved = [value.op for value in graph.values if isinstance(value.op, Moved)]
    assert [each.parameter for each in moved] == ["a"]
    leaves = _leaves(training_step(graph, SGD))
    assert leaves == ["a", "b", "data"]


def _leaves(graph: Graph) -> Sequence[str]:
    return sorted(value.op.name for value in graph.values if isinstance(value.op, Leaf))


def bounded(x: float) -> float:
    """The value that `PROJECT` gives a parameter."""
    return min(x, 2.0)


PROJECT = "project a = minimum(a, 2)"


def test_a_parameter_is_projected_after_its_move() -> None:
    found = step(f"minimize a * x\n{PROJECT}\nmetric new = a")
    assert found["a"] == found["new"] == bounded(A - RATE * X)
    found = step(f"minimize a * x over a\n{PROJECT}\nminimize a * b over b")
    assert found["b"] == B - RATE * bounded(A - RATE * X)


def test_projections_follow_one_another() -> None:
    found = step(f"minimize a * x\n{PROJECT}\nproject a = 10 * a\nproject a = a + b")
    assert found["a"] == 10 * bounded(A - RATE * X) + B


def test_a_projection_reads_what_other_objectives_moved_and_is_a_constant() -> None:
    body = "minimize a * x over a\nminimize b * x over b\nproject a = a + b\nproject b = a + b"
    found = step(body)
    a, b = A - RATE * X, B - RATE * X
    assert (found["a"], found["b"]) == (a + b, a + 2 * b)
    body = "minimize a * x over a\nproject a = a * b\nminimize a * b over b"
    assert step(body)["b"] == B - RATE * (A - RATE * X) * B


def test_what_does_not_move_is_not_projected() -> None:
    body = "minimize a * x + b * x\nproject a = a / 2"
    frozen = TrainingSettings(Sgd(RATE), groups=(("a", None),))
    assert "a" not in step(body, frozen)
    found = after_steps(forward(body), TrainingSettings(Sgd(RATE), every=(("a", 3),)), 6)
    moved = (A - RATE * X) / 2
    wanted = [A, A, moved, moved, moved, (moved - RATE * X) / 2]
    assert [each["a"] for each in found] == pytest.approx(wanted)


def test_what_is_not_finite_projects_nothing() -> None:
    settings = TrainingSettings(Sgd(RATE), skip_not_finite=True)
    body = "minimize (a - 3) ** 0.5 over a\nproject a = a / 2\nminimize b * x over b"
    found = step(body, settings)
    assert (found["update.skipped"], found["a"], found["b"]) == (1, A, B - RATE * X)


def test_gradients_that_are_added_up_project_nothing() -> None:
    body = "minimize a * x\nproject a = a / 2"
    added = training_step(
        forward(body), TrainingSettings(Sgd(RATE), accumulate=2, part=StepPart.SUM)
    )
    assert "a" not in taken(added)
    last = taken(training_step(forward(body), TrainingSettings(Sgd(RATE), accumulate=2)))
    assert last["a"] == (A - RATE * X / 2) / 2


def test_an_average_is_that_of_what_was_projected() -> None:
    settings = TrainingSettings(Sgd(RATE), ema=0.75)
    found = step(f"minimize a * x\n{PROJECT}", settings, **{"optimizer.a.average": A})
    assert found["optimizer.a.average"] == pytest.approx(A + 0.25 * (bounded(A - RATE * X) - A))


def test_all_parts_of_a_step_keep_the_same_tensors() -> None:
    for body in (
        f"minimize a * x\n{PROJECT}",
        f"minimize a * x over a\n{PROJECT}\nminimize b over b",
    ):
        kept: list[set[str]] = []
        for part in (StepPart.WHOLE, StepPart.SUM):
            settings = TrainingSettings(
                Adam(RATE), accumulate=2, ema=0.75, every=(("a", 3),), part=part
            )
            graph = training_step(forward(body), replace(settings, skip_not_finite=True))
            kept.append({v.op.name for v in graph.values if isinstance(v.op, Parameter)})
        assert kept[0] == kept[1]


def test_a_projection_is_not_parted_from_its_move() -> None:
    settings = TrainingSettings(Sgd(RATE), part=StepPart.GRADIENTS)
    with pytest.raises(TrainingError, match="reads the weights that it moved"):
        training_step(forward(f"minimize a * x\n{PROJECT}"), settings)


def test_in_evaluation_nothing_is_projected() -> None:
    graph = forward(f"minimize a * x\n{PROJECT}\nmetric new = a", training=False)
    assert taken(graph) == {"loss": A * X, "new": A}


NET = """\
block Net()(x: [n, 1]) -> [n, 1]:
  return x |> fc: linear(1)

model net = Net()
model slow = Net()

train fit(data: [batch, 1]):
  minimize mean(data |> net)
  project net = PROJECTED
"""


def test_weights_of_a_model_without_a_label_are_projected() -> None:
    program = load_text(Source("fit.mgn", NET.replace("PROJECTED", "minimum(net, 0.625)")))
    graph = elaborate_train(program, "fit", sizes={"batch": 1}, training=True).graph
    ones = {"data": [[2.0]], "fc.weight": [[1.0]], "fc.bias": [1.0]}
    given = {name: np.asarray(each, np.float64) for name, each in ones.items()}
    moved = Interpreter(training_step(graph, SGD), Precision.DOUBLE).run(given).updates
    assert {name: float(each.reshape(())) for name, each in moved.items()} == {
        "fc.weight": 1 - 2 * RATE,
        "fc.bias": 0.625,
    }


def test_another_model_without_a_label_is_told_to_have_one() -> None:
    with pytest.raises(ProblemsError) as caught:
        load_text(Source("fit.mgn", NET.replace("PROJECTED", "net - 0.1 * slow")))
    assert "model slow = slow: Net()" in str(caught.value)
