"""Norms of f32 tensors against NumPy's in double precision, where squares are no f32."""

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.norms import norm_of
from tests.folded import each_of

LARGEST = np.finfo(np.float32).max


def norm(*tensors: Array) -> float:
    build = Builder()
    named = {f"x{number}": each.astype(np.float32) for number, each in enumerate(tensors)}
    leaves = [build.add(Input(name, DType.F32, each.shape)) for name, each in named.items()]
    with np.errstate(all="ignore"):
        found = Interpreter(build.graph({"norm": norm_of(build, leaves)}, {})).run(named)
    return float(found.outputs["norm"])


@each_of("exponent", [*range(-37, 38, 3), 37])
def test_no_square_overflows_or_underflows(exponent: int) -> None:
    x = np.random.default_rng(exponent + 40).normal(size=(7, 5)).astype(np.float32)
    x = (x * np.float32(10.0) ** exponent).astype(np.float32)
    np.testing.assert_allclose(norm(x), np.linalg.norm(x.astype(np.float64)), rtol=1e-6)


def test_magnitudes_of_all_kinds_together() -> None:
    """Also those on the borders between large, ordinary and small elements."""
    generator = np.random.default_rng(0)
    for _ in range(200):
        exponents = generator.choice([-100, -61, -60, -59, -20, 0, 20, 39, 40, 41, 100], 6)
        x = (generator.uniform(0.5, 2, 6) * 2.0**exponents).astype(np.float32)
        expected = np.linalg.norm(x.astype(np.float64))
        np.testing.assert_allclose(norm(x[:2], x[2:]), expected, rtol=1e-6, err_msg=str(x))


def test_the_ends() -> None:
    assert norm() == norm(np.zeros(3)) == norm(np.array(0.0)) == 0
    assert norm(np.array(-3.0), np.array([4.0])) == 5
    assert norm(np.array([1.0, np.inf])) == norm(np.array([-np.inf, 1e30, 1e-30])) == np.inf
    assert norm(np.full(4, LARGEST)) == np.inf, "it is no f32"
    assert norm(np.array([LARGEST])) == LARGEST
    for other in (0.0, 1e30, 1e-30, np.inf):
        assert np.isnan(norm(np.array([other, np.nan])))
