"""Loops that stop: no iteration after the last one that counts is run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Body, Builder, Graph, TypeRuleError, rebuild
from meganeura_dsl.ir.interpreter import Interpreter, evaluate
from meganeura_dsl.ir.ops import Input, Mul, Scan
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.unroll_loops import unroll_loops
from tests.scans import assert_same, forward, numbers, outputs, with_gradients

COUNTING = """
block Net()(x: [n, s, 2]) -> [n, 2], [n, s, 2], bool[s], [s]:
  h = ones([n, 2])
  z = full([s], 7)
  scan t in 0..s while {condition}:
    h = h + 1 / (h + abs(x[:, t]))
    y[:, {place}] = h - 3
    above[{place}] = max(h) > 2
    z[{place}] = -f32(t)
  return h, y, above, z

model net = Net()
"""

ENDLESS = """
block Net()(x: [n]) -> [n], i32[]:
  r = x
  count = i32(0 * sum(x))
  scan _t in 0..100_000_000 while max(abs(r * r - x)) > 1e-4:
    r = 0.5 * (r + x / r)
    count = count + 1
  return r, count

model net = Net()
"""
"""Newton's method, which needs a handful of iterations of very many."""


def masked(graph: Graph) -> Graph:
    """The same graph, all of whose iterations run."""
    build = Builder()
    return rebuild(
        graph,
        build,
        lambda value, operands: (
            build.add_all(replace(value.op, stops=False), *operands)[value.index]
            if isinstance(value.op, Scan)
            else build.reapply(value, *operands)
        ),
    )


def stopping(graph: Graph) -> list[bool]:
    return [value.op.stops for value in graph.values if isinstance(value.op, Scan)]


@pytest.fixture
def iterations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one for each iteration that the interpreter runs."""
    run, found = Interpreter.run_iteration, list[int]()

    def counted(
        self: Interpreter, feeds: Mapping[str, Array], outputs: Sequence[str]
    ) -> list[Array]:
        found.append(1)
        return run(self, feeds, outputs)

    monkeypatch.setattr(Interpreter, "run_iteration", counted)
    return found


@pytest.mark.parametrize("place", ["t", "s - 1 - t"])
@pytest.mark.parametrize("last", [0, 1, 3, 5, 6])
@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_iterations_behind_the_stop_are_not_run(
    iterations: list[int], place: str, last: int, *, optimized: bool
) -> None:
    graph = forward(COUNTING.format(place=place, condition=f"t < {last}"), n=2, s=5)
    graph = optimize(graph, mode="infer").graph if optimized else graph
    assert set(stopping(graph)) == {True}
    feeds = {name: each.astype(np.float32) for name, each in numbers(graph).items()}
    found = evaluate(graph, feeds).outputs
    assert len(iterations) == min(last + 1, 5)
    iterations.clear()
    expected = evaluate(masked(graph), feeds).outputs
    assert len(iterations) == 5
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)  # to the bit


def test_a_scan_that_stops_soon_takes_no_time_for_the_rest() -> None:
    found = evaluate(forward(ENDLESS, n=3), {"x": np.array([1, 2, 9], np.float32)}).outputs
    np.testing.assert_allclose(found["output0"], [1, 2**0.5, 3], rtol=1e-4)
    assert found["output1"] == 5


def test_gradients_are_those_of_the_iterations_and_finite() -> None:
    """The pullback of an iteration that does not count reads what it would have divided by."""
    text = COUNTING.format(place="t", condition="max(h) < 2")
    text = text.replace("bool[s], [s]", "[s]").replace("h, y, above, z", "h, y, z")
    graph = forward(text.replace("    above[t] = max(h) > 2\n", ""), n=2, s=4)
    made = simplify_loops(with_gradients(graph))
    assert not any(stopping(made))
    feeds = numbers(made)
    found = outputs(made, feeds)
    assert all(np.isfinite(each).all() for each in found.values())
    assert_same(found, outputs(with_gradients(unroll_loops(graph)), feeds))


def test_what_an_iteration_that_is_left_out_divides_by_is_not_zero() -> None:
    """Such an iteration finds what the first one found: `r` is 0 after the last one that counts."""
    text = """
block Net()(x: [n, s, 2]) -> [n, 2]
    where s >= 2:
  h = zeros([n, 2])
  r = full([], 2)
  scan t in 0..s while r > 0:
    h = h + x[:, t] / r + 0 * log(r)
    r = r - 1
  return h

model net = Net()
"""
    plain = """
block Net()(x: [n, s, 2]) -> [n, 2]
    where s >= 2:
  return x[:, 0] / 2 + x[:, 1]

model net = Net()
"""
    scanned, expected = (with_gradients(forward(each, n=2, s=4)) for each in (text, plain))
    feeds = numbers(scanned)
    assert_same(outputs(scanned, feeds), outputs(expected, feeds))


def test_an_iteration_that_is_left_out_updates_no_state() -> None:
    text = """
block Net()(x: [n, s]) -> [n]:
  state seen: [] = zeros
  h = zeros([n])
  scan t in 0..s while t < 2:
    update seen = seen + f32(t + 1)
    h = h + seen * x[:, t]
  return h

model net = Net()
"""
    graph = forward(text, n=2, s=5)
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    found = evaluate(graph, {"x": x, "seen": np.array(10, np.float32)})
    assert found.updates["seen"] == 10 + 1 + 2
    np.testing.assert_array_equal(found.outputs["output"], 11 * x[:, 0] + 13 * x[:, 1])
    assert evaluate(masked(graph), {"x": x, "seen": np.array(10, np.float32)}).updates["seen"] == 13


@pytest.mark.parametrize(
    ("read", "collected"),
    [(["output0"], 0), (["output1"], 1), (["output3"], 2), (["output2", "output3"], 3)],
)
def test_a_loop_of_which_less_is_read_stops_where_it_did(
    read: list[str], collected: int, iterations: list[int]
) -> None:
    """`z`, which may not be written in every iteration, needs a second result with its position."""
    graph = forward(COUNTING.format(place="t", condition="t < 2"), n=2, s=5)
    feeds = numbers(graph)
    expected = outputs(graph, feeds)
    part = simplify_loops(Graph(graph.values, {name: graph.outputs[name] for name in read}))
    assert set(stopping(part)) == {True}
    (op,) = {each.op for each in part.values if isinstance(each.op, Scan)}
    assert isinstance(op, Scan)
    assert len(op.collected) == collected
    iterations.clear()
    assert_same(outputs(part, feeds), {name: expected[name] for name in read})
    assert len(iterations) == 3, "the last says that it does not count"


def test_what_a_loop_that_stops_hands_on_unchanged_is_a_loop_that_does_not_stop() -> None:
    """Another bool that is the last carry then says nothing of the iterations."""
    body, build = Builder(), Builder()
    body.add(Input("iteration", DType.I32, ()))
    kept, counts = (body.add(Input(f"carry.{number}", DType.BOOL, ())) for number in range(2))
    row = body.add(Input("slice.0", DType.F32, (2,)))
    none = body.add(Mul(), row, full(body, row.type, 0))
    outputs = {"carry.0": kept, "carry.1": counts, "collected.0": none}
    start = [build.add(Input(name, DType.BOOL, ())) for name in ("kept", "counts")]
    rows = build.add(Input("rows", DType.F32, (5, 2)))
    op = Scan(Body(body.graph(outputs)), 5, 2, (0,), (0,), backward=False, stops=True)
    first, _, last = build.add_all(op, *start, rows)
    simple = simplify_loops(build.graph({"kept": first, "none": last}))
    assert stopping(simple) == [False, False]
    fed = {"kept": np.array(0, bool), "rows": np.full((5, 2), -1.0, np.float32)}
    found = evaluate(simple, {**fed, "counts": np.array(1, bool)}).outputs
    assert not found["kept"]
    assert np.all(np.signbit(found["none"]))  # of each iteration, and of none that was left out


def test_a_loop_stops_by_a_carry_that_is_true_or_false() -> None:
    text = "block Net()(x: [s, 2]) -> [2]:\n  h = zeros([2])\n  scan t in 0..s:\n    h = h + x[t]\n"
    graph = forward(f"{text}  return h\n\nmodel net = Net()\n", s=3)
    (value,) = (each for each in graph.values if isinstance(each.op, Scan))
    assert isinstance(value.op, Scan)
    build = Builder()
    copy = rebuild(graph, build, lambda each, operands: build.reapply(each, *operands))
    made = next(each for each in copy.values if isinstance(each.op, Scan))
    with pytest.raises(TypeRuleError, match=r"stops by a last carry that is a bool\[\]"):
        build.add(replace(value.op, stops=True), *made.operands)
    collecting = forward("""
block Net()(x: [s, 2]) -> [s, 2]:
  scan t in 0..s:
    y[t] = sin(x[t])
  return y

model net = Net()
""")
    op = next(each.op for each in collecting.values if isinstance(each.op, Scan))
    assert isinstance(op, Scan)
    x = build.add(Input("y", DType.F32, (5, 2)))
    with pytest.raises(TypeRuleError, match=r"stops by a last carry that is a bool\[\]"):
        build.add(replace(op, stops=True), x)
    for operands in ((), (x, x)):
        with pytest.raises(TypeRuleError, match="takes 1 operands of this body"):
            build.add_all(op, *operands)


def test_a_loop_that_shares_its_iterations_with_one_that_does_not_stop_runs_them_all() -> None:
    graph = forward(COUNTING.format(place="t", condition="t < 2"), n=2, s=5)
    build = Builder()
    copies = [
        rebuild(each, build, lambda value, operands: build.reapply(value, *operands)).outputs
        for each in (graph, masked(graph))
    ]
    merged = simplify_loops(
        build.graph({f"{i}.{n}": v for i, c in enumerate(copies) for n, v in c.items()})
    )
    assert set(stopping(merged)) == {False}
    assert len({value.application for value in merged.values if value.op.bodies}) == 1
