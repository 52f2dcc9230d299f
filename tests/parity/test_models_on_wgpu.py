"""One training step on an adapter, against PyTorch in double precision.

Compiling kernels takes software Vulkan long, so one family with attention and, at night, one with
convolutions stand for all; `benchmarks/parity/compare.py` compares every family. A network with
convolutions is held to the reference in `tests/runtime/backends/test_training.py`.
"""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Leaf
from meganeura_runtime.backends.registry import choose_device
from tests.effort import effort
from tests.parity import models
from tests.parity.cases import FAMILIES
from tests.parity.models import Case

pytestmark = [pytest.mark.parity, pytest.mark.adapter]


CASES = [case for case in FAMILIES if case.name in effort(("lm",), ("lm", "repvgg"))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss_gradients_and_states(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 1)
    theirs = models.their_step(module, data)
    graph = models.gradient_graph(models.training(case).graph)
    kept = {
        each.op.name for each in graph.values if isinstance(each.op, Leaf) and each.op.is_persistent
    }
    with choose_device("wgpu").open(graph) as session:
        session.load({name: values[name] for name in kept})
        gradients = dict(session.step(data))
        states = {name: session.read(name) for name in graph.updates}
    assert float(gradients.pop("loss")) == pytest.approx(theirs.loss, rel=1e-4)
    models.assert_near(gradients, theirs.gradients, 1e-3)
    for name, state in theirs.states.items():
        np.testing.assert_allclose(states[name], state, rtol=1e-4, atol=1e-5)
