"""Declarations of each op outside of its class: a new one is missed by its name."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Leaf, Op
from meganeura_dsl.ir.interval_analysis import NOT_FOLLOWED, Range, ranges_of
from meganeura_dsl.ir.ops import OPS, Input
from meganeura_dsl.testing import random_graphs
from meganeura_dsl.testing.random_graphs import LEFT_OUT
from tests.samples import SAMPLES, Sample

KNOWN = {op.__name__ for op in OPS}


def test_random_graphs_have_every_op() -> None:
    """An op that the module names is one that it makes, since no import is unused."""
    made = {each.__name__ for each in vars(random_graphs).values() if each in OPS}
    missing = sorted(KNOWN - made - LEFT_OUT.keys())
    assert not missing, f"meganeura_dsl/testing/random_graphs.py makes no {', '.join(missing)}"
    assert LEFT_OUT.keys() <= KNOWN
    assert made.isdisjoint(LEFT_OUT)


def follows(sample: Sample) -> bool:
    """True if the analysis knows a result of a sample; what it knows is true of the sample."""
    build = Builder()
    known = {
        f"x{number}": Range(int(np.floor(operand.min())), int(np.ceil(operand.max())))
        for number, operand in enumerate(sample.operands)
    }
    leaves = zip(known, sample.types, strict=True)
    operands = [build.add(Input(name, each.dtype, each.shape)) for name, each in leaves]
    results = build.add_all(sample.op, *operands)
    found = ranges_of(build.graph({f"y{each.index}": each for each in results}), known)
    ranges = [found.get(each.id) for each in results]
    if any(ranges):
        for range_, array in zip(ranges, sample.op.evaluate_all(*sample.operands), strict=True):
            assert range_ is None or range_.low <= np.min(array), sample.name
            assert range_ is None or np.max(array) <= range_.high, sample.name
    return any(ranges)


@pytest.mark.parametrize("op", [each for each in OPS if not issubclass(each, Leaf)])
def test_the_interval_analysis_follows_every_op(op: type[Op]) -> None:
    is_followed = any(follows(each) for each in SAMPLES if type(each.op) is op)
    place = "meganeura_dsl/ir/interval_analysis.py"
    if op.__name__ in NOT_FOLLOWED:
        assert not is_followed, f"{place} follows {op.__name__}: take it out of NOT_FOLLOWED"
    else:
        assert is_followed, f"{place} has no range for {op.__name__}: see NOT_FOLLOWED"


def test_what_is_not_followed_are_ops() -> None:
    assert NOT_FOLLOWED.keys() <= KNOWN
