"""Peaks of a device, computed from the times of two kernels."""

import re
from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any, cast

import pytest
from numpy.typing import NDArray

from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.timing.clock_warmup import MOST_RUNS, warmup_runs
from meganeura_runtime.backends.webgpu.timing.device_peaks import RUNS, peaks_of

SECONDS = (0.5, 0.002)
"""Of the least run of each of the two kernels."""


class Clocked:
    """A device on which each kernel takes its time, longer at first."""

    def __init__(self, style: Style, limits: DeviceLimits) -> None:
        self.style, self.limits = style, limits
        self.info = SimpleNamespace(is_software=style is Style.SOFTWARE_VULKAN)
        self.launched: list[tuple[str, list[int], tuple[int, int, int]]] = []
        self.allocated: list[int] = []
        self.runs: list[int] = []

    def allocate(self, size: int) -> SimpleNamespace:
        self.allocated.append(size)
        return SimpleNamespace(size=size)

    def free(self, buffer: SimpleNamespace) -> None:
        self.allocated.remove(buffer.size)

    def write(self, at: Range, data: NDArray[Any]) -> None:
        assert data.nbytes == at.size

    def launch(
        self, text: str, ranges: Sequence[Range], workgroups: tuple[int, int, int]
    ) -> object:
        self.launched.append((text, [at.size for at in ranges], workgroups))
        self.runs.append(0)
        return self

    def timed(self, launches: Sequence[object], before: int) -> list[float]:
        assert (len(launches), before >= 0) == (1, True)
        self.runs[-1] += 1
        extra = {1: 7.0, 4: 0.0}.get(self.runs[-1], 1.0)
        return [SECONDS[len(self.launched) - 1] * (1 + extra)]


@pytest.mark.parametrize(
    ("style", "limits", "copied"),
    [
        (Style.GPU, DeviceLimits(binding_bytes=1 << 30), 65_535 * 4096),
        (Style.GPU, DeviceLimits(binding_bytes=100 << 20, workgroups=1000), 25_000 * 4096),
        (Style.GPU, DeviceLimits(binding_bytes=(1 << 20) + 4), 1 << 20),
        (Style.SOFTWARE_VULKAN, DeviceLimits(), 1 << 20),
    ],
)
def test_peaks_are_the_work_of_two_kernels_in_the_time_of_their_fastest_runs(
    style: Style, limits: DeviceLimits, copied: int
) -> None:
    device = Clocked(style, limits)
    found = peaks_of(cast("Device", device))
    assert device.runs == [1 + RUNS] * 2
    assert device.allocated == []
    (sums, held, groups), (_, copies, across) = device.launched
    turns = re.search(r"turn < (\d+)u", sums)
    lanes = re.search(r"workgroup_size\((\d+)\)", sums)
    assert turns is not None
    assert lanes is not None
    adds = sums.count("* factor + term") * int(turns[1]) * int(lanes[1]) * prod(groups)
    assert found.flops == pytest.approx(2 * 4 * adds / SECONDS[0])
    assert held == [16 * groups[0]]
    assert copies == [copied] * 2
    assert prod(across) * 256 * 16 == copied
    assert max(across) <= limits.workgroups
    assert found.bandwidth == pytest.approx(2 * copied / SECONDS[1])
    assert "multiply-adds" in found.how


@pytest.mark.parametrize(
    ("seconds", "runs"),
    [(0.0, MOST_RUNS), (6e-6, MOST_RUNS), (1e-4, 1200), (0.01, 12), (0.06, 2), (0.07, 1), (9, 1)],
)
def test_an_adapter_is_kept_busy_for_a_while_before_it_is_timed(seconds: float, runs: int) -> None:
    """Twice 60 ms at its slow clock; software has none that rises."""
    for style, expected in ((Style.GPU, runs), (Style.SOFTWARE_VULKAN, 0)):
        assert warmup_runs(cast("Device", Clocked(style, DeviceLimits())), seconds) == expected
