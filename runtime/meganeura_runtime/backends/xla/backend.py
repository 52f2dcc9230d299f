"""The backend `xla`: whole steps compiled by XLA, on CPUs and on GPUs with tensor cores."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.backends.backend import ALONE, Backend, Capabilities, DeviceRow
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.xla import CACHE
from meganeura_runtime.backends.xla.device.launchers import is_launched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.backend import Hosts, OpenDevice, Rendezvous
    from meganeura_runtime.backends.memory_roles import StepMemory
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.xla.open_device import XlaDevice

LIBRARY = "jax"
PLUGINS = "jax_plugins"
"""Package of all plugins by which JAX uses more than the CPU."""


class XlaBackend(Backend):
    """One device for each device of JAX, which is imported when the first of them is asked for."""

    name = "xla"
    title = "device of JAX"
    forms = ("xla", "xla:cpu", "xla:gpu", "xla:gpu:N")
    pattern = r"xla(:cpu|:gpu(:[0-9]{1,9})?)?"
    capabilities = Capabilities(
        opens_slowly=True,
        stages=("stablehlo", "precision", "after:PASS"),
        precisions=(ComputePrecision.F32, ComputePrecision.TF32, ComputePrecision.BF16),
        cache=CACHE,
    )

    @property
    def is_installed(self) -> bool:
        """True if JAX is."""
        return find_spec(LIBRARY) is not None

    def devices(self) -> Sequence[DeviceRow]:
        """Returns every device of JAX."""
        _require_jax()
        from meganeura_runtime.backends.xla.device.devices import rows

        return rows()

    def require(self, name: str) -> None:
        """Raise `DeviceError` unless JAX has that device."""
        _require_jax()
        from meganeura_runtime.backends.xla.device.devices import named

        named(name)

    def preferred(self) -> str:
        """Returns a GPU; the CPU is left to the reference, which starts at once.

        Only where JAX has a plugin for something it is asked, which takes a second.
        """
        if find_spec(LIBRARY) is None or find_spec(PLUGINS) is None:
            raise DeviceError("")
        from meganeura_runtime.backends.xla.device.devices import of_platform

        if not of_platform("gpu"):
            raise DeviceError("JAX has no GPU")
        return f"{self.name}:gpu"

    def ops(self) -> OpSupport:
        """Returns the table of ops: every primitive."""
        _require_jax()
        from meganeura_runtime.backends.xla.passes.support import SUPPORT

        return SUPPORT

    def open(self, name: str, reason: str) -> XlaDevice:
        """Returns the device of that name."""
        _require_jax()
        from meganeura_runtime.backends.xla.device.devices import named
        from meganeura_runtime.backends.xla.open_device import XlaDevice

        device = named(name)
        short = f"{device.device_kind} by XLA"
        return XlaDevice(self, device, f"{name}: {short} ({reason})", short)

    def meet(self, rendezvous: Rendezvous | None) -> Hosts:
        """Meet through JAX's coordination service."""
        if rendezvous is None and not is_launched():
            return ALONE
        _require_jax()
        from meganeura_runtime.backends.xla.device.hosts import hosts_here, join, join_launched

        if rendezvous is None:
            join_launched()
        else:
            join(rendezvous)
        return hosts_here()

    def memory(self, graph: Graph, device: OpenDevice | None) -> StepMemory | None:
        """Returns the memory of each device, as XLA has laid the compiled step out."""
        _require_jax()
        from meganeura_runtime.backends.xla.open_device import XlaDevice

        return device.memory(graph) if isinstance(device, XlaDevice) else None

    def emit(
        self, stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision
    ) -> str:
        """Returns StableHLO, float types or the graph after a pass, for a device or the CPU."""
        _require_jax()
        from meganeura_runtime.backends.xla.emit import emit

        return emit(stage, graph, device, precision)


def _require_jax() -> None:
    if find_spec(LIBRARY) is None:
        raise DeviceError(f"JAX is not installed: {install_command('xla')}")
