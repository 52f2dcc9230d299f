"""One graph of one training step. The optimizers' numbers are compared in `tests/parity`."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Origin, Value
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import Add, Cast, Constant, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.transforms.optimizers.optimizers import (
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lamb,
    Lion,
    Muon,
    Optimizer,
    RmsProp,
    Sgd,
)
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingError, TrainingSettings, training_step
from tests.folded import each_of

OPTIMIZERS: tuple[Optimizer, ...] = (
    Sgd(),
    Sgd(momentum=0.9, nesterov=True),
    Adam(),
    Adam(amsgrad=True),
    AdamW(),
    RmsProp(),
    RmsProp(momentum=0.9, centered=True),
    Adagrad(),
    Adagrad(lr_decay=0.1),
    Lion(),
    Lamb(),
    Adafactor(),
)
"""Those that move a parameter of one axis."""


def forward(dtype: DType = DType.F32) -> Graph:
    """The loss is the sum of `weight * frozen * x`; a state counts; `dead` is not read."""
    build = Builder()
    x = build.add(Input("x", dtype, (3,)))
    weight = build.add(Parameter("layer.weight", dtype, (3,), "param"))
    frozen = build.add(Parameter("layer.frozen", dtype, (3,), "frozen"))
    build.add(Parameter("layer.dead", dtype, (2, 5), "param"))
    count = build.add(Parameter("count", DType.I32, (), "state"))
    product = build.add(Mul(), weight, build.add(Mul(), frozen, x))
    loss = build.add(Sum((0,)), product)
    more = build.add(Add(), count, build.add(Constant(1, DType.I32)))
    return build.graph({"loss": loss, "metric": product}, {"count": more})


def feeds_for(graph: Graph, **given: Array) -> dict[str, Array]:
    """Ones for what has its own name, zeros for the optimizer's states."""
    interpreter = Interpreter(graph)
    feeds: dict[str, Array] = {}
    for name, value in interpreter.leaves.items():
        fill = 0 if name.startswith("optimizer.") else 1
        feeds[name] = np.full(_shape(value.type), fill, _dtype(value))
    return feeds | given


CHOICES: tuple[dict[str, Any], ...] = (
    *({"part": part} for part in StepPart),
    {"clip_norm": 0.5},
    {"clip_value": 0.1},
    {"feed_learning_rate": True},
    {"feed_learning_rate": True, "schedules": ("*.weight",)},
    {"groups": (("*.weight", None),)},
    {"groups": (("*.dead", Adam()),)},
    {"gradients": True},
    {"gradient_norm": True},
    {"every": (("*.weight", 2),)},
    {"accumulate": 2},
    {"ema": 0.9},
    {"skip_not_finite": True},
)
PAIRS = [
    (one, other)
    for one, other in combinations(CHOICES, 2)
    # Gradients are either accumulated by the step or given to it.
    if "accumulate" not in other or one.get("part") in (None, StepPart.WHOLE, StepPart.SUM)
]


@each_of(
    ("one", "other"),
    PAIRS,
    ids=lambda each: " ".join(map(str, each.values())),
)
def test_any_two_settings_make_a_graph_that_is_well_formed(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    graph = training_step(forward(), TrainingSettings(Adam(), **{**one, **other}))
    verify(graph)
    parts = {one.get("part"), other.get("part")}
    fed = {value.op.name for value in graph.values if isinstance(value.op, Input)}
    if StepPart.UPDATE in parts:
        assert "x" not in fed
    moved = (("*.weight", None),) not in (one.get("groups"), other.get("groups"))
    moved &= not parts & {StepPart.SUM, StepPart.GRADIENTS}
    assert ("learning_rate" in fed) == ("feed_learning_rate" in {**one, **other} and moved)


def _shape(of: TensorType) -> tuple[int, ...]:
    return tuple(int(str(size)) for size in of.shape)


def _dtype(value: Value) -> type[np.generic]:
    types = {DType.F32: np.float32, DType.F16: np.float16, DType.I32: np.int32}
    return types[value.type.dtype]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_one_graph_holds_the_whole_step(optimizer: Optimizer) -> None:
    graph = training_step(forward(), TrainingSettings(optimizer))
    verify(graph)
    assert list(graph.outputs) == ["loss", "metric"]
    results = evaluate(graph, feeds_for(graph))
    np.testing.assert_array_equal(results.outputs["metric"], np.ones(3))
    assert results.updates["count"] == 2
    assert np.all(results.updates["layer.weight"] < 1)
    assert "layer.frozen" not in results.updates


@pytest.mark.parametrize(
    ("optimizer", "moments"),
    [
        (Sgd(), ()),
        (Sgd(momentum=0.9), ("momentum",)),
        (Adam(), ("exp_avg", "exp_avg_sq")),
        (AdamW(), ("exp_avg", "exp_avg_sq")),
        (AdamW(amsgrad=True), ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")),
        (RmsProp(), ("square_avg",)),
        (RmsProp(momentum=0.5, centered=True), ("square_avg", "grad_avg", "momentum_buffer")),
        (Adagrad(), ("sum",)),
        (Lion(), ("exp_avg",)),
        (Lamb(), ("exp_avg", "exp_avg_sq")),
    ],
    ids=str,
)
def test_moments_are_states_of_each_parameter(
    optimizer: Optimizer, moments: tuple[str, ...]
) -> None:
    graph = training_step(forward(), TrainingSettings(optimizer))
    states = {
        value.op.name: value.type
        for value in graph.values
        if isinstance(value.op, Parameter) and value.op.name.startswith("optimizer.")
    }
    expected = {
        f"optimizer.layer.weight.{moment}": TensorType(DType.F32, (3,)) for moment in moments
    }
    if "exp_avg_sq" in moments:
        expected["optimizer.step"] = TensorType(DType.I32, ())
    assert states == expected
    assert set(states) <= set(graph.updates)


def test_the_step_counter_counts() -> None:
    graph = training_step(forward(), TrainingSettings(Adam()))
    feeds = feeds_for(graph)
    for step in range(3):
        assert feeds["optimizer.step"] == step
        feeds |= evaluate(graph, feeds).updates


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_a_parameter_that_no_gradient_reaches_stays(optimizer: Optimizer) -> None:
    """Weight decay does not move it either, and it has no moments, but it is still there."""
    graph = training_step(forward(), TrainingSettings(optimizer))
    assert "layer.dead" not in graph.updates
    assert "layer.dead" in Interpreter(graph).leaves


def test_the_learning_rate_has_effect() -> None:
    after = [
        evaluate(graph, feeds_for(graph)).updates["layer.weight"]
        for lr in (0.1, 0.2)
        for graph in [training_step(forward(), TrainingSettings(Sgd(lr)))]
    ]
    np.testing.assert_allclose(1 - after[1], 2 * (1 - after[0]), rtol=1e-6)


def test_momentum_of_nesterov_looks_ahead() -> None:
    """With v = m v + g w = w - lr (g + m v), here with g = 1 and m = 1/2."""
    sgd = Sgd(0.25, momentum=0.5, nesterov=True)
    graph = training_step(forward(), TrainingSettings(sgd))
    name = "layer.weight"
    velocity = f"optimizer.{name}.momentum"
    first = evaluate(graph, feeds_for(graph)).updates
    np.testing.assert_array_equal(first[velocity], np.full(3, 1))
    np.testing.assert_array_equal(first[name], np.full(3, 1 - 0.25 * (1 + 0.5)))
    fed = {key: first[key] for key in (name, velocity)}
    second = evaluate(graph, feeds_for(graph, **fed)).updates
    np.testing.assert_array_equal(second[velocity], np.full(3, 1.5))
    np.testing.assert_array_equal(second[name], first[name] - 0.25 * (1 + 0.5 * 1.5))


def moved(optimizer: Sgd | Adam, p: Array, gradients: Sequence[Array]) -> Array:
    """A parameter after these gradients, by the formulas that the optimizers are documented by."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    lr, decay = optimizer.lr, optimizer.weight_decay
    for t, gradient in enumerate(gradients, 1):
        g = gradient if isinstance(optimizer, AdamW) else gradient + decay * p
        if isinstance(optimizer, Sgd):
            m = optimizer.momentum * m + g
            p = p - lr * (g + optimizer.momentum * m if optimizer.nesterov else m)
            continue
        p = p * (1 - lr * decay) if isinstance(optimizer, AdamW) else p
        m = optimizer.beta1 * m + (1 - optimizer.beta1) * g
        v = optimizer.beta2 * v + (1 - optimizer.beta2) * g * g
        mean, square = m / (1 - optimizer.beta1**t), v / (1 - optimizer.beta2**t)
        p = p - lr * mean / (np.sqrt(square) + optimizer.eps)
    return p


@pytest.mark.parametrize(
    "optimizer",
    [
        Sgd(0.25, momentum=0.5, weight_decay=0.5),
        Sgd(0.25, momentum=0.5, nesterov=True, weight_decay=0.5),
        Adam(0.25, beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.5),
        AdamW(0.25, beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.5),
    ],
    ids=str,
)
def test_three_steps_are_those_of_the_formulas(optimizer: Sgd | Adam) -> None:
    """With gradients, decay and eps of one size, so that each term is seen."""
    graph = training_step(forward(), TrainingSettings(optimizer))
    gradients = [np.array(each) for each in ([1.0, -2, 0.5], [0.25, 0, -1], [3, 1, 0.5])]
    start = np.array([1.0, -0.5, 2])
    feeds = feeds_for(graph, **{"layer.weight": start})
    for g in gradients:
        feeds |= evaluate(graph, feeds | {"x": g}, Precision.DOUBLE).updates
    np.testing.assert_allclose(feeds["layer.weight"], moved(optimizer, start, gradients), rtol=1e-6)


def test_a_state_that_the_loss_reads_is_the_graphs_to_update() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    weight = build.add(Parameter("weight", DType.F32, (3,), "param"))
    mean = build.add(Parameter("mean", DType.F32, (3,), "state"))
    loss = build.add(Sum((0,)), build.add(Mul(), weight, mean))
    whole = build.graph({"loss": loss}, {"mean": build.add(Add(), mean, x)})
    graph = training_step(whole, TrainingSettings(Sgd(1.0, momentum=0.5, weight_decay=0.5)))
    assert set(graph.updates) == {"mean", "weight", "optimizer.weight.momentum"}
    np.testing.assert_array_equal(evaluate(graph, feeds_for(graph)).updates["mean"], [2, 2, 2])


def test_a_fed_learning_rate_takes_the_place_of_the_optimizers() -> None:
    graph = training_step(forward(), TrainingSettings(AdamW(123), feed_learning_rate=True))
    fixed = training_step(forward(), TrainingSettings(AdamW(0.25)))
    fed = evaluate(graph, feeds_for(graph, learning_rate=np.array(0.25, np.float32)))
    constant = evaluate(fixed, feeds_for(fixed))
    for name, value in constant.updates.items():
        np.testing.assert_allclose(fed.updates[name], value, rtol=1e-6)


def test_the_last_schedule_that_matches_gives_a_parameter_its_rate() -> None:
    """The rates are a vector: first that of all, then one for each glob."""
    rates = np.array([0.01, 0.25, 0.5], np.float32)
    of_globs = (
        (("*", "layer.*"), 0.5),
        (("layer.*", "*.dead"), 0.25),
        (("*.dead", "*.dead"), 0.01),
    )
    for globs, expected in of_globs:
        settings = TrainingSettings(Sgd(9.0), feed_learning_rate=True, schedules=globs)
        graph = training_step(forward(), settings)
        fed = evaluate(graph, feeds_for(graph, learning_rate=rates)).updates
        fixed = training_step(forward(), TrainingSettings(Sgd(expected)))
        constant = evaluate(fixed, feeds_for(fixed)).updates
        np.testing.assert_array_equal(fed["layer.weight"], constant["layer.weight"])
    with pytest.raises(TrainingError, match="no parameter matches `other"):
        training_step(forward(), TrainingSettings(Sgd(1.0), schedules=("other.*",)))


RATE = {"learning_rate": np.array(0.01, np.float32)}


def test_the_last_group_that_matches_moves_a_parameter() -> None:
    plain, faster, scaled, double, still = (
        evaluate(graph, feeds_for(graph, **(RATE if fed else {}))).updates
        for fed, groups in (
            (False, ()),
            (False, (("*", Sgd(9.0)), ("layer.*", Sgd(0.05)))),
            (True, (("*", Sgd(9.0)), ("layer.*", Sgd(0.05)))),
            (True, (("layer.*", Sgd(0.02)),)),
            (False, (("layer.*", Sgd(0.05)), ("*.weight", None))),
        )
        for graph in [
            training_step(forward(), TrainingSettings(Sgd(), feed_learning_rate=fed, groups=groups))
        ]
    )
    moved = 1 - plain["layer.weight"]
    np.testing.assert_allclose(1 - faster["layer.weight"], 5 * moved, rtol=1e-5)
    np.testing.assert_allclose(1 - scaled["layer.weight"], 5 * moved, rtol=1e-5)
    np.testing.assert_allclose(1 - double["layer.weight"], 2 * moved, rtol=1e-5)
    assert "layer.weight" not in still


def test_what_nothing_moves_has_no_part_in_the_norm_of_the_gradients() -> None:
    build = Builder()
    left, right = (build.add(Parameter(name, DType.F32, (2,), "param")) for name in "ab")
    loss = build.add(Sum((0,)), build.add(Add(), left, build.add(Mul(), right, right)))
    settings = TrainingSettings(Sgd(1.0), clip_norm=0.5, groups=(("b", None),))
    graph = training_step(build.graph({"loss": loss}), settings)
    feeds = {"a": np.zeros(2, np.float32), "b": np.full(2, 1e6, np.float32)}
    assert set(graph.updates) == {"a"}
    after = evaluate(graph, {**feeds_for(graph), **feeds}).updates["a"]
    np.testing.assert_allclose(np.linalg.norm(after), 0.5, rtol=1e-5)


def test_each_group_has_the_states_of_its_rule() -> None:
    groups = (("layer.*", Sgd(0.1, momentum=0.5)),)
    graph = training_step(forward(), TrainingSettings(Adam(), groups=groups))
    assert "optimizer.layer.weight.momentum" in graph.updates
    assert not any(name.startswith("optimizer.layer.weight.exp") for name in graph.updates)


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"`layer\.frozen`"):
        training_step(forward(), TrainingSettings(Sgd(), groups=(("layer.frozen", None),)))


def matrices(optimizer: Optimizer) -> Graph:
    """A step on the sum of squares of a kernel, a matrix and a vector, which SGD moves."""
    build = Builder()
    shapes = {"kernel": (4, 2, 3, 3), "matrix": (3, 5), "vector": (5,)}
    squares: list[Value] = []
    for name, shape in shapes.items():
        x = build.add(Parameter(name, DType.F32, shape, "param"))
        square = build.add(Mul(), x, x)
        squares.append(build.add(Sum(tuple(range(len(shape)))), square))
    loss = build.add(Add(), build.add(Add(), squares[0], squares[1]), squares[2])
    settings = TrainingSettings(optimizer, groups=(("vector", Sgd()),))
    return training_step(build.graph({"loss": loss}), settings)


def test_adafactor_holds_rows_and_columns_of_matrices() -> None:
    graph = matrices(Adafactor())
    states = {
        value.op.name.removeprefix("optimizer."): value.type.shape
        for value in graph.values
        if isinstance(value.op, Parameter) and value.op.name.startswith("optimizer.")
    }
    assert states == {
        "step": (),
        "kernel.row_var": (4, 2, 3),
        "kernel.col_var": (4, 2, 3),
        "matrix.row_var": (3,),
        "matrix.col_var": (5,),
    }


def test_muon_moves_a_matrix_along_its_singular_vectors() -> None:
    """Many steps of the iteration bring all singular values of an update near 1."""
    graph = matrices(Muon(1.0, momentum=0.0, weight_decay=0.0, ns_steps=20))
    random = np.random.default_rng(0)
    start = {name: random.normal(size=shape) for name, shape in (("kernel", (4, 2, 3, 3)),)}
    feeds = feeds_for(graph) | start | {"matrix": random.normal(size=(3, 5))}
    after = evaluate(graph, feeds, Precision.DOUBLE).updates
    for name, rows in (("kernel", 4), ("matrix", 3)):
        step = (feeds[name] - after[name]).reshape(rows, -1)
        u, values, v = np.linalg.svd(np.asarray(feeds[name]).reshape(rows, -1), full_matrices=False)
        np.testing.assert_allclose(u @ np.diag(np.diag(u.T @ step @ v.T)) @ v, step, atol=1e-9)
        assert np.all(np.abs(np.diag(u.T @ step @ v.T) - 1) < 0.4), values


def test_muon_refuses_what_is_no_matrix() -> None:
    with pytest.raises(TrainingError, match=r"`layer\.weight` .* two axes or more"):
        training_step(forward(), TrainingSettings(Muon()))


def test_weight_decay_of_matrices_leaves_others_alone() -> None:
    all_of_them = AdamW(1e-30, weight_decay=0.5e30)
    for adamw, factor in ((all_of_them, 0.5), (replace(all_of_them, decay="matrices"), 1.0)):
        graph = training_step(forward(), TrainingSettings(adamw))
        after = evaluate(graph, feeds_for(graph)).updates["layer.weight"]
        np.testing.assert_array_equal(after, np.full(3, factor, np.float32))


def test_a_graph_without_a_loss_is_refused() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    with pytest.raises(TrainingError, match="`loss`"):
        training_step(build.graph({"out": x}), TrainingSettings(Sgd()))


@pytest.mark.parametrize("name", ["learning_rate", "optimizer.step"])
def test_names_the_optimizer_needs_are_refused(name: str) -> None:
    build = Builder()
    x = build.add(Parameter(name, DType.F32, (), "param"))
    with pytest.raises(TrainingError, match=f"`{name}`"):
        training_step(build.graph({"loss": x}), TrainingSettings(Adam()))


def test_clipping_leaves_the_norm_of_all_gradients_at_the_limit() -> None:
    graph = training_step(forward(), TrainingSettings(Sgd(1.0), clip_norm=0.5))
    x = np.array([3, 0, 4], np.float32)
    after = evaluate(graph, feeds_for(graph, x=x)).updates["layer.weight"]
    np.testing.assert_allclose(1 - after, 0.5 * x / 5, rtol=1e-5)


def test_clipping_by_value_bounds_each_element() -> None:
    graph = training_step(forward(), TrainingSettings(Sgd(1.0), clip_value=2.0))
    after = evaluate(graph, feeds_for(graph, x=np.array([-3, 0.5, 4], np.float32))).updates
    np.testing.assert_array_equal(1 - after["layer.weight"], [-2, 0.5, 2])


@pytest.mark.parametrize("limit", [1e-8, 0.1, 1e6])
def test_gradients_of_half_floats_are_bounded_in_single_precision(limit: float) -> None:
    """A bound that half floats round to zero, that they round, and that they cannot hold."""
    settings = TrainingSettings(Adam(), clip_value=limit)
    graph = training_step(forward(DType.F16), settings)
    x = np.array([-3, 0.5, 4], np.float16)
    moment = evaluate(graph, feeds_for(graph, x=x)).updates["optimizer.layer.weight.exp_avg"]
    np.testing.assert_allclose(moment, 0.1 * np.clip(x.astype(float), -limit, limit), rtol=1e-6)


def test_the_gradient_norm_is_an_output_of_its_own() -> None:
    settings = TrainingSettings(Sgd(1.0), clip_norm=0.5, clip_value=1.0, gradient_norm=True)
    graph = training_step(forward(), settings)
    assert list(graph.outputs) == ["loss", "metric", "gradient_norm"]
    found = evaluate(graph, feeds_for(graph, x=np.array([3, 0, 4], np.float32)))
    assert found.outputs["gradient_norm"] == 5
    with pytest.raises(TrainingError, match="`gradient_norm`"):
        training_step(graph, settings)
    again = training_step(graph, replace(settings, gradient_norm=False))
    assert list(again.outputs) == ["loss", "metric", "gradient_norm"], "that of the graph"


@pytest.mark.parametrize("part", StepPart)
def test_gradients_that_are_fed_or_given_out_are_not_accumulated(part: StepPart) -> None:
    settings = TrainingSettings(Sgd(1.0), accumulate=2, part=part)
    if part in (StepPart.WHOLE, StepPart.SUM):
        assert "optimizer.layer.weight.gradient_sum" in training_step(forward(), settings).updates
        return
    with pytest.raises(TrainingError, match="either accumulated by the step or given to it"):
        training_step(forward(), settings)
    training_step(forward(), replace(settings, accumulate=1))


def test_the_gradient_norm_of_frozen_parameters_is_zero() -> None:
    settings = TrainingSettings(Sgd(1.0), groups=(("*", None),), gradient_norm=True)
    graph = training_step(forward(), settings)
    assert evaluate(graph, feeds_for(graph)).outputs["gradient_norm"] == 0


def test_clipping_leaves_gradients_below_the_limit_as_they_are() -> None:
    graph = training_step(forward(), TrainingSettings(Sgd(1.0), clip_norm=8.0))
    x = np.array([3, 0, 4], np.float32)
    after = evaluate(graph, feeds_for(graph, x=x)).updates["layer.weight"]
    np.testing.assert_array_equal(1 - after, x)


def test_clipping_takes_one_norm_of_all_tensors_together() -> None:
    build = Builder()
    shapes = {"a": (3,), "b": (2,)}
    terms = [
        build.add(
            Sum((0,)),
            build.add(
                Mul(),
                build.add(Parameter(name, DType.F32, shape, "param")),
                build.add(Input(f"x.{name}", DType.F32, shape)),
            ),
        )
        for name, shape in shapes.items()
    ]
    forward_graph = build.graph({"loss": build.add(Add(), *terms)})
    graph = training_step(forward_graph, TrainingSettings(Sgd(1.0), clip_norm=1.0))
    gradients = {"a": np.array([1, 2, 2], np.float32), "b": np.array([0, 4], np.float32)}
    fed = {f"x.{name}": each for name, each in gradients.items()}
    start = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    after = evaluate(graph, {**fed, **start}).updates
    for name, gradient in gradients.items():
        np.testing.assert_allclose(after[name], -gradient / 5, rtol=1e-5)


def test_half_float_parameters_have_moments_in_single_precision() -> None:
    graph = training_step(forward(DType.F16), TrainingSettings(Adam(), clip_norm=1.0))
    verify(graph)
    results = evaluate(graph, feeds_for(graph))
    assert results.updates["layer.weight"].dtype == np.float16
    assert results.updates["optimizer.layer.weight.exp_avg"].dtype == np.float32
    assert any(isinstance(value.op, Cast) for value in graph.values)


def test_an_update_comes_from_where_its_parameter_does() -> None:
    build = Builder()
    with build.at(Origin(path="layer")):
        weight = build.add(Parameter("layer.weight", DType.F32, (), "param"))
    loss = build.graph({"loss": build.add(Mul(), weight, weight)})
    for value in training_step(loss, TrainingSettings(Adam())).updates.values():
        assert value.origin.path == "layer"


def test_a_step_is_the_same_every_time_it_is_made() -> None:
    first, second = (training_step(forward(), TrainingSettings(Adam())) for _ in range(2))
    assert [value.op for value in first.values] == [value.op for value in second.values]
