"""Random numbers as functions of a domain of our own, which a file defines by ops of ONNX.

ONNX has no random numbers that are the same everywhere. A reader that knows the domain takes each
function for what its name says; any other runs the nodes it is defined by. Words are int64 there,
below 2**32: of that every op has a kernel in ONNX Runtime, and a shift to the left is a product
that cannot overflow.
"""

from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.ops.primitive.random_bits import KEY_PARITY, ROTATIONS
from meganeura_runtime.export.onnx.emitter import Emitter

DOMAIN, VERSION = "meganeura", 1
BITS, UNIFORM, NORMAL = "RandomBits", "RandomUniform", "RandomNormal"
RANDOM_SINCE = 18
"""The opset from which there is an exclusive or of numbers."""
STREAMS: Mapping[str, tuple[str, ...]] = {
    BITS: ("stream",), UNIFORM: ("stream",), NORMAL: ("stream", "second"),
}  # fmt: skip
"""The attributes of each function: the streams of its words, in the order they are drawn in."""


def function(name: str, opset: int) -> FunctionProto:
    """Returns a function of the counter u32[2] and a shape, int64."""
    body = _Body(opset)
    match name:
        case "RandomBits":
            result = body.add("Cast", body.words("stream"), to=TensorProto.UINT32)
        case "RandomUniform":
            result = body.uniform("stream")
        case _:
            result = body.normal(*STREAMS[NORMAL])
    body.name("Reshape", [result, "shape"], "result")
    return helper.make_function(
        DOMAIN, name, ["counter", "shape"], ["result"], body.nodes,
        [helper.make_opsetid("", opset)], STREAMS[name],
    )  # fmt: skip


class _Body(Emitter):
    """The nodes of a function, which has no initializers."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        for each in ("counter", "shape", "result"):
            self.reserve(each)

    @property
    def nodes(self) -> list[NodeProto]:
        """All so far."""
        return list(self.graph("").node)

    def initialize(self, name: str, array: Array) -> None:
        """A constant is a node."""
        self.append(
            helper.make_node("Constant", [], [name], name, value=numpy_helper.from_array(array))
        )

    def given(self, attribute: str) -> str:
        """An attribute of the function as a number."""
        name = self.fresh("Constant")
        node = helper.make_node("Constant", [], [name], name)
        node.attribute.append(
            AttributeProto(name="value_int", ref_attr_name=attribute, type=AttributeProto.INT)
        )
        self.append(node)
        return name

    def number(self, value: float, of: type[np.generic] = np.int64) -> str:
        """A number."""
        return self.constant(np.array(value, of))

    def normal(self, first: str, second: str) -> str:
        """Normal numbers, as `random_normal` of the language has them."""
        positive = self.add("Sub", self.number(1, np.float32), self.uniform(first))
        squared = self.add("Mul", self.number(-2, np.float32), self.add("Log", positive))
        angle = self.add("Mul", self.number(2 * np.pi, np.float32), self.uniform(second))
        return self.add("Mul", self.add("Sqrt", squared), self.add("Cos", angle))

    def uniform(self, stream: str) -> str:
        """Numbers in [0, 1), as `random_uniform` of the language has them."""
        real = self.add("Cast", self.words(stream), to=TensorProto.FLOAT)
        scaled = self.add("Mul", real, self.number(2.0**-32, np.float32))
        return self.add("Min", scaled, self.number(1 - 2.0**-24, np.float32))

    def words(self, stream: str) -> str:
        """The first words of Threefry-2x32-20, as `RandomBits` has them, in one row."""
        add, number = self.add, self.number
        words = add("Cast", "counter", to=TensorProto.INT64)
        key = [add("Gather", words, number(each)) for each in range(2)]
        count = add("ReduceProd", "shape", keepdims=0)
        first = add("Range", number(0), count, number(1))
        return self._threefry(key, first, self.given(stream))

    def _threefry(self, key: list[str], first: str, second: str) -> str:
        add, number = self.add, self.number
        words = number(1 << 32)

        def total(*parts: str) -> str:
            found = parts[0]
            for each in parts[1:]:
                found = add("Add", found, each)
            return add("Mod", found, words)

        last = add("BitwiseXor", add("BitwiseXor", key[0], key[1]), number(KEY_PARITY))
        schedule = [*key, last]
        first, second = total(first, schedule[0]), total(second, schedule[1])
        for group in range(1, 6):
            for rotation in ROTATIONS[(group - 1) % 2]:
                first = total(first, second)
                high = add("Mod", add("Mul", second, number(1 << rotation)), words)
                low = add("Div", second, number(1 << (32 - rotation)))
                second = add("BitwiseXor", add("Add", high, low), first)
            first = total(first, schedule[group % 3])
            second = total(second, schedule[(group + 1) % 3], number(group))
        return first
