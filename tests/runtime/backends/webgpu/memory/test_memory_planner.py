"""The memory plan: nothing that is alive is overwritten, and little is wasted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Exp, Input, MatMul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.memory_roles import MemoryRole
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.memory.memory_planner import (
    Lifetime,
    assign_offsets,
    least_bytes,
)
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph, plan_memory


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    count = draw(st.integers(1, 30))
    result: list[Lifetime] = []
    for tensor in range(count):
        first = draw(st.integers(0, 20))
        last = first + draw(st.integers(0, 8))
        result.append(Lifetime(tensor, 4 * draw(st.integers(1, 100)), first, last))
    return result


@given(lifetimes(), st.sampled_from((4, 32, 256)), st.sampled_from((400, 1000, 1 << 20)))
def test_what_is_alive_together_does_not_overlap(
    alive: list[Lifetime], alignment: int, buffer_bytes: int
) -> None:
    placement = assign_offsets(alive, alignment, buffer_bytes)
    for one in alive:
        slot = placement.slots[one.tensor]
        assert slot.bytes == one.bytes
        assert slot.offset % alignment == 0
        assert slot.end <= placement.buffers[slot.buffer]
        for other in alive:
            apart = placement.slots[other.tensor]
            if one.tensor != other.tensor and one.meets(other) and slot.buffer == apart.buffer:
                assert slot.end <= apart.offset or apart.end <= slot.offset


@given(lifetimes())
def test_no_placement_is_below_the_bound(alive: list[Lifetime]) -> None:
    assert sum(assign_offsets(alive, 4, 1 << 20).buffers) >= least_bytes(alive)


def test_the_bound_counts_what_is_alive_at_one_time() -> None:
    alive = [Lifetime(0, 100, 0, 1), Lifetime(1, 40, 1, 2), Lifetime(2, 80, 2, 3)]
    assert least_bytes(alive) == 140
    assert least_bytes([]) == 0


def test_memory_is_used_again_once_its_content_is_dead() -> None:
    alive = [Lifetime(number, 100, number, number + 1) for number in range(10)]
    assert assign_offsets(alive, 4, 1 << 20).buffers == (200,)


def test_a_second_buffer_is_begun_where_one_is_full() -> None:
    alive = [Lifetime(number, 100, 0, 9) for number in range(3)]
    assert assign_offsets(alive, 4, 250).buffers == (200, 100)


def chain(length: int) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (32, 32)))
    w = build.add(Parameter("w", DType.F32, (32, 32), "param"))
    for _ in range(length):
        x = build.add(Exp(), build.add(MatMul(), x, w))
    return build.graph({"y": x})


@pytest.mark.parametrize("length", [3, 30])
def test_a_chain_needs_two_tensors_however_long_it_is(length: int) -> None:
    plan = plan_graph(chain(length), DeviceLimits())
    assert plan.bytes_for(Role.TEMPORARIES) == plan.least_bytes == 2 * 32 * 32 * 4


def test_all_that_is_alive_at_the_fullest_moment_has_a_role() -> None:
    """At the second product both its operand, which is read for the last time, and its result."""
    found = plan_memory(chain(3), DeviceLimits())
    size = 32 * 32 * 4
    assert found.roles == {
        MemoryRole.PARAMETERS: size,
        MemoryRole.INPUTS: size,
        MemoryRole.OUTPUTS: size,
        MemoryRole.ACTIVATIONS: 2 * size,
        MemoryRole.PADDING: 0,
    }


def test_what_is_copied_at_the_end_is_alive_until_then() -> None:
    """A new state that later work reads too: nothing is written where it lies before the copy."""
    build = Builder()
    state = build.add(Parameter("state", DType.F32, (32, 32), "state"))
    new = y = build.add(MatMul(), state, state)
    for _ in range(4):
        y = build.add(MatMul(), y, state)
    plan = plan_graph(build.graph({"y": y}, {"state": new}), DeviceLimits())
    (copy,) = plan.copies
    written = [dispatch.slots[-1] for dispatch in plan.dispatches]
    assert written.count(copy.source) == 1


def test_slots_of_a_dispatch_do_not_overlap() -> None:
    plan = plan_graph(chain(5), DeviceLimits())
    for dispatch in plan.dispatches:
        places = sorted((slot.buffer, slot.offset, slot.end) for slot in dispatch.slots)
        for (buffer, _, end), (other, start, _) in pairwise(places):
            assert buffer != other or end <= start


def test_sizes_are_whole_words() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F16, (3,)))
    plan = plan_graph(build.graph({"y": build.add(Exp(), x)}), DeviceLimits(half_floats=True))
    assert [tensor.slot.bytes for tensor in (*plan.inputs, *plan.outputs)] == [8, 8]
