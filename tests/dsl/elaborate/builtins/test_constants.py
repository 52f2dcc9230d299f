"""Numbers of a program are computed as Python computes them, and tensors as NumPy does."""

import math

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import elaborate_model
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Precision, evaluate

NUMBERS: dict[str, float] = {
    "2.5 // 2": 1.0,
    "2.5 % 2": 0.5,
    "-7.5 // 2": -4.0,
    "7.5 // -2": -4.0,
    "-7.5 // -2": 3.0,
    "-7.5 % 2": 0.5,
    "7.5 % -2": -0.5,
    "(-7) // 2": -4,
    "(-7) % 2": 1,
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
    "2 if [1, 2] != [1, 3] else 3": 2,
    "2 if 1 < 1.5 else 3": 2,
    "2 if 2.5 <= 2.5 else 3": 2,
    "sum([1, 0.5])": 1.5,
    "1 + sum([])": 1,
    "len([1, 2] * -1) + 1": 1,
    "(-2) ** 3": -8,
    "(-2.0) ** 3": -8,
    "2 if shape(x) == 2 else 3": 3,
    "2 if 3 > shape(x) else 3": 3,
    "2 if 4 > shape(x) else 3": 2,
    "2 if shape(x) != 2 else 3": 3,
    "2 if shape(x) != 4 else 3": 2,
}


X = np.array([[0.5, 2.0, 3.0], [-1.0, 1.5, 0.25]])
TENSORS: dict[str, Array] = {
    "x ** 0": np.ones((2, 3)),
    "x ** 3.0": X**3,
    "(x * x) ** 0.5": np.abs(X),
    "(x * x + 1) ** -0.5": (X * X + 1) ** -0.5,
    "where(x > 0, 1, 2)": np.where(X > 0, 1.0, 2.0),
    "where(not (x > 0), x, 2)": np.where(X > 0, 2.0, X),
    "where((x > 0) == true, x, 2)": np.where(X > 0, X, 2.0),
    "where((x > 0) == false, x, 2)": np.where(X > 0, 2.0, X),
    "x if (n == 2) == (d == 3) else 2 * x": X,
    "x if (n == 2) != (d == 3) else 2 * x": 2 * X,
    "expand(x, [n, d] -> [n, d])": X,
    "x + sum(zeros([shape(x), 2]), 2)": X,
    "x * sum(shape(x) + shape(x))": 10 * X,
    "x * product(-shape(x))": 6 * X,
    "x * product(7 - shape(x))": 20 * X,
    "x * product(shape(x) - 7)": 20 * X,
    "x ** 64": X**64,
    "x ** -64 * x ** 64 * x": X,
    "x * max(sum(x))": X * X.sum(),
    "x * min(x[0, 1])": X * 2,
    "max(x, [n, d] -> [n, d])": X,
    "sum(x, [n, d] -> [n, d])": X,
    "mean(x, [n, d] -> [n, d])": X,
    "roll(x, 1, 0)": X,
    "roll(x, 1, d)": X,
    "roll(x, 1, 2 * d + 1)": np.roll(X, 1, 1),
    "roll(x, 1, d - 1)": np.roll(X, -1, 1),
    "roll(x, 0, -n)": X,
    "x * f32(constant([5, 5, 5]))": 5 * X,
    "x * f32(constant([n, d, n + d]))": X * [2, 3, 5],
    "x - constant([d, d, 0.5])": X - [3, 3, 0.5],
    "x * f32(constant([[d]]))[0, 0]": 3 * X,
    "where(true == (x > 0), 2, x)": np.where(X > 0, 2.0, X),
    "f32(where(x > 0, true, x < -1))": X > 0,
    "conv(insert_axis(x, 1, 1), ones([1, 1, 1]), stride=[1])[0:n, 0]": X,
}


def value_of(expression: str) -> Array:
    """Returns the value of an expression of x: f32[n, d]."""
    text = f"block f()(x: [n, d]) -> [n, d] = {expression}\nmodel m = f()\n"
    module = Linker(lambda _: None, sink := Sink()).link(Source("constants.mgn", text))
    assert not sink.has_errors
    sizes = {"n": 2, "d": 3}
    graph = elaborate_model(module, module.models["m"], config={}, sizes=sizes, training=False)
    (array,) = evaluate(graph.graph, {"x": X}, Precision.DOUBLE).outputs.values()
    return array


@pytest.mark.parametrize("expression", NUMBERS)
def test_a_number_is_what_python_says(expression: str) -> None:
    np.testing.assert_allclose(value_of(f"x * ({expression})"), X * NUMBERS[expression], 1e-12)


@pytest.mark.parametrize("expression", TENSORS)
def test_a_tensor_is_what_numpy_says(expression: str) -> None:
    np.testing.assert_allclose(value_of(expression), TENSORS[expression], rtol=1e-12)
