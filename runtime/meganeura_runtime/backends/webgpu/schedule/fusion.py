"""Kernel fusion: which stored values share a kernel.

Every stored value begins as a separate kernel. Elementwise work then joins the kernel that makes
what it reads: as the epilogue of a contraction or reduction, or with its like over the same
elements. Reductions over the same terms join too. What only its own kernel reads is never written.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

from meganeura_dsl.ir.graph import Graph, Leaf, Value, by_application
from meganeura_dsl.ir.ops import ConvInputGradient, DynamicUpdate
from meganeura_dsl.ir.ops.fused import WinogradKernel
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.webgpu.analysis.access_patterns import (
    AccessPattern,
    access_patterns,
    readers_of,
    row_accesses,
)
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    elements,
    is_anchor,
    is_attention,
    is_contraction,
    is_loop,
    is_reduction,
    is_transform,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Work
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import reduction_of
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import (
    RowReduction,
    row_reduction_of,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.winograd_kernel import NAMES
from meganeura_runtime.backends.webgpu.codegen.lowering.winograd import may_share
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import contraction_of
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import is_short
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

MOST_OPERATIONS = 400
"""Operations of an element in one kernel."""
QUICK = 8
"""Operations behind a product whose kernel is to compile soon: each is written out many times."""
TINY = 1 << 12
"""Elements of kernels that are worth joining even where they have nothing in common."""
LARGE = 1 << 20
"""Elements whose second way through memory takes as long as a launch."""
BUSY_ROWS = 32
"""Rows that keep a GPU busy enough to let it go over their terms again."""
SHORT = 1 << 16
"""Terms of all rows that may be computed again however few the rows are."""
AHEAD = 16 << 20
"""Bytes that are not held for a later pass only to save a launch."""
DEEPEST = 96
"""Ops in one kernel that are each computed inside the next."""


@dataclass(eq=False)
class Group:
    """Stored values that one kernel makes, while it is being put together."""

    bit: int
    count: int
    rows: RowReduction | None = None
    anchors: list[Value] = field(default_factory=list[Value])
    values: list[Value] = field(default_factory=list[Value])
    aligned: set[int] = field(default_factory=set[int])
    elsewhere: set[int] = field(default_factory=set[int])
    apart: set[int] = field(default_factory=set[int])
    """Values made here whose elements are no others': nothing is computed from them here."""
    size: int = 0
    above: int = 0
    """The groups it depends on, directly or not, as a set of bits."""

    @property
    def computed(self) -> set[int]:
        """Ids of the values made here."""
        return {value.id for value in self.values}

    @property
    def read(self) -> set[int]:
        """Ids of the values read from memory."""
        return (self.aligned | self.elsewhere) - self.computed

    def holds(self, count: int) -> bool:
        """True if values of so many elements may be made here."""
        if self.rows is None or count == self.count:
            return count == self.count
        terms = self.count * self.rows.terms
        return count == terms and (self.count >= BUSY_ROWS or terms <= SHORT)


def part_updates(graph: Graph) -> frozenset[int]:
    """Ids of the updates that replace a part of what they update, which kernels of their own make.

    Together with other work they would go over all of it.
    """
    return frozenset(
        value.id
        for name, value in graph.updates.items()
        if isinstance(value.op, DynamicUpdate)
        and isinstance(leaf := value.operands[0].op, Leaf)
        and leaf.name == name
    )


class Fusion:
    """Puts the stored values of a graph into groups, one after another."""

    def __init__(self, graph: Graph, stored: Collection[int], target: Target) -> None:
        self._graph = graph
        self._stored = stored
        self._counts = {v.id: elements(v) for v in graph.values if v.id in stored}
        self._target = target
        self._most = target.limits.storage_buffers
        self._groups: list[Group] = []
        self._by_loops: defaultdict[Hashable, list[Group]] = defaultdict(list)
        self._maker: dict[int, Group] = {}
        self._depths = self._inline_depths()
        self._readers = readers_of(graph)
        self._parts = part_updates(graph)

    def groups(self) -> tuple[Group, ...]:
        """All groups, each with everything that could join it."""
        stored = [value for value in self._graph.values if value.id in self._stored]
        for results in by_application(stored):
            if not isinstance(results[0].op, Leaf):
                self._assign(results)
        return tuple(self._groups)

    def _assign(self, results: Sequence[Value]) -> None:
        """Let the results of an op join the first group they fit, or begin one."""
        value = results[0]
        plain = reduce(AccessPattern.join, (access_patterns(v, self._stored) for v in results))
        fitting = (
            (group, reads)
            for group in self._candidates(value, plain)
            if self._fits(group, results, reads := self._reads_in(group, value, plain))
        )
        group, reads = next(fitting, (None, plain))
        if group is None:
            group = self._new(value)
            reads = self._reads_in(group, value, plain)
        for result in results:
            self._join(group, result, reads)
        if is_attention(value):
            group.apart.update(each.id for each in results[1:])
        if is_loop(value):
            group.apart.update(each.id for each in results)

    def _reads_in(self, group: Group, value: Value, plain: AccessPattern) -> AccessPattern:
        """Returns the pattern in which a value reads others in the kernel of a group."""
        if group.rows is None or not group.holds(elements(value)):
            return plain
        return row_accesses(value, group.rows, self._counts)

    def _inline_depths(self) -> dict[int, int]:
        """Returns the number of ops between each value and the stored values it reads."""
        depths: dict[int, int] = {}
        for value in self._graph.values:
            inside = (depths[v.id] for v in value.operands if v.id not in self._stored)
            depths[value.id] = 1 + max(inside, default=0)
        return depths

    def _depth(self, group: Group, value: Value, reads: AccessPattern) -> int:
        """Returns the depth at which a value would be computed in a group."""
        inside = (self._depths[read] for read in reads.all & group.computed)
        return self._depths[value.id] + max(inside, default=0)

    def _candidates(self, value: Value, reads: AccessPattern) -> Iterator[Group]:
        """Groups that a value might join, the likeliest first."""
        if is_contraction(value) or is_attention(value) or is_loop(value):
            return
        if value.id in self._parts:
            yield from (group for group in self._groups if self._may_write_too(group, value))
            return
        if is_transform(value):
            yield from (group for group in reversed(self._groups) if self._may_share(group, value))
            return
        computed_by = {
            self._maker[read].bit: self._maker[read] for read in reads.all & self._maker.keys()
        }
        makers = [computed_by[bit] for bit in sorted(computed_by, reverse=True)]
        if is_reduction(value):
            if row_reduction_of(value, self._target) is not None:
                yield from (group for group in makers if group.rows is not None)
            same_loops = self._by_loops[_signature(value)]
            yield from (group for group in reversed(same_loops) if group.read & reads.all)
            return
        yield from makers
        yield from (
            group
            for group in reversed(self._groups)
            if not group.anchors
            and group.bit not in computed_by
            and (group.aligned & reads.aligned or group.count <= TINY)
        )

    def _may_write_too(self, group: Group, value: Value) -> bool:
        """True if a group writes parts of the same shape at the same place as an update."""
        first = group.values[0]
        return first.id in self._parts and (
            first.type.shape == value.type.shape
            and first.operands[1].type.shape == value.operands[1].type.shape
            and first.operands[2:] == value.operands[2:]
        )

    def _may_share(self, group: Group, value: Value) -> bool:
        """True if a transform is of the same tensor as one of a group, or for the same reader."""
        return len(group.anchors) < len(NAMES) and any(
            may_share(anchor, value)
            and (
                self._readers[anchor.id] & self._readers[value.id]
                if anchor.operands != value.operands
                else not _is_for_later(value)
            )
            for anchor in group.anchors
        )

    def _fits(self, group: Group, results: Sequence[Value], reads: AccessPattern) -> bool:
        """True if a kernel can make the results of one more op."""
        value, computed = results[0], group.computed
        if (value.id in self._parts) is not (group.values[0].id in self._parts):
            return False
        bound = (group.aligned | group.elsewhere | reads.all) - computed
        return (
            group.holds(elements(value))
            and not computed & reads.elsewhere
            and not group.apart & reads.all
            and self._may_reduce(group, value, reads)
            and (is_transform(value) or group.size + reads.size <= self._most_operations(group))
            and self._depth(group, value, reads) <= DEEPEST
            and len(bound) + len(computed) + len(results) <= self._most
            and not any(
                self._maker[read].above & group.bit
                for read in reads.all - computed
                if read in self._maker
            )
        )

    def _most_operations(self, group: Group) -> int:
        """Returns the largest number of operations of a group's kernel."""
        if not group.anchors or is_reduction(group.anchors[0]):
            return MOST_OPERATIONS
        quick = self._target.fusing.quick and is_contraction(group.anchors[0])
        if quick and is_short(contraction_of(group.anchors[0])):
            return QUICK
        scattered = self._target.style is Style.GPU and _is_scattered(group.anchors[0])
        return 0 if scattered and group.count >= LARGE else self._target.fusing.epilogue

    def _may_reduce(self, group: Group, value: Value, reads: AccessPattern) -> bool:
        """True if a value is no reduction, or one that can go along with those of the group."""
        if not is_reduction(value):
            return True
        if group.rows is None:
            return not group.computed & reads.all and row_reduction_of(value, self._target) is None
        rows = row_reduction_of(value, self._target)
        if rows is None:
            return False
        return (rows.count, rows.terms) == (group.rows.count, group.rows.terms)

    def _new(self, value: Value) -> Group:
        rows = row_reduction_of(value, self._target)
        group = Group(1 << len(self._groups), elements(value), rows)
        self._groups.append(group)
        if is_reduction(value):
            self._by_loops[_signature(value)].append(group)
        return group

    def _join(self, group: Group, value: Value, reads: AccessPattern) -> None:
        if is_anchor(value):
            group.anchors.append(value)
        else:
            group.size += reads.size
        self._depths[value.id] = self._depth(group, value, reads)
        group.values.append(value)
        group.aligned |= reads.aligned
        group.elsewhere |= reads.elsewhere
        self._maker[value.id] = group
        above = 0
        for read in reads.all:
            maker = self._maker.get(read)
            if maker is not None and maker is not group:
                above |= maker.above | maker.bit
        for other in self._groups:
            if other is group or other.above & group.bit:
                other.above |= above


def _is_scattered(value: Value) -> bool:
    """True if a contraction gives elements that lie apart, so that reading beside them is slow."""
    op = value.op
    return isinstance(op, ConvInputGradient) and any(step != 1 for step in op.stride)


def _is_for_later(value: Value) -> bool:
    """True if a transform is for another pass than what it is made of, and too large to wait."""
    return isinstance(value.op, WinogradKernel) and size_in_bytes(value.type) >= AHEAD


def _signature(value: Value) -> Hashable:
    """The loops of a reduction, which those that share a kernel agree in."""
    reduction = reduction_of(value)
    return reduction.loops, reduction.links, value.type.shape


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A kernel's work, and the values it reads from memory."""

    work: Work
    aligned: frozenset[int]
    elsewhere: frozenset[int]

    @property
    def reads(self) -> frozenset[int]:
        """Everything that is read from memory."""
        return self.aligned | self.elsewhere


def fuse(graph: Graph, stored: Collection[int], target: Target) -> tuple[FusedKernel, ...]:
    """The kernels of a lowered graph, in no order that matters."""
    groups = Fusion(graph, stored, target).groups()
    needed = {value.id for value in graph.roots}.union(*(group.read for group in groups))
    return tuple(_fused(group, needed) for group in groups)


def _fused(group: Group, needed: Collection[int]) -> FusedKernel:
    stores = tuple(value for value in group.values if value.id in needed)
    computed = group.computed
    work = Work(tuple(group.anchors), stores)
    return FusedKernel(
        work, frozenset(group.aligned - computed), frozenset(group.elsewhere - computed)
    )
