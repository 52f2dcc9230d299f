"""Transforms of the library against torch.fft, and a long convolution against one by conv1d."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_runtime.backends.registry import choose_device

pytestmark = pytest.mark.parity

TEXT = """\
from spectra import fft, ifft, irfft, long_conv, rfft

block Transforms(rows: size = 1)(a: [m, s], b: [m, s])
    -> [m, s], [m, s], [m, s], [m, s], [m, s // 2 + 1], [m, s // 2 + 1]
    where s >= 1, rows >= 1, s % rows == 0, rows <= 46_340, s // rows <= 46_340:
  u, v = fft(rows)(a, b)
  p, q = ifft(rows)(a, b)
  f, g = rfft(rows)(a)
  return u, v, p, q, f, g

block Back(s, rows: size = 1)(f: [m, s // 2 + 1], g: [m, s // 2 + 1]) -> [m, s]
    where s >= 1, rows >= 1, s % rows == 0, rows <= 46_340, s // rows <= 46_340:
  return irfft(s, rows)(f, g)

block Long(rows: size = 1)(x: [n, c, s], k: [c, s])
    -> [n, c, s], [n, c, s], [c, s]
    where s >= 1, rows >= 1, 2 * s % rows == 0, rows <= 46_340, 2 * s // rows <= 46_340:
  y = long_conv(rows)(x, k)
  loss = sum(sin(y))
  return y, grad(loss, x), grad(loss, k)

model transforms = Transforms(rows={rows})
model back = Back(s={size}, rows={rows})
model long = Long(rows={rows})
"""


def drawn(*sizes: tuple[int, ...]) -> list[Array]:
    """Random arrays of these sizes, the same ones in each test."""
    rng = np.random.default_rng(4)
    return [rng.normal(size=size) for size in sizes]


@cache
def program(model: str, size: int, rows: int) -> Graph:
    """The graph of a model of TEXT."""
    sink = Sink()
    text = TEXT.replace("{size}", str(size)).replace("{rows}", str(rows))
    module = Linker(loader_beside(Path()), sink).link(Source("test.mgn", text))
    assert not sink.has_errors, sink.reports
    sizes = {"m": 3, "s": size, "n": 2, "c": 3}
    return elaborate_model(Program(module), model, sizes=sizes).graph


def complex_of(a: Array, b: Array) -> torch.Tensor:
    return torch.complex(torch.tensor(a), torch.tensor(b))


def parts(*values: torch.Tensor) -> list[Array]:
    """The real and the imaginary parts."""
    return [each.numpy() for value in values for each in (value.real, value.imag)]


SIZES = [(1, 1), (2, 1), (7, 1), (8, 2), (12, 1), (12, 3), (12, 12), (15, 5), (64, 8)]


@pytest.mark.parametrize(("size", "rows"), SIZES)
def test_transforms(size: int, rows: int) -> None:
    a, b = drawn((3, size), (3, size))
    z = complex_of(a, b)
    wanted = parts(torch.fft.fft(z), torch.fft.ifft(z), torch.fft.rfft(torch.tensor(a)))
    graph = program("transforms", size, rows)
    found = evaluate(graph, {"a": a, "b": b}, Precision.DOUBLE).outputs
    for mine, theirs in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


@pytest.mark.parametrize(("size", "rows"), SIZES)
def test_real_tensors_come_back(size: int, rows: int) -> None:
    f, g = drawn((3, size // 2 + 1), (3, size // 2 + 1))
    found = evaluate(program("back", size, rows), {"f": f, "g": g}, Precision.DOUBLE).outputs
    wanted = torch.fft.irfft(complex_of(f, g), n=size).numpy()
    np.testing.assert_allclose(found["output"], wanted, atol=1e-10)


def convolved(x: Array, k: Array) -> list[Array]:
    """The causal convolution of each channel, and the gradients of the sum of its sine."""
    mine, kernel = torch.tensor(x, requires_grad=True), torch.tensor(k, requires_grad=True)
    y = conv1d(mine, kernel.flip(-1)[:, None], groups=len(k), padding=k.shape[1] - 1)
    y = y[..., : k.shape[1]]
    y.sin().sum().backward()
    assert mine.grad is not None
    assert kernel.grad is not None
    return [y.detach().numpy(), mine.grad.numpy(), kernel.grad.numpy()]


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (9, 1), (9, 6), (32, 8)])
def test_a_long_convolution_and_its_gradients(size: int, rows: int) -> None:
    x, k = drawn((2, 3, size), (3, size))
    found = evaluate(program("long", size, rows), {"x": x, "k": k}, Precision.DOUBLE).outputs
    for mine, theirs in zip(found.values(), convolved(x, k), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


@pytest.mark.parametrize("device", ["cpu", "xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
def test_on_devices(device: str) -> None:
    x, k = drawn((2, 3, 32), (3, 32))
    with choose_device(device).open(program("long", 32, 8)) as session:
        found = session.step({"x": x.astype(np.float32), "k": k.astype(np.float32)})
    for mine, theirs in zip(found.values(), convolved(x, k), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
