"""Peaks of a device, measured on it, which is more exact than a table of cards.

Two tiny kernels: one multiplies and adds in registers, one copies. Nothing a model runs is expected
to reach either.
"""

from math import prod

import numpy as np

from meganeura_runtime.backends.timing.profile import Peaks
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.timing.clock_warmup import warmup_runs

MULTIPLY_ADDS = """\
@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
    // The same for all lanes, so that a register file has little to read besides the sums.
    let factor = b0[0].x;
    let term = b0[1].x;
    var a = b0[lane % 2u];
    var b = b0[lane % 3u];
    var c = b0[lane % 5u];
    for (var turn = 0u; turn < {turns}u; turn++) {{
{body}
    }}
    if (a.x + b.x + c.x == 1.0f) {{
        b0[group.x] = a + b + c;
    }}
}}
"""
AT_ONCE = 16
"""Multiply-adds of each chain in one turn of the loop."""
CHAINS = 3
COPY = """\
@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * groups.x + group.x) * 256u + lane;
    b1[i] = b0[i];
}
"""
RUNS = 7
"""Runs of which the fastest counts."""
TURNS = {Style.GPU: 128, Style.SOFTWARE_VULKAN: 32}
GROUPS = {Style.GPU: 1 << 14, Style.SOFTWARE_VULKAN: 1 << 6}
COPIED = {Style.GPU: 256 << 20, Style.SOFTWARE_VULKAN: 1 << 20}
"""Bytes: far more than the caches of a GPU hold, but no more than those of a CPU."""


def peaks_of(device: Device) -> Peaks:
    """The peaks of an adapter, by its own clock."""
    how = "multiply-adds in registers, and a copy"
    return Peaks(_multiply_adds(device), _copies(device), how)


def _multiply_adds(device: Device) -> float:
    turns, groups = TURNS[device.style], GROUPS[device.style]
    line = "        a = a * factor + term; b = b * factor + term; c = c * factor + term;"
    text = MULTIPLY_ADDS.format(turns=turns, body="\n".join([line] * AT_ONCE))
    at = Range(device.allocate(16 * groups), 0, 16 * groups)
    device.write(at, np.full(4 * groups, 0.5, np.float32).view(np.uint8))
    seconds = _least(device, text, [at], (groups, 1, 1))
    device.free(at.buffer)
    return 2 * 4 * CHAINS * AT_ONCE * turns * groups * 64 / seconds


def _copies(device: Device) -> float:
    size = min(COPIED[device.style], device.limits.binding_bytes)
    across = min(size // (16 * 256), device.limits.workgroups)
    workgroups = (across, size // (16 * 256) // across, 1)
    size = 16 * 256 * prod(workgroups)
    ranges = [Range(device.allocate(size), 0, size) for _ in range(2)]
    seconds = _least(device, COPY, ranges, workgroups)
    for at in ranges:
        device.free(at.buffer)
    return 2 * size / seconds


def _least(
    device: Device, text: str, ranges: list[Range], workgroups: tuple[int, int, int]
) -> float:
    launch = device.launch(text, ranges, workgroups)
    before = warmup_runs(device, device.timed([launch], 1)[0])
    return max(1e-9, min(device.timed([launch], before)[0] for _ in range(RUNS)))
