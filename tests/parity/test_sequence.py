"""Losses of sequences of the library against those of PyTorch."""

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


def graph(call: str, name: str) -> Graph:
    """A loss and its gradient with respect to the logits."""
    text = (
        f"from sequence import {name}\n"
        "block F()(logits: [n, s, c], label: i32[n, l], length: i32[n], label_length: i32[n])\n"
        "    -> [], [n, s, c]\n    where 0 <= label, label < c, c >= 5:\n"
        f"  found = {call}(logits, label, length, label_length)\n"
        "  return found, grad(found, logits)\nmodel f = F()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("f.mgn")), sink).link(Source("f.mgn", text))
    assert not sink.has_errors, sink.reports
    sizes = {"n": 4, "s": 9, "c": 5, "l": 4}
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
