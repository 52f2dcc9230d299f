"""Random programs: an adapter gives what the reference gives, in memory that was poisoned."""

from collections.abc import Mapping
from random import Random

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.cases import choose_case
from meganeura_dsl.gradcheck.device_check import compare
from meganeura_dsl.gradcheck.probe import probe
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.gradcheck.subjects import block_subject
from meganeura_dsl.gradcheck.verdicts import WrongOnDevice
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.properties.programs import program
from tests.runtime.running import run_plan


@pytest.mark.adapter
def test_an_adapter_gives_what_the_reference_gives(device: Device) -> None:
    """Outputs and gradients of random blocks, in memory that is poisoned before the step."""

    def run(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return dict(run_plan(plan_graph(graph, device.limits), graph, feeds, device).outputs)

    compared = 0
    for seed in range(effort(3, 14)):
        random = Random(seed)
        source = Source("random.mgn", program(random))
        result = pipeline.check(source, lambda _: None)
        module = Linker(lambda _: None, Sink()).link(source)
        for name in result.proved[:1] if result.fine else ():
            case = choose_case(random.choice, block_subject(module, module.blocks[name]))
            try:
                probed = probe(case.elaborate().graph)
            except ProblemError:  # a variance over one element, which the sizes chosen have
                continue
            point = probed.at(RandomInputs(seed).feeds(probed.graph))
            if point.is_finite:
                found = compare(probed, point.feeds, run)
                assert not isinstance(found, WrongOnDevice), f"{source.text}\n{case.snippet}"
                compared += 1
    assert compared >= effort(1, 5)
