"""`meganeura profile`: a table of kernels, for people and for machines."""

import json

import pytest

from meganeura_dsl.cli.profile_report import places, seconds
from tests.cli.command import Command


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
    assert any(place.startswith("digits_mlp.mgn:") for place in found["rows"][0]["places"])
    assert found["memory"]["parameters"] > 0


def test_only_so_many_rows_are_listed(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "cpu", "--rows", "1")
    assert shown.code == 0
    assert " together (--rows shows more)" in shown.out


def test_a_size_that_there_is_not_is_refused(meganeura: Command) -> None:
    shown = meganeura("profile", "digits_mlp", "--device", "cpu", "--size", "batch=4")
    assert shown.code == 2
    assert "no input has a size `batch`" in shown.err


def test_times_and_places_are_short() -> None:
    assert (seconds(0.0123), seconds(4.5e-6)) == ("12.3 ms", "4.5 us")
    assert places(("net.mgn:8 layer.1",)) == "net.mgn:8 layer.1"
    assert places(("net.mgn:12 a", "net.mgn:8 b", "nn.mgn:3 c", "")) == "net.mgn:8,12 nn.mgn:3"
    assert places([f"net.mgn:{line}" for line in range(1, 9)]) == "net.mgn:1,2,3,4,5 ..."
