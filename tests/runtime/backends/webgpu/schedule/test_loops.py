"""Loops on an adapter: one submission, whatever the number of iterations, and the right numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.gradcheck.probe import fitting
from meganeura_dsl.ir.graph import Array, Builder, Graph, rebuild
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Parameter, Scan
from meganeura_dsl.pipeline import elaborate_train
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import DispatchLoop, Plan, Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.profile import profile_on
from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from tests.dsl.ir.test_stopping_loops import masked, stopping
from tests.dsl.transforms.test_checkpoint_loops import SUMMED
from tests.effort import effort
from tests.scans import NESTED, forward, numbers, program, with_gradients

LOOP = """
block Net()(x: [n, s, 4], w: [4, 4]) -> [n, s, 4]:
  h = zeros([n, 4])
  scan t in 0..s:
    h = tanh(h @ w + x[:, t])
    y[:, t] = h
  return y

model net = Net()
"""

TRAINED = """
from recurrent import gru

train fit(x: [batch, 5, 3], y: [batch, 5, 4]):
  minimize mse(x |> dropout(0.3) |> net: gru(4, backwards=true), y)
  run:
    data = "x.npz"
    batch = 2
    epochs = 1
    optimizer = adam(lr=1e-3)
"""

MATRIX_MEMORY = """
block Net(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * p] -> [n, s, heads, p])
  k = x |> k: linear(d) |> rearrange([n, s, heads * p] -> [n, s, heads, p])
  v = x |> v: linear(d) |> rearrange([n, s, heads * p] -> [n, s, heads, p])
  memory = zeros([n, heads, d // heads, d // heads])
  scan t in 0..s:
    written = insert_axis(v[:, t], 3, d // heads) * insert_axis(k[:, t], 2, d // heads)
    memory = 0.5 * memory + written
    y[:, t] = sum(memory * insert_axis(q[:, t], 2, d // heads), 3)
  return rearrange(y, [n, s, heads, p] -> [n, s, heads * p])

train fit(x: [batch, 12, 16], y: [batch, 12, 16]):
  minimize mse(x |> net: Net(2), y)
  run:
    batch = 4
    optimizer = adam(lr=1e-3)
"""
"""Linear attention: iterations read views of products, in the shape of heads."""

WITHIN = """
block Net()(x: [n, s, 16], w: [16, 16]) -> [n, 16], [s, n, 16], [s, 4]:
  state seen: [] = zeros
  h = zeros([n, 16])
  scan t in 0..s while {condition}:
    g = x[:, t]
    scan u in 0..4 while {inner}:
      g = tanh(g @ w) + softmax(g)
      r[u] = max(abs(g))
    scan _v in 0..2:
      g = sin(g @ w + x[:, t])
    h = h + g
    y[t] = h
    z[t] = r
    update seen = seen + 1
  return h + seen, y, z

model net = Net()
"""
"""Iterations of two loops, one of which stops, in a loop that stops."""

UNMASKED = """
block Net()(x: []) -> [], bool[]:
  count = x - x
  going = x > x - 1
  scan _t in 0..9:
    count = count + 1 + 0 * f32(going)
    going = count < {last}
  return count, going

model net = Net()
"""


def single(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def run(graph: Graph, device: Device, limits: DeviceLimits | None = None) -> dict[str, Array]:
    """The outputs and updates of one step, on small numbers."""
    feeds = {name: single(each) for name, each in fitting(graph, numbers(graph)).items()}
    kept = {value.op.name for value in graph.values if isinstance(value.op, Parameter)}
    plan = plan_graph(graph, limits or device.limits, device.style)
    verify_plan(plan, limits or device.limits)
    with WebGpuSession(plan, device) as session:
        session.load({name: each for name, each in feeds.items() if name in kept})
        before = device.submissions
        outputs = session.step({name: each for name, each in feeds.items() if name not in kept})
        assert device.submissions == before + 1
        found = {name: outputs[name] for name in outputs}
        return found | {
            name: each for name, each in session.persistent().items() if name in graph.updates
        }


def assert_right(graph: Graph, device: Device, limits: DeviceLimits | None = None) -> None:
    feeds = fitting(graph, numbers(graph))
    expected = evaluate(graph, feeds, Precision.DOUBLE)
    found = run(graph, device, limits)
    for name, array in {**expected.outputs, **expected.updates}.items():
        scale = max(1.0, float(np.abs(array).max()))
        np.testing.assert_allclose(found[name] / scale, array / scale, atol=2e-5, err_msg=name)


COLLECTED = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, s, 3], [n, s, 3], [n, 3]:
  h = ones([n, 3])
  g = zeros([n, 3])
  scan t in 0..s:
    before[:, t] = h
    same[:, t] = x[:, t]
    k = g
    g = h
    h = sin(k + x[:, t])
    after[:, t] = k
  return before, same, after, g

model net = Net()
"""
"""Collected values are carried or sliced ones, and carried values are passed on."""


@pytest.mark.adapter
def test_what_an_iteration_only_hands_on_is_right(device: Device) -> None:
    graph = forward(COLLECTED, n=2, s=4)
    names = [one.name for one in plan_graph(graph, PORTABLE).dispatches]
    assert names[1:] == ["scan begin", "map 2x3 + gather + sin", "scan slices", "scan end"]
    assert_right(graph, device)


CARRIED = """
block Net()(x: [n, s, 3]) -> [n, 3], [n, s, 3]:
  a = ones([n, 3])
  b = zeros([n, 3])
  c = ones([n, 3])
  d = zeros([n, 3])
  scan t in 0..s:
    last = d
    d = c + x[:, t]
    c = sin(b)
    b = a - x[:, t]
    a = cos(last + f32(t))
    y[:, t] = a
  return a + b * c - d, y

model net = Net()
"""


@pytest.mark.adapter
@pytest.mark.parametrize("buffers", [5, 8, 9])
def test_carries_are_moved_a_few_at_a_time_and_iterations_counted_once(
    device: Device, buffers: int
) -> None:
    """As few as two tensors in a kernel beside the number of the iteration."""
    graph = forward(CARRIED, n=2, s=5)
    limits = replace(device.limits, storage_buffers=buffers)
    names = [one.name for one in plan_graph(graph, limits, device.style).dispatches]
    most = (buffers - 1) // 2
    assert names.count("scan end") == -(-4 // most)
    assert_right(graph, device, limits)


HALVES = """
block Net()(x: f16[n, s, 3], y: [n, s, 3]) -> f16[n, 3], f16[n, s, 3], [n, 3]:
  h = x[:, 0]
  g = y[:, 0]
  scan t in 0..s:
    before[:, t] = h
    h = x[:, t]
    g = sin(g + y[:, t])
  return h, before, g

model net = Net()
"""


@pytest.mark.adapter
def test_halves_are_carried_as_they_are(device: Device) -> None:
    """Beside words of 32 bits, and an odd number of them."""
    graph = forward(HALVES, n=1, s=3)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        "x": generator.standard_normal((1, 3, 3)).astype(np.float16),
        "y": generator.standard_normal((1, 3, 3)).astype(np.float32),
    }
    with WebGpuSession(plan_graph(graph, device.limits, device.style), device) as session:
        found = session.step(feeds)
        for name, expected in evaluate(graph, feeds).outputs.items():
            assert found[name].dtype == expected.dtype
            np.testing.assert_allclose(found[name], expected, 1e-5, 1e-6)


@pytest.mark.adapter
def test_scans_and_their_gradients_are_right(device: Device) -> None:
    assert_right(forward(NESTED), device)
    assert_right(simplify_loops(with_gradients(forward(LOOP, n=2, s=3))), device)


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("condition", "inner"),
    [
        ("t < 2", "u < 3"),
        ("t < 0", "u < 9"),
        ("max(abs(h)) < 1.5", "u < 0"),
    ],
)
def test_iterations_that_are_left_out_change_nothing(
    device: Device, condition: str, inner: str
) -> None:
    graph = forward(WITHIN.format(condition=condition, inner=inner), n=2, s=4)
    assert set(stopping(graph)) == {True}
    assert_right(graph, device)
    found, whole = run(graph, device), run(masked(graph), device)
    for name, array in whole.items():
        np.testing.assert_array_equal(found[name], array)  # to the bit


@pytest.mark.adapter
@pytest.mark.parametrize("last", [4, 20])
def test_no_kernel_of_an_iteration_behind_the_stop_does_anything(device: Device, last: int) -> None:
    """A loop that stops counts the iterations that run, although later ones would count too."""
    graph = forward(UNMASKED.format(last=last), n=1)
    assert not any(stopping(graph))
    build = Builder()
    stops = rebuild(
        graph,
        build,
        lambda value, operands: (
            build.add_all(replace(value.op, stops=True), *operands)[value.index]
            if isinstance(value.op, Scan)
            else build.reapply(value, *operands)
        ),
    )
    assert run(stops, device)["output0"] == min(last, 9)
    assert run(graph, device)["output0"] == 9


@pytest.mark.adapter
def test_an_optimized_training_step_is_right(device: Device) -> None:
    graph = elaborate_train(program(TRAINED), sizes={"batch": 2}, training=True).graph
    settings = TrainingSettings(Adam(lr=1e-2))
    step = optimized_training_step(graph, settings, RewriteOptions()).graph
    assert_right(step, device)


def matrix_memory(s: int, d: int, *, optimized: bool) -> Graph:
    text = MATRIX_MEMORY.replace("12, 16]", f"{s}, {d}]")
    graph = elaborate_train(program(text), sizes={"batch": 4}, training=True).graph
    rules = RewriteOptions(enabled=optimized)
    return optimized_training_step(graph, TrainingSettings(Adam(lr=1e-2)), rules).graph


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize(
    ("s", "d"), effort([(12, 16)], [(5, 16), (12, 4), (12, 16), (24, 32), (64, 64)])
)
def test_what_iterations_and_others_read_in_two_shapes_is_planned(
    style: Style, s: int, d: int
) -> None:
    """A loop reads a stored reshape of a sum for others, and not the sum."""
    for optimized in (False, True):
        verify_plan(plan_graph(matrix_memory(s, d, optimized=optimized), PORTABLE, style), PORTABLE)


@pytest.mark.adapter
@pytest.mark.parametrize(("s", "d"), effort([(5, 8)], [(5, 8), (12, 16)]))
def test_a_memory_that_is_a_matrix_is_trained(device: Device, s: int, d: int) -> None:
    for optimized in (False, True):
        assert_right(matrix_memory(s, d, optimized=optimized), device)


@pytest.mark.adapter
def test_a_step_that_recomputes_iterations_is_right(device: Device) -> None:
    graph = elaborate_train(program(SUMMED), sizes={"batch": 2, "s": 9}, training=True).graph
    settings = TrainingSettings(Adam(lr=1e-2), recompute_above=0)
    assert_right(optimized_training_step(graph, settings, RewriteOptions()).graph, device)


def test_a_plan_that_recomputes_takes_memory_by_the_square_root_of_its_iterations() -> None:
    def temporaries(iterations: int, above: int | None) -> int:
        sizes = {"batch": 64, "s": iterations}
        graph = elaborate_train(program(SUMMED), sizes=sizes, training=True).graph
        step = training_step(graph, TrainingSettings(Adam(), recompute_above=above))
        plan = plan_graph(step, PORTABLE)
        return sum(each.bytes for each in plan.buffers if each.role is Role.TEMPORARIES)

    slices = 64 * 8 * 4
    assert [temporaries(iterations, None) // slices for iterations in (64, 1024)] == [260, 4100]
    assert [temporaries(iterations, 0) // slices for iterations in (64, 1024)] == [46, 149]


@pytest.mark.adapter
def test_the_profile_counts_all_iterations(device: Device) -> None:
    graph = forward(LOOP, n=2, s=7)
    plan = plan_graph(graph, device.limits, device.style)
    found = profile_on(device, graph, plan)
    products = [row for row in found.rows if row.kind == "matmul"]
    assert [row.calls for row in products] == [7]
    assert sum(row.calls for row in found.rows) == len(plan.order)


@pytest.mark.parametrize("style", Style)
def test_a_plan_does_not_grow_with_the_number_of_iterations(style: Style) -> None:
    few, many = (plan_graph(forward(LOOP, n=2, s=s), PORTABLE, style) for s in (16, 1024))
    assert len(few.kernels) == len(many.kernels)
    assert [one.name for one in few.dispatches if "scan" in one.name] == [
        one.name for one in many.dispatches if "scan" in one.name
    ]
    assert len(few.dispatches) == len(many.dispatches)
    (loop,) = many.loops
    assert loop.rounds == 1024
    assert len(many.order) == len(many.dispatches) + 1023 * (loop.last - loop.first)


def test_a_plan_with_loops_is_data_and_prints_them() -> None:
    plan = plan_graph(forward(NESTED), PORTABLE)
    assert Plan.from_json(plan.as_json()) == plan
    text = str(plan)
    assert "     3 iterations:\n" in text
    assert "scan begin" in text
    assert "scan slices" in text


def test_loops_run_one_inside_of_the_other() -> None:
    plan = plan_graph(forward(LOOP, n=2, s=3), PORTABLE)
    one, *_ = plan.dispatches
    nested = replace(
        plan,
        dispatches=(one,) * 5,
        loops=(DispatchLoop(2, 3, 2), DispatchLoop(1, 4, 3), DispatchLoop(4, 5, 2)),
    )
    assert nested.order == (0, *(1, 2, 2, 3) * 3, 4, 4)


def test_more_is_carried_than_a_kernel_binds() -> None:
    names = [f"h{number}" for number in range(9)]
    lines = [f"  {name} = full([n, 4], {number})" for number, name in enumerate(names)]
    iterations = [f"    {name} = tanh({name} + x[:, t])" for name in names]
    result = " + ".join(names)
    text = "\n".join(
        [
            "block Net()(x: [n, s, 4]) -> [n, 4]:",
            *lines,
            "  scan t in 0..s:",
            *iterations,
            f"  return {result}",
            "",
            "model net = Net()",
            "",
        ]
    )
    plan = plan_graph(forward(text, n=2, s=3), DeviceLimits(storage_buffers=8))
    assert [one.name for one in plan.dispatches].count("scan end") == 3
    verify_plan(plan, DeviceLimits(storage_buffers=8))


def stopping_within(depth: int) -> str:
    """So many loops that stop, one inside of the other."""
    loops = [f"{'  ' * (k + 1)}scan t{k} in 0..s while max(h) < 9:" for k in range(depth)]
    body = f"{'  ' * (depth + 1)}h = tanh(h)"
    head = ["block Net()(x: [n, s, 4]) -> [n, 4]:", "  h = zeros([n, 4])"]
    return "\n".join([*head, *loops, body, "  return h", "", "model net = Net()", ""])


@pytest.mark.parametrize("buffers", effort([5], [4, 5, 8]))
def test_loops_that_stop_too_deep_for_an_adapter_are_refused(buffers: int) -> None:
    """Every kernel of an iteration reads whether each loop around it goes on."""
    limits = DeviceLimits(storage_buffers=buffers)
    refused = list[int]()
    for depth in range(1, 9):
        graph = forward(stopping_within(depth), n=2, s=3)
        try:
            verify_plan(plan_graph(graph, limits), limits)
        except LimitError as error:
            refused.append(depth)
            bound = re.search(r"needs (\d+) tensors .* is (\d+)$", str(error))
            assert bound is not None
            assert int(bound[1]) > int(bound[2]) == buffers
    assert refused == [*range({4: 2, 5: 2, 8: 5}[buffers], 9)]


@pytest.mark.parametrize("count", range(5, 12))
def test_an_iteration_of_a_loop_that_stops_reads_no_more_than_its_flag_leaves(count: int) -> None:
    """With the flag, as many tensors as an adapter allows are bound to a kernel at most."""
    names = [f"x{number}" for number in range(count)]
    inputs = ", ".join(f"{name}: [n, 4]" for name in names)
    text = "\n".join(
        [
            f"block Net()(h: [n, 4], {inputs}) -> [n, 4]:",
            "  scan _t in 0..3 while max(h) < 9:",
            f"    h = {' + '.join(['h * h', *(f'{name} * h' for name in names)])}",
            "  return h",
            "",
            "model net = Net()",
            "",
        ]
    )
    limits = DeviceLimits(storage_buffers=8)
    verify_plan(plan_graph(forward(text, n=2), limits), limits)
