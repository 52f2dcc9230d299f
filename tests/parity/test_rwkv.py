"""RWKV-7 against its recurrence in PyTorch, whole and a token at a time."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from tests.parity import models
from tests.parity.models import Case
from tests.parity.references.rwkv import Rwkv

pytestmark = pytest.mark.parity

LENGTH, PROMPT = 6, 3
NET = """\
from rwkv import Rwkv
block Net(capacity=0)(ids: i32[n, s], position: i32[]{default}) -> [n, s, 11]
    where 0 <= position:
  return ids |> .: Rwkv(vocabulary=11, d=12, layers=3, heads=2, w_rank=3, a_rank=4, v_rank=2,
                        g_rank=5, capacity=capacity)(position)
"""
FIT = """
train fit(ids: i32[n, s], target: [n, s, 11]):
  minimize mse(ids |> net, target)
"""


def decoder() -> Rwkv:
    return Rwkv(11, 12, 3, 2, {"w": 3, "a": 4, "g": 5}, 2)


CASE = Case(
    "rwkv", NET.format(default=" = 0") + "model net = Net()\n" + FIT, decoder, {"n": 2, "s": LENGTH}
)
KEPT = NET.format(default="") + "model net = Net(1)\n"


def given(name: str) -> Array:
    return models.drawn(models.training(CASE).inputs, 1)[name]


def test_output_and_gradients() -> None:
    module = models.reference(CASE)
    values = models.weights(CASE, module)
    data = {"ids": given("ids"), "target": given("target")}
    expected = models.their_forward(module, {"ids": data["ids"]})
    found = models.forward(CASE, values, {"ids": data["ids"]}, Precision.DOUBLE)
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
    theirs = models.their_step(module, data)
    ours = models.step(CASE, values, data, Precision.DOUBLE)
    models.assert_near(ours.gradients, theirs.gradients, 1e-11)


def test_with_states_that_are_kept_tokens_have_the_logits_of_the_whole() -> None:
    """A prompt, and then a token at a time; position 0 begins another sequence."""
    values = models.weights(CASE, models.reference(CASE))
    ids = given("ids")
    expected = models.forward(CASE, values, {"ids": ids}, Precision.DOUBLE)
    kept: dict[str, Array] = dict(values)
    steps = [(0, PROMPT), *((at, at + 1) for at in range(PROMPT, LENGTH)), (0, PROMPT)]
    for start, stop in steps:
        case = Case("kept", KEPT, decoder, {"n": 2, "s": stop - start})
        graph = Interpreter(models.inference(case).graph, Precision.DOUBLE)
        for name, leaf in graph.leaves.items():
            if name not in kept:
                kept[name] = np.zeros(concrete_shape(leaf.type.shape))
        fed = {"ids": ids[:, start:stop], "position": np.array(start, np.int32)}
        results = graph.run({**kept, **fed})
        kept |= results.updates
        models.assert_near(
            {"output": results.outputs["output"]}, {"output": expected[:, start:stop]}, 1e-12
        )
    states = {name: each.shape for name, each in kept.items() if name.startswith("blocks.2.")}
    assert states["blocks.2.att.state"] == (2, 2, 6, 6)
