"""Factors, inverses and solutions against torch.linalg, each with two gradients."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

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

pytestmark = pytest.mark.parity

BATCH, N, K = 2, 5, 3
SIZES = {"m": BATCH, "n": N, "k": K}

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def solved(a: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(a, y)


def lower_solved(a: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve_triangular(a, y, upper=False)


def log_abs_det(a: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    del y
    return torch.linalg.slogdet(a)[1]


CASES: dict[str, Function] = {
    "cholesky(a @ transposed(a) + expand(eye(n), [n, n] -> [m, n, n]))": lambda a, y: (
        torch.linalg.cholesky(a @ a.mT + torch.eye(N, dtype=a.dtype)) + 0 * y.sum()
    ),
    "inverse(a)": lambda a, y: torch.linalg.inv(a) + 0 * y.sum(),
    "lower_inverse(a)": lambda a, y: torch.linalg.inv(a.tril()) + 0 * y.sum(),
    "solve(a, y)": solved,
    "solve_lower(a, y)": lower_solved,
    "log_abs_det(a)": log_abs_det,
}
"""The functions of PyTorch, by the calls of the library."""


def fed() -> tuple[Array, Array]:
    """Matrices whose triangles and pivots are far from 0, and right-hand sides."""
    rng = np.random.default_rng(2)
    a = rng.normal(size=(BATCH, N, N)) + 3 * np.eye(N)[:, ::-1] + 3 * np.eye(N)
    return a, rng.normal(size=(BATCH, N, K))


@cache
def program(call: str) -> Graph:
    """A value, the gradient of a function of it, and the gradient of a function of that."""
    body = f"""\
        a = a + 0 * sum(y)
        found = {call}
        first = grad(sum(sin(found)), a)
        second = grad(sum(first * first), a)
        return found, first, second
    """
    names = "cholesky, eye, inverse, lower_inverse, solve, solve_lower, log_abs_det, transposed"
    axes = "m" if "det" in call else "m, n, k" if "y" in call.split("(")[1] else "m, n, n"
    results = f"[{axes}], [m, n, n], [m, n, n]"
    text = (
        f"from linalg import {names}\n"
        f"block F()(a: [m, n, n], y: [m, n, k]) -> {results}:\n"
        f"{indent(dedent(body), '  ')}"
        "model f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path()), sink).link(Source("test.mgn", text))
    assert not sink.has_errors, sink.reports
    return elaborate_model(Program(module), "f", sizes=SIZES).graph


@cache
def theirs(call: str) -> tuple[Array, ...]:
    a, y = (torch.tensor(each) for each in fed())
    a.requires_grad_()
    found = CASES[call](a, y)
    (first,) = torch.autograd.grad(found.sin().sum(), a, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), a)
    return tuple(each.detach().numpy() for each in (found, first, second))


@pytest.mark.parametrize("call", CASES)
def test_values_and_two_gradients(call: str) -> None:
    a, y = fed()
    found = evaluate(program(call), {"a": a, "y": y}, Precision.DOUBLE).outputs
    for mine, wanted in zip(found.values(), theirs(call), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["cpu", "xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
@pytest.mark.parametrize("call", ["inverse(a)", next(iter(CASES))])
def test_on_devices(call: str, device: str) -> None:
    a, y = (each.astype(np.float32) for each in fed())
    with choose_device(device).open(program(call)) as session:
        found = session.step({"a": a, "y": y})
    for mine, wanted in zip(found.values(), theirs(call), strict=True):
        largest = float(np.abs(wanted).max())
        np.testing.assert_allclose(mine, wanted, atol=2e-4 * largest)
