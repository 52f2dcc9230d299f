"""ONNX files, which are not trusted: bounded, and data beside them only from their own folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx, UnsafeExternalData

LARGEST_FILE = 2048
"""MiB of a protobuf."""
MOST_NODES = 20_000
"""The most nodes of a graph, with those of its functions and branches."""
DEEPEST = 16
"""The deepest nesting of graphs and functions."""
LARGEST_TENSOR = 1 << 31
"""Elements of one tensor."""
MOST_AXES = 16
"""The most axes of one tensor."""


@dataclass(frozen=True)
class OnnxFile:
    """A model that was read, and where it lies."""

    path: Path
    model: ModelProto
    origin: Path | None = None
    """The name of what it was written from, if that is not this file."""

    @property
    def shown(self) -> Path:
        """The name in messages."""
        return self.origin or self.path

    @property
    def nodes(self) -> int:
        """The nodes of the graph and of the graphs in it."""
        return sum(count for _, count in _nested(self.model.graph.node, 0))

    def fault(self, reason: str) -> ProblemError:
        """The error that this is not what ONNX allows."""
        return ProblemError(UnreadableOnnx(self.shown, reason))

    def array(self, tensor: TensorProto) -> Array:
        """The numbers of a tensor; raises `ProblemError` where they are not what it says."""
        name = tensor.name or "a constant"
        shape = tuple(tensor.dims)
        if len(shape) > MOST_AXES or any(size < 0 for size in shape):
            raise self.fault(f"`{name}` has an impossible shape")
        if prod(shape) > LARGEST_TENSOR:
            raise self.fault(f"`{name}` has {prod(shape):,} elements")
        if tensor.data_type not in NUMBERS:
            raise self.fault(f"`{name}` holds {type_name(tensor.data_type)}, which is no number")
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._external(tensor, name, shape)
        try:
            found = np.asarray(numpy_helper.to_array(tensor))
            return found.astype(NUMBERS[tensor.data_type]) if tensor.data_type in PARTS else found
        except (ValueError, TypeError, OverflowError) as error:
            raise self.fault(f"`{name}`: {str(error)[:200]}") from None

    def _external(self, tensor: TensorProto, name: str, shape: tuple[int, ...]) -> Array:
        said = {each.key: each.value for each in tensor.external_data}
        path = self._beside(name, said.get("location", ""))
        wanted, parts = NUMBERS[tensor.data_type], PARTS.get(tensor.data_type, 1)
        size = -(-prod(shape) * wanted.itemsize // parts)
        start = self._number(name, said.get("offset", "0"))
        if self._number(name, said.get("length", str(size))) != size:
            raise self.fault(f"`{name}` of {size} bytes is said to have {said['length']} of them")
        try:
            with opened(path) as file:
                if path.stat().st_size < start + size:
                    raise self.fault(f"`{path.name}` ends before `{name}` does")
                file.seek(start)
                content = file.read(size)
        except OSError as error:
            raise self.fault(f"`{path.name}`: {error.strerror or error}") from None
        if parts > 1:
            return unpacked(content, prod(shape), 8 // parts, wanted).reshape(shape)
        return np.frombuffer(content, wanted).reshape(shape)

    def _number(self, name: str, text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(1 << 63)):
            raise self.fault(f"`{name}` has an offset or a length that is no number")
        return int(text)

    def _beside(self, name: str, location: str) -> Path:
        """The file of a location, which is surely inside of the model's folder."""
        parts = PurePosixPath(location.replace("\\", "/"))
        strange = (
            not location
            or "\0" in location
            or parts.is_absolute()
            or PureWindowsPath(location).drive
            or ".." in parts.parts
        )
        if strange:
            reason = "it is not a name inside of the model's folder"
            raise ProblemError(UnsafeExternalData(self.path, name, location[:200], reason))
        folder = self.path.parent.resolve()
        path = (folder / parts).resolve()
        if not path.is_relative_to(folder):
            reason = "it is a link that leads out of the model's folder"
            raise ProblemError(UnsafeExternalData(self.path, name, location[:200], reason))
        return path


NUMBERS: Mapping[int, np.dtype[np.generic]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.DOUBLE: np.dtype("<f8"),
    TensorProto.FLOAT16: np.dtype("<f2"),
    TensorProto.INT8: np.dtype("i1"),
    TensorProto.INT16: np.dtype("<i2"),
    TensorProto.INT32: np.dtype("<i4"),
    TensorProto.INT64: np.dtype("<i8"),
    TensorProto.UINT8: np.dtype("u1"),
    TensorProto.UINT16: np.dtype("<u2"),
    TensorProto.UINT32: np.dtype("<u4"),
    TensorProto.UINT64: np.dtype("<u8"),
    TensorProto.BOOL: np.dtype("bool"),
    TensorProto.INT4: np.dtype("i1"),
    TensorProto.UINT4: np.dtype("u1"),
    TensorProto.INT2: np.dtype("i1"),
    TensorProto.UINT2: np.dtype("u1"),
}
"""The types of numbers that a constant may have."""
PARTS: Mapping[int, int] = {
    TensorProto.INT4: 2, TensorProto.UINT4: 2, TensorProto.INT2: 4, TensorProto.UINT2: 4,
}  # fmt: skip
"""Numbers in a byte, of types that share one."""


def unpacked(content: bytes, count: int, bits: int, dtype: np.dtype[np.generic]) -> Array:
    """Numbers of 4 or 2 bits, of which several are in a byte, the first in its lowest bits."""
    shifts, mask = np.arange(0, 8, bits, dtype=np.uint8), (1 << bits) - 1
    found = ((np.frombuffer(content, np.uint8)[:, None] >> shifts) & mask).reshape(-1)[:count]
    if dtype.kind == "i":
        found = np.where(found >> (bits - 1), found - (1 << bits), found)
    return np.asarray(found.astype(dtype))


def type_name(number: int) -> str:
    """Returns ONNX's name of an element type."""
    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(number).lower() if number in known else f"type {number}"


def read_onnx(path: Path) -> OnnxFile:
    """An ONNX model within all limits, whose values are defined before they are used.

    Raises `ProblemError`.
    """
    try:
        content = read_bytes(path, LARGEST_FILE)
    except TooLongError as error:
        raise ProblemError(UnreadableOnnx(path, str(error))) from None
    except OSError as error:
        raise ProblemError(UnreadableOnnx(path, error.strerror or str(error))) from None
    return parsed_onnx(path, content)


def parsed_onnx(path: Path, content: bytes) -> OnnxFile:
    """The model in some bytes, as `read_onnx` gives it."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise ProblemError(UnreadableOnnx(path, "it is no protobuf of a model")) from None
    file = OnnxFile(path, model)
    if not model.HasField("graph") or not model.opset_import:
        raise file.fault("it holds no graph, or no opset")
    if not _is_text(model):
        raise file.fault("a name in it is no UTF-8")
    count = 0
    bodies = (each.node for each in model.functions)
    for depth, nodes in [
        *_nested(model.graph.node, 0),
        *(deep for body in bodies for deep in _nested(body, 0)),
    ]:
        count += nodes
        if depth > DEEPEST:
            raise file.fault(f"graphs are nested more than {DEEPEST} deep")
        if count > MOST_NODES:
            raise file.fault(f"it has more than {MOST_NODES:,} nodes")
    return file


def _is_text(message: Message) -> bool:
    """True if all texts in a message are UTF-8; those that are not are left as bytes."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        parts: list[object] = [value] if isinstance(value, str | bytes | Message) else [*value]
        for part in parts:
            if isinstance(part, bytes) or (isinstance(part, Message) and not _is_text(part)):
                return False
    return True


def _nested(nodes: "Iterator[NodeProto] | object", depth: int) -> Iterator[tuple[int, int]]:
    """The depth and the number of nodes of each graph in a graph."""
    listed: list[NodeProto] = list(nodes)  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportCallIssue] - a repeated field
    yield depth, len(listed)
    if depth > DEEPEST:
        return
    for node in listed:
        for attribute in node.attribute:
            graphs: list[GraphProto] = [*attribute.graphs]
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            for graph in graphs:
                yield from _nested(graph.node, depth + 1)
