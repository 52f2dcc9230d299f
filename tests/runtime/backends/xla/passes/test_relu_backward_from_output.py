"""Gradients of relus: graphs that nearly have the form keep their meaning."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Compare,
    Input,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.passes.relu_backward_from_output import from_outputs
from tests.runtime.backends.xla.rewriting import same_results


def relu(exchanged: str) -> tuple[Graph, Value]:
    """A relu and its gradient."""
    build = Builder()
    y, z, dy = (build.add(Input(name, DType.F32, (3, 8))) for name in ("y", "z", "dy"))
    zero, one = (full(build, y.type, each) for each in (0.0, 1.0))
    bound = one if exchanged == "another bound" else zero
    kind = "gt" if exchanged == "another comparison" else "le"
    condition = build.add(Compare(kind), z if exchanged == "of another" else y, bound)
    below = one if exchanged == "another floor" else zero
    given = build.add(Where(), condition, below, y)
    left = one if exchanged == "gradient of a floor" else zero
    if exchanged == "gradient of what is fed":
        left = z
    gradient = build.add(Where(), condition, left, dy)
    return build.graph({"given": given, "gradient": gradient}), given


def reads(graph: Graph) -> str:
    """Returns the operand that the gradient's condition compares."""
    return type(graph.outputs["gradient"].operands[0].operands[0].op).__name__


@pytest.mark.parametrize(
    "exchanged",
    [
        "another bound", "another comparison", "of another", "another floor",
        "gradient of a floor", "gradient of what is fed",
    ],
)  # fmt: skip
def test_what_is_nearly_a_relu_keeps_its_condition(exchanged: str) -> None:
    graph, given = relu(exchanged)
    found = from_outputs(graph, {given.id})
    assert reads(found) == "Input"
    assert same_results(graph, found)


def test_the_gradient_of_a_relu_reads_what_it_gave_where_that_is_stored() -> None:
    graph, given = relu("")
    found = from_outputs(graph, {given.id})
    assert (reads(graph), reads(found)) == ("Input", "Where")
    assert same_results(graph, found)
    assert from_outputs(graph, frozenset()) is graph


@pytest.mark.parametrize(("dtype", "numpy"), [(DType.I32, "i4"), (DType.F16, "f2")])
def test_what_a_relu_leaves_out_of_other_types_reads_what_it_gave(dtype: DType, numpy: str) -> None:
    """The condition compares numbers of the relu, whatever is chosen by it."""
    build = Builder()
    y, k = build.add(Input("y", DType.F32, (3, 8))), build.add(Input("k", dtype, (3, 8)))
    zero = full(build, y.type, 0.0)
    condition = build.add(Compare("le"), y, zero)
    given = build.add(Where(), condition, zero, y)
    chosen = build.add(Where(), condition, full(build, k.type, 0), k)
    graph = build.graph({"given": given, "gradient": chosen})
    found = from_outputs(graph, {given.id})
    assert reads(found) == "Where"
    numbers = np.random.default_rng(0).standard_normal((2, 3, 8))
    feeds = {"y": numbers[0].astype("f4"), "k": (9 * numbers[1]).astype(numpy)}
    one, other = (evaluate(each, feeds).outputs["gradient"] for each in (graph, found))
    np.testing.assert_array_equal(one, other)
