"""Loops by XLA: those that stop do, and give what the reference gives."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.registry import choose_device
from tests.dsl.ir.test_stopping_loops import COUNTING, ENDLESS, masked
from tests.scans import forward, numbers


def results(graph: Graph, feeds: dict[str, Array], device: str = "xla:cpu") -> dict[str, Array]:
    with choose_device(device).open(graph) as session:
        return {name: np.asarray(each) for name, each in session.step(feeds).items()}


def test_a_scan_that_stops_soon_takes_no_time_for_the_rest() -> None:
    feeds = {"x": np.array([1, 2, 9], np.float32)}
    found = results(forward(ENDLESS, n=3), feeds)
    np.testing.assert_allclose(found["output0"], [1, 2**0.5, 3], rtol=1e-4)
    assert found["output1"] == 5


@pytest.mark.parametrize(("place", "last"), [("t", 3), ("s - 1 - t", 0), ("s - 1 - t", 6)])
def test_what_is_not_run_changes_nothing(place: str, last: int) -> None:
    graph = forward(COUNTING.format(place=place, condition=f"t < {last}"), n=2, s=5)
    feeds = {name: each.astype(np.float32) for name, each in numbers(graph).items()}
    found, whole = results(graph, feeds), results(masked(graph), feeds)
    expected = results(graph, feeds, "cpu")
    for name, array in whole.items():
        np.testing.assert_array_equal(found[name], array)  # to the bit
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
