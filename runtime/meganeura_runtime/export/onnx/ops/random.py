"""Random words, by a function that the file defines."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import RandomBits
from meganeura_runtime.export.onnx.attributes import refused
from meganeura_runtime.export.onnx.functions import BITS, RANDOM_SINCE
from meganeura_runtime.export.onnx.lowering import Lower, Lowering, OnnxTensor, exact


def _random_bits(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (counter,) = value.op, value.operands
    assert isinstance(op, RandomBits)
    if into.emitter.opset < RANDOM_SINCE:
        raise refused(value, f"it has a counterpart from opset {RANDOM_SINCE} on")
    return (exact(into.drawn(BITS, counter, value.type.shape, {"stream": op.stream}), value),)


OPS: Mapping[type[Op], Lower] = {RandomBits: _random_bits}
