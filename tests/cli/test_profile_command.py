"""`meganeura profile`: a table of kernels, for people and for machines."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from meganeura.cli.reports.profile_report import locations, seconds
from tests.cli.command import Command
from tests.runtime.profiling.traces import drawn


def test_the_reference_device_is_profiled_op_by_op(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "cpu", "--size", "n=4")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "digits_mlp: inference, n = 4; on cpu (as asked)"
    assert lines[1] == "times: the host's clock, op by op"
    assert lines[2].startswith("peaks, measured just now (")
    assert lines[4].startswith("memory: parameters ")
    assert lines[6].split()[:4] == ["kernel", "line", "calls", "time"]
    assert any("digits_mlp.mgn:" in line and line.startswith("matmul 4x") for line in lines)
    assert any(line.startswith("kind ") for line in lines)


@pytest.mark.adapter
def test_a_training_step_on_an_adapter_as_data(meganeura: Command) -> None:
    arguments = ("--mode", "train", "--size", "batch=8", "--device", "wgpu", "--json")
    shown = meganeura("profile", "digits_mlp", *arguments)
    assert (shown.code, shown.err) == (0, "")
    found = json.loads(shown.out)
    assert (found["name"], found["mode"], found["sizes"]) == ("fit", "train", {"batch": 8})
    assert found["kernels"] == pytest.approx(sum(row["seconds"] for row in found["rows"]))
    assert {"update", "matmul"} <= {word for row in found["rows"] for word in row["name"].split()}
    assert any(place.startswith("digits_mlp.mgn:") for place in found["rows"][0]["locations"])
    assert found["memory"]["parameters"] > 0


def test_only_so_many_rows_are_listed(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "cpu", "--rows", "1")
    assert shown.code == 0
    assert " together (--rows shows more)" in shown.out


def test_a_size_that_there_is_not_is_refused(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "cpu", "--size", "batch=4")
    assert shown.code == 2
    assert "no input has a size `batch`" in shown.err


@pytest.mark.parametrize("command", ["profile", "tune", "explain-opt"])
def test_generation_is_no_single_graph(meganeura: Command, command: str) -> None:
    shown = meganeura(command, "gpt2_tiny", "--mode", "generate")
    assert shown.code == 2
    assert "'generate' is not one of" in shown.err


def test_times_and_places_are_short() -> None:
    assert (seconds(2), seconds(0.0123), seconds(4.5e-6)) == ("2 s", "12.3 ms", "4.5 us")
    assert locations(("net.mgn:8 layer.1",)) == "net.mgn:8 layer.1"
    assert locations(("net.mgn:12 a", "net.mgn:8 b", "nn.mgn:3 c", "")) == "net.mgn:8,12 nn.mgn:3"
    assert locations([f"net.mgn:{line}" for line in range(1, 9)]) == "net.mgn:1,2,3,4,5 ..."


def test_a_run_leaves_a_trace(meganeura: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", np.zeros((1, 1, 8, 8), np.float32))
    arguments = ("--input", str(tmp_path / "image.npy"), "--random-weights", "0")
    trace = tmp_path / "trace.json"
    plain = meganeura("run", "digits_mlp", *arguments, "--device", "cpu")
    shown = meganeura("run", "digits_mlp", *arguments, "--device", "cpu", "--profile", str(trace))
    assert (shown.code, shown.err) == (0, "")
    assert f"profile: {trace} (5 steps)" in shown.out
    assert plain.out.splitlines()[-3:] == shown.out.splitlines()[-3:]
    found = drawn(trace.read_text())
    assert any("[digits_mlp.mgn:5]" in one.name for one in found.device)


@pytest.mark.adapter
def test_a_training_leaves_a_trace_of_steps_evaluation_and_checkpoint(
    meganeura: Command, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    arguments = ("--device", "wgpu", "--set", "epochs=1", "--set", "batch=256")
    places = ("--out", str(tmp_path / "run"), "--profile", str(trace))
    shown = meganeura("train", "digits_mlp", *arguments, *places)
    assert (shown.code, shown.err) == (0, "")
    assert f"profile: {trace} (5 steps)" in shown.out
    found = drawn(trace.read_text())
    names = {one.name for one in found.host}
    assert {"step 1", "step 5", "feed", "encode", "submit", "evaluation", "checkpoint"} <= names
    built = ("gpu_init", "parse", "check", "optimize_forward", "autodiff", "optimize_full", "plan")
    spans = {one.name: one for one in reversed(found.host)}  # the first of each name
    for before, after in pairwise((*built[1:], "compile", "train_epoch", "evaluation")):
        assert spans[before].start <= spans[after].start, (before, after)
    assert "gpu_init" in names
    assert {"step 1", "step 5"} <= {one.name for one in found.device}
    kernels = [one for one in found.device if not one.name.startswith("step ")]
    assert all("[digits_mlp.mgn:" in one.name for one in kernels)
    assert "temporaries" in found.levels[0]


def test_a_trace_needs_a_folder(meganeura: Command, tmp_path: Path) -> None:
    trace = tmp_path / "no" / "trace.json"
    shown = meganeura("train", "digits_mlp", "--device", "cpu", "--profile", str(trace))
    assert shown.code == 2
    assert "there is no folder" in shown.err
