"""The strategies that tests of users may rely on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import continued
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph, parse_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.testing import (
    Case,
    GraphExample,
    InputDistribution,
    assert_gradients,
    assert_gradients_of,
    block,
    cases,
    graphs,
    parameters,
    sizes,
    tensors,
)
from meganeura_dsl.transforms.autodiff import differentiate
from tests.effort import effort

D, HEADS = dim("d"), dim("heads")
DIVISIBLE = Facts().assume(Compare("==", D % HEADS, 0))


@given(sizes(DIVISIBLE, ("d", "heads")))
def test_sizes_satisfy_the_facts(found: dict[str, int]) -> None:
    assert found.keys() == {"d", "heads"}
    assert found["d"] % found["heads"] == 0


@given(tensors(TensorType(DType.F32, (2, 3))))
def test_tensors_keep_away_from_kinks(numbers: np.ndarray) -> None:
    assert numbers.shape == (2, 3)
    assert np.all(np.abs(numbers) >= 0.5)


@given(st.data())
def test_tensors_of_other_kinds(data: st.DataObject) -> None:
    shape = (9,)
    assert np.all(data.draw(tensors(TensorType(DType.F32, shape), InputDistribution.POSITIVE)) > 0)
    assert data.draw(tensors(TensorType(DType.I32, shape))).dtype == np.int32
    assert data.draw(tensors(TensorType(DType.BOOL, shape))).dtype == np.bool_


@given(tensors(TensorType(DType.F32, (200,)), InputDistribution.KINKS))
@settings(max_examples=10)
def test_kinks_are_hit(numbers: np.ndarray) -> None:
    assert np.any(numbers == 0)
    assert len(np.unique(numbers)) < 10


@given(st.data(), st.deferred(lambda: cases(block("nn", "batch_norm"))))
@settings(max_examples=10)
def test_parameters_are_all_that_is_kept(data: st.DataObject, case: Case) -> None:
    elaboration = case.elaborate()
    numbers = data.draw(parameters(elaboration))
    assert numbers.keys() == {each.name for each in elaboration.parameters}
    assert np.all(numbers["running_var"] > 0)


@given(st.deferred(lambda: cases(block("nn", "linear"))))
@settings(max_examples=20)
def test_a_case_is_a_graph(case: Case) -> None:
    assert_gradients(case.elaborate().graph, seed=case.seed)


def test_all_cases_of_a_block() -> None:
    assert_gradients_of("loss", "mse", examples=10)
    with pytest.raises(KeyError):
        block("nn", "no_such_block")


@given(graphs())
@settings(max_examples=effort(60, 1500))
def test_random_graphs_are_well_typed_and_have_the_shapes_inferred(example: GraphExample) -> None:
    verify(example.graph)
    outputs = evaluate(example.graph, example.feeds, Precision.DOUBLE).outputs
    for name, value in example.graph.outputs.items():
        assert outputs[name].shape == concrete_shape(value.type.shape)


@given(graphs())
@settings(max_examples=100)
def test_random_graphs_have_right_gradients(example: GraphExample) -> None:
    assert_gradients(example.graph)


@given(graphs(most_ops=6))
@settings(max_examples=60)
def test_random_graphs_have_right_second_gradients(example: GraphExample) -> None:
    build, graph = continued(example.graph)
    leaves = [value for value in graph.values if not value.operands and value.type.dtype.is_float]
    leaves = [value for value in leaves if value.type.rank]
    output = next(iter(graph.outputs.values()))
    first = differentiate(build, output, leaves, seed=output)
    assert_gradients(build.graph({f"g{index}": each for index, each in enumerate(first)}))


@given(graphs())
@settings(max_examples=effort(40, 100))
def test_random_graphs_survive_their_text(example: GraphExample) -> None:
    text = format_graph(example.graph)
    assert format_graph(parse_graph(text, OPS)) == text
