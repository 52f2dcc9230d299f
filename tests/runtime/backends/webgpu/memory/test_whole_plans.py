"""Plans walked through: each kernel finds in memory what it is to read, and a step leaves it right.

Of every range of a buffer it is known which value lies there. Kernels read and write in the order
of their launches, those of one launch in any order.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random

import pytest
from hypothesis import given, settings

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value
from meganeura_dsl.ir.ops import (
    Add,
    Constant,
    DynamicUpdate,
    Exp,
    Input,
    MatMul,
    Mul,
    Parameter,
    Reshape,
    Reverse,
    Sum,
    Tanh,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.plan import Dispatch, Plan, Role, Slot
from meganeura_runtime.backends.webgpu.schedule import compile as compiling
from meganeura_runtime.backends.webgpu.schedule.compile import SIDE_BY_SIDE
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel
from meganeura_runtime.backends.webgpu.schedule.loop_schedule import LoopSchedule
from tests.effort import effort
from tests.runtime.backends.webgpu.schedule.graphs import Example, examples
from tests.runtime.backends.webgpu.schedule.test_rewritten import TRAINS
from tests.scans import NESTED, forward

LARGE = DeviceLimits(storage_buffers=64, invocations=1024, workgroup_bytes=48 << 10)
TARGETS: Mapping[str, Target] = {
    "GPU": Target(DeviceLimits()),
    "large GPU": Target(LARGE),
    "GPU that binds little": Target(replace(LARGE, storage_buffers=4, buffer_bytes=1 << 20)),
    "software": Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
}


@dataclass
class Memory:
    """The value in each range of a buffer."""

    held: dict[Slot, int | str] = field(default_factory=dict[Slot, "int | str"])

    def write(self, slot: Slot, what: int | str) -> None:
        """A range has another value; whatever lay there, or partly there, is lost."""
        self.held = {each: old for each, old in self.held.items() if not _overlap(each, slot)}
        self.held[slot] = what

    def require(self, slot: Slot, value: int, why: str) -> None:
        found = self.held.get(slot)
        assert found == value, f"{why}: {slot} holds {found}, not {value}"


def _overlap(one: Slot, other: Slot) -> bool:
    return one.buffer == other.buffer and one.offset < other.end and other.offset < one.end


class Walk:
    """A plan, and what is known of it beyond what it says."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.assembly = compiling._assembly(graph, target)
        self.order = self.assembly._order
        self.graph = self.assembly.graph
        scheduled = self.assembly._scheduled(self.assembly._tensors())
        self.assembly._allocate_all(scheduled)
        self.slots = self.assembly._slots
        self.scheduled = scheduled
        self.leaves = [value for value in self.graph.values if isinstance(value.op, Leaf)]
        self.stored = {value.id for one in self.order.kernels for value in one.work.stores}

    def slot(self, value: Value) -> Slot:
        return self.slots[self.order.in_place.get(value.id, value.id)]

    def reads(self, kernel: FusedKernel) -> list[Value]:
        """The leaves, and what other kernels made, that a kernel's results are computed from."""
        made = {value.id for value in kernel.work.stores}
        found: dict[int, Value] = {}
        seen = set[int]()
        stack = [*kernel.work.anchors, *kernel.work.stores]
        while stack:
            for operand in stack.pop().operands:
                elsewhere = isinstance(operand.op, Leaf) or operand.id in self.stored - made
                if elsewhere:
                    found[operand.id] = operand
                elif operand.id not in seen:
                    seen.add(operand.id)
                    stack.append(operand)
        return list(found.values())

    def launches(self) -> Iterator[list[tuple[FusedKernel, FusedKernel | LoopSchedule]]]:
        pairs = zip(self.order.kernels, self.scheduled, strict=True)
        numbered = zip(self.order.launches, pairs, strict=True)
        assert list(self.order.launches) == sorted(self.order.launches)
        for _, together in groupby(numbered, key=lambda each: each[0]):
            yield [pair for _, pair in together]

    def check(self) -> None:
        """Walk through the step."""
        memory = Memory()
        for leaf in self.leaves:
            memory.write(self.slot(leaf), leaf.id)
        assert len(memory.held) == len(self.leaves), "leaves overlap"
        for together in self.launches():
            self.launch(memory, together)
        self.end(memory)

    def launch(
        self, memory: Memory, together: Sequence[tuple[FusedKernel, FusedKernel | LoopSchedule]]
    ) -> None:
        written: list[tuple[int, Slot, int | str]] = []
        for number, (one, scheduled) in enumerate(together):
            written += [(number, self.slot(value), value.id) for value in one.work.stores]
            if isinstance(scheduled, LoopSchedule):
                assert len(together) == 1, "what runs beside a loop would run in its iterations"
                inside = [self.slots[tensor] for tensor, _ in scheduled.temporaries]
                written += [(number, slot, "of a loop") for slot in inside]
        for position, (_, slot, _) in enumerate(written):
            for _, other, _ in written[position + 1 :]:
                assert not _overlap(slot, other), "two results of a launch overlap"
        for number, (one, _) in enumerate(together):
            for value in self.reads(one):
                slot = self.slot(value)
                memory.require(slot, value.id, f"{value.op} is read")
                for writer, target, what in written:
                    if _overlap(slot, target):
                        assert writer == number, "a kernel writes what another beside it reads"
                        assert slot == target
                        assert self.order.in_place.get(int(what)) == value.id
                        assert value.id not in one.elsewhere, "it is read after it is written"
        for _, slot, what in written:
            memory.write(slot, what)

    def end(self, memory: Memory) -> None:
        """Copies are made, and then all has the value of the next step."""
        copied = list(self.assembly._copies())
        leaves = {value.op.name: value for value in self.leaves if isinstance(value.op, Leaf)}
        for copy in copied:
            assert copy.source.bytes == copy.target.bytes
            memory.write(copy.target, memory.held[copy.source])
        for name, leaf in leaves.items():
            after = self.graph.updates.get(name, leaf)
            memory.require(self.slot(leaf), after.id, f"`{name}` after the step")
        for name, value in self.graph.outputs.items():
            memory.require(self.slot(value), value.id, f"output `{name}`")


def bindings(plan: Plan, dispatch: Dispatch) -> list[tuple[Slot, bool]]:
    """Each range that a dispatch is bound to, and whether it may be written."""
    text = plan.kernels[dispatch.kernel]
    access = re.findall(r"@binding\(\d+\) var<storage, (read|read_write)>", text)
    return [(slot, way == "read_write") for slot, way in zip(dispatch.slots, access, strict=True)]


def check_bindings(walk: Walk) -> None:
    """Launches without loops are bound to what they read and write, and to nothing else."""
    plan = walk.assembly.plan()
    dispatches = iter(plan.dispatches)
    for together in walk.launches():
        bound: dict[Slot, bool] = {}
        left = len(together)
        while left:
            dispatch = next(dispatches)
            left -= dispatch.name.count(SIDE_BY_SIDE) + 1
            found = bindings(plan, dispatch)
            for slot, writes in found:
                bound[slot] = bound.get(slot, False) or writes
                beside = {way for other, way in found if other.buffer == slot.buffer}
                assert len(beside) == 1, "a dispatch has one way to use a buffer"
        stores = {walk.slot(value) for one, _ in together for value in one.work.stores}
        reads = {walk.slot(value) for one, _ in together for value in walk.reads(one)}
        assert stores <= bound.keys() <= stores | reads
        assert all(bound[slot] for slot in stores)
        roles = {plan.buffers[slot.buffer].role for slot in stores}
        assert Role.INPUTS not in roles
    assert next(dispatches, None) is None


SOME = ["digits_cnn"]
ADAM = TrainingSettings(Adam(1e-3), clip_norm=1.0)


@pytest.mark.parametrize("name", effort(SOME, list(TRAINS)))
def test_a_training_step_finds_in_memory_what_it_reads(name: str) -> None:
    program = pipeline.load(name)
    sizes = {"batch": 2}
    made = pipeline.elaborate_train(program, TRAINS[name], sizes=sizes, training=True)
    step = training_step(made.graph, ADAM)
    for target in TARGETS.values():
        Walk(step, target).check()


@pytest.mark.parametrize("name", effort(["large GPU"], ["GPU", "large GPU", "software"]))
def test_a_launch_is_bound_to_what_it_reads_and_writes(name: str) -> None:
    made = pipeline.elaborate_train(pipeline.load("lm"), "text", sizes={"batch": 2}, training=True)
    check_bindings(Walk(training_step(made.graph, ADAM), TARGETS[name]))


@pytest.mark.parametrize("name", TARGETS)
def test_loops_have_memory_of_their_own(name: str) -> None:
    Walk(forward(NESTED), TARGETS[name]).check()


SIDE = 4


def random_updates(random: Random) -> Graph:
    """Parameters, updated from each other, from their own parts, and after others have read them.

    Most are small, so that kernels share launches.
    """
    build = Builder()
    square = (SIDE, SIDE)
    names = [f"p{number}" for number in range(random.randint(2, 5))]
    leaves = {name: build.add(Parameter(name, DType.F32, square, "state")) for name in names}
    row = build.add(Input("row", DType.F32, (1, SIDE)))
    values = [*leaves.values(), build.add(Input("x", DType.F32, square))]
    starts = [build.add(Constant(number, DType.I32)) for number in (0, 1, 3)]

    def grown() -> Value:
        x, y = random.choice(values), random.choice(values[-4:])
        match random.randrange(9):
            case 0 | 1:
                return build.add(random.choice((Add(), Mul())), x, y)
            case 2 | 3:
                return build.add(MatMul(), x, y)
            case 4:
                return build.add(random.choice((Tanh(), Exp())), y)
            case 5:
                return build.add(random.choice((Reverse((0,)), Transpose((1, 0)))), y)
            case 6:
                return build.add(Broadcast(square, (random.randrange(2),)), build.add(Sum((1,)), y))
            case _:
                place = random.choice(starts), starts[0]
                part = random.choice((row, build.add(Tanh(), row)))
                return build.add(DynamicUpdate(), random.choice([*leaves.values()]), part, *place)

    for _ in range(random.randint(1, 12)):
        value = grown()
        values.append(value)
    updated = random.sample(names, random.randint(1, len(names)))
    updates = {name: random.choice(values) for name in updated}
    for name in updated:
        if random.random() < 0.4:
            place = random.choice(starts), starts[0]
            part = random.choice((row, build.add(Exp(), row)))
            updates[name] = build.add(DynamicUpdate(), leaves[name], part, *place)
    outputs = {f"y{n}": random.choice(values) for n in range(random.randrange(3))}
    return build.graph(outputs, updates)


def test_random_updates_are_made_when_nobody_reads_the_old_value_any_more() -> None:
    """Many of them in place, and some that have to be copied at the end of the step."""
    copied = in_place = 0
    seeds = effort(40, 20_000)
    for seed in range(seeds):
        graph = random_updates(Random(seed))
        for target in TARGETS.values():
            walk = Walk(graph, target)
            walk.check()
            copied += len(list(walk.assembly._copies()))
            in_place += len(walk.order.in_place)
    assert copied > seeds / 3
    assert in_place > 3 * seeds


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_kernel_comes_to_wait_for_its_readers_wait_for(name: str) -> None:
    """A product waits for a kernel that a later value joins, and that one for a kernel before it.

    What reads the product may not join this: they would wait for each other in a circle.
    """
    build = Builder()
    large = (64, 80)
    x, z = (build.add(Input(name, DType.F32, large)) for name in "xz")
    first = build.add(Tanh(), x)
    product = build.add(MatMul(), first, build.add(Input("w", DType.F32, (80, 1))))
    other = build.add(Exp(), z)
    joined = build.add(Add(), x, build.add(Reverse((0,)), other))
    rows = build.add(Broadcast(large, (0,)), build.add(Reshape((64,)), product))
    last = build.add(Mul(), z, rows)
    values = {"first": first, "product": product, "other": other, "joined": joined, "last": last}
    Walk(build.graph(values), TARGETS[name]).check()


@given(examples())
@settings(max_examples=effort(15, 40))
def test_random_graphs_find_in_memory_what_they_read(example: Example) -> None:
    for target in TARGETS.values():
        Walk(example.graph, target).check()
