"""Each rewrite, on random instances: it is found, and all it finds has one value.

The graphs are drawn with sizes down to 1 and with any of their values as further outputs, so that
a part of a pattern may be wanted elsewhere too.
"""

from collections.abc import Iterator
from importlib import reload

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE
from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Abs, Add, Div, Exp, Mul, Neg, Sub
from meganeura_dsl.ir.ops.primitive.elementwise import Unary
from meganeura_dsl.transforms.egraph.rules import movement
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode, rewrites
from tests.dsl.transforms.egraph.algebra_cases import (
    Draw,
    Make,
    copies,
    folded,
    identities,
    moves,
    products,
    reductions,
)
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.fusion_cases import (
    activations,
    attention,
    epilogues,
    inference,
    norms,
    projections,
    rotations,
    softmax,
)
from tests.dsl.transforms.egraph.net import Net
from tests.dsl.transforms.egraph.winograd_cases import FORMS, winograd
from tests.effort import effort


def _cases() -> Iterator[tuple[str, Mode, Make]]:
    groups: tuple[tuple[Mode, Iterator[tuple[str, Make]]], ...] = (
        ("train", identities()),
        ("forward", reductions()),
        ("forward", moves()),
        ("forward", products()),
        ("forward", copies()),
        ("forward", activations()),
        ("forward", norms()),
        ("forward", softmax()),
        ("forward", rotations()),
        ("forward", attention()),
        ("train", epilogues()),
        ("train", projections()),
        ("infer", projections()),
        ("infer", inference()),
        ("train", winograd()),
    )
    for mode, cases in groups:
        for name, make in cases:
            yield name, mode, make
    yield (
        "fold-scalar",
        "forward",
        lambda net, _: net.do(Mul(), net.full(2, net.x()), net.full(3, net.x())),
    )
    for op in (Add(), Sub(), Mul(), Div(), Neg()):
        yield "fold-tensor", "forward", folded(op)


ALL = tuple(_cases())


def with_more_outputs(net: Net, draw: Draw, y: Value) -> Graph:
    """The graph of y, some of its other values outputs too, and y perhaps used twice."""
    inner = [value for value in net.build.values if value.operands and value is not y]
    more = draw(st.lists(st.sampled_from(inner), max_size=2, unique=True)) if inner else []
    if draw(st.booleans()) and y.type.dtype.is_float:
        more.append(net.do(Exp(), net.do(Neg(), net.do(Abs(), y))))
    return net.graph(y, *more)


def test_every_rewrite_has_a_case() -> None:
    assert {name for name, _, _ in ALL} == set(rewrites())


def test_rules_are_made_for_the_ops_there_are_and_for_no_other_class() -> None:
    class Foreign(Unary, abstract=True):
        """A class that somebody derives before the rules are made."""

    made = {rule.name for rule in reload(movement).COPIES.rules}
    assert f"copies-{Neg.__name__}" in made
    assert f"copies-{Foreign.__name__}" not in made


@pytest.mark.parametrize(("name", "mode", "make"), ALL, ids=[name for name, _, _ in ALL])
def test_a_rewrite_is_found_and_true(name: str, mode: Mode, make: Make) -> None:
    @st.composite
    def graphs(draw: Draw) -> Graph:
        net = Net()
        return with_more_outputs(net, draw, make(net, draw))

    def look(graph: Graph) -> None:
        explored, _ = examine(graph, mode, FORMS if "winograd" in name else DEFAULT_DEVICE)
        assert explored.matches[name] > 0

    drawn: list[Graph] = []

    @settings(max_examples=effort(2, 100))
    @given(graphs())
    def holds(graph: Graph) -> None:
        drawn.append(graph)
        if effort(usual=False, nightly=True):
            look(graph)

    holds()
    look(drawn[-1])  # by day the only one; the first of two is the smallest
