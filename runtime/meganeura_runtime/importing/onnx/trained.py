"""Initializers that are trained: by the file or its program, else by how nodes read them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from meganeura_runtime.export.onnx.model import LEAVES
from meganeura_runtime.importing.onnx.modules import folded_from
from meganeura_runtime.importing.onnx.onnx_file import DEEPEST
from meganeura_runtime.importing.onnx.stated import Stated

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""The entry of a value's metadata that says what PyTorch has it as."""
PARAMETER = "PARAMETER"
WEIGHTS = ("weight", "bias")
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
SETTINGS: Mapping[str, frozenset[int]] = {
    "BatchNormalization": frozenset({3, 4}), "Clip": frozenset({1, 2}), "Pad": frozenset({2}),
    "Pow": frozenset({1}), "QuantizeLinear": frozenset({1}), "DequantizeLinear": frozenset({1}),
    "DynamicQuantizeLSTM": frozenset({8, 10}),
    "QLinearConv": frozenset({1, 4, 6}), "QLinearMatMul": frozenset({1, 4, 6}),
    "Resize": frozenset({1, 2}), "Upsample": frozenset({1}),
    "Where": frozenset({1, 2}),
}  # fmt: skip
"""The operands that are bounds, masks, scales and statistics, by op."""
DEQUANTIZED = frozenset({
    ("DequantizeLinear", 0), ("DynamicQuantizeLSTM", 1), ("DynamicQuantizeLSTM", 2),
})  # fmt: skip
"""The operands whose numbers are weights, if nothing else reads their levels."""
LARGEST_MASK = 1 << 22
"""Elements of an initializer that is looked through for a mask."""
SMALLEST_MASK = 16
LOWEST = -1e4
"""The largest number that a mask adds to a score to be left out."""


def stated_by(model: ModelProto, stated: Stated) -> Stated:
    """Returns the kinds that a file of ours states, beside what else is stated."""
    text = next((each.value for each in model.metadata_props if each.key == LEAVES), "")
    try:
        found: object = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return stated
    if stated.trained is not None or not isinstance(found, dict):
        return stated
    kinds = cast("dict[str, object]", found)
    return replace(
        stated,
        parameters=frozenset(name for name, kind in kinds.items() if kind == "param"),
        constants=frozenset(name for name, kind in kinds.items() if kind != "param"),
    )


def parameter_names(graph: GraphProto, stated: Stated) -> frozenset[str]:
    """The initializers that the file or its program says are trained: none is a mere number."""
    named = stated.parameters | (stated.trained or frozenset())
    kinds = _kinds(graph)
    return named | {name for name, kind in kinds.items() if kind == PARAMETER}


def constant_names(graph: GraphProto, stated: Stated) -> frozenset[str]:
    """The initializers that are not trained.

    A file of ours or of PyTorch says which are parameters; what PyTorch's optimizer computed of
    weights and biases is, and so are levels that are only dequantized. Of others, those that nodes
    read as bounds, masks, scales or statistics alone, and masks of two numbers, are not.
    """
    names = {each.name for each in graph.initializer}
    if stated.trained is not None:
        return frozenset(names - stated.trained)
    kinds = _kinds(graph)
    sources = folded_from(graph)
    reads: dict[str, set[bool]] = {}
    levels, others = set[str](), set[str]()
    for node, depth in _nodes(graph, 0):
        for at, name in enumerate(node.input):
            is_setting = depth == 0 and at in SETTINGS.get(node.op_type, ())
            reads.setdefault(name, set()).add(is_setting)
            (levels if (node.op_type, at) in DEQUANTIZED else others).add(name)
    return stated.constants | frozenset(
        each.name
        for each in graph.initializer
        if each.name not in stated.parameters
        and (
            (bool(kinds) and _kind(each.name, kinds, sources) != PARAMETER)
            or (each.data_type not in FLOATS and each.name not in levels - others)
            or reads.get(each.name) == {True}
            or (not kinds and each.data_type in FLOATS and _is_mask(each))
        )
    )


def _kinds(graph: GraphProto) -> dict[str, str]:
    """Returns the kind that PyTorch states of each initializer."""
    names = {each.name for each in graph.initializer}
    return {
        value.name: entry.value
        for value in graph.value_info
        for entry in value.metadata_props
        if entry.key == KIND and value.name in names
    }


def _kind(name: str, kinds: Mapping[str, str], sources: Mapping[str, list[str]]) -> str:
    """Returns PyTorch's kind of an initializer; a constant if it does not say."""
    is_weight = any(each.endswith(WEIGHTS) for each in sources.get(name, []))
    return kinds.get(name, PARAMETER if is_weight else "CONSTANT")


def _nodes(graph: GraphProto, depth: int) -> Iterator[tuple[NodeProto, int]]:
    for node in graph.node:
        yield node, depth
        for each in node.attribute if depth < DEEPEST else ():
            if each.type == AttributeProto.GRAPH:
                yield from _nodes(each.g, depth + 1)


def _is_mask(tensor: TensorProto) -> bool:
    """True if a matrix or more has two numbers, of which one is 0 and the other 1 or very low."""
    size = int(np.prod(tensor.dims))
    is_small = SMALLEST_MASK <= size <= LARGEST_MASK
    if len(tensor.dims) < 2 or not is_small or tensor.data_location == TensorProto.EXTERNAL:
        return False
    try:
        numbers = np.unique(numpy_helper.to_array(tensor)).tolist()
    except (ValueError, TypeError, OverflowError):  # said where the tensor is read
        return False
    return len(numbers) == 2 and 0 in numbers and (1 in numbers or min(numbers) <= LOWEST)


def name_sizes(graph: GraphProto, stated: Stated) -> None:
    """Give the open sizes of the inputs the names that a program has for them."""
    for each in graph.input:
        for size in each.type.tensor_type.shape.dim:
            if size.dim_param in stated.sizes:
                size.dim_param = stated.sizes[size.dim_param]
