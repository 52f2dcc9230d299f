"""A rule asks for all that it needs: what is almost its pattern keeps its value.

The near misses of each rule's cases are made by changing one thing after another: an attribute, a
number, an op, an axis throughout, the order of operands, one of several readers of a tensor, or
what lies between two ops. So a condition that a rule forgets is noticed without a test of its own.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Leaf, Value
from meganeura_dsl.ir.ops import Add, Div, Sub
from meganeura_dsl.ir.types import element_count
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from tests.dsl.transforms.egraph.algebra_cases import Draw, Make
from tests.dsl.transforms.egraph.classes import assert_one_type, assert_one_value
from tests.dsl.transforms.egraph.misses import near_misses
from tests.dsl.transforms.egraph.net import Net
from tests.dsl.transforms.egraph.test_rules import ALL
from tests.effort import effort


def _quotient(net: Net, _: Draw) -> Value:
    """A convolution of three channels and places, (conv(x) - mean) / var + bias."""
    y = net.conv(net.x(1, 3, 3), net.w(3, 3, 1))
    centred = net.do(Sub(), y, net.spread(net.w(3), y, 1))
    scaled = net.do(Div(), centred, net.spread(net.w(3, name="var"), y, 1))
    return net.do(Add(), scaled, net.spread(net.w(3), y, 1))


def _strided(kernel: int) -> Make:
    """Every third place, so that with another padding there are as many."""

    def case(net: Net, _: Draw) -> Value:
        x = net.x(1, 2, 6)
        one = net.conv(x, net.w(2, 2, 3), 1, stride=3)
        return net.do(Add(), one, net.conv(x, net.w(2, 2, kernel), kernel // 2, stride=3))

    return case


CASES: tuple[tuple[str, Mode, Make], ...] = (
    *(each for each in ALL if "winograd" not in each[0]),
    ("affine-quotient", "infer", _quotient),
    ("sum-of-convolutions", "infer", _strided(3)),
    ("grow-kernel-1", "infer", _strided(1)),
)


def _examples(make: Make) -> list[tuple[Net, Value]]:
    """The example, of a few, with the largest leaves, and the one with most axes of one size.

    Along an axis of 1, mistakes show nothing; along axes of one size they may be taken for others.
    """
    examples: list[tuple[int, int, Net, Value]] = []

    @st.composite
    def made(draw: Draw) -> tuple[Net, Value]:
        net = Net()
        return net, make(net, draw)

    @settings(max_examples=effort(4, 30))
    @given(made())
    def look(example: tuple[Net, Value]) -> None:
        net, y = example
        leaves = [value.type for value in net.build.values if isinstance(value.op, Leaf)]
        sizes = [size for each in leaves for size in each.shape if size != 1]
        equal = sum(map(sizes.count, sizes)) - len(sizes)
        examples.append((sum(map(element_count, leaves)), equal, net, y))

    look()
    largest = max(examples, key=lambda each: each[0])
    equal = max(examples, key=lambda each: (each[1], each[0]))
    return [each[2:] for each in ((largest,) if equal is largest else (largest, equal))]


@pytest.mark.parametrize(("name", "mode", "make"), CASES, ids=[name for name, _, _ in CASES])
def test_a_near_miss_keeps_its_value(name: str, mode: Mode, make: Make) -> None:
    for net, y in _examples(make):
        misses = near_misses(net.build, net.graph(y))
        assert misses, name
        found = saturate_graph(net.graph(y, *misses), mode).found
        assert_one_type(found)
        assert_one_value(found)
