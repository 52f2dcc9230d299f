"""Compiles a graph to a plan: run the passes, materialize, fuse, schedule, place, write kernels."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, groupby
from math import prod

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.types import element_count, size_in_bytes
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.memory_roles import MemoryRole, StepMemory, sum_by_role
from meganeura_runtime.backends.webgpu.analysis.half_storage import values_in_halves
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    is_contraction,
    is_loop,
    materialized_values,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.backends.webgpu.codegen.kernels.loop_kernel import (
    Move,
    guarded,
    move_kernel,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.merged_kernel import (
    merged_kernel,
    merged_kernels,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.part_kernel import (
    part_bytes,
    writes_parts,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import (
    contraction_of,
)
from meganeura_runtime.backends.webgpu.config.kernel_config import DEFAULT_FUSION
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED, TunedConfigs
from meganeura_runtime.backends.webgpu.memory.memory_planner import (
    Lifetime,
    assign_offsets,
    fullest,
    least_bytes,
)
from meganeura_runtime.backends.webgpu.passes.pipeline import run_passes
from meganeura_runtime.backends.webgpu.plan import (
    Buffer,
    CheckedIndex,
    Copy,
    Dispatch,
    DispatchLoop,
    Plan,
    PlanTensor,
    Role,
    Slot,
)
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel, fuse
from meganeura_runtime.backends.webgpu.schedule.horizontal_fusion import horizontal_fusion
from meganeura_runtime.backends.webgpu.schedule.kernel_cache import KernelCache
from meganeura_runtime.backends.webgpu.schedule.kernel_names import kernel_name
from meganeura_runtime.backends.webgpu.schedule.kernel_selection import write_kernel
from meganeura_runtime.backends.webgpu.schedule.list_scheduler import Schedule, list_schedule
from meganeura_runtime.backends.webgpu.schedule.loop_schedule import (
    LoopSchedule,
    LoopScheduler,
    Moved,
)
from meganeura_runtime.backends.webgpu.schedule.memory_limits import (
    byte_size,
    excesses_of,
    excesses_of_loop,
)
from meganeura_runtime.backends.webgpu.schedule.roofline import (
    bytes_accessed,
    computed_values,
    kernel_flops,
)

LOOP_TENSORS = 1 << 40
"""The number of the first tensor that is no value of the graph, but of a loop."""
SIDE_BY_SIDE = " | "
"""Stands between the names of kernels in one dispatch."""


def plan_graph(
    graph: Graph,
    limits: DeviceLimits,
    style: Style = Style.GPU,
    choices: TunedConfigs = UNTUNED,
) -> Plan:
    """The plan of one step on an adapter.

    Raises `LimitError`, which names the value that does not fit the adapter, and `ValueError` if
    the graph updates what it does not declare.
    """
    assembly = _assembly(graph, Target(limits, style, choices.configs, choices.fusing_of(graph)))
    concern = _concern(choices, graph, assembly.graph)
    return replace(assembly.plan(), choices=choices.name if concern else "")


def plan_memory(
    graph: Graph,
    limits: DeviceLimits,
    style: Style = Style.GPU,
    choices: TunedConfigs = UNTUNED,
) -> StepMemory:
    """Returns the memory of `plan_graph`'s buffers by role, without writing a kernel.

    Raises as `plan_graph`, but for kernels of too many tensors.
    """
    target = Target(limits, style, choices.configs, choices.fusing_of(graph))
    return _assembly(graph, target).memory()


def _assembly(graph: Graph, target: Target) -> "_Assembly":
    """A graph that is lowered, fused and scheduled."""
    _require_declared(graph)
    lowered = run_passes(graph, target)
    stored = materialized_values(lowered, target)
    halves = values_in_halves(lowered, target)
    for excess in excesses_of(lowered, stored, target.limits, halves):
        raise excess
    ordered = list_schedule(lowered, fuse(lowered, stored, target))
    return _Assembly(lowered, horizontal_fusion(lowered, ordered, target), target, halves)


def _require_declared(graph: Graph) -> None:
    declared = {value.op.name for value in graph.values if isinstance(value.op, Leaf)}
    for name in graph.updates:
        if name not in declared:
            raise ValueError(f"the graph updates `{name}`, which it does not declare")


def _concern(choices: TunedConfigs, graph: Graph, lowered: Graph) -> bool:
    """True if choices speak of a graph, or of a contraction that it has once it is lowered."""
    if choices.fusing_of(graph) != DEFAULT_FUSION:
        return True
    return bool(choices.configs) and any(
        contraction_of(value).name in choices.configs
        for value in lowered.values
        if is_contraction(value)
    )


def excesses(graph: Graph, limits: DeviceLimits, style: Style = Style.GPU) -> list[LimitError]:
    """Every value in memory that does not fit an adapter; `plan_graph` raises the first of them."""
    target = Target(limits, style)
    lowered = run_passes(graph, target)
    stored, halves = materialized_values(lowered, target), values_in_halves(lowered, target)
    return list(excesses_of(lowered, stored, limits, halves))


def _move(loop: LoopSchedule, moved: Moved) -> Move:
    of = moved.of
    if moved.axis < 0:
        return Move(moved.source, moved.target, element_count(of), of.dtype)
    inner = prod(concrete_shape(of.shape[moved.axis :]))
    return Move(moved.source, moved.target, element_count(of), of.dtype, inner, loop.iterations)


class _Assembly:
    """Puts a plan together, once it is known which kernels run in what order."""

    def __init__(
        self, graph: Graph, ordered: Schedule, target: Target, halves: frozenset[int]
    ) -> None:
        """`halves` are the values that memory holds in f16, by id."""
        self.graph = graph
        self._halves = halves
        self._order = ordered
        self._target = target
        self._buffers: list[Buffer] = []
        self._slots: dict[int, Slot] = {}
        self._leaves = {
            value.op.name: value for value in graph.values if isinstance(value.op, Leaf)
        }
        self._texts: dict[str, int] = {}
        self._kernels = KernelCache(partial(write_kernel, target))
        self._dispatches: list[Dispatch] = []
        self._loops: list[DispatchLoop] = []

    def plan(self) -> Plan:
        """Everything placed, every kernel written."""
        tensors = self._tensors()
        kernels = self._scheduled(tensors)
        temporaries = self._allocate_all(kernels)
        inputs, parameters = self._sorted_leaves()
        updates = {value.id for value in self.graph.updates.values()}
        self._run(kernels, self._order.launches, tensors, updates)
        return Plan(
            style=self._target.style,
            buffers=tuple(self._buffers),
            kernels=tuple(self._texts),
            dispatches=tuple(self._dispatches),
            copies=tuple(self._copies()),
            inputs=self._named(inputs),
            parameters=self._named(parameters),
            outputs=self._named(self.graph.outputs),
            least_bytes=least_bytes(temporaries),
            loops=tuple(self._loops),
        )

    def memory(self) -> StepMemory:
        """The bytes of all buffers, by the roles of the tensors at the fullest moment of a step."""
        temporaries = self._allocate_all(self._scheduled(self._tensors()))
        at = fullest(temporaries) if temporaries else 0
        shared = [one for one in temporaries if one.first <= at <= one.last]
        alive = {one.tensor for one in shared}
        alive |= self._slots.keys() - {one.tensor for one in temporaries}
        there = [
            (value, self._byte_size(value)) for value in self.graph.values if value.id in alive
        ]
        roles = Counter(sum_by_role(self.graph, there))
        # What a loop computes in its iterations is no value of the graph.
        in_loops = sum(one.bytes for one in shared if one.tensor >= LOOP_TENSORS)
        roles[MemoryRole.ACTIVATIONS] += in_loops
        total = sum(buffer.bytes for buffer in self._buffers)
        return StepMemory({**roles, MemoryRole.PADDING: total - roles.total()}, total)

    def _allocate_all(self, kernels: Sequence[FusedKernel | LoopSchedule]) -> list[Lifetime]:
        """Give every tensor its slot; the lifetimes of those that share memory."""
        inputs, parameters = self._sorted_leaves()
        self._allocate_forever(Role.PARAMETERS, parameters.values())
        self._allocate_forever(Role.INPUTS, inputs.values())
        self._allocate_forever(Role.OUTPUTS, self.graph.outputs.values())
        temporaries = self._lifetimes(kernels)
        self._allocate(Role.TEMPORARIES, temporaries)
        return temporaries

    def _tensors(self) -> dict[int, int]:
        """The tensor that each stored value lies in."""
        return {value: self._tensor(value) for value in self._stored()}

    def _scheduled(self, tensors: Mapping[int, int]) -> list[FusedKernel | LoopSchedule]:
        """The kernels in order, those of loops with what they run."""
        fresh, found = count(LOOP_TENSORS), list[FusedKernel | LoopSchedule]()
        for one in self._order.kernels:
            if not one.work.anchors or not is_loop(one.work.anchors[0]):
                found.append(one)
                continue
            loop = LoopScheduler(one, tensors, fresh, self._target).schedule()
            for excess in excesses_of_loop(loop, self._target.limits):
                raise excess
            found.append(loop)
        return found

    def _sorted_leaves(self) -> tuple[dict[str, Value], dict[str, Value]]:
        """The inputs, and the parameters and states."""
        inputs = {n: v for n, v in self._leaves.items() if isinstance(v.op, Input)}
        return inputs, {n: v for n, v in self._leaves.items() if n not in inputs}

    def _tensor(self, value: int) -> int:
        """The tensor a value lies in: its own, or that of the parameter it overwrites."""
        return self._order.in_place.get(value, value)

    def _stored(self) -> list[int]:
        stored = [value.id for one in self._order.kernels for value in one.work.stores]
        return [value.id for value in self._leaves.values()] + stored

    def _allocate_forever(self, role: Role, values: Iterable[Value]) -> None:
        self._allocate(role, [Lifetime(value.id, self._byte_size(value), 0, 0) for value in values])

    def _byte_size(self, value: Value) -> int:
        return byte_size(value, self._halves)

    def _allocate(self, role: Role, lifetimes: Sequence[Lifetime]) -> None:
        limits = self._target.limits
        placement = assign_offsets(lifetimes, limits.offset_alignment, limits.buffer_bytes)
        first = len(self._buffers)
        self._buffers.extend(Buffer(role, size) for size in placement.buffers)
        for tensor, slot in placement.slots.items():
            self._slots[tensor] = Slot(first + slot.buffer, slot.offset, slot.bytes)

    def _lifetimes(self, scheduled: Sequence[FusedKernel | LoopSchedule]) -> list[Lifetime]:
        """Returns lifetimes of temporaries.

        From the first launch to the last reader or the copies.
        """
        kernels, launches = self._order.kernels, self._order.launches
        inside = [
            Lifetime(tensor, size, step, step)
            for step, one in zip(launches, scheduled, strict=True)
            if isinstance(one, LoopSchedule)
            for tensor, size in one.temporaries
        ]
        steps = list(zip(launches, kernels, strict=True))
        last = {read: step for step, one in steps for read in one.reads}
        last |= {
            value.id: len(kernels)
            for value in self.graph.updates.values()
            if value.id not in self._order.in_place
        }
        stored = [
            Lifetime(value.id, self._byte_size(value), step, last.get(value.id, step))
            for step, one in steps
            for value in one.work.stores
            if value.id not in self._slots and value.id not in self._order.in_place
        ]
        return stored + inside

    def _run(
        self,
        kernels: Sequence[FusedKernel | LoopSchedule],
        launches: Sequence[int],
        tensors: Mapping[int, int],
        updates: Collection[int] = (),
        flags: Sequence[int] = (),
    ) -> None:
        """Dispatch kernels in order, those of one launch side by side.

        They do nothing where any of the flags, which are tensors, is false.
        """
        for _, numbers in groupby(range(len(kernels)), key=launches.__getitem__):
            together = list[FusedKernel]()
            for number in numbers:
                one = kernels[number]
                if isinstance(one, LoopSchedule):
                    self._run_loop(one, flags)
                else:
                    together.append(one)
            self._dispatches += self._launched(together, tensors, updates, flags)

    def _run_loop(self, loop: LoopSchedule, flags: Sequence[int]) -> None:
        start, inside = {loop.counter: str(loop.first)}, flags
        if loop.going is not None:
            start, inside = {**start, loop.going: "1u"}, (*flags, loop.going)
        self._move(loop, "begin", loop.starts, start, flags)
        first = len(self._dispatches)
        self._run(loop.kernels, loop.launches, loop.tensors, flags=inside)
        if loop.slices:
            self._move(loop, "slices", loop.slices, {}, flags)
        self._move(loop, "end", loop.carries, {loop.counter: f"{{}} + {loop.step}"}, flags)
        self._loops.append(DispatchLoop(first, len(self._dispatches), loop.iterations))

    def _move(
        self,
        loop: LoopSchedule,
        word: str,
        moves: Sequence[Moved],
        words: Mapping[int, str],
        flags: Sequence[int],
    ) -> None:
        """Dispatch what moves tensors, and then sets words, as many at once as can be."""
        beside = max(1, len(words)) + len(flags)
        self._require_buffers(loop.value, 2 * bool(moves) + beside)
        most = (self._target.limits.storage_buffers - beside) // 2
        groups = [moves[at : at + most] for at in range(0, len(moves), most)] or [moves]
        for group in groups:
            setting = words if group is groups[-1] else dict[int, str]()
            moved = tuple(_move(loop, each) for each in group)
            written = {self._slots[each.target].buffer for each in moved}
            written |= {self._slots[tensor].buffer for tensor in setting}
            access = partial(self._access, written=written)
            kernel = move_kernel(moved, loop.counter, setting, access, self._target)
            kernel = guarded(kernel, flags, access)
            self._dispatches.append(
                Dispatch(
                    name=f"scan {word}",
                    kind="scan",
                    origin=str(loop.value.origin),
                    kernel=self._texts.setdefault(kernel.shader.text, len(self._texts)),
                    slots=tuple(self._slots[tensor] for tensor in kernel.tensors),
                    workgroups=kernel.workgroups,
                    flops=0,
                    bytes=2 * sum(size_in_bytes(each.of) for each in group),
                )
            )

    def _access(self, tensor: int, *, written: Collection[int]) -> str:
        return "read_write" if self._slots[tensor].buffer in written else "read"

    def _launched(
        self,
        together: Sequence[FusedKernel],
        tensors: Mapping[int, int],
        updates: Collection[int],
        flags: Sequence[int],
    ) -> Iterator[Dispatch]:
        """The dispatches of a launch: as few as the kernels' workgroups allow."""
        memory = self._memory([one.work for one in together], tensors)
        single = [self._one(one, memory, updates, flags) for one in together]
        groups = merged_kernels([kernel for kernel, _ in single], self._target.limits)
        for group in groups:
            kernel, first = single[group[0]]
            if len(group) > 1:
                kernel = merged_kernel([single[position][0] for position in group])
            kernel = guarded(kernel, flags, memory.access)
            yield replace(
                first,
                name=SIDE_BY_SIDE.join(single[position][1].name for position in group),
                kernel=self._texts.setdefault(kernel.shader.text, len(self._texts)),
                slots=tuple(self._slots[tensor] for tensor in kernel.tensors),
                workgroups=kernel.workgroups,
                flops=sum(single[position][1].flops for position in group),
                bytes=sum(single[position][1].bytes for position in group),
            )

    def _one(
        self, one: FusedKernel, memory: Memory, updates: Collection[int], flags: Sequence[int]
    ) -> tuple[Kernel, Dispatch]:
        """A kernel by itself, before it reads flags, and what there is to say of its dispatch."""
        work, computed = one.work, computed_values(one)
        kernel = self._kernels.kernel(work, computed, memory)
        in_parts = writes_parts(work, memory)
        stored = (*work.anchors, *work.stores)
        self._require_buffers(stored[0], len(kernel.tensors) + len(flags))
        title = kernel_name(work, computed, updates)
        return kernel, Dispatch(
            name=str(title),
            kind=title.kind,
            origin=str(stored[0].origin),
            kernel=-1,
            slots=(),
            workgroups=kernel.workgroups,
            flops=kernel_flops(computed),
            bytes=2 * part_bytes(work) if in_parts else bytes_accessed(one, computed, memory),
        )

    def _require_buffers(self, value: Value, needed: int) -> None:
        """Refuse a kernel that has to bind more tensors than the adapter allows."""
        allowed = self._target.limits.storage_buffers
        if needed > allowed:
            limit = "max-storage-buffers-per-shader-stage"
            raise LimitError(value, limit, f"{needed} tensors in one kernel", str(allowed))

    def _memory(self, works: Sequence[Work], tensors: Mapping[int, int]) -> Memory:
        """Returns the memory of values for a launch, which writes only what is bound so."""
        written = {self._slots[tensors[value.id]].buffer for work in works for value in work.stores}
        access = partial(self._access, written=written)
        return Memory(tensors, access, lambda tensor: self._slots[tensor].bytes, self._halves)

    def _copies(self) -> Iterable[Copy]:
        for name, value in self.graph.updates.items():
            if value.id not in self._order.in_place:
                yield Copy(self._slots[value.id], self._slots[self._leaves[name].id])

    def _named(self, values: Mapping[str, Value]) -> tuple[PlanTensor, ...]:
        return tuple(
            PlanTensor(
                name,
                v.type.dtype,
                concrete_shape(v.type.shape),
                self._slots[self._tensor(v.id)],
                CheckedIndex(name.dtype, name.below, name.location)
                if isinstance(name, IndexCheck)
                else None,
            )
            for name, v in values.items()
        )
