"""The estimates and the loss of PPO are those of its formulas, in NumPy."""

import numpy as np

from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import load

RANDOM = np.random.default_rng(3)
N, S = 3, 5


def computed(block: str, config: dict[str, StaticValue], **given: Array) -> Array:
    """Returns the result of a block of `ppo` in double precision."""
    module = load("ppo").module
    dtypes = {np.dtype(np.bool_): DType.BOOL}
    types = tuple(TensorType(dtypes.get(x.dtype, DType.F32), x.shape) for x in given.values())
    graph = elaborate_block(
        module, module.blocks[block], config=config, inputs=Inputs(types), training=True
    ).graph
    (found,) = Interpreter(graph, Precision.DOUBLE).run(given).outputs.values()
    return found


def test_estimates_are_sums_of_surprises_until_the_end() -> None:
    reward, value = RANDOM.normal(size=(2, N, S))
    after, ended = RANDOM.normal(size=N), RANDOM.random((N, S)) < 0.3
    assert ended.any()
    values = np.concatenate([value, after[:, None]], 1)
    expected = np.zeros((N, S))
    for n, t in np.ndindex(N, S):
        for k in range(t, S):
            following = 0 if ended[n, k] else 0.9 * values[n, k + 1]
            expected[n, t] += (0.9 * 0.8) ** (k - t) * (reward[n, k] + following - value[n, k])
            if ended[n, k]:
                break
    found = computed(
        "gae", {"discount": 0.9, "mix": 0.8}, reward=reward, value=value, after=after, ended=ended
    )
    np.testing.assert_allclose(found, expected, 1e-12, 1e-12)


def test_a_ratio_beyond_its_reach_gains_nothing() -> None:
    now, before, gain = RANDOM.normal(size=(3, N, S))
    ratio = np.exp(now - before)
    bounded = np.where(gain > 0, np.minimum(ratio, 1.2), np.maximum(ratio, 0.8))
    assert (bounded != ratio).any()
    found = computed("clipped", {}, now=now, before=before, gain=gain)
    np.testing.assert_allclose(found, -np.mean(bounded * gain), 1e-12)
