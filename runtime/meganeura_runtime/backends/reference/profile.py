"""A step by the reference interpreter, op by op, by the host's clock.

Every time is the median of several steps.
"""

import statistics
import tracemalloc
from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.op_names import kind_of, op_name
from meganeura_runtime.backends.timing.profile import RUNS, Peaks, Piece, Profile, rows_of
from meganeura_runtime.backends.timing.step_timer import step_seconds

HOST_CLOCK = "the host's clock, op by op"
MATRIX = 768
"""Rows of the product that NumPy is measured with."""
COPIED = 1 << 20
"""Bytes of the copy that NumPy is measured with: no more than the caches of a CPU hold."""
PEAK_RUNS = 7
"""Runs of which the fastest counts."""


def profile_of(graph: Graph) -> Profile:
    """A step of a graph by the reference interpreter, on made-up numbers."""
    peaks = peaks_of_numpy()
    example = example_of(graph)
    with ReferenceSession(graph) as session:
        session.load(example.persistent)
        step = step_seconds(session, example)
        runs = [_timed_ops(session, example.feeds) for _ in range(RUNS)]
        peak = _peak_bytes(lambda: session.step(example.feeds))
    pieces = [
        _op_piece(results, statistics.median(each[number][1] for each in runs))
        for number, (results, _) in enumerate(runs[0])
    ]
    memory = {
        "parameters": sum(array.nbytes for array in example.persistent.values()),
        "inputs": sum(array.nbytes for array in example.feeds.values()),
        "temporaries": peak,
    }
    return Profile(HOST_CLOCK, peaks, rows_of(pieces), step, {}, memory, None)


def _timed_ops(
    session: ReferenceSession, feeds: Mapping[str, Array]
) -> list[tuple[tuple[Value, ...], float]]:
    """The results of each op of a step, and its seconds."""
    ops: list[tuple[tuple[Value, ...], float]] = []
    session.watch = lambda results, start, end: ops.append((results, end - start))
    session.step(feeds)
    session.watch = None
    return ops


def _peak_bytes(run: Callable[[], object]) -> int:
    """Peak memory of the arrays that a run allocates, in bytes."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _op_piece(results: tuple[Value, ...], seconds: float) -> Piece:
    """Returns the piece of one op, with the bytes of its operands and of all used results."""
    value = results[0]
    types = [each.type for each in value.operands]
    name = op_name(value.op, types, value.type)
    moved = 0
    if Trait.VIEW not in value.op.traits:  # NumPy moves nothing for most views
        tensors = {each.id: each.type for each in (*results, *value.operands)}
        moved = sum(map(size_in_bytes, tensors.values()))
    flops = value.op.flops(types, value.type)
    return Piece(name, kind_of(value.op), str(value.origin), name, seconds, flops, moved)


def peaks_of_numpy() -> Peaks:
    """The peaks of the reference device: a product of matrices, and a copy, both by NumPy."""
    square = np.full((MATRIX, MATRIX), 0.5, np.float32)
    content = np.zeros(COPIED // 4, np.float32)
    target = np.empty_like(content)
    products: list[float] = []
    copies: list[float] = []
    for _ in range(PEAK_RUNS):
        start = perf_counter()
        np.matmul(square, square)
        middle = perf_counter()
        np.copyto(target, content)
        products.append(middle - start)
        copies.append(perf_counter() - middle)
    flops = 2 * MATRIX**3 / min(products)
    how = f"a product of {MATRIX} x {MATRIX} matrices, and a copy, by NumPy"
    return Peaks(flops, 2 * content.nbytes / min(copies), how)
