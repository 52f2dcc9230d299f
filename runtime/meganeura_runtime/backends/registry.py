"""The registry of backends, and the choice of the device that runs a program.

To add a backend to this package, name it in `BUILT_IN`. Another package is a plugin: it names its
backend in its metadata, as an entry point of the group `meganeura.backends` under the first part of
its devices' names. `register` adds one to a running process.

Opening a device may take half a second, much of it outside of Python: where it is known early which
one will be asked for, a thread opens it while the program is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from meganeura_dsl.plugins.plugin_groups import PluginGroup
from meganeura_dsl.plugins.plugin_problems import PluginError, UnfitPluginError
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_names import SYNTAX, DeviceNames, gpu_words
from meganeura_dsl.support.phases import Phase, report_phase
from meganeura_runtime.backends.backend import ALONE, Backend, Hosts, OpenDevice, Rendezvous
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.backends.webgpu.backend import DawnBackend, WebGpuBackend
from meganeura_runtime.backends.xla.backend import XlaBackend

if TYPE_CHECKING:
    from concurrent.futures import Future

    from meganeura_dsl.ir.cost_model import DeviceModel

AUTO = "auto"
BUILT_IN: tuple[Backend, ...] = (WebGpuBackend(), DawnBackend(), XlaBackend(), ReferenceBackend())
"""The backends of this package, in the order in which `auto` prefers them.

In float32 the kernels of `wgpu` are faster than XLA's for convolutions, and about as fast for the
rest, so `xla` is taken where its GPU has no driver that `wgpu` knows."""

_registered: list[Backend] = []


class UnknownDeviceError(DeviceError):
    """A name is that of no device of any backend."""


def register(backend: Backend) -> None:
    """Add a backend to this process; raises `ValueError` if its name is taken."""
    if any(backend.name == each.name for each in (*BUILT_IN, *_registered)):
        raise ValueError(f"there is a backend `{backend.name}` already")
    _registered.append(backend)


def backends() -> tuple[tuple[Backend, ...], tuple[PluginError, ...]]:
    """Every backend, built in, registered or installed, and why some cannot be loaded."""
    registered = {each.name for each in _registered}
    plugins, errors = PLUGINS.usable()
    others = (each for name, each in plugins.items() if name not in registered)
    return (*BUILT_IN, *_registered, *others), errors


def backend_of(device: str) -> Backend:
    """The backend of a device's name. Raises `UnknownDeviceError`, or `PluginError`."""
    if SYNTAX.fullmatch(device) is None:
        raise _unknown(device)
    name = device.partition(":")[0]
    known = {each.name: each for each in (*BUILT_IN, *_registered)}
    backend = known.get(name) or PLUGINS.find(name)
    if backend is None or not backend.accepts(device):
        raise _unknown(device)
    return backend


def device_forms(of: Iterable[Backend] = BUILT_IN) -> tuple[str, ...]:
    """Returns the forms of device names: `auto`, `cpu`, `wgpu`, `wgpu:N`."""
    return (AUTO, *sorted(form for backend in of for form in backend.forms))


def stage_forms() -> tuple[str, ...]:
    """The stages of backends that `build --emit` prints."""
    stages = (stage for backend in BUILT_IN for stage in backend.capabilities.stages)
    return tuple(dict.fromkeys(stages))


def emitting(stage: str) -> Backend | None:
    """The backend that prints a stage, for a graph that is to run on no device in particular."""
    return next((each for each in (*BUILT_IN, *_registered) if each.can_emit(stage)), None)


def is_device(name: str) -> bool:
    """True if it is `auto` or a name of some backend's devices, which need not be there."""
    try:
        if name != AUTO:
            backend_of(name)
    except UnknownDeviceError:
        return False
    except PluginError:
        pass  # its backend cannot be loaded, as is said when the device is opened
    return True


def _listed(conjunction: str) -> str:
    *first, last = device_forms(backends()[0])
    return f"{', '.join(first)} {conjunction} {last}"


DEVICE_NAMES = DeviceNames(is_device, lambda: _listed("or"))
"""The values of the setting `device`."""


def choose_device(
    selector: str = AUTO,
    *,
    tuned: bool = True,
    precision: ComputePrecision = ComputePrecision.F32,
) -> OpenDevice:
    """The device of that name; `auto` takes the first backend that has one to prefer.

    Raises `DeviceError`, `PluginError` for a plugin that cannot be used, and `ProblemError` for a
    precision that the device does not have; `auto` looks at no backend without it. Kernels are
    configured as they were tuned for the device, if they were.
    """
    begun = _begun.pop(selector, None)
    if begun is None or (selector == AUTO and precision is not ComputePrecision.F32):
        device, phase = _timed(selector, precision)
    else:
        device, phase = begun.result()
    if device.backend.capabilities.opens_slowly:
        report_phase(phase)
    device = device.at(precision)
    return device.tuned() if tuned else device


def meet_hosts(selector: str, rendezvous: Rendezvous | None) -> Hosts:
    """Bring the processes of a run together, before the device is opened; raises `DeviceError`.

    Without a place to meet, those that a launcher started, if any.
    """
    if selector != AUTO:
        return backend_of(selector).meet(rendezvous)
    if rendezvous is None:
        return ALONE
    raise DeviceError("a run on several hosts names its device, such as `--device xla`")


def device_or_any(
    selector: str,
    *,
    tuned: bool = True,
    precision: ComputePrecision = ComputePrecision.F32,
) -> tuple[Backend, OpenDevice | None]:
    """The backend and the device of a name, to plan for; nothing is to run.

    No device stands for any of a backend, where the backend is named and has none here. Raises
    `DeviceError` for another name that no device has, and `ProblemError` for a precision that the
    device, or all of the backend, do not have.
    """
    try:
        device = choose_device(selector, tuned=tuned, precision=precision)
    except DeviceError:
        if selector == AUTO or backend_of(selector).name != selector:
            raise
        backend = backend_of(selector)
        backend.require_precision(precision)
        return backend, None
    return device.backend, device


def begin_to_open(selector: str) -> None:
    """Open in a thread what `choose_device` will be asked for, if that is worth one."""
    quick = {each.name for each in BUILT_IN if not each.capabilities.opens_slowly}
    if selector not in quick and selector not in _begun:
        from meganeura_runtime.support.background import begin

        _begun[selector] = begin("device", _timed, selector)


def require_device(selector: str) -> None:
    """Raise `DeviceError` unless there is a device of that name; none is opened."""
    if selector != AUTO:
        backend_of(selector).require(selector)


def model_of(selector: str, precision: ComputePrecision = ComputePrecision.F32) -> DeviceModel:
    """Returns the cost model of a device before it is opened.

    In f16 no convolution is Winograd's: matrix units multiply in less time than its transforms
    move elements. A device that cannot be had is none of its concern: `require_device` and
    `choose_device` say so.
    """
    try:
        backend, name, _ = _meant(selector, precision)
        model = backend.cost_model(name)
        return replace(model, winograd=()) if precision is ComputePrecision.F16 else model
    except (DeviceError, PluginError):
        from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE

        return DEFAULT_DEVICE


# --- opening -------------------------------------------------------------------------------------


_begun: dict[str, Future[tuple[OpenDevice, Phase]]] = {}


def _timed(
    selector: str, precision: ComputePrecision = ComputePrecision.F32
) -> tuple[OpenDevice, Phase]:
    start = perf_counter()
    backend, name, reason = _meant(selector, precision)
    device = backend.open(name, reason)
    return device, Phase("gpu_init", "device", start, perf_counter())


def _meant(
    selector: str, precision: ComputePrecision = ComputePrecision.F32
) -> tuple[Backend, str, str]:
    """The backend, the name of the device, and why it is that one."""
    if selector != AUTO:
        return backend_of(selector), selector, "as asked"
    reasons: list[str] = []
    for backend in BUILT_IN:
        if precision not in backend.capabilities.precisions:
            continue
        try:
            return backend, backend.preferred(), "; ".join(reasons)
        except DeviceError as error:
            reasons += [reason] if (reason := str(error)) else []
    # Never for f32, which the device `cpu` has, and is always there.
    half = precision is ComputePrecision.F16
    cure = "the device `dawn` may" if half else "`xla:cpu` can, slowly"
    raise DeviceError(f"no GPU computes in {precision} here; {cure}")


# --- plugins -------------------------------------------------------------------------------------


def _checked(name: str, loaded: object) -> Backend:
    if not isinstance(loaded, Backend):
        raise UnfitPluginError("is no instance of a class that derives from `Backend`")
    if loaded.name != name:
        raise UnfitPluginError(f"is the backend `{loaded.name}`, and its entry point is `{name}`")
    return loaded


PLUGINS = PluginGroup(
    "backend",
    "backends",
    frozenset(each.name for each in BUILT_IN),
    _checked,
    re.compile(r"[A-Za-z][A-Za-z0-9_.-]*"),
)
"""The backends of other packages."""


def _unknown(device: str) -> UnknownDeviceError:
    said = f"`{device}` is no device; there are {_listed('and')}"
    words = gpu_words(device)
    return UnknownDeviceError(f"{said}; {words}" if words else said)
