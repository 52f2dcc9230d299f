"""Every way in which a graph can be broken is found, and its value named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from meganeura_dsl.ir.graph import Body, Builder, Graph, Origin, Value
from meganeura_dsl.ir.ops import Add, Conv, Input, Neg, Parameter, Scan, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import dim


def network() -> Graph:
    """Values: 0 x, 1 weight, 2 their sum in layer.0, 3 its negative, 4 the loss."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    weight = build.add(Parameter("weight", DType.F32, (3,), "param"))
    with build.at(Origin(path="layer.0")):
        total = build.add(Add(), x, weight)
    new = build.add(Neg(), total)
    return build.graph({"loss": build.add(Sum((0,)), total)}, {"weight": new})


def with_value(graph: Graph, index: int, value: Value) -> Graph:
    values = list(graph.values)
    values[index] = value
    return replace(graph, values=tuple(values))


def ill_typed(graph: Graph) -> Graph:
    wrong = replace(graph.values[2], type=TensorType(DType.F32, (5,)))
    return with_value(graph, 2, wrong)


def of_another_element_type(graph: Graph) -> Graph:
    return with_value(graph, 2, replace(graph.values[2], type=TensorType(DType.I32, (3,))))


def refused(graph: Graph) -> Graph:
    x, weight, *_ = graph.values
    wider = replace(weight, type=TensorType(DType.F32, (5,)), op=replace(weight.op, shape=(5,)))
    total = replace(graph.values[2], operands=(x, wider))
    return replace(graph, values=(x, wider, total))


def of_other_element_types(graph: Graph) -> Graph:
    """Its op takes no operands of two element types."""
    x, weight, *_ = graph.values
    whole = replace(
        weight, type=TensorType(DType.I32, (3,)), op=replace(weight.op, dtype=DType.I32)
    )
    total = replace(graph.values[2], operands=(x, whole))
    return replace(graph, values=(x, whole, total))


def second_result(graph: Graph) -> Graph:
    return with_value(graph, 2, replace(graph.values[2], index=1))


def result_before_the_first(graph: Graph) -> Graph:
    return with_value(graph, 2, replace(graph.values[2], index=-1))


def out_of_order(graph: Graph) -> Graph:
    x, weight, total, new, loss = graph.values
    return replace(graph, values=(x, total, weight, new, loss))


def twice(graph: Graph) -> Graph:
    return replace(graph, values=(*graph.values, graph.values[-1]))


def missing(graph: Graph) -> Graph:
    return replace(graph, values=graph.values[1:])


def copied(graph: Graph) -> Graph:
    return with_value(graph, 0, replace(graph.values[0]))


def rootless(graph: Graph) -> Graph:
    return replace(graph, values=graph.values[:-1])


def dead(graph: Graph) -> Graph:
    return replace(graph, updates={})


def renamed(graph: Graph) -> Graph:
    x, weight, total, new, loss = graph.values
    other = replace(weight, op=replace(weight.op, name="x"))
    total = replace(total, operands=(x, other))
    new, loss = (replace(each, operands=(total,)) for each in (new, loss))
    return Graph((x, other, total, new, loss), {"loss": loss}, {"x": new})


def unknown_update(graph: Graph) -> Graph:
    return replace(graph, updates={"wieght": graph.values[3]})


def updated_input(graph: Graph) -> Graph:
    return replace(graph, updates={"x": graph.values[3]})


def ill_typed_update(graph: Graph) -> Graph:
    return replace(graph, outputs={"out": graph.values[3]}, updates={"weight": graph.values[4]})


BROKEN: dict[Callable[[Graph], Graph], str] = {
    ill_typed: r"%2 = Add of layer\.0 is marked f32\[5\], but its op gives f32\[3\]",
    of_another_element_type: r"%2 = Add of layer\.0 is marked i32\[3\], but its op gives f32\[3\]",
    refused: r"%2 = Add of layer\.0 is ill typed: .*one shape",
    of_other_element_types: r"%2 = Add of layer\.0 is ill typed: .*one element type",
    second_result: r"%2 = Add of layer\.0 is result 1 of 1",
    result_before_the_first: r"%2 = Add of layer\.0 is result -1 of 1",
    out_of_order: "%2 = Add of layer.0 reads %1 = Parameter, which does not come before",
    twice: "%4 = Sum comes after %4 = Sum",
    missing: r"%2 = Add of layer\.0 reads %0 = Input, which does not come before",
    copied: r"%2 = Add of layer\.0 reads %0 = Input, which does not come before",
    rootless: "`loss` is %4 = Sum, which is not among the graph's values",
    dead: "%3 = Neg is computed for nothing",
    renamed: "%1 = Parameter is a second leaf with the name `x`",
    unknown_update: "%3 = Neg updates `wieght`, which is no parameter",
    updated_input: "%3 = Neg updates `x`, which is no parameter",
    ill_typed_update: r"%4 = Sum, a f32\[\], cannot update `weight`",
}


def test_a_graph_of_the_builder_is_right() -> None:
    verify(network())


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_broken_graphs_are_refused(broken: Callable[[Graph], Graph]) -> None:
    with pytest.raises(GraphError, match=BROKEN[broken]):
        verify(broken(network()))


def test_what_the_facts_allow_is_right() -> None:
    facts = Facts().assume(Compare(">=", dim("h"), 3))
    build = Builder(facts)
    x = build.add(Input("x", DType.F32, (1, 1, dim("h"))))
    weight = build.add(Input("w", DType.F32, (1, 1, 3)))
    graph = build.graph({"out": build.add(Conv((1,), (0,), (1,), 1), x, weight)})
    verify(graph, facts)
    with pytest.raises(GraphError, match="fits"):
        verify(graph)


def test_a_graph_is_right_if_its_bodies_are() -> None:
    build = Builder()
    entry = TensorType(DType.F32, (3,))
    before = build.add(Input("carry.0", entry.dtype, entry.shape))
    build.add(Input("iteration", DType.I32, ()))
    after = build.add(Neg(), build.add(Neg(), before))
    inner = build.graph({"carry.0": after})

    def outer(body: Graph) -> Graph:
        build = Builder()
        x = build.add(Input("x", entry.dtype, entry.shape))
        scan = Scan(Body(body), iterations=2, carried=1, sliced=(), collected=(), backward=False)
        return build.graph({"y": build.add(scan, x)})

    verify(outer(inner))
    place = inner.values.index(after.operands[0])
    wrong = replace(after.operands[0], type=TensorType(DType.F32, (5,)))
    with pytest.raises(GraphError, match=r"in the body of %1 = Scan: %\d = Neg is marked f32\[5\]"):
        verify(outer(with_value(inner, place, wrong)))
