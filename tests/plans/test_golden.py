"""Every graph has the plan that stands in its file, and that plan can be run."""

import pytest

from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from tests.plans.golden import Golden, goldens, text_of

GOLDENS = tuple(goldens())


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.path.stem)
def test_a_graph_has_the_plan_of_its_file(golden: Golden) -> None:
    plan = golden.plan()
    assert text_of(plan) == golden.after
    verify_plan(plan, golden.limits)
