"""The benchmark of the host, on the smallest step there is."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks import host
from tests.shared_entries import cache_of_processes

pytestmark = pytest.mark.adapter
SMALL = ["--batch", "2", "--size", "32", "--width", "2"]
LINE = """\
train fit(x: [batch, 3], label: i32[batch]):
  minimize cross_entropy(x |> fc: linear(2), label)
  run:
    data  = "points.safetensors"
    batch = 2
"""
PICTURES = """\
train fit(image: [batch, 3, {size}, {size}], label: i32[batch]):
  y = image |> conv: conv2d({width}, 3, pad=1)
  minimize cross_entropy(mean(y, 2, 3) |> fc: linear(1000), label)
  run:
    data  = "pictures.safetensors"
    batch = {batch}
"""
"""A network with the inputs of the ResNet and fewer kernels."""


def rows(text: str) -> list[str]:
    """The first cells of a table's rows."""
    return [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("|")]


def test_it_times_compiling(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "THREADS", (2,))
    monkeypatch.setattr("meganeura_runtime.backends.webgpu.device.device.MOST_COMPILERS", 16)
    host.main([*SMALL, "--only", "compile"])
    assert rows(capsys.readouterr().out) == ["threads", "---|---", "2"]


def test_it_times_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "STEPS", 1)
    monkeypatch.setattr(host, "PROGRAM", PICTURES)
    host.main([*SMALL, "--only", "steps"])
    found = rows(capsys.readouterr().out)
    assert found[2:] == [
        "uploaded once",
        "fed",
        "staged by a thread",
        "uploaded, its loss read at once",
    ]


def test_it_times_the_parts_of_a_cold_start(tmp_path: Path) -> None:
    program = tmp_path / "line.mgn"
    program.write_text(LINE)
    data = {"x": np.ones((4, 3), np.float32), "label": np.zeros(4, np.int32)}
    save_file(data, tmp_path / "points.safetensors")
    parts = host.cold_start(
        program, "wgpu", {"MEGANEURA_CACHE": cache_of_processes()}, tmp_path / "run"
    )
    assert list(parts) == list(host.PARTS.values())
    assert 0 < parts["program read, device open"] < parts[host.FIRST_LOSS]
    assert (tmp_path / "run" / "weights.safetensors").is_file()
