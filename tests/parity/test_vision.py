"""Windows, borders, places between pixels and boxes of the library against PyTorch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_runtime.backends.registry import choose_device

pytestmark = pytest.mark.parity

N, C, H, W, M, A, B = 2, 8, 6, 7, 3, 4, 5
SIZES = {"n": N, "m": M, "a": A, "b": B}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, C, H, W))
EVEN = RNG.normal(size=(N, 2, 6, 8))
ROW, COLUMN = RNG.uniform(-2, H + 1, (N, A, B)), RNG.uniform(-2, W + 1, (N, A, B))
ROW[0, 0], COLUMN[0, 0] = [0, H - 1, -1, H, 2], [0, W - 1, W, -1, 3]
BOX = np.array([[0.5, 1.2, 4.3, 5.1], [-3.1, -2.2, 3.3, 4.4], [2.1, 2.3, 9.4, 8.2]])
IMAGE = np.array([1, 0, 1], np.int32)


def sampled(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, mode: str) -> torch.Tensor:
    height, width = x.shape[2:]
    grid = torch.stack([2 * column / (width - 1) - 1, 2 * row / (height - 1) - 1], -1)
    return F.grid_sample(x, grid, padding_mode=mode, align_corners=True)


def aligned(x: torch.Tensor, box: torch.Tensor, height: int, width: int, g: int) -> torch.Tensor:
    """RoIAlign, box by box, from places on the edge and a mask of those that are far outside."""
    found: list[torch.Tensor] = []
    for at, (x0, y0, x1, y1) in enumerate(box):
        down = (torch.arange(height * g, dtype=x.dtype) + 0.5) / (height * g) * (y1 - y0) + y0 - 0.5
        along = (torch.arange(width * g, dtype=x.dtype) + 0.5) / (width * g) * (x1 - x0) + x0 - 0.5
        row, column = torch.meshgrid(down, along, indexing="ij")
        near = (row >= -1) & (row <= x.shape[2]) & (column >= -1) & (column <= x.shape[3])
        image = x[int(IMAGE[at])][None]
        part = sampled(image, row[None], column[None], "border") * near
        found.append(F.avg_pool2d(part, g)[0])
    return torch.stack(found)


Reference = Callable[..., torch.Tensor]
CASES: dict[str, tuple[str, dict[str, Array], Reference]] = {
    "shuffle": ("pixel_shuffle(2)(x)", {"x": X}, lambda x: F.pixel_shuffle(x, 2)),
    "unshuffle": ("pixel_unshuffle(2)(x)", {"x": EVEN}, lambda x: F.pixel_unshuffle(x, 2)),
    "unfold": ("unfold(3)(x)", {"x": X}, lambda x: F.unfold(x, 3)),
    "unfold all": (
        "unfold(2, stride=3, pad=1, dilation=2)(x)",
        {"x": X},
        lambda x: F.unfold(x, 2, dilation=2, padding=1, stride=3),
    ),
    "reflect": ("reflect_pad(5)(x)", {"x": X}, lambda x: F.pad(x, (5, 5, 5, 5), "reflect")),
    "sample zero": (
        "sample_at()(x, row, column)",
        {"x": X, "row": ROW, "column": COLUMN},
        lambda x, row, column: sampled(x, row, column, "zeros"),
    ),
    "sample edge": (
        'sample_at("edge")(x, row, column)',
        {"x": X, "row": ROW, "column": COLUMN},
        lambda x, row, column: sampled(x, row, column, "border"),
    ),
    "boxes": (
        "roi_align(2, 3)(x, box, image)",
        {"x": X, "box": BOX},
        lambda x, box: aligned(x, box, 2, 3, 2),
    ),
}
TYPES = {"row": "[n, a, b]", "column": "[n, a, b]", "box": "[m, 4]"}


def graph(call: str, fed: dict[str, Array]) -> Graph:
    """A value, and the gradients of a function of it with respect to each input."""
    types = {name: TYPES.get(name, f"{[*each.shape]}") for name, each in fed.items()}
    inputs = ", ".join(f"{name}: {of}" for name, of in types.items())
    images = ", image: i32[m]" if "image" in call else ""
    slopes = ", ".join(f"grad(sum(sin(found)), {each})" for each in fed)
    name = call.partition("(")[0]
    fact = "\n    where 0 <= image, image < 2" if images else ""
    text = (
        f"from vision import {name}\nblock F()({inputs}{images}){fact}:\n"
        f"  found = {call}\n  return found, {slopes}\nmodel f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("f.mgn")), sink).link(Source("f.mgn", text))
    assert not sink.has_errors, sink.reports
    return elaborate_model(Program(module), "f", sizes=SIZES).graph


def theirs(name: str) -> list[Array]:
    _, fed, reference = CASES[name]
    given = [torch.tensor(each, requires_grad=True) for each in fed.values()]
    value = reference(*given)
    value.sin().sum().backward()
    slopes = [each.grad for each in given if each.grad is not None]
    assert len(slopes) == len(fed)
    return [value.detach().numpy(), *(each.numpy() for each in slopes)]


def inputs(name: str, dtype: type) -> dict[str, Array]:
    call, fed, _ = CASES[name]
    floats = {each: value.astype(dtype) for each, value in fed.items()}
    return floats | ({"image": IMAGE} if "image" in call else {})


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    call, fed, _ = CASES[name]
    found = evaluate(graph(call, fed), inputs(name, np.float64), Precision.DOUBLE).outputs
    for mine, wanted in zip(found.values(), theirs(name), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
@pytest.mark.parametrize("name", ["unfold all", "reflect", "sample zero", "boxes"])
def test_on_devices(name: str, device: str) -> None:
    call, fed, _ = CASES[name]
    with choose_device(device).open(graph(call, fed)) as session:
        found = session.step(inputs(name, np.float32))
    for mine, wanted in zip(found.values(), theirs(name), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-4)
