"""The other benchmarks, at their smallest."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks import compile_time, growth, software
from meganeura_dsl.pipeline import elaborate_model, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

TINY = growth.Size(batch=2, width=8, depth=1)
AT_ONCE = growth.Effort(rounds=1, seconds=0.0)


@pytest.mark.parametrize("size", [TINY, replace(TINY, length=4)])
def test_growth_measures_pictures_and_sequences(size: growth.Size) -> None:
    row = growth.ours("batch", size, None, RewriteOptions(), AT_ONCE)
    assert row.value == 2
    assert row.milliseconds > 0


def test_growth_starts_each_size_at_a_common_one_and_doubles_it() -> None:
    found = [(what, getattr(size, what)) for what, size in growth.sizes(small=True)]
    assert found == [
        (what, start * factor)
        for what, start in (("batch", 8), ("width", 16), ("depth", 4), ("length", 32))
        for factor in (1, 2)
    ]


def test_the_figure_has_a_panel_for_each_size_and_a_dot_for_each_number() -> None:
    rows = [
        growth.Row(what, value, 1.5 * value, 2.0, None, None)
        for what in ("batch", "width")
        for value in (1, 2, 4)
    ]
    marks = list(ET.fromstring(growth.figure(rows)))  # noqa: S314  our own text
    tags = [mark.tag.rpartition("}")[2] for mark in marks]
    texts = [mark.text for mark in marks]
    assert tags.count("circle") == 2 * len(rows)
    assert texts.count("batch") == texts.count("width") == 1


def test_figures_of_the_compiler_are_those_of_the_plan() -> None:
    graph = elaborate_model(
        load("digits_cnn"), "digits_cnn", sizes={"n": 64, "h": 32, "w": 32}
    ).graph
    found = compile_time.figures(graph)
    assert found.values == len(graph.values)
    assert found.dispatches == len(plan_graph(graph, compile_time.ROOMY).dispatches)
    assert found.least_mebibytes <= found.temporary_mebibytes <= found.mebibytes


def test_a_step_without_a_gpu_feeds_a_batch_and_gives_its_loss() -> None:
    side = software.our_training("small CNN", "cpu")
    losses: list[float] = []
    for _ in range(3):
        side.step()
        losses.append(float(side.result()))
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.adapter
def test_the_product_is_numpy_s() -> None:
    ours, theirs = software.our_product("wgpu"), software.their_product()
    ours.step()
    np.testing.assert_allclose(ours.result(), theirs.result(), rtol=0, atol=1e-3)
