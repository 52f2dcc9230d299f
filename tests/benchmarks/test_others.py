"""The other benchmarks, at their smallest."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks import compile_time, growth, scaling_figure, software
from benchmarks.collectives import Collective, collectives
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


def test_collectives_are_read_from_hlo() -> None:
    hlo = """
      %a = f32[8,4]{1,0} all-reduce(%x), channel_id=1
      %s = ((f32[6]{0}, bf16[2]{0}), f32[6]{0}, bf16[2]{0}) all-reduce-start(%y, %z), channel_id=2
      %d = (f32[6]{0}, bf16[2]{0}) all-reduce-done(%s)
      %g = (f32[2]{0}, f32[8]{0}) all-gather-start(%w), channel_id=3
      %r = f32[3]{0} reduce-scatter(%v), channel_id=4
      %f = f32[3]{0} fusion(%all-reduce.1), calls=%all-reduce
    """
    found = collectives(hlo, 4)
    assert found == {
        "all-gather": Collective(1, 32),
        "all-reduce": Collective(2, 128 + 24 + 4),
        "reduce-scatter": Collective(1, 48),
    }
    assert found["all-reduce"].traffic("all-reduce", 4) == 2 * 156 * 3 / 4
    assert found["reduce-scatter"].traffic("reduce-scatter", 4) == 36


def test_the_scaling_figure_has_a_line_for_each_system_and_sharding(tmp_path: Path) -> None:
    cells = [
        {"model": "vit", "scaling": scaling, "sharding": sharding, "devices": devices}
        | {"examples_per_second": 90 * devices + 10.0, **system}
        for system in ({}, {"system": "PyTorch"})
        for scaling in ("weak", "strong")
        for sharding, devices in (("data", 1), ("data", 2), ("fsdp", 2))
    ]
    panels = scaling_figure.lines(cells)
    assert panels["vit"]["ours, fsdp"] == ((1, 1.0), (2, 0.95))
    assert set(panels["vit"]) == set(scaling_figure.COLOURS)
    (tmp_path / "cells").write_text("\n".join(map(json.dumps, cells)))
    scaling_figure.main([str(tmp_path / "figure.svg"), str(tmp_path / "cells")])
    marks = list(ET.parse(tmp_path / "figure.svg").getroot())  # noqa: S314  our own text
    assert sum(mark.tag.endswith("circle") for mark in marks) == 8
