"""Reductions, prefix ops, sorts and scatters. All floats arrive in float32."""

from collections.abc import Callable, Mapping
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from meganeura_dsl.ir.ops import (
    ArgMax,
    Cumulative,
    Gather,
    LinearRecurrence,
    ReduceMax,
    ScatterAdd,
    ScatterExtreme,
    Sort,
    Sum,
)
from meganeura_dsl.ir.ops.fused.softmax import CrossEntropy
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_runtime.backends.xla.config.measured_choices import CUT_SUMS
from meganeura_runtime.backends.xla.lowering.gather import gather


def sum_(op: Sum, x: jax.Array) -> jax.Array:
    """Returns the sum; integers wrap around."""
    return jnp.sum(x, axis=op.axes, dtype=x.dtype)


def sum_by_parts(op: Sum, x: jax.Array) -> jax.Array:
    """Returns the sum along the first axis and others, in two steps if XLA has few blocks for it.

    Without the barrier XLA would merge both steps.
    """
    rows = prod(x.shape[axis] for axis in op.axes)
    kept = tuple(axis for axis in range(x.ndim) if axis not in op.axes)
    parts = _parts(rows)
    if 0 not in op.axes or not kept or parts is None:
        return sum_(op, x)
    columns = tuple(x.shape[axis] for axis in kept)
    cut = lax.reshape(lax.transpose(x, (*op.axes, *kept)), (parts, rows // parts, *columns))
    partial = lax.optimization_barrier(jnp.sum(cut, axis=(1,), dtype=x.dtype))
    return jnp.sum(partial, axis=(0,), dtype=x.dtype)


def _parts(rows: int) -> int | None:
    """Returns the number of equal parts that rows are summed in; `None` for a single sum."""
    cut = CUT_SUMS.value
    counts = [each for each in cut.counts if rows in cut.rows and rows % each == 0]
    return min(counts, key=lambda each: max(each / cut.parts, cut.parts / each), default=None)


def reduce_max(op: ReduceMax, x: jax.Array) -> jax.Array:
    """Returns the largest; NaN is larger than every number."""
    return jnp.max(x, axis=op.axes)


def cross_entropy(_op: CrossEntropy, logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns -log softmax(logits) of each label; a label outside of the classes costs nothing.

    The logit of a label is read by its index, where the expansion compares all classes with it.
    """
    last = labels.ndim
    largest = jnp.max(logits, axis=(last,))
    spread = lax.broadcast_in_dim(largest, logits.shape, tuple(range(last)))
    powers = lax.exp(logits - spread)
    total = lax.log(jnp.sum(powers, axis=(last,), dtype=powers.dtype))
    picked = gather(Gather(last, batch=last), logits, labels) - largest
    is_class = (labels >= 0) & (labels < logits.shape[-1])
    return jnp.where(is_class, total - picked, 0)


def arg_max(op: ArgMax, x: jax.Array) -> jax.Array:
    """Returns the index of the first largest element."""
    return lax.argmax(x, op.axis, jnp.int32)


def scatter_add(op: ScatterAdd, ids: jax.Array, updates: jax.Array) -> jax.Array:
    """Returns the updates added to the rows that ids name; an id of no row is dropped."""
    return _scattered(op, ids, updates, lax.scatter_add, 0)


def scatter_extreme(op: ScatterExtreme, ids: jax.Array, updates: jax.Array) -> jax.Array:
    """Returns the largest or smallest update of each row, and the neutral element without any."""
    floats = jnp.issubdtype(updates.dtype, jnp.floating)
    limits = jnp.finfo(updates.dtype) if floats else jnp.iinfo(updates.dtype)
    if op.kind == "max":
        return _scattered(op, ids, updates, lax.scatter_max, -jnp.inf if floats else limits.min)
    return _scattered(op, ids, updates, lax.scatter_min, jnp.inf if floats else limits.max)


def _scattered(
    op: ScatterAdd | ScatterExtreme,
    ids: jax.Array,
    updates: jax.Array,
    scatter: Callable[..., jax.Array],
    start: float,
) -> jax.Array:
    first, size = op.axis - op.batch, concrete(op.size)

    def table(ids: jax.Array, updates: jax.Array) -> jax.Array:
        last = first + ids.ndim
        shape = (*updates.shape[:first], size, *updates.shape[last:])
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=(*range(first), *range(last, updates.ndim)),
            inserted_window_dims=(first,),
            scatter_dims_to_operand_dims=(first,),
        )
        return scatter(
            jnp.full(shape, start, updates.dtype),
            ids[..., None],
            updates,
            numbers,
            mode=lax.GatherScatterMode.FILL_OR_DROP,
        )

    for _ in range(op.batch):
        table = jax.vmap(table)
    return table(ids, updates)


def cumulative(op: Cumulative, x: jax.Array) -> jax.Array:
    """Returns the inclusive prefix sums, products or extremes along an axis."""
    function = CUMULATIVE[op.kind]
    return function(x, axis=op.axis, reverse=op.backward)


CUMULATIVE: Mapping[str, Callable[..., jax.Array]] = {
    "sum": lax.cumsum,
    "prod": lax.cumprod,
    "max": lax.cummax,
    "min": lax.cummin,
}


def linear_recurrence(op: LinearRecurrence, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns h with h[t] = a[t] h[t - 1] + b[t], as a parallel prefix."""

    def combined(
        before: tuple[jax.Array, jax.Array], after: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, found = lax.associative_scan(combined, (a, b), axis=op.axis, reverse=op.backward)
    return found


def sort(op: Sort, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the sorted elements and their former positions; NaN is larger than every number."""
    positions = lax.broadcasted_iota(jnp.int32, x.shape, op.axis)
    if not op.descending:
        found, order = lax.sort((x, positions), dimension=op.axis, is_stable=True, num_keys=1)
        return found, order
    # Reversed, sorted and reversed again, equal elements keep their order.
    flipped = lax.rev(x, (op.axis,)), lax.rev(positions, (op.axis,))
    found, order = lax.sort(flipped, dimension=op.axis, is_stable=True, num_keys=1)
    return lax.rev(found, (op.axis,)), lax.rev(order, (op.axis,))
