"""The contenders: frameworks in their modes, by the names that the tables give them."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.case import Case
from benchmarks.peers.contender import Contender, Precision
from benchmarks.peers.ours import Ours

COMMON: Sequence[Precision] = ("f32", "tf32", "bf16")
"""Those that all frameworks have."""


@dataclass(frozen=True)
class Mode:
    """A framework in one of its modes."""

    name: str
    make: Callable[[str, Precision], Contender]
    """From the device, `cuda` or `cpu`, and a precision; may fail as an import does."""
    precisions: Sequence[Precision] = COMMON
    is_ours: bool = False
    by_xla: bool = False
    """True if it is compiled by XLA, which times kernels while it compiles."""
    trains: bool = True
    infers: bool = True

    def takes(self, case: Case, precision: Precision) -> bool:
        """True if it is compared on a case."""
        able = self.trains if case.trains else self.infers
        return able and precision in self.precisions


def _ours_xla(device: str, precision: Precision) -> Contender:
    _leave_memory()
    return Ours("xla:gpu" if device == "cuda" else "xla:cpu", precision)


def _ours_wgpu(device: str, precision: Precision) -> Contender:
    del device
    return Ours("wgpu", precision)


def _ours_dawn(device: str, precision: Precision) -> Contender:
    del device
    return Ours("dawn", precision)


def _jax(device: str, precision: Precision) -> Contender:
    _leave_memory()
    from benchmarks.peers.with_jax import WithJax  # noqa: PLC0415  may be missing

    return WithJax("gpu" if device == "cuda" else "cpu", precision)


def _leave_memory() -> None:
    """Else JAX takes three quarters of the GPU's memory at once."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _torch(
    mode: str, *, mixed: bool = False, widened: bool = False
) -> Callable[[str, Precision], Contender]:
    def make(device: str, precision: Precision) -> Contender:
        from benchmarks.peers.with_torch import WithTorch  # noqa: PLC0415  may be missing

        return WithTorch(device, mode, precision, mixed, widened)

    return make


def _onnx(device: str, precision: Precision) -> Contender:
    del device, precision
    from benchmarks.peers.with_onnx import WithOnnx  # noqa: PLC0415  may be missing

    return WithOnnx()


MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("ours xla", _ours_xla, is_ours=True, by_xla=True),
        Mode("ours wgpu", _ours_wgpu, ("f32",), is_ours=True),
        Mode("ours dawn", _ours_dawn, ("f32", "f16"), is_ours=True),
        Mode("JAX by hand", _jax, by_xla=True),
        Mode("torch eager", _torch("eager")),
        Mode("torch compiled", _torch("compiled")),
        Mode("torch CUDA graphs", _torch("graphs")),
        # Where weights in bfloat16 are slower than mixed precision.
        Mode("torch CUDA graphs, autocast", _torch("graphs", mixed=True), ("bf16",), trains=False),
        Mode(
            "torch CUDA graphs, float32 outputs",
            _torch("graphs", widened=True),
            ("bf16",),
            trains=False,
        ),
        Mode("ORT WebGPU", _onnx, ("f32",), trains=False),
    )
}
"""In the order of the tables; the first that runs is what the others are compared with."""
