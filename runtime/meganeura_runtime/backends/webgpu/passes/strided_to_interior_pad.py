"""Input gradients of strided pointwise convolutions as dense ones, with zeros between their pixels.

Stride 2 leaves three of four pixels of the input unread, so their gradient is zero. The dense
gradient has the pixels that were read, and a `Pad` puts zeros between them. That costs no kernel:
whatever reads the gradient, such as the sum with that of a residual branch, skips the zeros.
"""

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import ConvInputGradient, Pad
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.config.limits import Target


def strided_to_interior_pad(graph: Graph, _target: Target) -> Graph:
    """The graph with each input gradient of a strided 1x1 convolution a padded dense one."""
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if isinstance(value.op, ConvInputGradient) and _skips_pixels(value.op, operands[0]):
            return _padded(build, value.op, *operands)
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _skips_pixels(op: ConvInputGradient, w: Value) -> bool:
    """True if the kernel has one tap, which reads every few pixels of an image without padding."""
    one_tap = all(size == 1 for size in concrete_shape(w.type.shape)[2:])
    strided = any(step > 1 for step in concrete_shape(op.stride))
    return one_tap and strided and not any(concrete_shape(op.padding))


def _padded(build: Builder, op: ConvInputGradient, w: Value, dy: Value) -> Value:
    """The dense gradient at the pixels that were read, and zeros at all others."""
    ones, none = (1,) * len(op.stride), (0,) * len(op.stride)
    pixels = concrete_shape(dy.type.shape)[2:]
    dense = build.add(ConvInputGradient(ones, none, ones, op.groups, pixels), w, dy)
    steps = concrete_shape(op.stride)
    reached = ((size - 1) * step + 1 for size, step in zip(pixels, steps, strict=True))
    sizes = concrete_shape(op.spatial)
    high = (size - last for size, last in zip(sizes, reached, strict=True))
    gaps = (step - 1 for step in steps)
    return build.add(Pad((0, 0, *none), (0, 0, *high), (0, 0, *gaps)), dense)
