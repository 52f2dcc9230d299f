"""JAX's data about a compiled step: its memory, its kernels, and products of libraries."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from jax import profiler
from jax.profiler import ProfileData
from jax.stages import Compiled

from benchmarks.peers.contender import Kernel, Step
from meganeura_runtime.backends.xla.timing.device_events import device_events, options

GPU, STREAM = "/device:GPU", "Stream"
"""Of a GPU every kernel is on the line of its stream, and what it is part of on other lines."""
FINISHED = re.compile(r'custom_call_target="__cublas\$lt\$matmul".*"epilogue":"(?:BIAS_)?GELU"')
"""The instruction of a product of which cuBLASLt takes the approximate gelu."""


def mebibytes(compiled: Compiled) -> float:
    """Returns the peak memory of a step: inputs, outputs elsewhere, and temporaries."""
    sizes = compiled.memory_analysis()
    assert sizes is not None, "XLA knows it on CPUs and GPUs"
    parts: Mapping[str, int] = {
        "in": sizes.argument_size_in_bytes,
        "out": sizes.output_size_in_bytes - sizes.alias_size_in_bytes,
        "between": sizes.temp_size_in_bytes,
    }
    return sum(parts.values()) / 2**20


def finished_products(text: str) -> int:
    """Returns the number of a compiled program's products that cuBLASLt gives with their gelu."""
    return sum(FINISHED.search(line) is not None for line in text.splitlines())


def kernels(action: Step) -> Sequence[Kernel]:
    """The kernels of what a function does; on a CPU, the instructions of the compiled step."""
    with TemporaryDirectory() as folder:
        with profiler.trace(folder, profiler_options=options()):
            action()
        (file,) = Path(folder).rglob("*.xplane.pb")
        on_gpu = list(_on_gpu(ProfileData.from_file(str(file))))
        return on_gpu or [
            Kernel(each.name, each.start, each.end) for each in device_events(Path(folder))
        ]


def _on_gpu(data: ProfileData) -> Iterator[Kernel]:
    for plane in data.planes:
        if not plane.name.startswith(GPU):
            continue
        for line in plane.lines:
            if line.name.startswith(STREAM):
                for event in line.events:
                    start = 1e-9 * event.start_ns
                    yield Kernel(event.name, start, start + 1e-9 * event.duration_ns)
