"""Legalization: ops become what kernels compute, each value inlined or the result of one kernel.

Ops of two phases become two ops, long sums become sums of sums, and every output and update gets
its own value, so that none shares memory with another. The result is a graph like any other and
has the same meaning.
"""

from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op, Value, rebuild
from meganeura_dsl.ir.ops import (
    Concat,
    Cumulative,
    LinearRecurrence,
    ScatterAdd,
    ScatterExtreme,
    Sort,
    StopGradient,
    Sum,
)
from meganeura_dsl.ir.ops.fused import FusedWinogradOutput
from meganeura_dsl.ir.ops.primitive.reduce import ArgMax, ReduceMax
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import (
    CONTRACTIONS,
    named_contraction,
)
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial
from meganeura_runtime.backends.webgpu.passes.lower_prefix import (
    lower_cumulative,
    lower_recurrence,
    lower_sort,
)
from meganeura_runtime.backends.webgpu.passes.lower_scatter import lower_scatter
from meganeura_runtime.backends.webgpu.passes.split_k import split_k
from meganeura_runtime.backends.webgpu.passes.split_reduction import (
    split_arg_max,
    split_reduction,
    sum_of_parts,
)

REWRITTEN: tuple[type[Op], ...] = (FusedWinogradOutput, Cumulative, LinearRecurrence, Sort)
"""Ops that become several others here, and so have no kernel of their own."""
MOST_TERMS = 2048
"""Terms that one invocation sums: so few that rounding errors stay small, and loops short."""
FEWEST_TERMS = 512
"""Terms that a CPU adds up sooner than it starts a kernel."""
BUSY_INVOCATIONS = 32
"""Invocations that keep a CPU busy."""
BUSY_ROWS = 32
"""Sums that keep a GPU busy enough, each made by a workgroup."""
BUSY_WORKGROUPS = 256
"""Workgroups that share out longer sums."""
BUSY_COLUMNS = 1 << 14
"""Sums of columns that keep a GPU busy, of which a lane makes four."""
MANY_IN_COLUMNS = 1 << 22
"""Elements of columns for which so many sums are worth one more kernel."""
FEWEST_OF_COLUMN = 1024
"""Terms of a column that are worth a sum of their own."""
MOST_ITERATIONS = 20_000
"""Terms of a loop that cannot be cut into sums of sums for free."""

MOST_COMPARED = 1 << 18
"""Terms of a row that a workgroup of a GPU compares."""


def legalize(graph: Graph, target: Target) -> Graph:
    """The same step, in ops that each take at most one kernel."""
    build = Builder()
    lowered = rebuild(graph, build, _Lowering(build, target).change)
    taken: set[int] = set()
    outputs = {name: _own(build, value, taken) for name, value in lowered.outputs.items()}
    updates = {name: _own(build, value, taken) for name, value in lowered.updates.items()}
    return build.graph(outputs, updates)


def _own(build: Builder, value: Value, taken: set[int]) -> Value:
    """A value that is no leaf and that no other name has."""
    with build.at(value.origin):
        while isinstance(value.op, Leaf) or value.id in taken:
            value = build.add(StopGradient(), value)
    taken.add(value.id)
    return value


class _Lowering:
    def __init__(self, build: Builder, target: Target) -> None:
        self._build = build
        self._target = target

    def change(self, value: Value, operands: tuple[Value, ...]) -> Value:
        """The lowered value of an op on lowered operands."""
        add = self._build.add
        match value.op:
            case Concat(axis=axis):
                return self._concatenated(axis, operands)
            case Sum() | ReduceMax() as op:
                (x,) = operands
                return split_reduction(self._build, op, x, self._most_terms(op, x))
            case ArgMax(axis=axis):
                gpu = self._target.style is Style.GPU
                most = MOST_COMPARED if gpu else MOST_ITERATIONS
                return split_arg_max(self._build, axis, operands[0], most)
            case ScatterAdd() | ScatterExtreme() as op:
                ids, updates = operands
                return lower_scatter(self._build, op, ids, updates, MOST_ITERATIONS)
            case Cumulative() as op:
                return lower_cumulative(self._build, op, *operands)
            case LinearRecurrence() as op:
                return lower_recurrence(self._build, op, *operands)
            case Sort() as op:
                return lower_sort(self._build, op, *operands)[value.index]
            case FusedWinogradOutput() as op:
                products, *rest = operands
                return op.finished(self._build, add(op.plain, products), *rest)
            case op if type(op) in CONTRACTIONS:
                return self._contracted(op, *operands)
            case _:
                return self._build.reapply(value, *operands)

    def _concatenated(self, axis: int, operands: tuple[Value, ...]) -> Value:
        """Operands joined so many at once as a kernel can be bound to."""
        most = max(2, self._target.limits.storage_buffers - 1)
        while len(operands) > most:
            groups = [operands[start : start + most] for start in range(0, len(operands), most)]
            operands = tuple(self._build.add(Concat(axis), *group) for group in groups)
        return self._build.add(Concat(axis), *operands)

    def _most_terms(self, op: Sum | ReduceMax, x: Value) -> int:
        """So few terms at once that there are workgroups, or invocations, enough."""
        shape = concrete_shape(x.type.shape)
        elements, terms = prod(shape), prod(shape[axis] for axis in op.axes)
        if self._target.style is Style.SOFTWARE_VULKAN:
            return min(MOST_TERMS, max(FEWEST_TERMS, -(-elements // BUSY_INVOCATIONS)))
        rows = elements // terms
        of_columns = len(shape) - 1 not in op.axes and elements >= MANY_IN_COLUMNS
        if of_columns and self._target.limits.matrix_units is not None:
            parts = -(-BUSY_COLUMNS // rows)
            return max(FEWEST_OF_COLUMN, -(-terms // parts))
        workgroups = rows if len(shape) - 1 in op.axes else rows // 8
        return terms if workgroups >= BUSY_ROWS else max(MOST_TERMS, elements // BUSY_WORKGROUPS)

    def _contracted(self, op: Op, a: Value, b: Value) -> Value:
        """A contraction, in parts where its result is small or its terms are too many."""
        parts = split_k(named_contraction(op, a, b), self._target)
        if parts == 1:
            return self._build.add(op, a, b)
        partial = self._build.add(SplitKPartial(op, parts), a, b)
        return sum_of_parts(self._build, partial, MOST_TERMS)
