"""A graph network on ragged batches against PyTorch's, in double precision, over several steps."""

from pathlib import Path

import numpy as np
import pytest
import torch

from meganeura_dsl import pipeline
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.io.data.batches import order_of_pass
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import prepare
from tests.ragged import GRAPHS, PROGRAM, Graphs

pytestmark = pytest.mark.parity

STEPS = 8


def test_a_graph_network_trains_as_in_torch(tmp_path: Path) -> None:
    """Two passes over 26 graphs in batches of 7, the last of 5, each batch joined by hand."""
    file = tmp_path / "graphs.mgn"
    file.write_text(PROGRAM)
    GRAPHS.save(tmp_path / "graphs.npz")
    wanted = ["batch=7", "drop_last=false", "epochs=2", "optimize=false", "optimizer=sgd(lr=0.05)"]
    job = prepare(pipeline.load(str(file)), "fit", tmp_path, wanted)
    assert job.steps == STEPS
    values, feeder = job.spec.initial_values(), Feeder(job)
    weights = {
        name: torch.tensor(values[name], dtype=torch.float64, requires_grad=True)
        for name in (each.name for each in job.spec.parameters)
    }
    sizes: set[tuple[int, ...]] = set()
    for step in range(job.steps):
        fed = feeder.feeds(step)
        sizes.add(fed["x"].shape)
        run = Interpreter(job.step_at(step, fed), Precision.DOUBLE)
        given = {**values, **fed}
        results = run.run({name: each for name, each in given.items() if name in run.leaves})
        values.update(results.updates)
        order = order_of_pass(job.settings, job.dataset.train, step // 4)
        loss = _loss(GRAPHS, order[step % 4 * 7 : step % 4 * 7 + 7], weights)
        np.testing.assert_allclose(float(results.outputs["loss"]), loss.item(), rtol=1e-9)
        for each in weights.values():
            each.grad = None
        loss.backward()
        with torch.no_grad():
            for each in weights.values():
                assert each.grad is not None
                each.sub_(float(np.float32(0.05)) * each.grad)
    assert len(sizes) > 4
    for name, each in weights.items():
        found = np.asarray(values[name], np.float64)
        np.testing.assert_allclose(found, each.detach().numpy(), rtol=1e-6, atol=1e-9)


def _loss(graphs: Graphs, numbers: np.ndarray, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean loss of some graphs, each of them by itself."""
    losses = [_logits(graphs, int(number), weights) for number in numbers]
    labels = torch.tensor(graphs.label[numbers], dtype=torch.int64)
    return torch.nn.functional.cross_entropy(torch.stack(losses), labels)


def _logits(graphs: Graphs, number: int, w: dict[str, torch.Tensor]) -> torch.Tensor:
    x, source, target = graphs.one(number)
    h = torch.tensor(x, dtype=torch.float64)
    for layer in ("first", "second"):
        sent = torch.zeros_like(h)
        for a, b in zip(source, target, strict=True):
            sent[int(b)] = sent[int(b)] + h[int(a)]
        h = (h + sent) @ w[f"{layer}.up.weight"].T + w[f"{layer}.up.bias"]
        h = torch.relu(h) @ w[f"{layer}.down.weight"].T + w[f"{layer}.down.bias"]
        h = torch.relu(h)
    return h.mean(0) @ w["out.weight"].T + w["out.bias"]
