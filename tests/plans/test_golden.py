"""Every graph has the plan that stands in its file, and that plan can be run."""

from dataclasses import replace

import pytest

from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from tests.plans.golden import Golden, goldens, text_of

GOLDENS = tuple(goldens())


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.path.stem)
def test_a_graph_has_the_plan_of_its_file(golden: Golden) -> None:
    plan = golden.plan()
    assert text_of(plan) == golden.after
    verify_plan(plan, golden.limits)


def test_the_loops_of_a_plan_are_in_its_file() -> None:
    plan = next(each for each in GOLDENS if each.path.stem == "scan").plan()
    inner, outer = plan.loops
    for other in (
        (),
        (inner,),
        (outer, inner),
        (replace(inner, rounds=inner.rounds + 1), outer),
        (inner, replace(outer, first=outer.first + 1)),
        (inner, replace(outer, last=outer.last - 1)),
    ):
        assert text_of(replace(plan, loops=other)) != text_of(plan)
