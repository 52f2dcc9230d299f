"""Functions of elements of the library against those of PyTorch, with their slopes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_runtime.backends.registry import choose_device
from tests.folded import each_of

pytestmark = pytest.mark.parity

INF, NAN = float("inf"), float("nan")
RNG = np.random.default_rng(0)
BETWEEN = np.concatenate(
    [RNG.uniform(-1, 1, 200), [0, 1, -1, 0.5, -0.5, 1 - 1e-6, 1e-6 - 1, 1.5, -2, NAN]]
)
ANY = np.concatenate(
    [
        *(RNG.normal(0, deviation, 80) for deviation in (1e-3, 3, 1e3)),
        [0, 1, -1, 0.66, -0.66, 2.5, -2.5, 1e30, -1e30, 1e-30, NAN],
    ]
)
ENDS = np.array([INF, -INF])
GAMMA = np.concatenate(
    [RNG.uniform(0, 20, 100), RNG.uniform(-8, 0, 100), [1, 2, 0.5, 7.99, 8, 1e6, 1e20, NAN]]
)
CASES: dict[str, tuple[Array, ...]] = {
    "tan": (ANY,),
    "atan": (np.concatenate([ANY, ENDS]),),
    "asin": (BETWEEN,),
    "acos": (BETWEEN,),
    "erfinv": (BETWEEN,),
    "lgamma": (GAMMA,),
    "digamma": (GAMMA,),
    "atan2": tuple(
        np.array([(b, a)[k] for a in (*ANY[:40], *ANY[-11:]) for b in ANY[-11:]]) for k in (0, 1)
    ),
}
"""The operands of each function."""
POLES = np.array([0.0, -1.0, -2.0])


@cache
def graph(name: str, count: int) -> Graph:
    """A function, and the sums of its slopes with respect to each operand."""
    operands = "ab"[: len(CASES[name])]
    inputs = ", ".join(f"{each}: [n]" for each in operands)
    slopes = ", ".join(f"grad(sum(found), {each})" for each in operands)
    types = ", ".join(["[n]"] * (1 + len(operands)))
    text = (
        f"from special import {name}\nblock F()({inputs}) -> {types}:\n"
        f"  found = {name}({', '.join(operands)})\n  return found, {slopes}\nmodel f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("f.mgn")), sink).link(Source("f.mgn", text))
    assert not sink.has_errors, sink.reports
    return elaborate_model(Program(module), "f", sizes={"n": count}).graph


def found(name: str, operands: tuple[Array, ...], precision: Precision) -> list[Array]:
    fed = dict(zip("ab", operands, strict=False))
    made = graph(name, len(operands[0]))
    return [np.asarray(each) for each in evaluate(made, fed, precision).outputs.values()]


def wanted(name: str, operands: tuple[Array, ...]) -> list[Array]:
    """The values and the slopes of PyTorch, in double precision."""
    given = [torch.tensor(each.astype(np.float64), requires_grad=True) for each in operands]
    value = getattr(torch, name)(*given)
    value.sum().backward()
    slopes = [each.grad for each in given if each.grad is not None]
    return [value.detach().numpy(), *(each.numpy() for each in slopes)]


def assert_near(given: list[Array], right: list[Array], tolerance: float) -> None:
    """Of what is no number the value is compared, and not the slope."""
    is_number = ~np.isnan(right[0])
    np.testing.assert_array_equal(np.isnan(given[0]), ~is_number)
    for one, other in zip(given, right, strict=True):
        a, b = one[is_number], other[is_number]
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@each_of("name", CASES)
def test_values_and_slopes_are_pytorch_s(name: str) -> None:
    operands = CASES[name]
    assert_near(found(name, operands, Precision.DOUBLE), wanted(name, operands), 2e-9)


@each_of("name", CASES)
def test_in_single_precision_the_last_digits_differ(name: str) -> None:
    operands = tuple(each.astype(np.float32) for each in CASES[name])
    right = [wanted(name, operands)[0]]
    tolerance = 8e-6 if "gamma" in name else 5e-7
    assert_near(found(name, operands, Precision.SINGLE)[:1], right, tolerance)


def test_the_gamma_function_has_poles() -> None:
    assert [*found("lgamma", (POLES,), Precision.DOUBLE)[0]] == [INF] * 3
    assert found("lgamma", (ENDS[:1],), Precision.DOUBLE)[0][0] == INF
    assert [*found("digamma", (POLES,), Precision.DOUBLE)[0]] == [-INF] * 3


@pytest.mark.parametrize("device", ["xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
@each_of("name", CASES)
def test_on_devices(name: str, device: str) -> None:
    """Numbers below 10 whose values and slopes are below 100."""
    operands = tuple(each.astype(np.float32) for each in CASES[name])
    right = wanted(name, operands)
    is_small = np.logical_and.reduce(
        [abs(each) < 10 for each in operands] + [abs(each) < 100 for each in right]
    )
    operands = tuple(each[is_small] for each in operands)
    with choose_device(device).open(graph(name, len(operands[0]))) as session:
        given = session.step(dict(zip("ab", operands, strict=False)))
    for one, other in zip(given.values(), right, strict=True):
        np.testing.assert_allclose(one, other[is_small], rtol=2e-4, atol=2e-4)
