"""Batch norms as part of the convolutions before them.

    (conv(x, w) + b - mean) scale + shift = conv(x, w scale) + ((b - mean) scale + shift)

with scale = weight / sqrt(var + eps) of each output channel.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.ops import Conv, Parameter
from meganeura_runtime.export.onnx.patterns import Match, needed

Folded = tuple[dict[int, Match], dict[str, Array], dict[str, str]]


def folded(graph: Graph, matches: Mapping[int, Match], values: Mapping[str, Array]) -> Folded:
    """The matches and values with batch norms folded, and new names of parameters.

    A convolution is changed only if nothing else reads it, its weights or the shift of the norm.
    Its bias is called as a convolution calls it, unless another parameter is; numbers are computed
    in float64.
    """
    uses = Counter(value.id for value in graph.outputs.values())
    for value in needed(graph, matches):
        found = matches.get(value.id)
        uses.update(each.id for each in (found.operands if found else value.operands))
    changed, numbers, names = dict(matches), dict(values), dict[str, str]()
    for number, match in matches.items():
        if match.op_type != "BatchNormalization":
            continue
        conv = _convolution(match.operands[0], matches)
        if conv is None or uses[match.operands[0].id] > 1:
            continue
        x, weights, *biases = conv.operands
        leaves = [each.op for each in (weights, *biases, *match.operands[1:])]
        moving = match.operands[2]
        if not all(isinstance(leaf, Parameter) for leaf in leaves):
            continue
        if uses[weights.id] > 1 or uses[moving.id] > 1:
            continue
        w, *own, weight, shift, mean, var = [numbers[_name(leaf)] for leaf in leaves]
        eps = match.attributes["epsilon"]
        assert isinstance(eps, float)
        scale = weight.astype(np.float64) / np.sqrt(var.astype(np.float64) + eps)
        bias = (own[0] if own else 0.0) - mean.astype(np.float64)
        stored, moved = _name(weights.op), _name(moving.op)
        numbers[stored] = (w * scale.reshape(-1, *[1] * (w.ndim - 1))).astype(w.dtype)
        numbers[moved] = (bias * scale + shift).astype(shift.dtype)
        called = stored.removesuffix("weight") + "bias"
        if called not in values or called in (
            _name(each.op) for each in biases if uses[each.id] == 1
        ):
            names[moved] = called
        operands = x, weights, moving
        changed[number] = Match("Conv", operands, absorbed=conv.absorbed)
    return changed, numbers, names


def _convolution(value: Value, matches: Mapping[int, Match]) -> Match | None:
    """A convolution, with the bias it may have."""
    if isinstance(value.op, Conv) and value.id not in matches:
        return Match("Conv", value.operands, absorbed=(value,))
    match = matches.get(value.id)
    return match if match is not None and match.op_type == "Conv" else None


def _name(leaf: object) -> str:
    assert isinstance(leaf, Parameter)
    return leaf.name
