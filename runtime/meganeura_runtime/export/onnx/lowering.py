"""The values of a graph as tensors of ONNX.

Elementwise ops of ONNX broadcast, so a `Broadcast` is only as many axes of size 1 as that needs; it
becomes an `Expand` where another op reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Application, Graph, Op, Value
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.export.onnx.attributes import average, refused, window
from meganeura_runtime.export.onnx.emitter import ELEMENT, Emitter
from meganeura_runtime.export.onnx.functions import DOMAIN, STREAMS
from meganeura_runtime.export.onnx.patterns import Match, needed
from meganeura_runtime.export.onnx.sizes import Sizes

INT64 = 7
"""`TensorProto.INT64`."""
AXES_ARE_OPERANDS = 18
"""The opset from which the axes of reductions are an operand, which those of sums were before."""


@dataclass(frozen=True)
class OnnxTensor:
    """A tensor of ONNX that stands for a value: it broadcasts to the value's shape.

    Its axes are the last `rank` ones of the value, of size 1 where they are in `stretched`.
    """

    name: str
    rank: int
    stretched: frozenset[int] = frozenset()
    """Axes of the value along which it repeats; those it does not have are among them."""


def exact(name: str, value: Value) -> OnnxTensor:
    """A tensor that has the value's own shape."""
    return OnnxTensor(name, value.type.rank)


class Lowering:
    """Values of one graph as ONNX tensors, made in order."""

    def __init__(self, emitter: Emitter, sizes: Sizes, table: Mapping[type[Op], "Lower"]) -> None:
        self.emitter = emitter
        self.sizes = sizes
        self.tensors: dict[int, OnnxTensor] = {}
        self._table = table
        self._expanded: dict[int, str] = {}
        self._results: dict[Application, tuple[OnnxTensor, ...]] = {}

    def inside(self) -> "Lowering":
        """The lowering of a graph that is part of a node, and may read what this one has made."""
        return Lowering(self.emitter.inner(), self.sizes, self._table)

    def run(self, graph: Graph, matches: Mapping[int, Match]) -> None:
        """The tensors of all values that outputs need, where leaves have theirs.

        Raises `ProblemError`.
        """
        for value in needed(graph, matches):
            if value.id in self.tensors:
                continue
            self.emitter.scope = value.origin.path
            match = matches.get(value.id)
            self.tensors[value.id] = self._op(value) if match is None else self._match(value, match)

    def whole(self, value: Value) -> str:
        """The tensor of a value in its own shape."""
        tensor = self.tensors[value.id]
        if all(value.type.shape[axis] == 1 for axis in tensor.stretched) and (
            tensor.rank == value.type.rank
        ):
            return tensor.name
        if value.id not in self._expanded:
            shape = self.sizes.shape(value.type.shape)
            self._expanded[value.id] = self.emitter.add("Expand", tensor.name, shape)
        return self._expanded[value.id]

    def indices(self, count: Size) -> str:
        """0 ... count - 1, of i32."""
        if isinstance(count, int):
            return self.emitter.constant(np.arange(count, dtype=np.int32))
        start, step = (self.emitter.constant(np.array(each, np.int64)) for each in (0, 1))
        end = self.emitter.add("Squeeze", self.sizes.vector(count))
        numbers = self.emitter.add("Range", start, end, step)
        return self.emitter.add("Cast", numbers, to=ELEMENT[DType.I32])

    def drawn(self, function: str, counter: Value, shape: Shape, streams: Mapping[str, int]) -> str:
        """Random numbers of a shape, by one of our own functions."""
        sizes = self.sizes.shape(shape)
        return self.emitter.call(DOMAIN, function, self.whole(counter), sizes, **streams)

    def _op(self, value: Value) -> OnnxTensor:
        lower = self._table.get(type(value.op))
        if lower is None:
            raise refused(value, "it has no counterpart there")
        if not value.op.multiple_results:
            return lower(self, value)[0]
        if value.application not in self._results:
            self._results[value.application] = lower(self, value)
        results = self._results[value.application]
        if value.index >= len(results):
            raise refused(value, f"result {value.index} of it has no counterpart there")
        return results[value.index]

    def _match(self, value: Value, match: Match) -> OnnxTensor:
        """The tensor of a value that is one node with these operands."""
        op_type, attributes = match.op_type, dict(match.attributes)
        if op_type in STREAMS:
            (counter,) = match.operands
            streams = {name: each for name, each in attributes.items() if isinstance(each, int)}
            return exact(self.drawn(op_type, counter, value.type.shape, streams), value)
        if op_type in ELEMENTWISE:
            (x,) = match.operands
            tensor = self.tensors[x.id]
            name = self.emitter.add(op_type, tensor.name, **attributes)
            return OnnxTensor(name, tensor.rank, tensor.stretched)
        names = [self.whole(each) for each in match.operands]
        if op_type == "Conv":
            attributes |= window(match.absorbed[0], match.operands[1].type.shape[2:])
        elif op_type == "AveragePool":
            attributes |= average(value)
        elif op_type == "ReduceMean":
            attributes["keepdims"] = 0
            if self.emitter.opset >= AXES_ARE_OPERANDS:
                axes = attributes.pop("axes")
                assert isinstance(axes, tuple)
                names.append(self.emitter.integers(axes))
        return exact(self.emitter.add(op_type, *names, **attributes), value)


Lower = Callable[[Lowering, Value], tuple[OnnxTensor, ...]]
"""The tensors of all results of the op that a value is a result of."""

ELEMENTWISE = frozenset({"Relu", "Sigmoid", "Gelu"})
"""Functions of patterns that keep what is repeated as it is."""
