"""Contractions by matrix units, in f16: every tile, at sizes that leave its edges ragged.

Software has no such units, so the kernels run with operations on squares written out as loops; what
differs on a GPU that has some is these statements alone. Factors are halves, of which the products
are exact, so that the sums are those of the reference.
"""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.ops import (
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    MatMul,
    Tanh,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.backend import DawnBackend
from meganeura_runtime.backends.webgpu.codegen.matmul import tile_sizes
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    MATRIX_SPEEDS,
    Tile,
    matrix_bytes,
)
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
)
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb import Artefact
from tests.effort import effort
from tests.runtime.running import assert_as_reference, graph_of, run

PLAIN = MatrixUnits(MatrixDialect.PLAIN)
LIMITS = DeviceLimits(workgroup_bytes=32 << 10, half_floats=True, matrix_units=PLAIN)
SMALL = Tile(32, 32, 16, 4, 4)
"""Of two subgroups; its loops compile soon."""
FITTING = [tile for tile in MATRIX_SPEEDS if matrix_bytes(tile) <= LIMITS.workgroup_bytes]


def halves(*shape: int) -> Array:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    return drawn.astype(np.float16).astype(np.float32)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only tile there is."""
    monkeypatch.setattr(tile_sizes, "MATRIX_SPEEDS", {SMALL: 1.0})


@pytest.mark.parametrize("tile", [SMALL, *MATRIX_SPEEDS], ids=str)
def test_every_lane_has_as_much_to_do_and_every_subgroup_whole_squares(tile: Tile) -> None:
    assert tile.is_even
    subgroups = tile.lanes // PLAIN.lanes
    squares = tile.rows * tile.columns // PLAIN.side**2
    assert squares % subgroups == 0
    assert tile.terms % PLAIN.side == 0
    assert matrix_bytes(tile) <= 48 << 10, "what GPUs with such units have at least"


@pytest.mark.adapter
class TestAdapter:
    """Tests that run kernels."""

    @pytest.mark.parametrize("tile", FITTING[-effort(1, len(FITTING)) :], ids=str)
    def test_tiles(self, tile: Tile, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tile_sizes, "MATRIX_SPEEDS", {tile: 1.0})
        graph, feeds = graph_of(MatMul(), halves(70, 33), halves(33, 130))
        (text,) = plan_graph(graph, LIMITS).kernels
        squares = tile.rows * tile.columns // PLAIN.side**2
        assert text.count("    var m") == squares * PLAIN.lanes // tile.lanes
        assert_as_reference(graph, feeds, device, Style.GPU, LIMITS)

    @pytest.mark.parametrize(
        ("rows", "terms", "columns"),
        [(64, 32, 128), (129, 80, 61), *effort([], [(70, 33, 130), (17, 100, 20)])],
    )
    def test_matrices(self, rows: int, terms: int, columns: int, device: Device) -> None:
        graph, feeds = graph_of(MatMul(), halves(rows, terms), halves(terms, columns))
        assert_as_reference(graph, feeds, device, Style.GPU, LIMITS)

    @pytest.mark.parametrize(
        "op",
        [
            MatMul(transpose_left=True),
            MatMul(transpose_right=True),
            MatMul(transpose_left=True, transpose_right=True),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("size", effort([41], [36, 41]))
    def test_transposed_matrices(self, op: MatMul, size: int, device: Device) -> None:
        a = halves(20, size) if op.transpose_left else halves(size, 20)
        b = halves(size, 20) if op.transpose_right else halves(20, size)
        assert_as_reference(*graph_of(op, a, b), device, Style.GPU, LIMITS)

    def test_a_batch_of_matrices_in_more_workgroups_than_one_dimension_holds(
        self, device: Device
    ) -> None:
        few = replace(LIMITS, workgroups=7)
        graph, feeds = graph_of(MatMul(), halves(9, 70, 40), halves(9, 40, 100))
        assert_as_reference(graph, feeds, device, Style.GPU, few)

    @pytest.mark.parametrize(
        ("x", "w", "geometry"),
        [
            ((1, 16, 14, 14), (64, 16, 3, 3), ((1, 1), (1, 1), (1, 1), 1)),
            *effort(
                [],
                [
                    ((1, 3, 41, 41), (17, 3, 7, 7), ((2, 2), (3, 3), (1, 1), 1)),
                    ((3, 34, 9, 17), (40, 17, 1, 1), ((1, 1), (0, 0), (1, 1), 2)),
                ],
            ),
        ],
    )
    def test_convolutions(
        self,
        x: tuple[int, ...],
        w: tuple[int, ...],
        geometry: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
        device: Device,
    ) -> None:
        forward, feeds = graph_of(Conv(*geometry), halves(*x), halves(*w))
        assert_as_reference(forward, feeds, device, Style.GPU, LIMITS)
        dy = halves(*(int(str(size)) for size in forward.outputs["y"].type.shape))
        to_x: Op = ConvInputGradient(*geometry, x[2:])
        assert_as_reference(*graph_of(to_x, halves(*w), dy), device, Style.GPU, LIMITS)
        to_w: Op = ConvWeightGradient(*geometry, w[2:])
        assert_as_reference(*graph_of(to_w, halves(*x), dy), device, Style.GPU, LIMITS)

    def test_what_follows_a_product_is_computed_in_f32(self, device: Device) -> None:
        build = Builder()
        a, b = (build.add(Input(name, DType.F32, (64, 64))) for name in "ab")
        graph = build.graph({"y": build.add(Tanh(), build.add(MatMul(), a, b))})
        feeds = {"a": halves(64, 64) / 64, "b": halves(64, 64)}
        assert_as_reference(graph, feeds, device, Style.GPU, LIMITS)

    def test_factors_are_rounded_to_halves(self, device: Device) -> None:
        a, b = np.float32(1 + 2**-12) * np.eye(32, dtype=np.float32), halves(32, 32)
        graph, feeds = graph_of(MatMul(), a, b)
        np.testing.assert_array_equal(run(graph, feeds, device, Style.GPU, LIMITS).outputs["y"], b)


def test_units_of_chromium_differ_in_their_statements_alone() -> None:
    """Each square of either dialect is loaded, multiplied and stored as often, in one order."""
    graph, _ = graph_of(MatMul(), halves(64, 32), halves(32, 128))
    plain, chromium = (
        plan_graph(graph, replace(LIMITS, matrix_units=replace(PLAIN, dialect=dialect))).kernels[-1]
        for dialect in (MatrixDialect.PLAIN, MatrixDialect.CHROMIUM)
    )
    head, body = chromium.split("@compute")
    assert (
        "enable f16;\n\nenable subgroups;\n\nenable chromium_experimental_subgroup_matrix;" in head
    )
    assert "@builtin(subgroup_id) subgroup: u32" in body
    squares = body.count("subgroupMatrixMultiplyAccumulate(")
    assert squares == plain.count("[e] += ") > 0
    assert body.count("subgroupMatrixStore<row_major>(&tiles,") == plain.count("] = bitcast<u32>(")
    for line in body.splitlines():
        if "subgroupMatrix" not in line and "subgroup_matrix" not in line and "fn main" not in line:
            assert line in plain


@pytest.mark.parametrize(
    ("op", "orders"),
    [
        (MatMul(), ("row_major", "row_major")),
        (MatMul(transpose_left=True), ("col_major", "row_major")),
        (MatMul(transpose_right=True), ("row_major", "col_major")),
        (MatMul(transpose_left=True, transpose_right=True), ("col_major", "col_major")),
    ],
    ids=str,
)
def test_factors_lie_in_the_workgroup_as_they_do_in_memory(
    op: MatMul, orders: tuple[str, str]
) -> None:
    """So that lanes write eight neighbours at once, whichever factor is transposed."""
    graph, _ = graph_of(op, halves(64, 64), halves(64, 64))
    units = MatrixUnits(MatrixDialect.CHROMIUM)
    text = plan_graph(graph, replace(LIMITS, matrix_units=units)).kernels[-1]
    for side, order in zip(("left", "right"), orders, strict=True):
        assert f"subgroupMatrixLoad<subgroup_matrix_{side}<f16, 16, 16>, {order}>(&tiles" in text


# --- where it can be chosen ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("cpu", r"E0559.*`cpu` does not compute in f16"),
        ("xla:cpu", r"E0559.*`xla` does not compute in f16"),
        ("auto", "no GPU computes in f16 here; the device `dawn` may"),
        pytest.param("wgpu", "E0559.*`wgpu`", marks=pytest.mark.adapter),
    ],
)
def test_a_device_without_such_units_does_not_compute_in_halves(device: str, told: str) -> None:
    with pytest.raises((ProblemError, DeviceError), match=told):
        choose_device(device, precision=ComputePrecision.F16)


def test_what_is_built_for_such_units_has_their_statements() -> None:
    graph, _ = graph_of(MatMul(), halves(64, 32), halves(32, 128))
    for precision, is_half in ((ComputePrecision.F32, False), (ComputePrecision.F16, True)):
        text = DawnBackend().emit("wgsl", graph, None, precision)
        assert ("subgroupMatrixMultiplyAccumulate(" in text) is is_half


@pytest.mark.adapter
def test_a_compiled_model_is_planned_anew_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan in its file is of f32."""
    device = open_device("wgpu")
    monkeypatch.setattr(device, "matrix_units", PLAIN)
    monkeypatch.setattr(device, "style", Style.GPU)
    narrow = np.float32(1 + 2**-12) * np.eye(32, dtype=np.float32)
    graph, feeds = graph_of(MatMul(), narrow, halves(32, 32))
    artefact = Artefact("net", graph, plan_graph(graph, DeviceLimits()), {})
    found: list[Array] = []
    for precision in (ComputePrecision.F32, ComputePrecision.F16):
        opened = OpenAdapter.of(DawnBackend(), device).at(precision)
        with artefact.open_on(opened) as session:
            found.append(session.step(feeds)["y"])
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[1], feeds["x1"])
    device.close()


@pytest.mark.adapter
def test_an_adapter_computes_in_halves_where_it_has_units(monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device("wgpu")
    opened = OpenAdapter.of(DawnBackend(), device)
    with pytest.raises(ProblemError, match=r"E0559[\s\S]*reaches no matrix units of this adapter"):
        opened.at(ComputePrecision.F16)
    monkeypatch.setattr(device, "matrix_units", PLAIN)
    half = opened.at(ComputePrecision.F16)
    assert half.description.endswith(", in f16")
    assert half.tuned() is half
    assert half.limits.matrix_units == PLAIN
    assert opened.limits.matrix_units is None
    device.close()
