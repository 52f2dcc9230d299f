"""Results of the reference at special points; every function has some."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.primitive import elementwise
from meganeura_dsl.pipeline import load
from meganeura_dsl.transforms.egraph.optimize import optimize
from tests.folded import each_of
from tests.special_points import (
    CASES,
    ELSEWHERE,
    OPS_ELSEWHERE,
    Case,
    assert_right,
    feeds_of,
    graph_of,
    stored,
)

LIBRARY = ("nn", "loss", "augment", "recurrent", "lora")
OPERATORS = frozenset({"power"})
"""Names that are neither a function nor an op."""


def functions() -> Iterator[str]:
    """The functions of the language, the elementwise ops without one, and layers and losses."""
    yield from BUILTINS
    known = {name.replace("_", "") for name in BUILTINS}
    yield from (op.__name__ for op in elementwise.OPS if op.__name__.lower() not in known)
    for name in LIBRARY:
        # A name with a capital is a whole model.
        yield from (each for each in load(name).module.blocks if each[0].islower())


@cache
def graph(case: Case) -> Graph:
    return graph_of(case)


def test_every_function_has_special_points() -> None:
    covered = {case.covers for case in CASES}
    assert [name for name in functions() if name not in covered | ELSEWHERE.keys()] == []
    assert covered - OPERATORS - set(functions()) == set(), "no such function"
    assert ELSEWHERE.keys() - set(functions()) == set(), "no such function"
    assert covered & ELSEWHERE.keys() == set(), "in both"
    assert [case.name for case in CASES] == [*stored()], "see tests/special_points.py"


def reached(graph: Graph) -> Iterator[str]:
    """The names of all ops of a graph, and of the bodies of its loops."""
    for value in graph.values:
        yield type(value.op).__name__
        for body in value.op.bodies:
            yield from reached(body.graph)


def test_every_op_has_special_points() -> None:
    found = {name for case in CASES for name in reached(graph(case))}
    known = {op.__name__ for op in OPS}
    missing = sorted(known - found - OPS_ELSEWHERE.keys())
    assert not missing, f"no case of tests/special_points.py reaches {', '.join(missing)}"
    assert OPS_ELSEWHERE.keys() <= known, "no such op"
    assert found & OPS_ELSEWHERE.keys() == set(), "a case reaches it"


@each_of("case", CASES, ids=str)
def test_the_reference_is_right(case: Case) -> None:
    """In double precision to nine digits, and in single to its own; what is optimized too."""
    feeds = feeds_of(case, graph(case))
    with np.errstate(all="ignore"):
        exact = Interpreter(graph(case), Precision.DOUBLE).run(feeds).outputs
        rounded = Interpreter(graph(case), Precision.SINGLE).run(feeds).outputs
        rewritten = optimize(graph(case), mode="train").graph
        optimized = Interpreter(rewritten, Precision.SINGLE).run(feeds).outputs
    assert_right(case, exact, 1e-9)
    assert_right(case, rounded)
    assert_right(case, optimized)
