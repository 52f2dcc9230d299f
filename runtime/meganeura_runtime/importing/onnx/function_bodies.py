"""The functions that ONNX defines ops by, for ops that the table lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs, helper
from onnx import TensorProto as Proto

from meganeura_runtime.importing.onnx.attributes import resolved_attributes
from meganeura_runtime.importing.onnx.graph_inputs import ELEMENT
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Value


def function_body(
    proto: NodeProto,
    inputs: Sequence[Value | None],
    opset: int,
    attributes: Mapping[str, AttributeProto],
) -> FunctionProto | None:
    """The function that ONNX defines an op by, for operands of these types; None if by none.

    Raises `UnsupportedNodeError` for an op that ONNX lacks.
    """
    try:
        schema = defs.get_schema(proto.op_type, opset, "")
    except defs.SchemaError:
        raise UnsupportedNodeError("ONNX has no such op in this opset") from None
    plain_node = NodeProto()
    plain_node.CopyFrom(proto)
    del plain_node.attribute[:]
    for name, attribute in resolved_attributes(proto, attributes):
        copied = plain_node.attribute.add()
        copied.CopyFrom(attribute)
        copied.name = name
    function = _defined(schema, plain_node, opset, inputs)
    if function is None:
        return None
    built = FunctionProto()
    built.CopyFrom(function)
    known = {each.name for each in plain_node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in known and attribute.default_value.name:
            built.attribute_proto.append(attribute.default_value)
    return built


def _defined(
    schema: Any,  # noqa: ANN401 - its stub lacks all of this
    node: NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
) -> FunctionProto | None:
    """The function of an op, which may depend on its operands; None if it has none."""
    if schema.has_function:
        return schema.function_body
    versions: list[int] = schema.context_dependent_function_opset_versions
    version = max((each for each in versions if each <= opset), default=None)
    if version is None:
        return None
    function = FunctionProto()
    function.ParseFromString(
        schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [_type_proto(each) for each in inputs]
        )
    )
    return function


def _type_proto(value: Value | None) -> bytes:
    """The type of an operand, for functions that depend on it."""
    if value is None:
        return TypeProto().SerializeToString()
    element = next(number for number, of in ELEMENT.items() if of is value.dtype)
    if isinstance(value, Known) and value.array.dtype in (np.dtype(object), np.dtype(np.int64)):
        element = Proto.INT64
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return helper.make_tensor_type_proto(element, shape).SerializeToString()
