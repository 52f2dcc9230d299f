"""A typed graph as an ONNX model."""

import json
from collections.abc import Mapping

from onnx import ModelProto, helper

from meganeura_dsl import __version__
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_runtime.export.onnx.emitter import Emitter, value_info
from meganeura_runtime.export.onnx.folding import folded
from meganeura_runtime.export.onnx.functions import DOMAIN, VERSION, function
from meganeura_runtime.export.onnx.lowering import Lowering, exact
from meganeura_runtime.export.onnx.ops.table import TABLE
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.export.onnx.patterns import find_all, needed, with_momentum
from meganeura_runtime.export.onnx.sizes import Sizes

LEAVES = "meganeura.leaves"
"""The entry of the metadata that has the kind of each parameter: whether it is trained."""
IR_VERSION = 8
"""The version of the file format that all readers of opset 17 know."""


def onnx_model(
    name: str,
    graph: Graph,
    values: Mapping[str, Array],
    options: OnnxOptions,
    kept: Mapping[str, float] | None = None,
) -> ModelProto:
    """The model of a graph of primitives, whose sizes may be symbols.

    `values` has the parameters and states by name, `kept` how much of a running statistic a
    training step keeps. Raises `ProblemError` for what ONNX cannot say.
    """
    emitter = Emitter(options.opset)
    inputs = {each.op.name: each.type for each in graph.values if isinstance(each.op, Input)}
    for each in inputs:
        emitter.reserve(each)
    lowering = Lowering(emitter, Sizes(emitter, inputs), TABLE)
    found = find_all(graph, options.opset)
    matches = {number: with_momentum(match, kept or {}) for number, match in found.items()}
    names: Mapping[str, str] = {}
    if options.fold_batch_norm:
        matches, values, names = folded(graph, matches, values)
    read = {value.id for value in needed(graph, matches)}
    kinds: dict[str, str] = {}
    for value in graph.values:
        match value.op:
            case Input(name=leaf):
                lowering.tensors[value.id] = exact(leaf, value)
            case Parameter(name=leaf, kind=kind) if value.id in read:
                called = names.get(leaf, leaf)
                kinds[called] = kind
                emitter.initialize(called, values[leaf])
                lowering.tensors[value.id] = exact(called, value)
            case _:
                pass
    lowering.run(graph, matches)
    emitter.scope = ""
    outputs = {emitter.reserve(output): value for output, value in graph.outputs.items()}
    for output, value in outputs.items():
        emitter.name("Identity", [lowering.whole(value)], output)
    built = emitter.graph(name)
    built.input.extend(value_info(each, of) for each, of in inputs.items())
    built.output.extend(value_info(each, value.type) for each, value in outputs.items())
    opsets = [helper.make_opsetid("", options.opset)]
    if emitter.called:
        opsets.append(helper.make_opsetid(DOMAIN, VERSION))
    model = helper.make_model(
        built,
        producer_name="meganeura",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=opsets,
        functions=[function(each, options.opset) for each in emitter.called],
    )
    leaves = {LEAVES: json.dumps(kinds)} if kinds else {}
    for key, text in {**leaves, **options.metadata}.items():
        model.metadata_props.add(key=key, value=text)
    return model
