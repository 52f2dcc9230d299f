"""Sums of squared deviations rewritten as sums of squares, so that one pass reads the values.

The variance of a batch is the mean of (x - m)^2, which can only be read once the mean m is known.
As sum(x^2) - sum(x) m it needs the same reading as the mean, of which XLA makes one kernel; on
several devices both are one collective. What cancels is exact enough where x is stored in bfloat16:
the rounding of x changes its variance by some m^2 2^-18, cancellation in float32 by m^2 2^-24.

A norm of rows has a whole row at hand, and XLA makes one kernel of it by Triton. In training the
gradients need the statistics too, and each of three such kernels computes them once more. From one
pass XLA makes no such kernels, and stores the statistics.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Broadcast, Constant, Div, Maximum, Mul, Sub, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.xla.analysis.numerics import stored_in_bfloat16


@dataclass(frozen=True)
class Deviations:
    """Sum((x - total / n)^2), where total is the sum of n elements x along the same axes."""

    x: Value
    total: Value
    mean: Value


def one_pass_variance(graph: Graph) -> Graph:
    """Returns the graph with the deviations of values stored in bfloat16 computed in one pass.

    In an inference this holds for statistics of batches only.
    """
    return in_one_pass(graph, stored_in_bfloat16(graph))


def in_one_pass(graph: Graph, narrow: Container[int]) -> Graph:
    """Returns the same for the values whose ids `narrow` contains."""
    found = {
        value.id: each
        for value, each in _deviations(graph)
        if each.x.id in narrow and (graph.updates or _is_of_batch(value))
    }
    if not found:
        return graph
    build = Builder()
    built: dict[int, Value] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        built[value.id] = _changed(build, found, built, value) or build.reapply(value, *operands)
        return built[value.id]

    return rebuild(graph, build, change)


def _is_of_batch(value: Value) -> bool:
    """True for a sum over all examples."""
    return isinstance(value.op, Sum) and 0 in value.op.axes


def _changed(
    build: Builder, found: Mapping[int, Deviations], built: Mapping[int, Value], value: Value
) -> Value | None:
    if value.id not in found:
        return None
    each = found[value.id]
    x, total, mean = built[each.x.id], built[each.total.id], built[each.mean.id]
    squares = build.add(value.op, build.add(Mul(), x, x))
    rest = build.add(Sub(), squares, build.add(Mul(), total, mean))
    return build.add(Maximum(), rest, full(build, rest.type, 0.0))


def _deviations(graph: Graph) -> Iterator[tuple[Value, Deviations]]:
    for value in graph.values:
        if not isinstance(value.op, Sum):
            continue
        (square,) = value.operands
        if not isinstance(square.op, Mul) or square.operands[0] != square.operands[1]:
            continue
        difference = square.operands[0]
        if not isinstance(difference.op, Sub):
            continue
        x, spread = difference.operands
        kept_axes = tuple(axis for axis in range(x.type.rank) if axis not in value.op.axes)
        if not isinstance(spread.op, Broadcast) or spread.op.axes != kept_axes:
            continue
        (mean,) = spread.operands
        if not isinstance(mean.op, Div):
            continue
        total, count = mean.operands
        if total.op == value.op and total.operands == (x,) and _is(count, _summed(value.op, x)):
            yield value, Deviations(x, total, mean)


def _summed(sum_: Sum, x: Value) -> int:
    """Returns the number of elements of each sum."""
    return prod(concrete_shape(tuple(x.type.shape[axis] for axis in sum_.axes)))


def _is(value: Value, number: int) -> bool:
    """True if every element of a value is this number."""
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return isinstance(value.op, Constant) and value.op.value == number
