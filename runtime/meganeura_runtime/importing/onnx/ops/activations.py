"""Activations, those of the library also where a file has them as formulas."""

from collections.abc import Mapping

import numpy as np

from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.node import Known, Node, Value
from meganeura_runtime.importing.onnx.number_text import number_text
from meganeura_runtime.importing.onnx.ops.elementwise import (
    Entry,
    attribute,
    divide,
    floats,
    multiply,
    where,
)

SLOPE = 0.01
"""The usual slope of a leaky relu below 0."""
GATED = {"sigmoid": "silu", "hard_sigmoid": "hard_swish"}
"""The layer that `x` times another layer of `x` is."""


def _layer(callee: str) -> Entry:
    """An activation of the library."""

    def entry(node: Node) -> list[Value | None]:
        return [node.build.block(callee, floats(node, 0))]

    return entry


def _relu(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    if x.dtype.is_float:
        return [node.build.block("relu", x)]
    return [node.build.pair("maximum", x, 0)]


def _gelu(node: Node) -> list[Value | None]:
    kind = node.attribute("approximate", "none")
    return [node.build.block("gelu" if kind == "none" else "gelu_tanh", floats(node, 0))]


def _leaky(node: Node) -> list[Value | None]:
    return [_leaky_relu(node.build, floats(node, 0), attribute(node, "alpha", SLOPE))]


def _leaky_relu(build: Builder, x: Tensor, slope: float) -> Tensor:
    is_usual = np.float32(slope) == np.float32(SLOPE)
    return build.block("leaky_relu", x, *(() if is_usual else ((f"slope={number_text(slope)}",),)))


def _prelu(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    slope = build.binary("*", x, node.operand(1))
    return [build.where(build.binary("<", x, 0), slope, x)]


def _hard_sigmoid(node: Node) -> list[Value | None]:
    alpha, beta = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
    build, x = node.build, floats(node, 0)
    if alpha == np.float32(1 / 6) and beta == 1 / 2:
        return [build.block("hard_sigmoid", x)]
    line = build.binary("+", build.binary("*", x, alpha), beta)
    above = build.where(build.binary("<=", line, 0.0), 0.0, line)
    return [build.where(build.binary(">=", line, 1.0), 1.0, above)]


def _swish(node: Node) -> list[Value | None]:
    build, x = node.build, floats(node, 0)
    alpha = attribute(node, "alpha", 1.0)
    if alpha == 1:
        return [build.block("silu", x)]
    gate = build.block("sigmoid", build.binary("*", x, alpha))
    return [build.binary("*", x, gate)]


# --- formulas of activations ---------------------------------------------------------------------


def _multiply(node: Node) -> list[Value | None]:
    """`x * sigmoid(x)` is `silu(x)`."""
    pair = [node.value(0), node.value(1)]
    for x, gate in (pair, pair[::-1]):
        if isinstance(x, Tensor) and isinstance(gate, Tensor):
            built = node.build.applied(gate)
            if built is not None and built.callee in GATED and built.source == x.id:
                return [node.build.block(GATED[built.callee], x)]
    return multiply(node)


def _divide(node: Node) -> list[Value | None]:
    """`relu6(x + 3) / 6` is `hard_sigmoid(x)`."""
    x, build = node.value(0), node.build
    built = build.applied(x) if isinstance(x, Tensor) else None
    if isinstance(x, Tensor) and built is not None and built.callee == "relu6":
        moved = build.with_number(Tensor(built.source, x.type), "+")
        if moved is not None and moved[1] == 3 and _number(node.value(1)) == 6:
            return [build.block("hard_sigmoid", Tensor(moved[0], x.type))]
    return divide(node)


def _where(node: Node) -> list[Value | None]:
    """`where(x >= 6, 6, relu(x))` is `relu6(x)`, `where(x > 0, x, 0.1 * x)` is a leaky relu."""
    condition, then, otherwise = (node.value(index) for index in range(3))
    if not isinstance(condition, Tensor) or not isinstance(otherwise, Tensor):
        return where(node)
    build, relu = node.build, node.build.applied(otherwise)
    above = build.with_number(condition, ">=")
    is_relu = relu is not None and relu.callee == "relu" and above == (relu.source, 6)
    if is_relu and _number(then) == 6 and condition.shape == otherwise.shape:
        assert relu is not None
        return [build.block("relu6", Tensor(relu.source, otherwise.type))]
    line = build.with_number(otherwise, "*")
    if isinstance(then, Tensor) and line is not None and line[0] == then.id:
        is_same = then.type == otherwise.type and then.dtype.is_float
        if is_same and build.with_number(condition, ">") == (then.id, 0):
            return [_leaky_relu(build, then, line[1])]
    return where(node)


def _number(value: Value) -> float | None:
    if not isinstance(value, Known) or value.is_symbolic or value.is_parameter:
        return None
    return float(value.array.item()) if value.array.size == 1 else None


OPS: Mapping[str, Entry] = {
    **{name: _layer(name.lower()) for name in ("Sigmoid", "Softplus")},
    "Relu": _relu, "Gelu": _gelu, "Swish": _swish, "LeakyRelu": _leaky, "PRelu": _prelu,
    "HardSigmoid": _hard_sigmoid, "HardSwish": _layer("hard_swish"),
    "Mul": _multiply, "Div": _divide, "Where": _where,
}  # fmt: skip
"""The translation of each op."""
