"""What is stored along the layers of a network."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

SMALL = {
    "vit_tiny_patch16_224": {"d": 64, "heads": 4, "image": 32, "patch": 4},
    "gpt2_tiny": {"d": 16, "heads": 2},
}


def planned(name: str, layers: int) -> Plan:
    program = pipeline.load(name)
    config = {**SMALL[name], "layers": layers}
    graph = pipeline.elaborate_model(program, config=config, sizes={"n": 1, "s": 8}).graph
    return plan_graph(optimize(graph, mode="infer").graph, PORTABLE)


@pytest.mark.parametrize("name", SMALL)
def test_layers_beyond_the_first_ones_need_no_more_kernels(name: str) -> None:
    fewer, more = planned(name, 2), planned(name, 3)
    assert len(fewer.dispatches) < len(more.dispatches)
    assert len(fewer.kernels) == len(more.kernels)
