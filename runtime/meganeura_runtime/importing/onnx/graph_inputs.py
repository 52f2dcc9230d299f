"""The inputs of an ONNX graph: their types, and the names and numbers of their sizes."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto as Proto
from onnx import TensorShapeProto, ValueInfoProto

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.importing.onnx.code import Limits, Tensor
from meganeura_runtime.importing.onnx.import_problems import NoForm
from meganeura_runtime.importing.onnx.names import Names
from meganeura_runtime.importing.onnx.node import Known
from meganeura_runtime.importing.onnx.onnx_file import MOST_AXES, type_name
from meganeura_runtime.importing.onnx.small_integers import SMALL

ELEMENT: Mapping[int, DType] = {
    Proto.FLOAT: DType.F32,
    Proto.FLOAT16: DType.F16,
    Proto.INT32: DType.I32,
    Proto.INT64: DType.I32,
    Proto.UINT32: DType.U32,
    Proto.BOOL: DType.BOOL,
    **dict.fromkeys(SMALL, DType.I32),
}
"""The element types that are read; small and 64-bit whole numbers become i32."""


def size_names(
    inputs: Sequence[ValueInfoProto], numbers: Mapping[str, int], names: Names
) -> dict[str, str]:
    """The names of the sizes that `numbers` leaves open, by their keys.

    That of `dim_param`, or one for a size that has none; `names` has all that are taken.
    """
    found: dict[str, str] = {}
    for each in inputs:
        for axis, size in enumerate(each.type.tensor_type.shape.dim):
            if is_open(size):
                key = size_key(each, axis, size)
                if key not in found and key not in numbers:
                    default = "n" if axis == 0 else f"s{axis}"
                    found[key] = names.give(size.dim_param.strip("?"), default)
    return found


def given_input(info: ValueInfoProto, numbers: Mapping[str, int]) -> Known | None:
    """An input of one whole number, if that is among `numbers`."""
    tensor = info.type.tensor_type
    if info.name not in numbers or not is_switch(info):
        return None
    array = np.full([1] * len(tensor.shape.dim), numbers[info.name], np.int64)
    return Known(array, ELEMENT[tensor.elem_type])


def input_type(
    info: ValueInfoProto, numbers: Mapping[str, int], names: Mapping[str, str]
) -> TensorType:
    """The type of an input, whose open sizes are `numbers` or have `names`.

    Raises `ProblemError` for one that is no tensor of the language.
    """
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        found = str(kind or "nothing").removesuffix("_type").replace("_", " ")
        raise ProblemError(NoForm("input", info.name, f"it is a {found} and not a tensor"))
    tensor = info.type.tensor_type
    if tensor.elem_type not in ELEMENT:
        reason = f"its elements are {type_name(tensor.elem_type)}"
        raise ProblemError(NoForm("input", info.name, reason))
    if not tensor.HasField("shape"):
        raise ProblemError(NoForm("input", info.name, "the number of its axes is not said"))
    if len(tensor.shape.dim) > MOST_AXES:
        raise ProblemError(NoForm("input", info.name, f"it has more than {MOST_AXES} axes"))
    shape: list[Size] = []
    for axis, size in enumerate(tensor.shape.dim):
        key = size_key(info, axis, size)
        if not is_open(size):
            shape.append(size.dim_value)
        else:
            shape.append(numbers[key] if key in numbers else dim(names[key]))
    if any(isinstance(size, int) and size < 1 for size in shape):
        raise ProblemError(NoForm("input", info.name, "it has no elements"))
    return TensorType(ELEMENT[tensor.elem_type], tuple(shape))


def input_limits(info: ValueInfoProto, value: Tensor) -> dict[int, Limits]:
    """The limits of the value that an input is, if it has fewer than 32 bits."""
    limits = SMALL.get(info.type.tensor_type.elem_type)
    return {} if limits is None else {value.id: limits}


def is_open(size: TensorShapeProto.Dimension) -> bool:
    """True if a size is a symbol; some exporters write -1 for one."""
    return not size.HasField("dim_value") or size.dim_value == -1


def size_key(info: ValueInfoProto, axis: int, size: TensorShapeProto.Dimension) -> str:
    """Returns the name of an open size: the file's, or one of its input and axis."""
    return size.dim_param if size.dim_param.strip("?") else f"{info.name}:{axis}"


def is_switch(info: ValueInfoProto) -> bool:
    """True if an input is one whole number or truth value, which may be given for good."""
    tensor = info.type.tensor_type
    is_whole = tensor.elem_type in (Proto.INT32, Proto.INT64, Proto.BOOL)
    return is_whole and all(size.dim_value == 1 for size in tensor.shape.dim)


def open_names(inputs: Sequence[ValueInfoProto]) -> set[str]:
    """Returns the names that may be given as numbers.

    Open sizes, and inputs of one whole number.
    """
    sizes = {
        size_key(each, axis, size)
        for each in inputs
        for axis, size in enumerate(each.type.tensor_type.shape.dim)
        if is_open(size)
    }
    return sizes | {each.name for each in inputs if is_switch(each)}
