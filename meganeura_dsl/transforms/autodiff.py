"""Reverse-mode differentiation: one walk back, each op applied giving its own pullback."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import (
    Builder,
    NotDifferentiableError,
    TypeRuleError,
    Value,
    dependencies,
)
from meganeura_dsl.ir.ops import Add, Constant
from meganeura_dsl.ir.ops.primitive.broadcast import full


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
    for value in wrt:
        if not value.type.dtype.is_float:
            raise NotDifferentiableError(f"there is no gradient with respect to a {value.type}")
    cotangents = {loss.id: start}
    path = _path(loss, wrt)
    active = {value.id for value in path}
    done: set[int] = set()
    for value in reversed(path):
        # Whatever reads a result comes after all results of the application, and was visited.
        results = build.results_of(value)
        given = tuple([cotangents.get(each.id) for each in results])
        if (
            results[0].id in done
            or not any(given)
            or active.isdisjoint(operand.id for operand in value.operands)
        ):
            continue
        done.add(results[0].id)
        op, several = value.op, value.op.multiple_results
        with build.at(value.origin):
            parts = op.pullback(build, *((results, given) if several else (value, given[0])))
            for operand, part in zip(value.operands, parts, strict=True):
                if part is not None and operand.id in active:
                    known = cotangents.get(operand.id)
                    total = part if known is None else build.add(Add(), known, part)
                    cotangents[operand.id] = total
    return tuple(cotangents.get(value.id) for value in wrt)


def _one(build: Builder, loss: Value) -> Value:
    if loss.type.rank or not loss.type.dtype.is_float:
        raise TypeRuleError(f"only a scalar float has a gradient, not {loss.type}")
    return build.add(Constant(1.0, loss.type.dtype))


def _like(loss: Value, seed: Value) -> Value:
    if seed.type != loss.type:
        raise TypeRuleError(f"the seed of a {loss.type} is not a {seed.type}")
    return seed


def _path(loss: Value, wrt: Sequence[Value]) -> tuple[Value, ...]:
    """The float values that depend on `wrt` and that the loss depends on, in order."""
    active = {value.id for value in wrt}
    path: list[Value] = []
    for value in dependencies((loss,)):
        depends = any(operand.id in active for operand in value.operands)
        if value.type.dtype.is_float and (depends or value.id in active):
            active.add(value.id)
            path.append(value)
    return tuple(path)
