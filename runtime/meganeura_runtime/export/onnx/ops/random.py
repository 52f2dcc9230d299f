"""Random words, as the arithmetic that they are.

They are int64 here, below 2**32: there every op has a kernel in ONNX Runtime, and a shift to the
left is a product that cannot overflow.
"""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.ir.ops.primitive.leaf import KEY_PARITY, ROTATIONS
from meganeura_dsl.symbolic.size import product
from meganeura_runtime.export.onnx.attributes import refused
from meganeura_runtime.export.onnx.emitter import ELEMENT, Emitter
from meganeura_runtime.export.onnx.lowering import INT64, Lower, Lowering, Tensor, exact

XOR_SINCE = 18
"""The opset from which there is an exclusive or of numbers."""


def _random_bits(into: Lowering, value: Value) -> tuple[Tensor, ...]:
    op, (counter,) = value.op, value.operands
    assert isinstance(op, RandomBits)
    if into.emitter.opset < XOR_SINCE:
        raise refused(value, f"it has a counterpart from opset {XOR_SINCE} on")
    add = into.emitter.add
    words = add("Cast", into.whole(counter), to=INT64)
    key = [add("Gather", words, into.emitter.integers([each])) for each in range(2)]
    places = add("Cast", into.places(product(op.shape)), to=INT64)
    found = _threefry(into.emitter, key, places, into.emitter.integers([op.stream]))
    flat = add("Cast", found, to=ELEMENT[value.type.dtype])
    return (exact(add("Reshape", flat, into.sizes.shape(op.shape)), value),)


def _threefry(emitter: Emitter, key: list[str], first: str, second: str) -> str:
    """The first word of Threefry-2x32-20, as `threefry` of `RandomBits` computes it."""
    add = emitter.add

    def number(each: int) -> str:
        return emitter.constant(np.array(each, np.int64))

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


OPS: Mapping[type[Op], Lower] = {RandomBits: _random_bits}
