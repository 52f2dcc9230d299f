"""The attributes of ONNX nodes: their values, and those that a function is given by its caller."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto

from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known


def resolved_attribute(
    attribute: AttributeProto, given: Mapping[str, AttributeProto]
) -> AttributeProto | None:
    """An attribute of a node in a function that has `given`; None where it refers to no other."""
    return given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute


def resolved_attributes(
    node: NodeProto, given: Mapping[str, AttributeProto]
) -> Iterator[tuple[str, AttributeProto]]:
    """The attributes of a node in a function with `given` ones, where they are set."""
    for each in node.attribute:
        found = resolved_attribute(each, given)
        if found is not None:
            yield each.name, found


def attribute_value(attribute: AttributeProto, constant: Callable[[TensorProto], Known]) -> Any:  # noqa: ANN401 - of any type
    """The value of an attribute, a tensor by `constant`.

    Raises `UnsupportedNodeError` for a graph.
    """
    match attribute.type:
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        case AttributeProto.INTS:
            return list(attribute.ints)
        case AttributeProto.FLOATS:
            return list(attribute.floats)
        case AttributeProto.TENSOR:
            return constant(attribute.t)
        case AttributeProto.STRINGS:
            return [each.decode("utf-8", "replace") for each in attribute.strings]
        case _:
            raise UnsupportedNodeError(f"its attribute `{attribute.name[:80]}` is not read")
