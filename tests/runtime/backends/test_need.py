"""The memory of a step is known before it runs, and reported if there is not so much."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Exp,
    Input,
    Log,
    Mul,
    Parameter,
    Scan,
    Sqrt,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.leaf import Kind
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Region
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.testing import GraphExample, graphs
from meganeura_runtime.backends import memory_estimate
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import TooLittleMemory
from meganeura_runtime.backends.errors import OutOfMemoryError
from meganeura_runtime.backends.memory_estimate import (
    MemoryEstimate,
    MemoryExceededError,
    estimate_memory,
    gigabytes,
    stored_bytes,
)
from meganeura_runtime.backends.memory_roles import MemoryRole, roles_of
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.device.device import Buffer, Device
from meganeura_runtime.backends.webgpu.memory.memory_usage import memory_of_plan
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph, plan_memory
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.step_memory import step_memory
from meganeura_runtime.train.spec.step_graphs import step_of
from meganeura_runtime.train.spec.train_spec import settings_of
from tests.effort import effort


def chain(batch: int) -> Graph:
    """exp(exp(x) w), summed: two values of the batch are alive at once, and the weights."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (batch, 1000)))
    w = build.add(Parameter("w", DType.F32, (1000,), "param"))
    spread = build.add(Broadcast((batch, 1000), (1,)), w)
    y = build.add(Exp(), build.add(Mul(), build.add(Exp(), x), spread))
    return build.graph({"loss": build.add(Sum((0, 1)), y)}, {"w": build.add(Add(), w, w)})


def test_a_value_counts_from_its_computation_to_its_last_use() -> None:
    found = estimate_memory(chain(10))
    assert found.persistent == 4000
    assert found.bytes == 4000 + 3 * 40_000  # the weights, the input, an op's operand and result
    assert found.largest[0].startswith("0.0 MB: `")
    twice = estimate_memory(chain(20))
    assert twice.bytes - twice.persistent == 2 * (found.bytes - found.persistent)


def test_the_iterations_of_a_loop_count() -> None:
    build = Builder()
    start = build.add(Input("h", DType.F32, (1000,)))
    x = build.add(Input("x", DType.F32, (5, 1000)))
    region = Region(build, 5)
    leaf = region.leaf(start.type)
    added = build.add(Add(), build.add(Exp(), leaf), region.slice(x, 0, backward=False))
    attributes, operands = region.close([Carry(leaf, start, added)], [], backward=False)
    graph = build.graph({"y": build.add(Scan(*attributes), *operands)})
    given = 4000 + 20_000
    # The result, which is the last carry, and in an iteration the exponential and what it becomes.
    assert estimate_memory(graph).bytes == given + 4000 + 8000


@given(graphs(most_ops=20))
@settings(max_examples=effort(25, 600))
def test_the_fullest_moment_is_that_of_all_moments(example: GraphExample) -> None:
    """Each value is held from its computation until the last that reads it, or a view of it."""
    values = example.graph.values
    shown = dict[Value, Value]()
    for value in values:
        shown[value] = shown[value.operands[0]] if Trait.VIEW in value.op.traits else value
    leaves = {value for value in values if not value.operands}
    kept = {shown[root] for root in example.graph.roots}
    moments: list[int] = []
    for at in range(len(values)):
        computed = {shown[each] for each in values[: at + 1]}
        read = {shown[each] for value in values[at:] for each in (value, *value.operands)}
        moments.append(sum(map(stored_bytes, leaves | computed & (read | kept))))
    assert estimate_memory(example.graph).bytes == max(moments)


def test_the_count_is_what_numpy_allocates() -> None:
    graph = chain(1000)
    feeds = {"x": np.ones((1000, 1000), np.float32)}
    tracemalloc.start()
    try:
        with ReferenceSession(graph) as session:
            session.write("w", np.ones(1000, np.float32))
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            session.step(feeds)
            taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    given = feeds["x"].nbytes + 4000
    assert estimate_memory(graph).bytes - given == pytest.approx(taken, rel=0.01)


@pytest.mark.parametrize(("count", "spread"), [(10, 0), (1_000_000, 0), (20_000_001, 1)])
def test_the_buffers_and_dispatches_of_a_step_are_counted(count: int, spread: int) -> None:
    """Of an odd number of elements 256 are done by a workgroup, else 1,024."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (count,)))
    graph = build.graph({"y": build.add(Exp(), x)})
    found, plan = step_memory(graph, PORTABLE), plan_graph(graph, PORTABLE)
    assert found.bytes == sum(buffer.bytes for buffer in plan.buffers) >= 8 * count
    assert found.largest_binding >= 4 * count
    assert (found.temporaries, found.spread) == (0, spread)


def test_each_byte_has_a_role() -> None:
    found = ReferenceBackend().memory(chain(10), None)
    assert found.roles == {
        MemoryRole.INPUTS: 40_000,
        MemoryRole.PARAMETERS: 4000,
        MemoryRole.ACTIVATIONS: 80_000,
    }
    assert found.bytes == estimate_memory(chain(10)).bytes
    assert found.held == 4000


def test_roles_follow_the_graph_of_a_training_step() -> None:
    program = pipeline.load("digits_cnn")
    settings = settings_of(program, "fit")
    step = step_of(program, "fit", settings)
    roles = roles_of(step.graph)
    assert set(roles.values()) == {
        MemoryRole.PARAMETERS,
        MemoryRole.OPTIMIZER,
        MemoryRole.STATES,
        MemoryRole.INPUTS,
        MemoryRole.OUTPUTS,
        MemoryRole.ACTIVATIONS,
        MemoryRole.GRADIENTS,
        MemoryRole.UPDATES,
    }
    parameters = [v for v in step.graph.values if roles[v.id] is MemoryRole.PARAMETERS]
    moments = [v for v in step.graph.values if roles[v.id] is MemoryRole.OPTIMIZER]
    assert sum(map(stored_bytes, parameters)) == sum(map(stored_bytes, moments))  # momentum


def test_each_value_has_the_role_of_what_is_computed_from_it() -> None:
    """Operands of new states are no gradients; a new value is an update, given out or not."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    kinds: dict[str, Kind] = {
        "w": "param",
        "fixed": "frozen",
        "mean": "state",
        "seen": "cache",
        "optimizer.w.mean": "state",
    }
    kept = {name: build.add(Parameter(name, DType.F32, (3,), kind)) for name, kind in kinds.items()}
    product = build.add(Mul(), x, kept["w"])
    loss = build.add(Sum((0,)), build.add(Mul(), product, kept["fixed"]))
    counted = build.add(Exp(), build.add(Sub(), x, kept["seen"]))
    mean = build.add(Add(), kept["mean"], counted)
    seen = build.add(Add(), kept["seen"], x)
    slope = build.add(Log(), product)
    moment = build.add(Add(), kept["optimizer.w.mean"], slope)
    moved = build.add(Sub(), kept["w"], build.add(Sqrt(), moment))
    graph = build.graph(
        {"loss": loss, "seen": seen},
        {"mean": mean, "seen": seen, "w": moved, "optimizer.w.mean": moment},
    )
    found = roles_of(graph)
    roles = {
        value.op.name if isinstance(value.op, Leaf) else type(value.op).__name__: found[value.id]
        for value in graph.values
        if isinstance(value.op, Leaf | Sum | Exp | Log | Sqrt)
    }
    assert roles == {
        "x": MemoryRole.INPUTS,
        "w": MemoryRole.PARAMETERS,
        "fixed": MemoryRole.PARAMETERS,
        "mean": MemoryRole.STATES,
        "seen": MemoryRole.STATES,
        "optimizer.w.mean": MemoryRole.OPTIMIZER,
        "Sum": MemoryRole.OUTPUTS,
        "Exp": MemoryRole.ACTIVATIONS,
        "Log": MemoryRole.GRADIENTS,
        "Sqrt": MemoryRole.GRADIENTS,
    }
    assert {found[value.id] for value in graph.updates.values()} == {MemoryRole.UPDATES}


def test_the_memory_of_a_plan_is_known_before_its_kernels_are_written() -> None:
    program = pipeline.load("digits_cnn")
    graph = step_of(program, "fit", settings_of(program, "fit")).optimized.graph
    found, plan = plan_memory(graph, PORTABLE), plan_graph(graph, PORTABLE)
    assert found.bytes == found.held == sum(buffer.bytes for buffer in plan.buffers)
    kept = found.roles[MemoryRole.PARAMETERS] + found.roles[MemoryRole.OPTIMIZER]
    kept += found.roles[MemoryRole.STATES]
    assert kept <= plan.bytes_for(Role.PARAMETERS) < kept + 256 * len(plan.parameters)
    assert found.roles[MemoryRole.PADDING] < 0.1 * found.bytes


@pytest.mark.adapter
def test_a_session_allocates_what_was_said(device: Device) -> None:
    before = device.allocated
    graph = chain(100)
    with WebGpuSession(plan_graph(graph, device.limits, device.style), device) as session:
        session.ready()
        taken = device.allocated - before
    assert plan_memory(graph, device.limits, device.style).bytes == taken


def test_a_step_that_does_not_fit_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 64_000)
    with pytest.raises(ProblemError, match="E0554") as caught, explained_failures(("batch", 10)):
        ReferenceSession(chain(10))
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.needed == "0.1 MB"
    assert problem.change == "--set batch=5"
    ReferenceSession(chain(5))
    with pytest.raises(MemoryExceededError, match=r"a step takes 0\.1 MB of memory"):
        ReferenceSession(chain(6))


def test_where_not_even_the_parameters_fit_no_batch_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 3000)
    with pytest.raises(ProblemError) as caught, explained_failures(("batch", 10)):
        ReferenceSession(chain(10))
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.change is None
    assert "even without a batch" in problem.cure


@pytest.mark.parametrize(
    ("step", "kept", "available", "batch", "cure"),
    [
        (100, 20, 60, 8, "about so large a batch would fit: --set batch=4"),
        (100, 20, 30, 8, "about so large a batch would fit: --set batch=1"),
        (100, 20, 29, 8, "a smaller batch takes less"),
        (100, 20, 60, None, "a smaller batch takes less"),
        (100, 20, 20, 8, "even without a batch, its parameters would not fit"),
        (100, 20, 10, 8, "even without a batch, its parameters would not fit"),
        (100, 100, 99, 8, "even without a batch, its parameters would not fit"),
        (4e9, 1e9, None, 8, "half the batch would take about 2.5 GB"),
    ],
)
def test_the_batch_that_would_fit_is_offered(
    step: int, kept: int, available: int | None, batch: int | None, cure: str
) -> None:
    """The kept memory does not depend on the batch."""
    need = MemoryEstimate(int(step), int(kept), ())
    error = MemoryExceededError(need, available)
    problem = TooLittleMemory.of(error, None if batch is None else ("batch", batch))
    offered = "" if problem.change is None else f": {problem.change}"
    assert problem.cure + offered == cure


def test_a_run_that_cannot_keep_to_what_is_stated_is_told_so() -> None:
    said = TooLittleMemory.beyond(100_000_000, 300_000_000).report()
    assert said.headline == "a run takes 0.3 GB of memory, and `memory` is 0.1 GB"


def test_no_more_than_the_whole_batch_fits() -> None:
    assert MemoryEstimate(100, 20, ()).share(100) == MemoryEstimate(100, 20, ()).share(999) == 1
    assert MemoryEstimate(100, 100, ()).share(101) == 1


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0.0 MB"),
        (99_940_000, "99.9 MB"),
        (100_000_000, "0.1 GB"),
        (1_960_000_000, "2.0 GB"),
        (1_234_500_000_000, "1,234.5 GB"),
    ],
)
def test_sizes_are_told_in_one_unit_or_the_other(size: int, shown: str) -> None:
    assert gigabytes(size) == shown


def test_the_system_says_what_is_free_or_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "meminfo"
    monkeypatch.setattr(memory_estimate, "MEMORY", told)
    assert memory_estimate.available_bytes() is None
    ReferenceSession(chain(10))
    told.write_text("MemTotal:  2000 kB\nMemAvailable:  124 kB\n")
    assert memory_estimate.available_bytes() == 124 * 1024
    ReferenceSession(chain(10))
    told.write_text("MemTotal:  2000 kB\n")
    assert memory_estimate.available_bytes() is None


@pytest.mark.adapter
def test_a_device_without_memory_left_names_what_takes_it(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_graph(chain(10), device.limits, device.style)
    right, before = Device.allocate, device.allocated

    def allocate(self: Device, size: int) -> Buffer:
        if size >= 40_000:
            raise OutOfMemoryError("out of memory")
        return right(self, size)

    monkeypatch.setattr(Device, "allocate", allocate)
    with pytest.raises(ProblemError, match="E0554") as caught, explained_failures(("batch", 10)):
        WebGpuSession(plan, device).ready()
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.available == ""
    assert problem.cure.startswith("half the batch would take about 0.0 MB")
    assert problem.largest == memory_of_plan(plan).largest
    assert device.allocated == before
