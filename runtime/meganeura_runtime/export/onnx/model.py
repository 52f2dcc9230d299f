"""A typed graph as an ONNX model."""

from collections import Counter
from collections.abc import Mapping

from onnx import ModelProto, ValueInfoProto, helper

from meganeura_dsl import __version__
from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import show
from meganeura_runtime.export.onnx.emitter import ELEMENT, Emitter
from meganeura_runtime.export.onnx.folding import folded
from meganeura_runtime.export.onnx.lowering import Lowering, exact
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.export.onnx.patterns import Match, find
from meganeura_runtime.export.onnx.sizes import Sizes

IR_VERSION = 8
"""Of the file format: what all readers of opset 17 know, and later ones."""


def onnx_model(
    name: str, graph: Graph, values: Mapping[str, Array], options: OnnxOptions
) -> ModelProto:
    """The model of a graph of primitives, whose sizes may be symbols.

    `values` has the parameters and states by name. Raises `ProblemError` for what ONNX cannot say.
    """
    emitter = Emitter(options.opset)
    inputs = {each.op.name: each.type for each in graph.values if isinstance(each.op, Input)}
    for each in (*inputs, *graph.outputs):
        emitter.reserve(each)
    lowering = Lowering(emitter, Sizes(emitter, inputs))
    matches = _matches(graph, options.opset)
    names: Mapping[str, str] = {}
    if options.fold_batch_norm:
        matches, values, names = folded(graph, matches, values)
    for value in _needed(graph, matches):
        emitter.scope = value.origin.path
        match value.op, matches.get(value.id):
            case Input(name=leaf), _:
                lowering.tensors[value.id] = exact(leaf, value)
            case Parameter(name=leaf), _:
                called = names.get(leaf, leaf)
                emitter.initialize(called, values[leaf])
                lowering.tensors[value.id] = exact(called, value)
            case _, None:
                lowering.lower(value)
            case _, found:
                lowering.lower_match(value, found)
    emitter.scope = ""
    for output, value in graph.outputs.items():
        emitter.name("Identity", [lowering.whole(value)], output)
    made = emitter.graph(name)
    made.input.extend(_info(each, of) for each, of in inputs.items())
    made.output.extend(_info(each, value.type) for each, value in graph.outputs.items())
    return helper.make_model(
        made,
        producer_name="meganeura",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", options.opset)],
    )


def _matches(graph: Graph, opset: int) -> dict[int, Match]:
    uses = Counter(operand.id for value in graph.values for operand in value.operands)
    uses.update(value.id for value in graph.roots)
    found = ((value.id, find(value, opset, uses)) for value in graph.values)
    return {number: match for number, match in found if match is not None}


def _needed(graph: Graph, matches: Mapping[int, Match]) -> list[Value]:
    """The values that outputs need where functions stand for their parts, and all inputs."""
    wanted = {value.id for value in graph.outputs.values()}
    order: list[Value] = []
    for value in reversed(graph.values):
        if value.id in wanted or isinstance(value.op, Input):
            order.append(value)
            match = matches.get(value.id)
            wanted |= {each.id for each in (match.operands if match else value.operands)}
    return order[::-1]


def _info(name: str, of: TensorType) -> ValueInfoProto:
    shape = [size if isinstance(size, int) else show(size) for size in of.shape]
    return helper.make_tensor_value_info(name, ELEMENT[of.dtype], shape)
