"""Traces a graph as one function of JAX: from persistent arrays and inputs to outputs and updates.

Each value is traced under its location in the program, `layer1.0/net.mgn:7/%12`, which is its name
in StableHLO, in compiled programs and in profiles.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Sharding

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value, by_application
from meganeura_dsl.ir.ops.primitive.loop import CARRY, COLLECTED, ITERATION, Loop, stack
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.traits import PRODUCTS, Trait
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.analysis.partial_sums import PartialSums
from meganeura_runtime.backends.xla.lowering.attention import attention
from meganeura_runtime.backends.xla.lowering.element_types import jax_type, widened
from meganeura_runtime.backends.xla.lowering.table import (
    COMPUTES,
    CONTRACTIONS,
    FUSED,
    LIBRARY_PRODUCTS,
    MOVES,
    Lowered,
    Lowering,
)
from meganeura_runtime.backends.xla.ops.attention import (
    LibraryAttention,
    LibraryAttentionGradient,
)

MEAN = LibraryAttentionGradient.operands.required.index("mean")


class ArrayKey(NamedTuple):
    """Key of a persistent array of a step: a parameter or state, or a parameter's bfloat16 copy.

    Keys are ordered: a copy follows its parameter.
    """

    name: str
    is_copy: bool = False

    def __repr__(self) -> str:
        """Returns the name of the argument in StableHLO."""
        return repr(f"{self.name} in bfloat16" if self.is_copy else self.name)


Pullback = Callable[[jax.Array], tuple[jax.Array, ...]]
"""Maps the cotangent of a result to those of the operands."""
Arrays = Mapping[ArrayKey, jax.Array]
Iteration = tuple[list[jax.Array], list[jax.Array]]
"""Carries and collected values of an iteration of a loop."""
IterationFunction = Callable[[list[jax.Array], jax.Array, list[jax.Array]], Iteration]
"""Maps carries, the index of an iteration and its slices to its results."""
StepResults = tuple[dict[str, jax.Array], dict[ArrayKey, jax.Array]]
"""Outputs, and updates with the copies of updated parameters."""
StepFunction = Callable[[Arrays, Arrays, Mapping[str, jax.Array]], StepResults]
"""Maps updated arrays, constant arrays and inputs to results."""


def step_function(
    graph: Graph,
    numerics: Numerics,
    gathered: Mapping[str, Sharding],
    lowerings: Mapping[type[Op], Lowering],
    barriers: Barriers,
    sums: PartialSums | None = None,
) -> StepFunction:
    """Returns the step of a graph in ops of the lowering table; `lowerings` overrides the table.

    A leaf that `gathered` names is sharded over devices. Elementwise ops, as of optimizers, compute
    on its shards; for others it is gathered with the sharding in `gathered`.
    Each of `sums` is computed as one, from the operands of its parts.
    """
    applications = by_application(graph.values)
    trained = frozenset(
        value.operands[MEAN].id
        for value in graph.values
        if isinstance(value.op, LibraryAttentionGradient)
    )
    aliased = _aliased_updates(graph)

    def step(updated: Arrays, constant: Arrays, fed: Mapping[str, jax.Array]) -> StepResults:
        trace = _Trace(numerics, gathered, lowerings, barriers, sums, trained)
        persistent = {**updated, **constant}
        for results in applications:
            leaf = results[0].op
            if isinstance(leaf, Leaf):
                source = {ArrayKey(leaf.name): fed[leaf.name]} if leaf.name in fed else {}
                trace.read(results[0], leaf.name, source or persistent)
            else:
                trace.compute(results)
        outputs = {
            name: lax.convert_element_type(trace.found[value.id], jax_type(value.type.dtype))
            for name, value in graph.outputs.items()
        }
        updates = {
            ArrayKey(name): jnp.copy(new) if name in aliased else new
            for name, value in graph.updates.items()
            for new in (
                lax.convert_element_type(trace.found[value.id], jax_type(value.type.dtype)),
            )
        }
        narrow = {
            copy: lax.convert_element_type(new, BFLOAT16)
            for key, new in updates.items()
            if (copy := ArrayKey(key.name, is_copy=True)) in updated
        }
        return outputs, {**updates, **narrow}

    return step


@dataclass(frozen=True)
class _Trace:
    """The traced arrays of a step, by ids of values."""

    numerics: Numerics
    gathered: Mapping[str, Sharding]
    lowerings: Mapping[type[Op], Lowering]
    barriers: Barriers
    sums: PartialSums | None
    trained: frozenset[int]
    """Attentions with a gradient."""
    found: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    whole: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """Leaves that are gathered from shards."""
    copies: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """Copies of parameters in bfloat16."""
    pullbacks: dict[int, Pullback] = field(default_factory=dict[int, Pullback])
    """Pullbacks of attentions."""
    products: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """Jointly computed values before they are converted to the type they are stored in."""

    def read(self, leaf: Value, name: str, leaves: Arrays) -> None:
        """Read a leaf, its copy if there is one, and gather both if they are sharded."""
        key, copy = ArrayKey(name), ArrayKey(name, is_copy=True)
        self.found[leaf.id] = leaves[key]
        if copy in leaves:
            self.copies[leaf.id] = self._gathered(name, leaves[copy])
        if name in self.gathered:
            self.whole[leaf.id] = self._gathered(name, leaves[key])

    def _gathered(self, name: str, array: jax.Array) -> jax.Array:
        where = self.gathered.get(name)
        return array if where is None else lax.with_sharding_constraint(array, where)

    def compute(self, results: Sequence[Value]) -> None:
        """Compute all results of an application."""
        value = results[0]
        if self.sums is not None and value.id in self.sums.inner:
            return
        with jax.named_scope(_scope(value)):
            arrays = self._lowered(value)
            for each in results:
                stored = self.numerics.stored[each.id]
                self.found[each.id] = lax.convert_element_type(arrays[each.index], stored)
            if value.id in self.barriers.shared_scalars:
                self._share(value, self.barriers.shared_scalars[value.id])
            for each in results:
                if each.id in self.barriers.computed_jointly:
                    is_product = bool(each.op.traits & PRODUCTS)
                    self.products[each.id] = (
                        arrays[each.index] if is_product else self.found[each.id]
                    )
                    group = self.barriers.computed_jointly[each.id]
                    self.found.update(_behind_barrier(group, self.products, self.numerics))

    def _operands(self, value: Value) -> list[jax.Array]:
        others: Mapping[int, jax.Array] = {}
        if Trait.ELEMENTWISE not in value.op.traits:
            reads_copy = self.copies and self.numerics.reads_copy(value)
            others = {**self.whole, **self.copies} if reads_copy else self.whole
        return [others.get(each.id, self.found[each.id]) for each in value.operands]

    def _lowered(self, value: Value) -> tuple[jax.Array, ...]:
        if self.sums is not None and value.id in self.sums.parts:
            parts = [self._operands(each) for each in self.sums.parts[value.id]]
            return (self.sums.total(value, parts, partial(_part, self.numerics, self.lowerings)),)
        op, operands = value.op, self._operands(value)
        if isinstance(op, LibraryAttention):
            return _attention(value, operands, self.trained, self.pullbacks)
        if isinstance(op, LibraryAttentionGradient):
            dy = lax.convert_element_type(operands[-1], jnp.bfloat16)
            return self.pullbacks[value.operands[MEAN].id](dy)
        if isinstance(op, Loop):
            return _loop(op, operands, self.numerics.precision, self.lowerings)
        return _lowered(value, operands, self.numerics, self.lowerings)

    def _share(self, value: Value, first: int) -> None:
        """Use one stored array for all equal ones."""
        array = self.found[first]
        self.found[value.id] = lax.optimization_barrier(array) if first == value.id else array


def _behind_barrier(
    group: Sequence[int], products: Mapping[int, jax.Array], numerics: Numerics
) -> dict[int, jax.Array]:
    """Returns a group behind a barrier once all of it is computed; before, nothing."""
    if not all(each in products for each in group):
        return {}
    found = lax.optimization_barrier(tuple(products[each] for each in group))
    return {
        each: lax.convert_element_type(array, numerics.stored[each])
        for each, array in zip(group, found, strict=True)
    }


def _part(
    numerics: Numerics,
    lowerings: Mapping[type[Op], Lowering],
    value: Value,
    operands: Sequence[jax.Array],
) -> jax.Array:
    """Returns a part of a sum over the examples, from a device's own examples."""
    with jax.named_scope(_scope(value)):
        (found,) = _lowered(value, operands, numerics, lowerings)
        return widened(lax.convert_element_type(found, numerics.stored[value.id]))


def _lowered(
    value: Value,
    operands: Sequence[jax.Array],
    numerics: Numerics,
    lowerings: Mapping[type[Op], Lowering],
) -> tuple[jax.Array, ...]:
    """Returns all results of the application that a value is a result of."""
    op, kind = value.op, type(value.op)
    found: Lowered
    if kind in MOVES:
        found = MOVES[kind](op, *_in_type_of_result(operands, numerics.stored[value.id]))
    elif kind in CONTRACTIONS or kind in LIBRARY_PRODUCTS:
        function = CONTRACTIONS.get(kind) or LIBRARY_PRODUCTS[kind]
        found = function(op, numerics.arithmetic(value), *operands)
    else:
        table = next(each for each in (lowerings, FUSED, COMPUTES) if kind in each)
        found = table[kind](op, *map(widened, operands))
    return found if isinstance(found, tuple) else (found,)


def _loop(
    loop: Loop,
    operands: Sequence[jax.Array],
    precision: ComputePrecision,
    lowerings: Mapping[type[Op], Lowering],
) -> tuple[jax.Array, ...]:
    """Returns the results of a loop, whose body reads and returns values in their own types."""
    graph = loop.body.graph
    carried = [graph.outputs[f"{CARRY}{number}"] for number in range(loop.carried)]
    numerics = Numerics.of(graph, precision, carried)
    body = step_function(graph, numerics, {}, lowerings, Barriers())
    types = loop.body.inputs
    given = [
        lax.convert_element_type(operand, jax_type(types[name].type.dtype))
        for name, operand in zip(loop.names, operands, strict=True)
    ]
    names, first, second = loop.names, loop.carried, loop.carried + len(loop.sliced)
    constant = dict(zip(names[second:], given[second:], strict=True))

    def iteration(carries: list[jax.Array], index: jax.Array, slices: list[jax.Array]) -> Iteration:
        inputs = {**constant, ITERATION: index, **dict(zip(names[:first], carries, strict=True))}
        inputs |= dict(zip(names[first:second], slices, strict=True))
        outputs, _ = body({}, {}, inputs)
        return (
            [outputs[f"{CARRY}{number}"] for number in range(loop.carried)],
            [outputs[f"{COLLECTED}{number}"] for number in range(len(loop.collected))],
        )

    run = _while_loop if loop.stops else _scan
    carries, stacks = run(loop, iteration, given[:first], given[first:second])
    return (*carries, *stacks)


def _scan(
    loop: Loop, iteration: IterationFunction, starts: list[jax.Array], sources: list[jax.Array]
) -> Iteration:
    """Returns the results of a loop by `lax.scan`."""
    slices = [jnp.moveaxis(x, axis, 0) for x, axis in zip(sources, loop.sliced, strict=True)]
    indices = jnp.arange(concrete(loop.iterations), dtype=jnp.int32)

    def step(carries: list[jax.Array], read: tuple[jax.Array, list[jax.Array]]) -> Iteration:
        return iteration(carries, *read)

    carries, stacks = lax.scan(step, starts, (indices, slices), reverse=loop.backward)
    collected = zip(stacks, loop.collected, strict=True)
    return carries, [jnp.moveaxis(stack, 0, axis) for stack, axis in collected]


def _while_loop(
    loop: Loop, iteration: IterationFunction, starts: list[jax.Array], sources: list[jax.Array]
) -> Iteration:
    """Returns the results of a loop by `lax.while_loop`, which stops once the last carry is false.

    Iterations that are left out collect zeros.
    """
    length = concrete(loop.iterations)

    def continues(state: tuple[jax.Array, Iteration]) -> jax.Array:
        count, (carries, _) = state
        return (count < length) & carries[-1]

    def step(state: tuple[jax.Array, Iteration]) -> tuple[jax.Array, Iteration]:
        count, (carries, stacks) = state
        index = length - 1 - count if loop.backward else count
        slices = [
            lax.dynamic_index_in_dim(x, index, axis, keepdims=False)
            for x, axis in zip(sources, loop.sliced, strict=True)
        ]
        following, found = iteration(carries, index, slices)
        written = [
            lax.dynamic_update_index_in_dim(whole, each, index, axis)
            for whole, each, axis in zip(stacks, found, loop.collected, strict=True)
        ]
        return count + 1, (following, written)

    stacks = [
        stack(value.type, axis, length)
        for value, axis in zip(loop.given, loop.collected, strict=True)
    ]
    empty = [jnp.zeros(concrete_shape(of.shape), jax_type(of.dtype)) for of in stacks]
    _, found = lax.while_loop(continues, step, (jnp.zeros((), jnp.int32), (starts, empty)))
    return found


def _attention(
    value: Value,
    operands: Sequence[jax.Array],
    trained: Container[int],
    pullbacks: dict[int, Pullback],
) -> tuple[jax.Array]:
    """Returns the attention of a library, and keeps its pullback if it has a gradient."""
    op = value.op
    assert isinstance(op, LibraryAttention)

    def mean(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return attention(op.whole, op.library, q, k, v)

    if value.id not in trained:
        return (mean(*operands),)
    found, pullbacks[value.id] = jax.vjp(mean, *operands)
    return (found,)


def _in_type_of_result(
    operands: Sequence[jax.Array], stored: np.dtype[np.generic]
) -> Iterator[jax.Array]:
    """Yields operands whose elements are moved; floats in the result's type if that is a float.

    Indices may be the only result of a pooling that a graph uses.
    """
    for operand in operands:
        are_floats = all(jnp.issubdtype(each, jnp.floating) for each in (operand.dtype, stored))
        yield lax.convert_element_type(operand, stored) if are_floats else operand


def _aliased_updates(graph: Graph) -> frozenset[str]:
    """Returns the names of updates whose value is also an output, another update or a leaf.

    The next step overwrites updates in place, so these are copied.
    """
    taken = {value.id for value in graph.outputs.values()}
    shared: set[str] = set()
    for name, value in graph.updates.items():
        if value.id in taken or isinstance(value.op, Leaf):
            shared.add(name)
        taken.add(value.id)
    return frozenset(shared)


def _scope(value: Value) -> str:
    """Returns the location of a value in the program, and its number in the graph."""
    parts = (value.origin.path, value.origin.location, f"%{value.id}")
    return "/".join(part for part in parts if part)
