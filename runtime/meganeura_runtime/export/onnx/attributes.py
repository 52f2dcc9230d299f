"""Attributes of nodes: windows, and sizes that ONNX wants as numbers."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import show
from meganeura_runtime.export.onnx.emitter import Attribute
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm


def refused(value: Value, reason: str) -> ProblemError:
    """The problem of a value that ONNX cannot say."""
    origin = value.origin
    return ProblemError(NoOnnxForm(type(value.op).__name__, reason, origin.span, origin.path))


def numbers(value: Value, name: str, sizes: Shape) -> tuple[int, ...]:
    """Sizes that ONNX wants as numbers."""
    found = [size for size in sizes if isinstance(size, int)]
    if len(found) < len(sizes):
        raise refused(value, f"its {name} is a number there, and [{', '.join(map(show, sizes))}]")
    return tuple(found)


def window(value: Value, kernel: Shape) -> dict[str, Attribute]:
    """The window of a convolution."""
    op = value.op
    assert isinstance(op, Convolution)
    return {
        "kernel_shape": numbers(value, "kernel", kernel),
        "strides": numbers(value, "stride", op.stride),
        "pads": numbers(value, "padding", op.padding) * 2,
        "dilations": numbers(value, "dilation", op.dilation),
        "group": numbers(value, "number of groups", (op.groups,))[0],
    }


def average(value: Value) -> dict[str, Attribute]:
    """The window of an average that is written as a convolution."""
    found = window(value, value.operands[1].type.shape[2:])
    shared = {name: found[name] for name in ("kernel_shape", "strides", "pads")}
    return {**shared, "count_include_pad": 1}
