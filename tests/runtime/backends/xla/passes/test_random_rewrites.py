"""Random graphs whose axes have one size: what is rewritten for XLA means what it meant.

So an axis that is taken for another has its size, and changes the numbers alone.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Abs, Add, Broadcast, Compare, Div, Mul, Sub, Sum, Tanh, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full, others
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.xla.passes.flatten_norm_rows import flatten_norm_rows
from meganeura_runtime.backends.xla.passes.one_pass_variance import in_one_pass
from meganeura_runtime.backends.xla.passes.relu_backward_from_output import from_outputs
from tests.effort import effort
from tests.runtime.backends.webgpu.schedule.graphs import STEPS, Drawing, Example, examples, like

SIZE = 3


def _axes(d: Drawing, count: int) -> tuple[int, ...]:
    """Some axes of so many, mostly the last."""
    drawn = tuple(axis for axis in range(count) if d.draw(st.booleans()))
    return drawn if drawn and d.draw(st.booleans()) else (count - 1,)


def _spread(d: Drawing, part: Value, whole: Value, axes: tuple[int, ...]) -> Value:
    """A part along these axes of the whole, or along others that are as long."""
    shape = concrete_shape(whole.type.shape)
    drawn = tuple(sorted(d.draw(st.permutations(range(len(shape))))[: part.type.rank]))
    if tuple(shape[axis] for axis in drawn) == concrete_shape(part.type.shape):
        axes = d.draw(st.sampled_from((axes, axes, drawn)))
    return d.build.add(Broadcast(shape, axes), part)


def _scaled_rows(d: Drawing, x: Value) -> None:
    """Rows, or others of their shape, times what is computed of their sums."""
    last = x.type.rank - 1
    if last >= 1:
        sums = d.build.add(Tanh(), d.build.add(Sum((last,)), x))
        whole = like(d, x)
        scaled = d.build.add(Mul(), whole, _spread(d, sums, whole, tuple(range(last))))
        d.keep(sums, 1, rough=True)
        d.keep(scaled, d.bound[whole.id], rough=True)


def _standardized(d: Drawing, x: Value) -> None:
    """Adds the deviations from a mean, and their size."""
    if not x.type.rank:
        return
    axes = _axes(d, x.type.rank)
    kept = others(axes, x.type.rank)
    total = d.build.add(Sum(axes), d.draw(st.sampled_from((x, x, like(d, x)))))
    count = d.draw(st.sampled_from((SIZE ** len(axes), SIZE ** len(axes), SIZE)))
    mean = d.build.add(Div(), total, full(d.build, total.type, count))
    away = d.build.add(Sub(), x, _spread(d, mean, x, kept))
    squares = d.build.add(Sum(axes), d.build.add(Mul(), away, away))
    level = d.build.add(Add(), d.build.add(Abs(), squares), full(d.build, squares.type, 1))
    d.keep(d.build.add(Div(), away, _spread(d, level, x, kept)), 1, rough=True)


def _relu(d: Drawing, x: Value) -> None:
    """A relu, and what is left out of another value by its condition."""
    if x.id in d.rough:
        return
    zero = full(d.build, x.type, 0)
    condition = d.build.add(Compare(d.draw(st.sampled_from(("le", "le", "lt")))), x, zero)
    other, below = like(d, x), like(d, x)
    d.keep(d.build.add(Where(), condition, zero, x), d.bound[x.id], rough=False)
    d.keep(
        d.build.add(Where(), condition, d.draw(st.sampled_from((zero, zero, below))), other),
        d.bound[other.id] + d.bound[below.id],
        rough=bool({other.id, below.id} & d.rough),
    )


FORMS = (_scaled_rows, _standardized, _relu)


@given(examples(sizes=(SIZE,), steps=(*STEPS, *4 * FORMS)))
@settings(max_examples=effort(40, 1000))
def test_a_rewrite_keeps_the_meaning(example: Example) -> None:
    graph = example.graph
    every = range(graph.values[-1].id + 1)
    expected = evaluate(graph, example.feeds, Precision.DOUBLE)
    for rewritten in (
        flatten_norm_rows(graph),
        in_one_pass(graph, every),
        from_outputs(graph, every),
    ):
        found = evaluate(rewritten, example.feeds, Precision.DOUBLE)
        for name, value in expected.outputs.items():
            np.testing.assert_allclose(found.outputs[name], value, 1e-6, 1e-6, err_msg=name)
        for name, value in expected.updates.items():
            np.testing.assert_allclose(found.updates[name], value, 1e-6, 1e-6, err_msg=name)
