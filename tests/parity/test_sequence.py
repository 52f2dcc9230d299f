"""Losses of sequences of the library against PyTorch, and against all alignments one by one."""

from itertools import combinations
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

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 9, 5))
LABEL = np.array([[1, 2, 2, 3], [3, 3, 3, 1], [1, 4, 2, 2], [2, 2, 1, 1]], np.int32)
LENGTH = np.array([9, 8, 5, 1], np.int32)
LABEL_LENGTH = np.array([4, 3, 2, 1], np.int32)
FED = {"logits": LOGITS, "label": LABEL, "length": LENGTH, "label_length": LABEL_LENGTH}


def graph(call: str, name: str, axes: str = "[n, s, c]", steps: int = 9) -> Graph:
    """A loss and its gradient with respect to the logits."""
    text = (
        f"from sequence import {name}\n"
        f"block F()(logits: {axes}, label: i32[n, l], length: i32[n], label_length: i32[n])\n"
        f"    -> [], {axes}\n    where 0 <= label, label < c, c >= 5:\n"
        f"  found = {call}(logits, label, length, label_length)\n"
        "  return found, grad(found, logits)\nmodel f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("f.mgn")), sink).link(Source("f.mgn", text))
    assert not sink.has_errors, sink.reports
    sizes = {"n": 4, "s": steps, "c": 5, "l": 4}
    return elaborate_model(Program(module), "f", sizes=sizes).graph


def theirs(blank: int) -> list[Array]:
    logits = torch.tensor(LOGITS, requires_grad=True)
    label = LABEL if blank == 0 else np.where(blank == LABEL, 0, LABEL)
    p = logits.log_softmax(-1).transpose(0, 1)
    lengths = (torch.tensor(each) for each in (label, LENGTH, LABEL_LENGTH))
    loss = F.ctc_loss(p, *lengths, blank=blank)
    loss.backward()
    assert logits.grad is not None
    return [loss.detach().numpy(), logits.grad.numpy()]


def given(blank: int, dtype: type) -> dict[str, Array]:
    label = LABEL if blank == 0 else np.where(blank == LABEL, 0, LABEL).astype(np.int32)
    return FED | {"logits": LOGITS.astype(dtype), "label": label}


@pytest.mark.parametrize("blank", [0, 4])
def test_ctc_is_pytorch_s(blank: int) -> None:
    found = evaluate(graph(f"ctc({blank})", "ctc"), given(blank, np.float64), Precision.DOUBLE)
    for mine, wanted in zip(found.outputs.values(), theirs(blank), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
def test_ctc_on_devices(device: str) -> None:
    with choose_device(device).open(graph("ctc", "ctc")) as session:
        found = session.step(given(0, np.float32))
    for mine, wanted in zip(found.values(), theirs(0), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-4)


GRID = RNG.normal(size=(4, 3, 5, 5))
GRID_LENGTH = np.array([3, 2, 3, 1], np.int32)


def ways(p: torch.Tensor, label: Array, steps: int) -> torch.Tensor:
    """-log of the sum over all orders of `steps` blanks, the last one at the end, and a label."""
    found: list[torch.Tensor] = []
    for places in combinations(range(steps - 1 + len(label)), len(label)):
        i, j, total = 0, 0, torch.zeros((), dtype=p.dtype)
        for at in range(steps - 1 + len(label)):
            if at in places:
                total, j = total + p[i, j, label[j]], j + 1
            else:
                total, i = total + p[i, j, 0], i + 1
        found.append(total + p[i, j, 0])
    return -torch.stack(found).logsumexp(0)


def over_all_ways() -> list[Array]:
    """The mean loss and its gradient, from every way through the grid."""
    logits = torch.tensor(GRID, requires_grad=True)
    p = logits.log_softmax(-1)
    rows = zip(p, LABEL, GRID_LENGTH, LABEL_LENGTH, strict=True)
    loss = torch.stack([ways(q, label[:many], int(s)) for q, label, s, many in rows]).mean()
    loss.backward()
    assert logits.grad is not None
    return [loss.detach().numpy(), logits.grad.numpy()]


def test_rnnt_is_the_sum_over_all_ways() -> None:
    made = graph("rnnt", "rnnt", "[n, s, l + 1, c]", steps=3)
    fed = FED | {"logits": GRID, "length": GRID_LENGTH}
    found = evaluate(made, fed, Precision.DOUBLE).outputs
    for mine, wanted in zip(found.values(), over_all_ways(), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
def test_rnnt_on_devices(device: str) -> None:
    made = graph("rnnt", "rnnt", "[n, s, l + 1, c]", steps=3)
    with choose_device(device).open(made) as session:
        found = session.step(FED | {"logits": GRID.astype(np.float32), "length": GRID_LENGTH})
    for mine, wanted in zip(found.values(), over_all_ways(), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-4)
