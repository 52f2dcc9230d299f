"""Values and gradients of every function at special points on adapters and XLA."""

from collections.abc import Mapping
from functools import cache

import jax
import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Graph, Op
from meganeura_dsl.ir.ops import Div, Expm1, Log1p, Logistic
from meganeura_dsl.ir.ops.primitive.elementwise import BINARY
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.codegen.lowering import elementwise
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import Numerics
from meganeura_runtime.backends.xla.passes.support import SUPPORT
from meganeura_runtime.backends.xla.step import step_function
from tests.effort import effort
from tests.folded import each_of
from tests.runtime.running import run
from tests.special_points import CASES, PAIRS, Case, assert_right, feeds_of, graph_of

EXACT = 2e-5
"""The relative tolerance of kernels: WGSL bounds the errors of its own functions so."""
ON_XLA = CASES[:: effort(3, 1)]
AS_USED = {"xla_cpu_use_fusion_emitters": True, "xla_backend_optimization_level": 0}
"""XLA's flags of fusion outside of the suite (tests/conftest.py): its functions are exact so."""


@cache
def graph(case: Case) -> Graph:
    """As it runs in a training, optimized."""
    return optimize(graph_of(case), mode="train").graph


@pytest.mark.adapter
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_adapter_is_right(case: Case, device: Device) -> None:
    feeds = feeds_of(case, graph(case))
    for style in effort([Style.GPU], Style):
        assert_right(case, run(graph(case), feeds, device, style).outputs, EXACT)


@pytest.fixture(scope="module")
def compiled() -> Mapping[str, Mapping[str, Array]]:
    """The results of all cases, compiled as one program."""
    choose_device("xla:cpu")
    graphs = {case.name: SUPPORT.supported(graph(case)) for case in ON_XLA}

    def everything(
        fed: Mapping[str, Mapping[str, jax.Array]],
    ) -> dict[str, dict[str, jax.Array]]:
        found: dict[str, dict[str, jax.Array]] = {}
        for name, each in graphs.items():
            numerics = Numerics.of(each, ComputePrecision.F32)
            step = step_function(each, numerics, {}, {}, Barriers())
            found[name] = step({}, {}, fed[name])[0]
        return found

    feeds = {case.name: feeds_of(case, graph(case)) for case in ON_XLA}
    found = jax.jit(everything, compiler_options=AS_USED)(feeds)
    return {
        name: {output: np.array(array) for output, array in outputs.items()}
        for name, outputs in found.items()
    }


@each_of("case", ON_XLA, ids=str)
def test_xla_is_right(case: Case, compiled: Mapping[str, Mapping[str, Array]]) -> None:
    assert_right(case, compiled[case.name], EXACT)


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("name", "op", "wrong"),
    [
        ("log1p", Log1p, "log(1.0f + {0})"),
        ("expm1", Expm1, "exp({0}) - 1.0f"),
        ("sigmoid", Logistic, "0.5f + 0.5f * tanh(0.5f * {0})"),
        ("power--1", Div, "{0} / select({1}, 1.0f, {1} == 0.0f)"),
    ],
)
def test_the_obvious_line_of_wgsl_is_seen_to_be_wrong(
    name: str, op: type[Op], wrong: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementwise, "TEMPLATES", {**elementwise.TEMPLATES, op: wrong})
    case = next(each for each in CASES if each.name == name)
    found = run(graph(case), feeds_of(case, graph(case)), device).outputs
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_right(case, found, EXACT)


def test_functions_of_two_are_tried_where_both_are_zero() -> None:
    """An arc tangent of two that is wrong at (0, 0) alone passed everything once."""
    zeros = (PAIRS[0] == 0) & (PAIRS[1] == 0)
    signs = {(bool(a), bool(b)) for a, b in zip(*np.signbit(PAIRS)[:, zeros], strict=True)}
    assert len(signs) == 4
    known = [op.builtin or op.__name__ for op in BINARY]
    for name in known:
        case = next(each for each in CASES if each.covers == name)
        assert case.fed["x"] is PAIRS[0]
        assert case.fed["y"] is PAIRS[1]
