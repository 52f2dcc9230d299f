"""Bounds on the gradients of an update: of each element, and of the norm of all."""

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Div, Maximum, Minimum
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.transforms.optimizers.norms import norm_of
from meganeura_dsl.transforms.optimizers.update import as_f32, number, scaled


def clipped_by_value(
    build: Builder, gradients: tuple[Value, ...], limit: float | None
) -> tuple[Value, ...]:
    """Bounds each element to [-limit, limit], as `torch.nn.utils.clip_grad_value_`."""
    if limit is None:
        return gradients
    return tuple(
        build.add(
            Maximum(),
            build.add(Minimum(), gradient, full(build, gradient.type, limit)),
            full(build, gradient.type, -limit),
        )
        for gradient in (as_f32(build, each) for each in gradients)
    )


def clipped_by_norm(
    build: Builder, gradients: tuple[Value, ...], limit: float | None
) -> tuple[Value, ...]:
    """Scales all by min(1, limit / (norm + 1e-6)), as `torch.nn.utils.clip_grad_norm_`."""
    if limit is None or not gradients:
        return gradients
    norm = build.add(Add(), gradient_norm(build, gradients), number(build, 1e-6))
    ratio = build.add(Div(), number(build, limit), norm)
    factor = build.add(Minimum(), ratio, number(build, 1.0))
    return tuple(scaled(build, factor, as_f32(build, gradient)) for gradient in gradients)


def gradient_norm(build: Builder, gradients: tuple[Value, ...]) -> Value:
    """The norm of all gradients together, an f32 scalar; 0 of none."""
    return norm_of(build, [as_f32(build, gradient) for gradient in gradients])
