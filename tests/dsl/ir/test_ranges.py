"""Ranges of whole numbers are those of `ranges.txt`, and hold what is computed."""

import numpy as np

from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.interval_analysis import ranges_of
from tests.dsl.ir.ranges import FILE, KNOWN, SEEDS, described, feeds, graph_of
from tests.folded import each_of


def test_ranges_are_what_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()


@each_of("seed", SEEDS)
def test_a_range_holds_all_that_is_computed(seed: int) -> None:
    graph = graph_of(seed)
    found = ranges_of(graph, KNOWN)
    for again in range(2):
        with np.errstate(over="ignore"):
            outputs = evaluate(graph, feeds(100 * seed + again)).outputs
        for name, value in graph.outputs.items():
            if value.id in found:
                low, high = found[value.id].low, found[value.id].high
                assert low <= outputs[name].min() <= outputs[name].max() <= high, name
