"""Numbers of a program are computed while it is checked, as Python computes them."""

import math

import numpy as np
import pytest

from meganeura_dsl.check.models import elaborate_model
from meganeura_dsl.check.names import Linker
from meganeura_dsl.diagnostics import Sink
from meganeura_dsl.evaluate import Precision, evaluate
from meganeura_dsl.source import Source

NUMBERS: dict[str, float] = {
    "2.5 // 2": 1.0,
    "2.5 % 2": 0.5,
    "7 % 4": 3,
    "7 // 4": 1,
    "7 / 4": 1.75,
    "2.0 ** 3": 8.0,
    "2 ** 10": 1024,
    "2 ** (0 - 2)": 0.25,
    "0.5 ** 0.5": 0.5**0.5,
    "1.5 - 0.25": 1.25,
    "1.5 + 0.25": 1.75,
    "1.5 * 4": 6.0,
    "-(2.5)": -2.5,
    "-(3)": -3,
    "abs(0 - 3.5)": 3.5,
    "sqrt(2.0)": math.sqrt(2),
    "exp(1)": math.e,
    "log(8.0)": math.log(8),
    "sin(0.5) + cos(0.5)": math.sin(0.5) + math.cos(0.5),
    "tanh(0.5)": math.tanh(0.5),
    "erf(0.5)": math.erf(0.5),
    "max(1.5, 2)": 2,
    "min(1.5, 2)": 1.5,
    "max([3, 5, 4])": 5,
    "min([3, 5, 4])": 3,
    "sum([3, 5, 4])": 12,
    "len([3, 5, 4])": 3,
    "[3, 5, 4][1]": 5,
    "([3] + [5, 4])[2]": 4,
    "([3] * 4)[3]": 3,
    "2 if 1.5 < 2 else 3": 2,
    "2 if 1.5 == 2 else 3": 3,
    "2 if 1.5 != 2 else 3": 2,
    "2 if 2 >= 2 and 3 > 2 else 3": 2,
    "2 if not 2 <= 1 or false else 3": 2,
    '2 if "a" == "a" else 3': 2,
    '2 if "a" != "b" else 3': 2,
    "2 if [1, 2] == [1, 2] else 3": 2,
    "2 if [1, 2] == [1, 3] else 3": 3,
}


@pytest.mark.parametrize("expression", NUMBERS)
def test_a_number_is_what_python_says(expression: str) -> None:
    text = f"block f()(x: [n]) -> [n] = x * ({expression})\nmodel m = f()\n"
    module = Linker(lambda _: None, sink := Sink()).link(Source("constants.mgn", text))
    assert not sink.has_errors
    model = module.models["m"]
    graph = elaborate_model(module, model, config={}, sizes={"n": 2}, training=False).graph
    found = evaluate(graph, {"x": np.ones(2, np.float32)}, Precision.DOUBLE).outputs
    (array,) = found.values()
    np.testing.assert_allclose(array, np.full(2, NUMBERS[expression]), rtol=1e-12)
