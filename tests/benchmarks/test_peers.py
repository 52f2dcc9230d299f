"""The comparison with other frameworks, at sizes that take no time: ours, the tables, failures."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks.peers.__main__ import Comparison, main
from benchmarks.peers.case import LOSSES, Case, cases, material
from benchmarks.peers.contender import (
    QUICK,
    SAMPLE,
    Absent,
    Kernel,
    Precision,
    difference,
    rounds_ms,
    sampled,
)
from benchmarks.peers.jax_tools import finished_products
from benchmarks.peers.kernel_kinds import kind_of, shares
from benchmarks.peers.models import SMALL, Model
from benchmarks.peers.ours import FED, ROUND_TRIP, Ours, products_to_finish
from benchmarks.peers.processes import Job, Worker
from benchmarks.peers.roster import MODES
from benchmarks.peers.table import RATIO, Table
from benchmarks.peers.worker import reason
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.fused.contraction import FusedMatMul
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.passes.fuse_matmul_epilogue import fuse_matmul_epilogue
from tests.effort import effort

TINY = Model(
    "gpt2",
    "gpt2",
    "Gpt2",
    {"vocabulary": 32, "positions": 8, "d": 8, "layers": 1, "heads": 2},
    "tokens",
    6,
)


def test_the_tables_have_twelve_models_in_two_batch_sizes() -> None:
    names = [case.name for case in cases(small=False)]
    assert len(set(names)) == len(names) == 48
    chosen = cases(small=False, wanted=("*-b1-train", "gpt2-b4-*"))
    assert [case.name for case in chosen][:3] == [
        "gpt2-b4-train",
        "gpt2-b4-infer",
        "resnet18-b1-train",
    ]
    assert len(chosen) == 14


def test_everybody_gets_the_same_weights_and_inputs() -> None:
    case = Case(TINY, 2, trains=True)
    one, other = material(case), material(case)
    for name, array in (*one.weights.items(), *one.inputs.items()):
        np.testing.assert_array_equal(array, {**other.weights, **other.inputs}[name])
    assert list(one.inputs) == ["x"]
    assert one.inputs["x"].shape == (2, 7)
    assert one.inputs["x"].max() < 32


@pytest.mark.adapter
@pytest.mark.parametrize("trains", effort([True], [False, True]))
def test_ours_gives_what_the_reference_gives(*, trains: bool) -> None:
    one = material(Case(TINY, 2, trains=trains))
    expected = Interpreter(one.graph).run({**one.weights, **one.inputs}).outputs
    with Ours("wgpu", "f32").run(one) as running:
        first = running.outputs[0] if trains else running.outputs
        assert difference(np.asarray(first), next(iter(expected.values()))) < 1e-4
        assert running.outputs.shape == ((LOSSES,) if trains else (2, 6, 32))
        assert [*running.steps] == (["", FED] if trains else ["", FED, ROUND_TRIP])
        for step in running.steps.values():
            assert all(time > 0 for time in rounds_ms(step, running.wait, QUICK))
        assert all(figure() > 0 for figure in running.figures.values())


PRODUCTS = """\
  %a.1 = (bf16[8,8]{1,0}, s8[32]{0}) custom-call(%x, %w, %b), \
custom_call_target="__cublas$lt$matmul", backend_config={"epilogue":"BIAS_GELU","grad_x":false}
  %a.2 = (bf16[8,8]{1,0}, s8[32]{0}) custom-call(%x, %w), \
custom_call_target="__cublas$lt$matmul", backend_config={"epilogue":"DEFAULT","grad_x":false}
  %a.3 = (bf16[8,8]{1,0}, s8[32]{0}) custom-call(%x, %w, %b), \
custom_call_target="__cublas$lt$matmul", backend_config={"epilogue":"BIAS","grad_x":false}
"""


def test_products_that_a_library_gives_with_their_gelu_are_counted() -> None:
    assert finished_products(PRODUCTS) == 1
    build = Builder()
    x, w, bias = (
        build.add(Input(name, DType.F32, shape))
        for name, shape in (("x", (8, 8)), ("w", (8, 8)), ("bias", (8,)))
    )
    product = FusedMatMul(transpose_left=False, transpose_right=False, epilogue="gelu_tanh")
    y = build.add(product, build.add(product, x, w, bias), w, bias)
    graph = build.graph({"y": y})
    assert products_to_finish(graph) == 0
    assert products_to_finish(fuse_matmul_epilogue(graph)) == 2


def test_what_a_device_does_not_compute_in_is_said() -> None:
    with pytest.raises(Absent, match="bf16"):
        Ours("cpu", "bf16")


BY_HAND = [
    ("JAX by hand", SMALL[4], False),
    *(each for each in product(("JAX by hand", "torch eager"), SMALL, (False, True))),
][: effort(1, nightly=29)]
"""Each is compiled for seconds."""


@pytest.mark.parametrize(("mode", "model", "trains"), BY_HAND)
def test_models_written_by_hand_are_ours(mode: str, model: Model, *, trains: bool) -> None:
    one = material(Case(model, 4, trains=trains))
    with Ours("cpu", "f32").run(one) as ours, MODES[mode].make("cpu", "f32").run(one) as other:
        assert difference(sampled(other.outputs), sampled(ours.outputs)) < 1e-4


def test_a_difference_is_relative_to_the_largest_and_never_hides_what_is_no_number() -> None:
    assert difference(np.array([1.0, 9.0]), np.array([1.0, 10.0])) == pytest.approx(0.1)
    assert difference(np.array([np.nan]), np.array([1.0])) == np.inf
    assert difference(np.ones(2), np.ones(3)) == np.inf


def test_of_a_large_output_elements_from_all_of_it_are_compared() -> None:
    large = np.arange(3 * SAMPLE + 1, dtype=np.float32)
    found = sampled(large)
    assert SAMPLE // 2 < found.size <= SAMPLE
    assert found[0] == 0
    assert found[-1] > 2.9 * SAMPLE
    np.testing.assert_array_equal(sampled(np.ones((2, 3))), np.ones(6))


def _table() -> Table:
    table = Table(frozenset({"ours xla", "ours wgpu"}), ["ours xla", "ours wgpu", "torch", "JAX"])
    table.expect(["a", "b"])
    return table


def test_the_ratio_is_that_of_the_fastest_of_ours_and_the_fastest_other() -> None:
    table = _table()
    table.add("a", "ours xla", [3.0, 3.0])
    assert RATIO not in table.markdown()
    table.add("a", "torch", [9.0, 4.0, 4.0])
    table.add("a", "ours wgpu", [1.0, 2.0, 9.0])
    assert table.ratio("a") == 0.5
    table.add("a", "ours wgpu, fed", [0.1])
    assert table.ratio("a") == 0.5
    assert "| a | 3 | 2 | *4* | 0.1 | **0.50** |" in table.markdown()


def test_what_is_missing_is_a_dash_with_its_reason_below() -> None:
    table = _table()
    table.add("b", "ours xla", [1.0])
    table.add("a", "ours xla", [2.0])
    table.add("a", "JAX", [2.5])
    table.miss("b", "JAX", "it is not there")
    shown = table.markdown()
    assert shown.index("| a | 2 | *2.5* | **0.80** |") < shown.index("| b | 1 | - | - |")
    assert "- JAX has no number for b: it is not there" in shown


class _Fake:
    """A worker with outputs and no process."""

    def __init__(
        self, folder: Path, name: str, precision: Precision, outputs: Sequence[float]
    ) -> None:
        self.job = Job(MODES[name], precision, Case(TINY, 2, trains=True))
        self.outputs = folder / f"{name}.npy"
        np.save(self.outputs, np.array(outputs, np.float32))


def test_whoever_computes_something_else_is_not_timed(tmp_path: Path) -> None:
    options = argparse.Namespace(
        device="cpu",
        ways=[""],
        small=True,
        contenders=["ours xla", "JAX by hand", "torch eager"],
        precision=["f32", "bf16"],
        seconds=60.0,
    )
    case = Case(TINY, 2, trains=True)
    comparison = Comparison(options, [case], tmp_path)
    there = [
        _Fake(tmp_path, "ours xla", "f32", [1.0, 2.0]),
        _Fake(tmp_path, "JAX by hand", "f32", [1.0, 2.03]),
        _Fake(tmp_path, "torch eager", "bf16", [1.0, 2.03]),
    ]
    found = comparison._alike(case, cast("list[Worker]", there))
    assert [worker.job.mode.name for worker in found] == ["ours xla", "torch eager"]
    (missing,) = comparison.table.reasons["JAX by hand, f32"]
    assert missing == "1.5e-02 away from ours xla, f32"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Absent("no such device"), "no such device"),
        (ImportError("No module named 'jax'"), "cannot be imported: No module named 'jax'"),
        (RuntimeError("\nout of memory\nand more"), "RuntimeError: out of memory"),
    ],
)
def test_a_failure_is_a_reason(error: Exception, expected: str) -> None:
    assert reason(error) == expected


def test_the_command_goes_on_where_a_contender_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, written = tmp_path / "table.md", tmp_path / "table.json"
    words = ["--small", "--cells", "gpt2-b4-infer", "--contenders", "ours xla", "--device", "cuda"]
    main([*words, "-o", str(tables), "--json", str(written)])
    (missing,) = json.loads(written.read_text())["missing"]["ours xla"]
    assert "gpu" in missing or "JAX is not installed" in missing
    assert f"- ours xla has no number for any case: {missing}" in tables.read_text()
    assert tables.read_text() in capsys.readouterr().out


def test_a_pattern_that_no_cell_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--small", "--cells", "vgg*"])
    assert "resnet18-b4-train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", "matmul"),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul"),
        ("gemm_fusion_dot_42", "matmul"),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16>", "matmul"),
        ("sm90_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32", "convolution"),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s16816fprop_optimized_bf16>",
            "convolution",
        ),
        ("conv2d_c1_k1_nhwc_kernel", "convolution"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>", "attention"),
        ("void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16>", "copies"),
        ("MemcpyD2D", "copies"),
        ("wrapped_transpose_3", "copies"),
        ("loop_transpose_fusion", "copies"),
        ("triton_poi_fused__to_copy_convolution_3", "elementwise"),
        ("loop_add_convert_fusion_7", "elementwise"),
        ("triton_red_fused_native_layer_norm_12", "reductions and norms"),
        ("triton_per_fused__to_copy_addmm_4", "reductions and norms"),
        ("input_reduce_fusion_2", "reductions and norms"),
        ("void at::native::multi_tensor_apply_kernel<FusedSgdMathFunctor>", "optimizer"),
        ("something", "others"),
    ],
)
def test_what_a_kernel_is_follows_from_its_name(kernel: str, kind: str) -> None:
    assert kind_of(kernel) == kind


def test_the_shares_of_a_step_are_means_and_gaps_are_where_nothing_runs() -> None:
    kernels = [
        Kernel("MemcpyD2D", 0.000, 0.002),
        Kernel("gemm", 0.001, 0.004),  # beside the copy
        Kernel("gemm", 0.010, 0.012),
    ]
    found = shares(kernels, 2)
    assert found.kinds == pytest.approx({"matmul": 2.5, "copies": 1.0, "gaps": 3.0})
    assert found.launches == 1.5
    assert found.longest[0] == ("gemm", 1.0, pytest.approx(2.5))
    assert shares([], 2).kinds == {}


def test_a_profile_is_a_table_of_kinds() -> None:
    table = _table()
    found = shares([Kernel("gemm", 0.0, 0.001)], 1)
    table.profiles["a"] = {"ours xla": found.document()}
    assert "| matmul | 1.000 |" in table.markdown()
    assert "- 1.000 in 1 of `gemm`" in table.markdown()
    assert replace(found, launches=2.0).document()["launches"] == 2.0
