"""A graph as one function of JAX: what is kept and fed, to outputs and the next of what is kept.

Each value is traced under its place in the program, `layer1.0/net.mgn:7/%12`, which is its name in
StableHLO, in compiled programs and in profiles.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Sharding

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value, by_application
from meganeura_dsl.ir.ops.primitive.loop import CARRY, COLLECTED, ROUND, Loop, stack
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
    FINISHED,
    FUSED,
    MOVES,
    Lowered,
    Lowering,
)
from meganeura_runtime.backends.xla.ops.attention import (
    LibraryAttention,
    LibraryAttentionGradient,
)

MEAN = LibraryAttentionGradient.operands.required.index("mean")


def copy_of(name: str) -> str:
    """What the copy of a parameter in bfloat16 is called among what a step only reads."""
    return f"{name} in bfloat16"


Pullback = Callable[[jax.Array], tuple[jax.Array, ...]]
"""From the cotangent of a result to those of the operands."""
Arrays = Mapping[str, jax.Array]
Round = tuple[list[jax.Array], list[jax.Array]]
"""What a round carries on, and what it gives."""
RoundFunction = Callable[[list[jax.Array], jax.Array, list[jax.Array]], Round]
"""From carries, the place of a round and its slices."""
Stepped = tuple[dict[str, jax.Array], dict[str, jax.Array]]
"""Outputs, and updates with the copies of what is updated."""
StepFunction = Callable[[Arrays, Arrays, Arrays], Stepped]
"""From what a step updates, what it only reads, and what it is fed."""


def step_function(
    graph: Graph,
    numerics: Numerics,
    gathered: Mapping[str, Sharding],
    lowerings: Mapping[type[Op], Lowering],
    barriers: Barriers,
    sums: PartialSums | None = None,
) -> StepFunction:
    """The step of a graph of ops that the table lowers, some of them as `lowerings` says.

    A leaf that `gathered` names is spread over devices. Ops that work element by element, as
    optimizers do, compute on its parts; for others it is gathered to where `gathered` says.
    Each of `sums` is computed as one, from the operands of its parts.
    """
    applications = by_application(graph.values)
    trained = frozenset(
        value.operands[MEAN].id
        for value in graph.values
        if isinstance(value.op, LibraryAttentionGradient)
    )
    copied = _shared(graph)

    def step(updated: Arrays, constant: Arrays, fed: Arrays) -> Stepped:
        trace = _Trace(numerics, gathered, lowerings, barriers, sums, trained)
        leaves = {**updated, **constant, **fed}
        for results in applications:
            if isinstance(results[0].op, Leaf):
                trace.read(results[0], results[0].op.name, leaves)
            else:
                trace.compute(results)
        outputs = {
            name: lax.convert_element_type(trace.found[value.id], jax_type(value.type.dtype))
            for name, value in graph.outputs.items()
        }
        updates = {
            name: jnp.copy(new) if name in copied else new
            for name, value in graph.updates.items()
            for new in (
                lax.convert_element_type(trace.found[value.id], jax_type(value.type.dtype)),
            )
        }
        narrow = {
            copy_of(name): lax.convert_element_type(new, BFLOAT16)
            for name, new in updates.items()
            if copy_of(name) in updated
        }
        return outputs, {**updates, **narrow}

    return step


@dataclass(frozen=True)
class _Trace:
    """The arrays of a step that is traced, by the ids of its values."""

    numerics: Numerics
    gathered: Mapping[str, Sharding]
    lowerings: Mapping[type[Op], Lowering]
    barriers: Barriers
    sums: PartialSums | None
    trained: frozenset[int]
    """Attentions that have a gradient."""
    found: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    whole: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """Leaves that are gathered."""
    copies: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """Those of parameters in bfloat16."""
    pullbacks: dict[int, Pullback] = field(default_factory=dict[int, Pullback])
    """Of attentions."""
    products: dict[int, jax.Array] = field(default_factory=dict[int, jax.Array])
    """What is computed together with others, before it is converted to what it is stored in."""

    def read(self, leaf: Value, name: str, leaves: Arrays) -> None:
        """Take what a step is given."""
        self.found[leaf.id] = leaves[name]
        if copy_of(name) in leaves:
            self.copies[leaf.id] = self._gathered(name, leaves[copy_of(name)])
        if name in self.gathered:
            self.whole[leaf.id] = self._gathered(name, leaves[name])

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
            if value.id in self.barriers.shared:
                self._share(value, self.barriers.shared[value.id])
            for each in results:
                if each.id in self.barriers.together:
                    is_product = bool(each.op.traits & PRODUCTS)
                    self.products[each.id] = (
                        arrays[each.index] if is_product else self.found[each.id]
                    )
                    group = self.barriers.together[each.id]
                    self.found.update(_together(group, self.products, self.numerics))

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
            return _rounds(op, operands, self.numerics.precision, self.lowerings)
        return _lowered(value, operands, self.numerics, self.lowerings)

    def _share(self, value: Value, first: int) -> None:
        """Have one array, which is stored, for all that are the same."""
        array = self.found[first]
        self.found[value.id] = lax.optimization_barrier(array) if first == value.id else array


def _together(
    group: Sequence[int], products: Mapping[int, jax.Array], numerics: Numerics
) -> dict[int, jax.Array]:
    """A group as it is stored, once all of it is computed and before any of it is read."""
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
    """A part of a sum over the examples, from some of these."""
    with jax.named_scope(_scope(value)):
        (found,) = _lowered(value, operands, numerics, lowerings)
        return widened(lax.convert_element_type(found, numerics.stored[value.id]))


def _lowered(
    value: Value,
    operands: Sequence[jax.Array],
    numerics: Numerics,
    lowerings: Mapping[type[Op], Lowering],
) -> tuple[jax.Array, ...]:
    """All results of the application that a value is a result of."""
    op, kind = value.op, type(value.op)
    found: Lowered
    if kind in MOVES:
        found = MOVES[kind](op, *_alike(operands, numerics.stored[value.id]))
    elif kind in CONTRACTIONS or kind in FINISHED:
        function = CONTRACTIONS.get(kind) or FINISHED[kind]
        found = function(op, numerics.arithmetic(value), *operands)
    else:
        table = next(each for each in (lowerings, FUSED, COMPUTES) if kind in each)
        found = table[kind](op, *map(widened, operands))
    return found if isinstance(found, tuple) else (found,)


def _rounds(
    loop: Loop,
    operands: Sequence[jax.Array],
    precision: ComputePrecision,
    lowerings: Mapping[type[Op], Lowering],
) -> tuple[jax.Array, ...]:
    """The rounds of a loop: what each round reads and gives has its own type."""
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

    def one_round(
        carries: list[jax.Array], round_index: jax.Array, slices: list[jax.Array]
    ) -> Round:
        fed = {ROUND: round_index, **dict(zip(names[:first], carries, strict=True))}
        fed |= dict(zip(names[first:second], slices, strict=True))
        outputs, _ = body({}, constant, fed)
        return (
            [outputs[f"{CARRY}{number}"] for number in range(loop.carried)],
            [outputs[f"{COLLECTED}{number}"] for number in range(len(loop.collected))],
        )

    run = _until_it_stops if loop.stops else _all_rounds
    carries, stacks = run(loop, one_round, given[:first], given[first:second])
    return (*carries, *stacks)


def _all_rounds(
    loop: Loop, one_round: RoundFunction, starts: list[jax.Array], sources: list[jax.Array]
) -> Round:
    """The rounds of a loop by `lax.scan`."""
    slices = [jnp.moveaxis(x, axis, 0) for x, axis in zip(sources, loop.sliced, strict=True)]
    round_indices = jnp.arange(concrete(loop.rounds), dtype=jnp.int32)

    def step(carries: list[jax.Array], read: tuple[jax.Array, list[jax.Array]]) -> Round:
        return one_round(carries, *read)

    carries, stacks = lax.scan(step, starts, (round_indices, slices), reverse=loop.backward)
    collected = zip(stacks, loop.collected, strict=True)
    return carries, [jnp.moveaxis(stack, 0, axis) for stack, axis in collected]


def _until_it_stops(
    loop: Loop, one_round: RoundFunction, starts: list[jax.Array], sources: list[jax.Array]
) -> Round:
    """The rounds of a loop by `lax.while_loop`, up to the first that leaves the last carry false.

    What those behind it would collect is zero.
    """
    rounds = concrete(loop.rounds)

    def goes_on(state: tuple[jax.Array, Round]) -> jax.Array:
        count, (carries, _) = state
        return (count < rounds) & carries[-1]

    def step(state: tuple[jax.Array, Round]) -> tuple[jax.Array, Round]:
        count, (carries, stacks) = state
        round_index = rounds - 1 - count if loop.backward else count
        slices = [
            lax.dynamic_index_in_dim(x, round_index, axis, keepdims=False)
            for x, axis in zip(sources, loop.sliced, strict=True)
        ]
        following, found = one_round(carries, round_index, slices)
        written = [
            lax.dynamic_update_index_in_dim(whole, each, round_index, axis)
            for whole, each, axis in zip(stacks, found, loop.collected, strict=True)
        ]
        return count + 1, (following, written)

    stacks = [
        stack(value.type, axis, rounds)
        for value, axis in zip(loop.given, loop.collected, strict=True)
    ]
    empty = [jnp.zeros(concrete_shape(of.shape), jax_type(of.dtype)) for of in stacks]
    _, found = lax.while_loop(goes_on, step, (jnp.zeros((), jnp.int32), (starts, empty)))
    return found


def _attention(
    value: Value,
    operands: Sequence[jax.Array],
    trained: Container[int],
    pullbacks: dict[int, Pullback],
) -> tuple[jax.Array]:
    """What a library gives, and how its gradients follow, which share what it computes."""
    op = value.op
    assert isinstance(op, LibraryAttention)

    def mean(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return attention(op.whole, op.library, q, k, v)

    if value.id not in trained:
        return (mean(*operands),)
    found, pullbacks[value.id] = jax.vjp(mean, *operands)
    return (found,)


def _alike(operands: Sequence[jax.Array], stored: np.dtype[np.generic]) -> Iterator[jax.Array]:
    """Operands whose elements are moved, floats in the type of the result if that is one of floats.

    The only result of a pooling that a graph uses may be its indices.
    """
    for operand in operands:
        are_floats = all(jnp.issubdtype(each, jnp.floating) for each in (operand.dtype, stored))
        yield lax.convert_element_type(operand, stored) if are_floats else operand


def _shared(graph: Graph) -> frozenset[str]:
    """The updates whose values an output, another update or a leaf has too.

    The next step overwrites updates in place, so they get memory of their own.
    """
    taken = {value.id for value in graph.outputs.values()}
    shared: set[str] = set()
    for name, value in graph.updates.items():
        if value.id in taken or isinstance(value.op, Leaf):
            shared.add(name)
        taken.add(value.id)
    return frozenset(shared)


def _scope(value: Value) -> str:
    """The place of a value in the program, and its number in the graph."""
    parts = (value.origin.path, value.origin.location, f"%{value.id}")
    return "/".join(part for part in parts if part)
