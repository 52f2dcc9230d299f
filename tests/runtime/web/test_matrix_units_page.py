"""Models that were built for matrix units, in a browser that has none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import load_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Builder
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Tanh
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import (
    WITH_MATRICES,
    MatrixDialect,
    MatrixUnits,
)
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.mgb.compile import LARGE_TILES, compiled_model, portable_plan
from meganeura_runtime.export.page import write
from meganeura_runtime.export.page.forms import input_forms
from meganeura_runtime.io.preprocess.input_transforms import Choices
from tests.runtime.web.conftest import WEB, answered, opened, ready, saved

pytestmark = pytest.mark.browser

ROWS, COLUMNS = 1024, 64
EMULATED = replace(WITH_MATRICES, matrix_units=MatrixUnits(MatrixDialect.PLAIN))
"""Products of the same tiles in plain WGSL, which any adapter runs."""


def model() -> tuple[Artefact, Array]:
    """Returns `tanh(x @ w)` of two plans, and `w`."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (ROWS, COLUMNS)))
    w = build.add(Parameter("w", DType.F32, (COLUMNS, COLUMNS), "param"))
    graph = build.graph({"y": build.add(Tanh(), build.add(MatMul(), x, w))})
    value = np.random.default_rng(0).normal(0, 0.2, (COLUMNS, COLUMNS)).astype(np.float32)
    return compiled_model("net", graph, {"w": value}, halves=True), value


def answer(page: Page, artefact: Artefact, folder: Path) -> tuple[Array, Array]:
    """Returns the output of a page for numbers from a file, and those numbers."""
    file = folder / "page.html"
    forms = input_forms(artefact.inputs, {}, Choices())
    write.Page(artefact, "net", forms).write(file)
    x = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    np.save(folder / "x.npy", x)
    opened(page, file)
    with answered(page):
        page.set_input_files("[data-input=x] input[type=file]", folder / "x.npy")
    return load_file(saved(page, "Save", folder))["y"], x


def test_the_plan_of_f32_runs_where_there_are_none(page: Page, tmp_path: Path) -> None:
    artefact, w = model()
    assert artefact.matrices is not None
    assert any("chromium_experimental" in text for text in artefact.matrices.kernels)
    found, x = answer(page, artefact, tmp_path)
    np.testing.assert_allclose(found, np.tanh(x @ w), rtol=0, atol=2e-6)
    assert page.inner_text("[data-chip=precision]") == "f32: no matrix units here"


def test_the_plan_of_f16_runs_where_all_it_needs_is_there(page: Page, tmp_path: Path) -> None:
    artefact, w = model()
    artefact = replace(artefact, matrices=portable_plan(artefact.graph, EMULATED))
    found, x = answer(page, artefact, tmp_path)
    expected = np.tanh(x @ w)
    difference = float(np.abs(found - expected).max())
    assert 1e-5 < difference < 4e-3
    rounded = x.astype(np.float16).astype(np.float32) @ w.astype(np.float16).astype(np.float32)
    assert float(np.abs(found - np.tanh(rounded)).max()) < 1e-3
    assert page.inner_text("[data-chip=precision]") == "f16 on matrix units"


def test_a_model_without_such_a_plan_says_nothing_of_it(page: Page, tmp_path: Path) -> None:
    artefact, _ = model()
    answer(page, replace(artefact, matrices=None), tmp_path)
    assert not page.query_selector("[data-chip=precision]")


def test_a_file_with_the_plan_of_another_model_is_refused(page: Page, tmp_path: Path) -> None:
    artefact, _ = model()
    artefact.write(tmp_path / "net.mgb")
    assert Artefact.read(tmp_path / "net.mgb").matrices == artefact.matrices
    build = Builder()
    other = build.graph({"y": build.add(Tanh(), build.add(Input("x", DType.F32, (2, 2))))})
    spoilt = replace(artefact, matrices=portable_plan(other))
    spoilt.write(tmp_path / "spoilt.mgb")
    with pytest.raises(ProblemError, match="E0581"):
        Artefact.read(tmp_path / "spoilt.mgb")
    file = tmp_path / "page.html"
    write.Page(spoilt, "net", input_forms(artefact.inputs, {}, Choices())).write(file)
    page.goto(file.as_uri())
    ready(page, "failed")
    assert "its plan for matrix units is of another model" in page.inner_text("#problem")


def test_pages_ask_for_the_memory_that_plans_may_take() -> None:
    kilobytes = LARGE_TILES.workgroup_bytes >> 10
    assert f"const TILE_BYTES = {kilobytes} << 10;" in (WEB / "src" / "gpu.ts").read_text()
