"""Kernels mean under Tint, the compiler of Chromium, what they mean under naga: on software.

`python -m tests.wgsl` compiles the kernels of all standard models; `test_dawn.py` has some.
"""

import re
from collections.abc import Iterator

import numpy as np
import pytest

from meganeura_runtime.backends.webgpu.codegen.lowering.elementwise import EXTREMES, TEMPLATES
from meganeura_runtime.backends.webgpu.codegen.wgsl.math_library import LIBRARY
from meganeura_runtime.backends.webgpu.device.device import Device
from tests.effort import effort
from tests.runtime.running import run
from tests.special_points import CASES, assert_right, feeds_of, graph_of
from tests.wgsl.compilers import COMPILERS, refusal, tint
from tests.wgsl.edges import EDGES, INSIDE, NOTHING_COMPUTED, Edge, edge_faults, faults
from tests.wgsl.plans import everything

EXACT = 2e-5
"""The relative tolerance of kernels: WGSL bounds the errors of its own functions so."""
OPEN = {"exp", "log", "log1p", "sigmoid", "logsumexp", "softmax-none", "logsumexp-none"}
"""Special points of functions whose result at some numbers WGSL leaves open."""
TRIED = [case for case in CASES[:: effort(40, 1)] if case.name not in OPEN]
SOME = effort(["model digits_mlp"], [""])
"""Parts of names of the models whose kernels are compiled."""


@pytest.fixture(scope="module", params=COMPILERS)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """An adapter for each compiler."""
    with COMPILERS[request.param]() as opened:
        yield opened


def test_every_function_that_kernels_call_has_edges() -> None:
    texts = [
        *LIBRARY.values(),
        *TEMPLATES.values(),
        *(one for each in EXTREMES.values() for one in each),
    ]
    code = re.sub(r"//.*", "", "\n".join(texts))
    called = {*re.findall(r"\b([a-z]\w*)(?:<\w+>)?\(", code)} - {
        "if",
        "vec2",
        "vec3",
        "vec4",
        "f32",
    }
    mine = {each.calls for each in EDGES} | INSIDE.keys() | NOTHING_COMPUTED
    assert called - mine - LIBRARY.keys() == set(), "give an edge, or say what it is in"


def test_a_result_that_is_off_is_found() -> None:
    (edge,) = (each for each in EDGES if each.calls == "round")
    right = np.round(edge.fed[0])
    assert faults(edge, right) == []
    assert len(faults(edge, np.trunc(edge.fed[0]))) > 8


@pytest.mark.adapter
@pytest.mark.browser
class TestAdapters:
    """Tests that need both compilers."""

    @pytest.mark.parametrize("edge", EDGES, ids=str)
    def test_results_at_edges_are_as_wgsl_demands(self, edge: Edge, device: Device) -> None:
        assert edge_faults(edge, device) == []

    def test_kernels_are_valid(self, device: Device) -> None:
        assert refusal(device, "fn main( { }")
        for part in SOME:
            count = 0
            for name, kernels in everything(part):
                count += len(kernels)
                assert {refusal(device, text) for text in kernels} <= {""}, name
            assert count, part

    def test_functions_are_right_at_their_special_points(self) -> None:
        """WGSL leaves `exp` of NaN and `log` of 0 open, and SwiftShader makes numbers of them."""
        with tint() as opened:
            for case in [*TRIED, *(each for each in CASES if each.name in OPEN)]:
                graph = graph_of(case)
                assert_right(case, run(graph, feeds_of(case, graph), opened).outputs, EXACT)
