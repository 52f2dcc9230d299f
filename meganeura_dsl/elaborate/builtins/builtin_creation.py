"""Built-in functions that make tensors: of one number, and of random numbers."""

import zlib
from math import pi

from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck import tensor_values
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    is_number,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, Shape


def full(call: BuiltinCall) -> ElabValue:
    """Returns a tensor of one number everywhere, which `zeros` and `ones` know."""
    value = call.option(1, "value", {"zeros": 0.0, "ones": 1.0}.get(call.name))
    if not is_number(value):
        raise call.wrong("a number", value)
    return tensor_values.scalar(call.frame, call.span, value, DType.F32, call.shape(0, "shape"))


def random_uniform(call: BuiltinCall) -> ElabValue:
    """Uniform on [0, 1)."""
    return _uniform(call, call.shape(0, "shape"))


def random_normal(call: BuiltinCall) -> ElabValue:
    """Normal with mean 0 and variance 1: sqrt(-2 log(u)) cos(2 pi v) for uniform u and v.

    G. Box and M. Muller, "A note on the generation of random normal deviates", 1958. 1 - u is in
    (0, 1], so that its logarithm is a number.
    """
    frame, span, shape = call.frame, call.span, call.shape(0, "shape")
    one, minus_two, turn = (
        tensor_values.scalar(frame, span, number, DType.F32, shape)
        for number in (1.0, -2.0, 2 * pi)
    )
    positive = call.add(ops.Sub(), one, _uniform(call, shape))
    radius = call.add(ops.Sqrt(), call.add(ops.Mul(), minus_two, call.add(ops.Log(), positive)))
    angle = call.add(ops.Mul(), turn, _uniform(call, shape))
    return call.add(ops.Mul(), radius, call.add(ops.Cos(), angle))


def _uniform(call: BuiltinCall, shape: Shape) -> Tensor:
    """A random word scaled by 2**-32, kept below 1 where f32 would round up."""
    frame = call.frame
    counter = _counter(call)
    bits = call.add(ops.RandomBits(_stream(frame), shape), counter)
    real = tensor_values.cast(frame, call.span, bits, DType.F32)
    scale = tensor_values.scalar(frame, call.span, 2.0**-32, DType.F32, shape)
    largest = tensor_values.scalar(frame, call.span, 1 - 2.0**-24, DType.F32, shape)
    return call.add(ops.Minimum(), call.add(ops.Mul(), real, scale), largest)


def _counter(call: BuiltinCall) -> Tensor:
    """(seed, step), or within a scan two words that are drawn from them for each iteration."""
    state = call.frame.state
    if state.body.counter is None:
        state.body.counter = call.add(ops.Input(COUNTER, DType.U32, (2,)))
    counter = state.body.counter
    for scan in state.scans.values():
        if scan.key is None:
            drawn = ops.RandomBits(_stream(call.frame), (scan.iterations, 2))
            scan.key = scan.region.slice(call.add(drawn, counter), 0, backward=False)
        counter = scan.key
    return counter


def _stream(frame: Frame) -> int:
    """A number for each draw, from its layer's path and its rank there: no two draws share one."""
    count = frame.state.body.streams.get(frame.path, 0)
    frame.state.body.streams[frame.path] = count + 1
    return zlib.crc32(f"{frame.path}#{count}".encode())
