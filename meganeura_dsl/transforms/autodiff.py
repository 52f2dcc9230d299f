"""Reverse-mode differentiation of a loss, or of a tensor with a seed."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Builder, TypeRuleError, Value
from meganeura_dsl.ir.ops import Constant
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.reverse_mode import pull_back


def differentiate(
    build: Builder, loss: Value, wrt: Sequence[Value], seed: Value | None = None
) -> tuple[Value, ...]:
    """The gradient of a scalar `loss` with respect to each of `wrt`, made in `build`.

    With a `seed`, `loss` may be any float tensor and the result is the vector-Jacobian product.
    What the loss does not depend on has a gradient of zeros. A value made here has the origin of
    the forward value whose pullback made it.
    """
    found = gradients(build, loss, wrt, seed)
    return tuple(
        full(build, value.type, 0) if gradient is None else gradient
        for value, gradient in zip(wrt, found, strict=True)
    )


def gradients(
    build: Builder, loss: Value, wrt: Sequence[Value], seed: Value | None = None
) -> tuple[Value | None, ...]:
    """As `differentiate`, with `None` for what no gradient flows to."""
    start = _one(build, loss) if seed is None else _like(loss, seed)
    return pull_back(build, {loss: start}, wrt)


def _one(build: Builder, loss: Value) -> Value:
    if loss.type.rank or not loss.type.dtype.is_float:
        raise TypeRuleError(f"only a scalar float has a gradient, not {loss.type}")
    return build.add(Constant(1.0, loss.type.dtype))


def _like(loss: Value, seed: Value) -> Value:
    if seed.type != loss.type:
        raise TypeRuleError(f"the seed of a {loss.type} is not a {seed.type}")
    return seed
