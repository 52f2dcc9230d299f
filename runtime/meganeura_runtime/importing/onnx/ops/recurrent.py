"""Recurrent ops, as scans: a block for each cell, written into the program that needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Applied, Piece, Ref, Tensor, listed
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry
from meganeura_runtime.importing.onnx.ops.quantized import dequantized_weights

LSTM = """\
# The gates of a step are in ONNX's order: input, output, forget, cell.
block {name}(hidden, backwards=false)(gates: [s, n, 4 * hidden], u: [hidden, 4 * hidden],
                                      h: [n, hidden], c: [n, hidden])
    -> [s, n, hidden], [n, hidden], [n, hidden]:
  scan t in 0..s:
    at = s - 1 - t if backwards else t
    z = gates[at] + {state} @ u
    i = sigmoid(z[:, :hidden])
    o = sigmoid(z[:, hidden:2 * hidden])
    f = sigmoid(z[:, 2 * hidden:3 * hidden])
    c = f * c + i * tanh(z[:, 3 * hidden:])
    h = o * tanh(c)
    y[at] = h
  return y, h, c
"""
GRU = """\
# The gates of a step are in ONNX's order: update, reset, hidden. With `late`, the reset is applied
# to the product with the state and not to the state.
block onnx_gru(hidden, late, backwards=false)(gates: [s, n, 3 * hidden], u: [hidden, 3 * hidden],
                                              b: [3 * hidden], h: [n, hidden])
    -> [s, n, hidden], [n, hidden]:
  scan t in 0..s:
    at = s - 1 - t if backwards else t
    a = gates[at]
    z = sigmoid(a[:, :hidden] + (h @ u[:, :hidden] + b[:hidden]))
    r = sigmoid(a[:, hidden:2 * hidden] + (h @ u[:, hidden:2 * hidden] + b[hidden:2 * hidden]))
    if late:
      m = tanh(a[:, 2 * hidden:] + r * (h @ u[:, 2 * hidden:] + b[2 * hidden:]))
    else:
      m = tanh(a[:, 2 * hidden:] + (r * h @ u[:, 2 * hidden:] + b[2 * hidden:]))
    h = (1 - z) * m + z * h
    y[at] = h
  return y, h
"""
RNN = """\
block onnx_rnn(hidden, backwards=false)(gates: [s, n, hidden], u: [hidden, hidden], h: [n, hidden])
    -> [s, n, hidden], [n, hidden]:
  scan t in 0..s:
    at = s - 1 - t if backwards else t
    h = tanh(gates[at] + h @ u)
    y[at] = h
  return y, h
"""
ROUNDED = """\
# x as whole numbers of 8 bits stand for it, from its smallest number to its largest, one of them
# for 0. The slope is 1.
block onnx_rounded()(x: [...s]) -> [...s]:
  low = minimum(min(x), 0)
  step = (maximum(max(x), 0) - low) / 255
  scale = where(step == 0, 1, step)
  zero = round(-low / scale)
  levels = minimum(round(x / scale) + zero, 255)
  return stop_gradient((levels - zero) * scale) + (x - stop_gradient(x))
"""
QUANTIZED_LSTM = "DynamicQuantizeLSTM"
"""The LSTM of the domain `com.microsoft`: weights are levels, and so become what they multiply."""
CELLS = {
    "LSTM": ("onnx_lstm", LSTM.format(name="onnx_lstm", state="h"), 4),
    QUANTIZED_LSTM: (
        "onnx_rounded_lstm", LSTM.format(name="onnx_rounded_lstm", state="onnx_rounded(h)"), 4
    ),
    "GRU": ("onnx_gru", GRU, 3),
    "RNN": ("onnx_rnn", RNN, 1),
}  # fmt: skip
"""The block of each op, its text, and how many gates it has."""
USUAL = {
    "LSTM": ["Sigmoid", "Tanh", "Tanh"], QUANTIZED_LSTM: ["Sigmoid", "Tanh", "Tanh"],
    "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"],
}  # fmt: skip
"""The activations of each op."""
DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""For each direction, `True` if it runs backwards."""


def _recurrent(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    directions = DIRECTIONS.get(str(node.attribute("direction", "forward")))
    hidden = node.value(2).shape[1 if node.op == QUANTIZED_LSTM else 2]
    if directions is None or not isinstance(hidden, int):
        raise UnsupportedNodeError("its direction or its hidden size is not known")
    _require_usual(node, len(directions))
    if node.attribute("layout", 0):
        x = build.transpose(x, (1, 0, 2))
    steps, batch, _ = x.shape
    parts = [
        _direction(node, x, index, hidden, backwards=backwards)
        for index, backwards in enumerate(directions)
    ]
    states = [
        build.concat([build.reshape(each[at], (1, batch, hidden)) for each in parts], 0)
        for at in range(1, len(parts[0]))
    ]
    rows = [build.reshape(each[0], (steps, 1, batch, hidden)) for each in parts]
    y = build.concat(rows, 1)
    if node.attribute("layout", 0):
        y = build.transpose(y, (2, 0, 1, 3))
        states = [build.transpose(each, (1, 0, 2)) for each in states]
    return [y, *states]


def _quantized_lstm(node: Node) -> list[Value | None]:
    """An LSTM whose weights are levels [directions, inputs, gates], as ONNX Runtime runs it.

    It rounds all of x at once, and in each step the states of all rows.
    """
    build = node.build
    build.helpers["onnx_rounded"] = ROUNDED
    build.rounds = True
    weights = [dequantized_weights(node, 1, 8), dequantized_weights(node, 2, 10)]
    x = build.block("onnx_rounded", node.tensor(0))
    return _recurrent(replace(node, inputs=[x, *weights, *node.inputs[3:8]]))


def _require_usual(node: Node, directions: int) -> None:
    """Refuse what the blocks do not compute."""
    given = node.attribute("activations", None)
    if given is not None and given != USUAL[node.op] * directions:
        raise UnsupportedNodeError("it has activations of its own")
    if node.attribute("clip", 0) or node.attribute("input_forget", 0):
        raise UnsupportedNodeError("it clips, or couples its gates")
    if node.has(7):
        raise UnsupportedNodeError("it has peepholes")
    if node.has(4):
        axis: int = node.attribute("layout", 0)
        steps, lengths = node.value(0).shape[axis], node.value(4)
        if isinstance(lengths, Tensor):
            raise UnsupportedNodeError("its lengths depend on data")
        if any(each != steps for each in node.sizes(4, "lengths")):
            raise UnsupportedNodeError("some of its sequences are shorter than others")


def _direction(
    node: Node, x: Tensor, index: int, hidden: int, *, backwards: bool
) -> tuple[Tensor, ...]:
    """The outputs of all steps and the last states, in one direction."""
    build, (name, text, gates) = node.build, CELLS[node.op]
    build.helpers[name] = text
    steps, batch, _ = x.shape
    weight, inner = (build.entry(node.tensor(at), 0, index) for at in (1, 2))
    if node.op != QUANTIZED_LSTM:
        weight, inner = build.transpose(weight, (1, 0)), build.transpose(inner, (1, 0))
    product = build.matmul(x, weight)
    size = gates * hidden
    bias = build.entry(node.tensor(3), 0, index) if node.has(3) else None
    late = build.filled(0, x.dtype, (size,))
    if bias is not None:
        product = build.binary("+", product, build.between(bias, 0, 0, size))
        late = build.between(bias, 0, size, 2 * size)
    state = [_start(node, at, index, (batch, hidden)) for at in (5, 6)[: 2 if gates == 4 else 1]]
    config = [str(hidden)] + (["backwards=true"] if backwards else [])
    if node.op == "GRU":
        config.insert(1, "true" if node.attribute("linear_before_reset", 0) else "false")
        given: Sequence[Tensor] = (inner, late, *state)
    else:
        if bias is not None:
            product = build.binary("+", product, late)
        given = (inner, *state)
    return _applied(build, name, product, config, given, (steps, batch, hidden), len(state))


def _applied(
    build: Builder,
    name: str,
    product: Tensor,
    config: Sequence[str],
    given: Sequence[Tensor],
    shape: tuple[Size, ...],
    states: int,
) -> tuple[Tensor, ...]:
    tensors: tuple[Piece, ...] = listed([(Ref(each.id),) for each in given])
    code = Applied(product.id, name, (", ".join(config),), tensors, None, is_block=True)
    return build.add_all(code, [(DType.F32, shape), *[(DType.F32, shape[1:])] * states])


def _start(node: Node, at: int, index: int, shape: tuple[Size, ...]) -> Tensor:
    if not node.has(at):
        return node.build.filled(0, DType.F32, shape)
    given = node.tensor(at)
    if node.attribute("layout", 0):
        given = node.build.transpose(given, (1, 0, 2))
    for size, wanted in zip(given.shape[1:], shape, strict=True):
        node.build.need("==", size, wanted, "a state has another shape than the steps")
    return node.build.entry(given, 0, index)


OPS: Mapping[str, Entry] = dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent)
"""The translation of each op."""
CONTRIBUTED: Mapping[str, Entry] = {QUANTIZED_LSTM: _quantized_lstm}
"""That of ops of the domain `com.microsoft`."""
