"""Choice of the values that are written to memory; others are computed wherever they are read."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, prod

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Concat,
    Constant,
    DynamicUpdate,
    Iota,
    MatMul,
    Reshape,
    Slice,
    StopGradient,
    Sum,
)
from meganeura_dsl.ir.ops.fused import Dequantize
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import ANCHORS, PRODUCTS, Trait
from meganeura_runtime.backends.webgpu.analysis.recompute_cost import (
    COSTS,
    LOAD,
    RecomputeCosts,
    Uses,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import reduction_of
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial

DEEPEST = 64
"""Ops computed one inside the other at most."""
REPEATED = 16
"""The number of repetitions of a tensor's elements from which their loads are cached."""
SHARED_COST = 4 * LOAD
"""A value of several uses that costs as much is expected to be stored."""
SMALL = 1 << 14
"""Elements whose way through memory is nothing against a launch."""


def is_reduction(value: Value) -> bool:
    """True if each element combines many terms."""
    return Trait.REDUCTION in value.op.traits


def is_contraction(value: Value) -> bool:
    """True if each element is a sum of products."""
    return Trait.CONTRACTION in value.op.traits


def is_transform(value: Value) -> bool:
    """True if small squares of its elements are computed from small squares together."""
    return Trait.TRANSFORM in value.op.traits


def is_attention(value: Value) -> bool:
    """True if it is made by walking over keys or queries."""
    return Trait.ATTENTION in value.op.traits


def is_loop(value: Value) -> bool:
    """True if its kernels run again and again."""
    return Trait.LOOP in value.op.traits


def held_as(value: Value) -> Value:
    """Returns the value that holds these elements in order, so that a loop reads it instead."""
    while isinstance(value.op, Reshape):
        (value,) = value.operands
    return value


def is_anchor(value: Value) -> bool:
    """True if a kernel is made for it, which elementwise work may join."""
    return not value.op.traits.isdisjoint(ANCHORS)


def is_factor(op: Op) -> bool:
    """True if a contraction reads its factors through an op, for nothing but index arithmetic.

    What is packed is taken out of its words there as well, so that it stays packed in memory.
    Random bits follow from an index too, but for arithmetic that is too much to repeat so often.
    """
    return Trait.VIEW in op.traits or isinstance(op, Constant | Iota | Dequantize)


def elements(value: Value) -> int:
    """Returns the number of elements of a value."""
    return prod(concrete_shape(value.type.shape))


def materialized_values(graph: Graph, target: Target) -> frozenset[int]:
    """Ids of the values in memory: leaves, results, reductions, what is expensive to recompute."""
    stored = _worthwhile(graph, target)
    # A value that is stored for one of its readers is one more to read for the others.
    while more := _beyond_limits(graph, stored, target):
        stored |= more
    return frozenset(stored)


def _worthwhile(graph: Graph, target: Target) -> set[int]:
    """Returns the values worth storing, from the results back, as reads depend on later stores."""
    prices = _prices(target)
    costs = _costs(graph, prices)
    stored = {value.id for value in graph.roots}
    stored |= _small_totals(graph) if target.style is Style.GPU else set()
    reads: defaultdict[int, float] = defaultdict(float)
    for value in reversed(graph.values):
        count = elements(value)
        if is_loop(value):
            stored.update(held_as(operand).id for operand in value.operands)
        if isinstance(value.op, Leaf) or is_anchor(value):
            stored.add(value.id)
        elif isinstance(value.op, StopGradient):
            pass  # the kernel that stores it stores its operand as well
        elif reads[value.id] == inf and is_factor(value.op):
            pass
        elif Uses(count, reads[value.id]).worth_storing(costs[value.id], prices):
            stored.add(value.id)
        for operand in value.operands:
            wanted = count if value.id in stored else reads[value.id]
            reads[operand.id] += _reads(value, operand, wanted)
    return stored


def _small_totals(graph: Graph) -> set[int]:
    """Small values of several uses that add a sum to something, which the sum's kernel can do.

    Along the residual connections of a deep network each reader would otherwise add up everything
    since the first layer, in its own kernel; so a bias may stand between, and parts of a sum,
    where the value is added to again.
    """
    uses = Counter(operand.id for value in graph.values for operand in value.operands)
    additions = [value for value in graph.values if isinstance(value.op, Add)]
    added = {operand.id for value in additions for operand in value.operands}
    return {
        value.id
        for value in additions
        if uses[value.id] > 1
        and elements(value) <= SMALL
        and any(_is_sum_alone(each, uses, again=value.id in added) for each in value.operands)
        and not any(map(_is_bias, value.operands))
        and not _is_sum_of_parts(value)
    }


def _is_sum_alone(value: Value, uses: Mapping[int, int], *, again: bool) -> bool:
    """True if a value is a sum that nothing else reads; `again`: also in parts, or with a bias."""
    if uses[value.id] > 1:
        return False
    match value.op:
        case Sum() | MatMul():
            return True
        case Reshape():
            return _is_sum_alone(value.operands[0], uses, again=again)
        case Concat():
            return again
        case Add() if again and not _is_sum_of_parts(value):
            rest = [operand for operand in value.operands if not _is_bias(operand)]
            return len(rest) == 1 and _is_sum_alone(rest[0], uses, again=again)
        case _:
            return again and _is_sum_of_parts(value)


def _is_bias(value: Value) -> bool:
    """True if it repeats a smaller tensor."""
    return isinstance(value.op, Broadcast) and elements(value.operands[0]) < elements(value)


def _is_sum_of_parts(value: Value) -> bool:
    """True if it adds up the parts of a product, which any reader does on the way."""
    if isinstance(value.op, Add):
        return all(map(_is_sum_of_parts, value.operands))
    while isinstance(value.op, Reshape | Slice):
        (value,) = value.operands
    return isinstance(value.op, SplitKPartial)


def costs_of(graph: Graph, target: Target) -> Mapping[int, float]:
    """Returns the cost of computing one element of each value in place, in loads."""
    return _costs(graph, _prices(target))


def _prices(target: Target) -> RecomputeCosts:
    prices = COSTS[target.style]
    return replace(prices, launch=prices.launch * target.fusing.launch)


def _reads(value: Value, operand: Value, count: float) -> float:
    """Returns the number of an operand's elements that `count` elements read.

    The factors of a contraction are read so often that they are always in memory; what replaces a
    part is read where the part is.
    """
    if isinstance(value.op, DynamicUpdate) and operand is value.operands[1]:
        return min(count, elements(operand))
    if not value.op.traits.isdisjoint(PRODUCTS):
        return inf
    return count * reduction_of(value).count if is_reduction(value) else count


def _costs(graph: Graph, prices: RecomputeCosts) -> Mapping[int, float]:
    uses = Counter(operand.id for value in graph.values for operand in value.operands)
    costs: dict[int, float] = {}
    for value in graph.values:
        if isinstance(value.op, Leaf) or is_anchor(value):
            costs[value.id] = LOAD
        elif _is_repeated(value):
            costs[value.id] = min(costs[value.operands[0].id], prices.cached)
        else:
            parts = (
                LOAD
                if uses[operand.id] > 1 and costs[operand.id] >= SHARED_COST
                else costs[operand.id]
                for operand in value.operands
            )
            costs[value.id] = prices.of(value.op) + sum(parts)
    return costs


def _is_repeated(value: Value) -> bool:
    """True if every element is one of a small tensor, which is then in memory and in caches."""
    if not isinstance(value.op, Broadcast):
        return False
    return REPEATED * elements(value.operands[0]) <= elements(value)


def _beyond_limits(graph: Graph, stored: Collection[int], target: Target) -> set[int]:
    """Returns further values to store, so that no kernel reads or nests too much."""
    most = max(0, target.limits.storage_buffers - 1)  # none is left deep in loops that stop
    more: set[int] = set()
    tensors: dict[int, frozenset[int]] = {}
    depths: dict[int, int] = {}
    for value in graph.values:
        while True:
            read = _union([tensors[operand.id] for operand in value.operands])
            depth = max((depths[operand.id] for operand in value.operands), default=0)
            if len(read) > most:
                operand = max(value.operands, key=lambda v: len(tensors[v.id]))
            elif depth >= DEEPEST:
                operand = max(value.operands, key=lambda v: depths[v.id])
            else:
                break
            if tensors[operand.id] == frozenset({operand.id}):
                break
            more.add(operand.id)
            tensors[operand.id], depths[operand.id] = frozenset({operand.id}), 0
        here = value.id in stored
        tensors[value.id] = frozenset({value.id}) if here else read
        depths[value.id] = 0 if here else depth + 1
    return more


def _union(sets: Sequence[frozenset[int]]) -> frozenset[int]:
    return frozenset[int]().union(*sets)
