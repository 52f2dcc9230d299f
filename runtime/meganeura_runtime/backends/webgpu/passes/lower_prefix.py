"""Prefix scans and sorts along an axis, in iterations that are a kernel each."""

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Broadcast, Cumulative, Iota, LinearRecurrence, Sort
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_runtime.backends.webgpu.ops.prefix import MergeStep, PrefixStep, RecurrenceStep

TERMS = 8
"""Elements that an iteration combines: a scan of n takes log n / log 8 iterations."""


def lower_cumulative(build: Builder, op: Cumulative, x: Value) -> Value:
    """Each element with all before it: after an iteration of distance d, with d `TERMS` of them."""
    for distance, terms in _iterations(concrete(x.type.shape[op.axis])):
        x = build.add(PrefixStep(op.kind, op.axis, op.backward, distance, terms), x)
    return x


def lower_recurrence(build: Builder, op: LinearRecurrence, a: Value, b: Value) -> Value:
    """The term of all steps up to each, composed."""
    for distance, terms in _iterations(concrete(b.type.shape[op.axis])):
        a, b = build.add_all(RecurrenceStep(op.axis, op.backward, distance, terms), a, b)
    return b


def lower_sort(build: Builder, op: Sort, x: Value) -> tuple[Value, Value]:
    """Runs of one element merged to runs of two, of four, ...: a stable merge sort."""
    size = x.type.shape[op.axis]
    positions = build.add(Broadcast(x.type.shape, (op.axis,)), build.add(Iota(size)))
    run = 1
    while run < concrete(size):
        x, positions = build.add_all(MergeStep(op.axis, op.descending, run), x, positions)
        run *= 2
    return x, positions


def _iterations(size: int) -> list[tuple[int, int]]:
    """The distance of each iteration, and how many elements it combines."""
    found: list[tuple[int, int]] = []
    distance = 1
    while distance < size:
        found.append((distance, min(TERMS, -(-size // distance))))
        distance *= TERMS
    return found
