"""Nodes and initializers of an ONNX graph, as they are added one after the other."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import show

ELEMENT: Mapping[DType, int] = {
    DType.F32: TensorProto.FLOAT,
    DType.F16: TensorProto.FLOAT16,
    DType.I32: TensorProto.INT32,
    DType.U32: TensorProto.UINT32,
    DType.BOOL: TensorProto.BOOL,
}
"""The element types of ONNX."""

Attribute = int | float | str | tuple[int, ...] | GraphProto


class Emitter:
    """An ONNX graph in the making; names of its tensors are unique."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.scope = ""
        """The prefix of the names of new tensors: the path of a layer."""
        self._nodes: list[NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._taken: dict[str, int] = {}
        self.called: dict[str, None] = {}
        """The functions of our own domain that nodes call."""

    def add(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """A node of one result; the name of that."""
        return self.add_all(op_type, 1, *inputs, **attributes)[0]

    def add_all(
        self, op_type: str, count: int, *inputs: str, **attributes: Attribute
    ) -> tuple[str, ...]:
        """A node of this many results; their names. An attribute that is empty is left out."""
        outputs = tuple(self.fresh(op_type) for _ in range(count))
        node = helper.make_node(op_type, inputs, outputs, outputs[0])
        given = {name: each for name, each in attributes.items() if each != ()}
        node.attribute.extend(helper.make_attribute(*each) for each in given.items())
        self._nodes.append(node)
        return outputs

    def append(self, node: NodeProto) -> None:
        """A node that was made elsewhere."""
        self._nodes.append(node)

    def call(self, domain: str, function: str, *inputs: str, **attributes: int) -> str:
        """A node that is a function of a domain; the name of its result."""
        output = self.fresh(function)
        node = helper.make_node(function, inputs, [output], output, domain=domain)
        node.attribute.extend(helper.make_attribute(*each) for each in attributes.items())
        self._nodes.append(node)
        self.called[function] = None
        return output

    def name(self, op_type: str, inputs: Sequence[str], output: str) -> None:
        """A node whose result has its own name."""
        self._nodes.append(helper.make_node(op_type, inputs, [output], output))

    def constant(self, array: Array) -> str:
        """An array as an initializer, once however often it is asked for."""
        key = array.dtype.str, array.shape, array.tobytes()
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = self.fresh("constant", scope="")
            self.initialize(known, array)
        return known

    def integers(self, numbers: Sequence[int]) -> str:
        """A vector of int64, as shapes and axes are."""
        return self.constant(np.array(numbers, np.int64))

    def initialize(self, name: str, array: Array) -> None:
        """An initializer under its own name."""
        self._taken[name] = 1
        self._initializers[name] = numpy_helper.from_array(array, name)

    def reserve(self, name: str) -> str:
        """Keep a name for an input or an output: with marks behind it where a tensor has it."""
        while name in self._taken:
            name += "_"
        self._taken[name] = 1
        return name

    def graph(self, name: str) -> GraphProto:
        """The graph so far, without inputs and outputs."""
        return GraphProto(
            name=name, node=self._nodes, initializer=list(self._initializers.values())
        )

    def inner(self) -> "Emitter":
        """A graph that is part of a node of this one, with names and constants in common."""
        built = Emitter(self.opset)
        built.scope = self.scope
        built._initializers, built._constants = self._initializers, self._constants
        built._taken, built.called = self._taken, self.called
        return built

    def body(
        self, inputs: Mapping[str, TensorType], outputs: Sequence[tuple[str, TensorType]]
    ) -> GraphProto:
        """The graph so far as part of a node; its outputs are new names of these tensors."""
        results = [(self.add("Identity", name), of) for name, of in outputs]
        return GraphProto(
            name="body",
            node=self._nodes,
            input=[value_info(name, of) for name, of in inputs.items()],
            output=[value_info(name, of) for name, of in results],
        )

    def fresh(self, word: str, scope: str | None = None) -> str:
        """A name that no tensor has."""
        scope = self.scope if scope is None else scope
        base = f"{scope}/{word}" if scope else f"/{word}"
        while True:
            number = self._taken.get(base, 0)
            self._taken[base] = number + 1
            found = f"{base}_{number}" if number else base
            if not number or found not in self._taken:
                return found


def value_info(name: str, of: TensorType) -> ValueInfoProto:
    """The type of a tensor; a size that is a symbol is one there."""
    shape = [size if isinstance(size, int) else show(size) for size in of.shape]
    return helper.make_tensor_value_info(name, ELEMENT[of.dtype], shape)
