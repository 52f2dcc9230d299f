"""Stored values along the layers of a network."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Add, Broadcast, Exp, Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.webgpu.analysis.materialize import materialized_values
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, Style, Target
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort

SMALL = {
    "vit_tiny_patch16_224": {"d": 64, "heads": 4, "image": 32, "patch": 4},
    "gpt2_tiny": {"d": 16, "heads": 2},
}


def planned(name: str, layers: int) -> Plan:
    program = pipeline.load(name)
    config = {**SMALL[name], "layers": layers}
    graph = pipeline.elaborate_model(program, config=config, sizes={"n": 1, "s": 8}).graph
    return plan_graph(optimize(graph, mode="infer").graph, PORTABLE)


@pytest.mark.parametrize("name", effort(["gpt2_tiny"], [*SMALL]))
def test_layers_beyond_the_first_ones_need_no_more_kernels(name: str) -> None:
    fewer, more = planned(name, 2), planned(name, 3)
    assert len(fewer.dispatches) < len(more.dispatches)
    assert len(fewer.kernels) == len(more.kernels)


@pytest.mark.parametrize("style", Style)
def test_the_dearer_a_launch_is_taken_to_be_the_less_is_stored(style: Style) -> None:
    """Of a value that is read so often that a kernel of its own pays, if launches cost little."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (400, 400)))
    y = build.add(Exp(), build.add(Exp(), build.add(Exp(), x)))
    spread = build.add(Broadcast((400, 400, 10), (0, 1)), y)
    graph = build.graph({"z": build.add(Add(), spread, spread)})
    stored = [
        y.id in materialized_values(graph, Target(style=style, fusing=FusionConfig(launch=launch)))
        for launch in (0.001, 1.0, 1e6)
    ]
    assert stored[::2] == [True, False]
    assert stored == sorted(stored, reverse=True)
