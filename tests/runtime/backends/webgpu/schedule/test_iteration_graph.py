"""An iteration of a scan for kernels: which of its values are outputs, each of them once."""

import pytest

from meganeura_dsl.ir.ops import Scan
from meganeura_runtime.backends.webgpu.schedule.loop_schedule import iteration_graph
from tests.scans import forward


@pytest.mark.parametrize("collected", [1, 2, 3])
def test_what_is_carried_is_collected_from_where_it_is(collected: int) -> None:
    """As many lists of one value are one output, and a list of another value is one more."""
    lists = "".join(f"    y{number}[t] = h\n" for number in range(collected))
    results = ", ".join([*(f"y{number}" for number in range(collected)), "z"])
    types = ", ".join(["[s, 3]"] * (collected + 1))
    graph = forward(
        f"block Net()(x: [s, 3]) -> {types}:\n  h = zeros([3])\n  scan t in 0..s:\n"
        f"    h = tanh(h + x[t])\n{lists}    z[t] = cos(h)\n  return {results}\n"
        "model net = Net()\n",
        s=4,
    )
    (op,) = {value.op for value in graph.values if isinstance(value.op, Scan)}
    made = iteration_graph(op)
    carried, *others = made.graph.outputs
    assert set(made.given) == {carried, *others}
    assert len(others) == 1
