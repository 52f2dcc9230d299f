"""A loop as kernels that run again and again: those of its body, and those between two iterations.

    begin      carries = starts, counter = first
    each iteration
      body     next and collected values, from carries, captured tensors and slices
      slices   each collected value to its place in the stack of all iterations
      end      carries = next, counter += 1

The counter is an i32 in memory, so that all iterations are one submission. A slice is read where it
lies, at the index that the counter gives.

Where a loop stops, a flag is true at the beginning and then what the last carry is at the end of
each iteration. The kernels of a body read it, and return at once where it is false. They would
compute what they did in the iteration before, which changed no carry and collected zeros.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value
from meganeura_dsl.ir.ops import Gather, Input, Reshape
from meganeura_dsl.ir.ops.primitive.loop import CARRY, COLLECTED, ITERATION, SLICE, Loop, stack
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    is_loop,
    materialized_values,
)
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.memory.memory_planner import rounded
from meganeura_runtime.backends.webgpu.passes.pipeline import run_passes
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel, fuse
from meganeura_runtime.backends.webgpu.schedule.horizontal_fusion import horizontal_fusion
from meganeura_runtime.backends.webgpu.schedule.list_scheduler import list_schedule

NEXT = "next."
"""The prefix of the names of an iteration's outputs that are carried on."""
WORD = 4


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that is copied to another, which is as large or has a slice for it."""

    source: int
    target: int
    of: TensorType
    axis: int = -1
    """The axis of the slices; -1 if the target is as large."""


@dataclass(frozen=True)
class LoopSchedule:
    """The schedule of a loop. Tensors are known by number."""

    op: Loop
    value: Value
    """One of its results."""
    graph: Graph
    """An iteration after all passes."""
    stored: Collection[int]
    """Its values that are in memory, by id."""
    iterations: int
    counter: int
    going: int | None
    """The flag of a loop that stops."""
    starts: tuple[Moved, ...]
    kernels: tuple["FusedKernel | LoopSchedule", ...]
    launches: tuple[int, ...]
    """The number of each kernel's launch."""
    tensors: Mapping[int, int]
    """The tensor of each value of the body that is in memory, by its id."""
    slices: tuple[Moved, ...]
    carries: tuple[Moved, ...]
    temporaries: tuple[tuple[int, int], ...]
    """The tensors that only the loop uses, and their bytes."""

    @property
    def first(self) -> int:
        """The counter in the first iteration."""
        return self.iterations - 1 if self.op.backward else 0

    @property
    def step(self) -> int:
        """The number added to the counter between iterations."""
        return -1 if self.op.backward else 1


@dataclass(frozen=True)
class IterationGraph:
    """An iteration for kernels, and where each collected value is: an output, or a leaf."""

    graph: Graph
    given: tuple[str, ...]


def iteration_graph(op: Loop) -> IterationGraph:
    """An iteration that reads slices from whole tensors, at its own index."""
    build = Builder()
    leaves = {ITERATION: build.add(op.body.inputs[ITERATION].op)}
    for name in op.names:
        of = op.body.inputs[name].type
        if name.startswith(SLICE):
            axis = op.sliced[int(name.removeprefix(SLICE))]
            whole = stack(of, axis, op.iterations)
            source = build.add(Input(name, whole.dtype, whole.shape))
            leaves[name] = build.add(Gather(axis), source, leaves[ITERATION])
        else:
            leaves[name] = build.add(Input(name, of.dtype, of.shape))
    _, following, given = op.instantiate(build, leaves)
    outputs = {f"{NEXT}{number}": value for number, value in enumerate(following)}
    names = {value.id: name for name, value in outputs.items() if not isinstance(value.op, Leaf)}
    for number, value in enumerate(given):
        if isinstance(value.op, Leaf):
            names[value.id] = value.op.name
        elif value.id not in names:
            names[value.id] = f"{COLLECTED}{number}"
            outputs[names[value.id]] = value
    return IterationGraph(build.graph(outputs), tuple([names[value.id] for value in given]))


def with_buffers(target: Target, more: int) -> Target:
    """The target whose kernels may use so many more tensors, or fewer."""
    limits = replace(target.limits, storage_buffers=target.limits.storage_buffers + more)
    return replace(target, limits=limits)


def _held_in(value: Value, tensors: Mapping[int, int]) -> Value:
    """The nearest tensor with the elements of an operand: its own, if others have it stored."""
    while value.id not in tensors and isinstance(value.op, Reshape):
        (value,) = value.operands
    return value


class LoopScheduler:
    """Schedules the loop of a kernel's work, whose operands and results lie in known tensors."""

    def __init__(
        self, one: FusedKernel, tensors: Mapping[int, int], fresh: Iterator[int], target: Target
    ) -> None:
        """`tensors` are known by the ids of values; `fresh` gives numbers of further ones."""
        value = one.work.anchors[0]
        assert isinstance(value.op, Loop)
        self.value = value
        self.op: Loop = value.op
        self.operands = [tensors[_held_in(each, tensors).id] for each in value.operands]
        self.results = {each.index: tensors[each.id] for each in one.work.stores}
        self.fresh = fresh
        self.target = target
        self.temporaries: list[tuple[int, int]] = []

    def schedule(self) -> LoopSchedule:
        """The loop, with a tensor for everything in it that is in memory."""
        op = self.op
        leaves = dict(zip(op.names, self.operands, strict=True))
        starts: list[Moved] = []
        for number, value in enumerate(op.next):
            target = self.results.get(number)
            target = self._new(value.type) if target is None else target
            starts.append(Moved(self.operands[number], target, value.type))
            leaves[f"{CARRY}{number}"] = target
        leaves[ITERATION] = counter = self._new(op.body.inputs[ITERATION].type)
        going = None
        if op.stops:
            going = self._new(op.next[-1].type)
            self.target = with_buffers(self.target, -1)
        iterations = iteration_graph(op)
        graph = run_passes(iterations.graph, self.target)
        stored = materialized_values(graph, self.target)
        scheduled = list_schedule(graph, fuse(graph, stored, self.target))
        scheduled = horizontal_fusion(graph, scheduled, self.target)
        kernels = scheduled.kernels
        tensors = {v.id: leaves[v.op.name] for v in graph.values if isinstance(v.op, Leaf)}
        for value in (value for one in kernels for value in one.work.stores):
            tensors[value.id] = self._new(value.type)
        positions = {name: tensors[value.id] for name, value in graph.outputs.items()} | leaves
        carries = [
            replace(each, source=positions[f"{NEXT}{number}"]) for number, each in enumerate(starts)
        ]
        if going is not None:
            carries.append(replace(carries[-1], target=going))
        return LoopSchedule(
            op=op,
            value=self.value,
            graph=graph,
            stored=stored,
            iterations=concrete(op.iterations),
            counter=counter,
            going=going,
            starts=tuple(starts),
            kernels=tuple([self._inner(one, tensors) for one in kernels]),
            launches=scheduled.launches,
            tensors=tensors,
            slices=tuple(self._slices(iterations, positions)),
            carries=tuple(carries),
            temporaries=tuple(self.temporaries),
        )

    def _slices(self, iterations: IterationGraph, positions: Mapping[str, int]) -> Iterator[Moved]:
        for number, (name, value) in enumerate(zip(iterations.given, self.op.given, strict=True)):
            target = self.results.get(self.op.carried + number)
            if target is not None:
                yield Moved(positions[name], target, value.type, self.op.collected[number])

    def _inner(self, one: FusedKernel, tensors: Mapping[int, int]) -> "FusedKernel | LoopSchedule":
        if not one.work.anchors or not is_loop(one.work.anchors[0]):
            return one
        inner = LoopScheduler(one, tensors, self.fresh, self.target).schedule()
        self.temporaries += inner.temporaries
        return inner

    def _new(self, of: TensorType) -> int:
        tensor = next(self.fresh)
        self.temporaries.append((tensor, rounded(size_in_bytes(of), WORD)))
        return tensor
