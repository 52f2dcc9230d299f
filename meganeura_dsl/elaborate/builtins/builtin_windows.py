"""Built-in functions of windows that slide over the last axes: convolutions and pooling."""

from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.typecheck import tensor_values
from meganeura_dsl.elaborate.values import (
    ElabValue,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.assumptions import Compare, Unproved
from meganeura_dsl.symbolic.size import Size


def conv(call: BuiltinCall) -> ElabValue:
    """Returns a convolution."""
    x, weight = tensor_values.promoted(call.frame, call.span, call.tensor(0), call.tensor(1))
    rank = x.type.rank - 2
    return call.add(ops.Conv(*_geometry(call, rank)), x, weight)


def conv_transpose(call: BuiltinCall) -> ElabValue:
    """Returns a transposed convolution; raises `ProblemError` for an `output_pad` out of range."""
    x, weight = tensor_values.promoted(call.frame, call.span, call.tensor(0), call.tensor(1))
    rank = x.type.rank - 2
    stride, padding, dilation, groups = _geometry(call, rank)
    kernel = weight.type.shape[2:]
    extra = call.sizes(6, "output_pad", rank, 0)
    try:
        for more, by in zip(extra, stride, strict=True):
            call.frame.facts.require(Compare(">=", more, 0), "`output_pad` is not below 0")
            call.frame.facts.require(Compare("<", more, by), "`output_pad` is below the stride")
    except Unproved as error:
        raise call.frame.refused(call.span, error) from error
    spatial = tuple(
        (size - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for size, s, p, d, k, e in zip(  # a kernel of another rank is refused by the op
            x.type.shape[2:], stride, padding, dilation, kernel, extra, strict=False
        )
    )
    return call.add(ops.ConvInputGradient(stride, padding, dilation, groups, spatial), weight, x)


def _geometry(call: BuiltinCall, rank: int) -> tuple[Shape, Shape, Shape, Size]:
    return (
        call.sizes(2, "stride", rank, 1),
        call.sizes(3, "pad", rank, 0),
        call.sizes(4, "dilation", rank, 1),
        call.size(5, "groups", 1),
    )


def window_max(call: BuiltinCall) -> ElabValue:
    """Returns the largest element of each window."""
    x = call.tensor(0)
    rank = x.type.rank - 2
    window = call.sizes(1, "k", rank)
    has_stride = len(call.arguments) > 2 or "stride" in call.named
    stride = call.sizes(2, "stride", rank) if has_stride else window
    return call.add(ops.MaxPool(window, stride, call.sizes(3, "pad", rank, 0)), x)
