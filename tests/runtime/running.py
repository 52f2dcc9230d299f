"""Runs a graph on an adapter and by the reference, and compares what both give."""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Op
from meganeura_dsl.ir.interpreter import Results, evaluate
from meganeura_dsl.ir.ops import Input
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from tests.samples import dtype_of


def graph_of(op: Op, *operands: Array) -> tuple[Graph, dict[str, Array]]:
    """The graph of one op on inputs, and the feeds of a run."""
    build = Builder()
    feeds = {f"x{number}": operand for number, operand in enumerate(operands)}
    inputs = [build.add(Input(name, dtype_of(x), x.shape)) for name, x in feeds.items()]
    results = build.add_all(op, *inputs)
    return build.graph({f"y.{one.index}" if one.index else "y": one for one in results}), feeds


def run(
    graph: Graph,
    feeds: Mapping[str, Array],
    device: Device,
    style: Style = Style.SOFTWARE_VULKAN,
    limits: DeviceLimits | None = None,
) -> Results:
    """One step on the adapter."""
    return run_plan(plan_graph(graph, limits or device.limits, style), graph, feeds, device)


def run_plan(plan: Plan, graph: Graph, feeds: Mapping[str, Array], device: Device) -> Results:
    """One step of a plan, its temporaries poisoned before it."""
    kept = {v.op.name for v in graph.values if isinstance(v.op, Leaf) and v.op.is_persistent}
    with WebGpuSession(plan, device) as session:
        session.load({name: array for name, array in feeds.items() if name in kept})
        poison(session)
        outputs = session.step({n: array for n, array in feeds.items() if n not in kept})
        updates = {name: session.read(name) for name in graph.updates}
        untouched = kept - updates.keys()
        for name in untouched:
            np.testing.assert_array_equal(session.read(name), feeds[name])
        return Results(dict(outputs), updates)


def poison(session: WebGpuSession) -> None:
    """Fill all memory that a step must write before it reads it with NaN."""
    for number, buffer in enumerate(session.plan.buffers):
        if buffer.role in (Role.OUTPUTS, Role.TEMPORARIES):
            everything = Range(session._buffers[number], 0, buffer.bytes)
            session.device.write(everything, np.full(buffer.bytes, 0xFF, np.uint8))


def assert_as_reference(
    graph: Graph,
    feeds: Mapping[str, Array],
    device: Device,
    style: Style = Style.SOFTWARE_VULKAN,
    limits: DeviceLimits | None = None,
) -> None:
    """The adapter gives what the reference gives, in outputs and in updates."""
    assert_results(run(graph, feeds, device, style, limits), graph, feeds)


def assert_results(actual: Results, graph: Graph, feeds: Mapping[str, Array]) -> None:
    """These are the results of the reference, in outputs and in updates."""
    expected = evaluate(graph, feeds)
    fed = max((_largest(array) for array in feeds.values()), default=0)
    for name, value in expected.outputs.items():
        assert_close(actual.outputs[name], value, name, fed)
    for name, value in expected.updates.items():
        assert_close(actual.updates[name], value, name, fed)


def _largest(array: Array) -> float:
    """The largest finite size of floats; 0 for others, which are computed with exactly."""
    if not np.issubdtype(array.dtype, np.floating):
        return 0
    return float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0))


def assert_close(actual: Array, expected: Array, name: str = "", fed: float = 0) -> None:
    """Integers and bools agree exactly, floats to 2e-5 of the largest, or 2e-3 for halves.

    What is left when the largest that was fed cancels out may also be off by a few roundings of it.
    """
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), name
    if not np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_array_equal(actual, expected, name)
        return
    tolerance = 2e-3 if expected.dtype == np.float16 else 2e-5
    scale = max(_largest(expected), 1e-30)
    np.testing.assert_allclose(
        actual.astype(np.float64),
        expected.astype(np.float64),
        tolerance / 4,
        max(tolerance * scale, 1e-6 * fed),
        err_msg=name,
    )
