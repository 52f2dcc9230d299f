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


def _edges() -> dict[str, Array]:
    """Rows that rise, with one edge, with ties and with infinities."""
    generator = np.random.default_rng(5)
    return {
        "one": np.array([0.5], np.float32),
        "random": np.sort(generator.normal(size=37)).astype(np.float32),
        "tied": np.sort(generator.integers(-3, 4, 64)).astype(np.float32),
        "all tied": np.zeros(16, np.float32),
        "extreme": np.array([-INF, -INF, -3e38, -1e-37, 0, 1e-37, 3e38, INF, INF], np.float32),
    }


EDGES = _edges()


@cache
def places(side: str, count: int, many: int) -> Graph:
    """A search, and rows of a table gathered by it: it is proved to be within 0 to n."""
    text = (
        "from special import searchsorted\n"
        "block F()(edges: [n], x: [a, b], table: [n + 1, 2]) -> i32[a, b], [a, b, 2]:\n"
        f"  found = searchsorted(right={'true' if side == 'right' else 'false'})(edges, x)\n"
        "  return found, gather(table, found)\nmodel f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("f.mgn")), sink).link(Source("f.mgn", text))
    assert not sink.has_errors, sink.reports
    sizes = {"n": count, "a": 2, "b": many // 2}
    return elaborate_model(Program(module), "f", sizes=sizes).graph


@pytest.mark.parametrize("device", ["cpu", "xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
@pytest.mark.parametrize("side", ["left", "right"])
@each_of("kind", EDGES)
def test_places_in_a_row_are_pytorch_s(kind: str, side: str, device: str) -> None:
    edges = EDGES[kind]
    generator = np.random.default_rng(6)
    drawn = generator.normal(size=40).astype(np.float32)
    ends = np.array([INF, -INF, 3.4e38, -3.4e38, 0, NAN], np.float32)
    x = np.concatenate([drawn, edges, ends, np.zeros(len(edges) % 2, np.float32)])
    table = generator.normal(size=(len(edges) + 1, 2)).astype(np.float32)
    expected = torch.searchsorted(torch.tensor(edges), torch.tensor(x), side=side).numpy()
    fed = {"edges": edges, "x": x.reshape(2, -1), "table": table}
    with choose_device(device).open(places(side, len(edges), len(x))) as session:
        found, rows = session.step(fed).values()
    np.testing.assert_array_equal(np.asarray(found).ravel(), expected)
    np.testing.assert_array_equal(np.asarray(rows).reshape(-1, 2), table[expected])
