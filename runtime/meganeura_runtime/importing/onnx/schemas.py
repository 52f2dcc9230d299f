"""Checks of operands and attributes against ONNX's schemas, which a file may break."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx import AttributeProto, NodeProto, defs

from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError

SINGLE = defs.OpSchema.FormalParameterOption.Single
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


def require_conforming(node: NodeProto, inputs: Sequence[object], opset: int) -> None:
    """Raise `UnsupportedNodeError` for a node that its op does not allow: by counts, or by types.

    Also for an op that the opset has not.
    """
    schema = _schema(node.op_type, opset)
    if schema is None:
        raise UnsupportedNodeError("ONNX has no such op in this opset")
    if len(inputs) > schema.max_input:
        raise UnsupportedNodeError(f"it has {len(inputs)} operands")
    for index, formal in enumerate(schema.inputs):
        is_given = index < len(inputs) and inputs[index] is not None
        if not is_given and formal.option == SINGLE:
            raise UnsupportedNodeError("an operand is missing")
    is_variadic = schema.inputs and schema.inputs[-1].option == VARIADIC
    if is_variadic and None in inputs[len(schema.inputs) - 1 :]:
        raise UnsupportedNodeError("an operand is missing")
    if len(node.output) > schema.max_output:
        raise UnsupportedNodeError(f"it has {len(node.output)} results")
    for each in node.attribute:
        known = schema.attributes.get(each.name)
        if known is None:
            raise UnsupportedNodeError(f"it has no attribute `{each.name[:80]}` in this opset")
        if not each.ref_attr_name and int(known.type.value) != each.type:
            found = AttributeProto.AttributeType.Name(each.type).lower()
            raise UnsupportedNodeError(f"its attribute `{each.name[:80]}` is of the type {found}")


@cache
def _schema(op: str, opset: int) -> Any:  # noqa: ANN401 - its stub lacks most of it
    try:
        return defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None
