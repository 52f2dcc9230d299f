"""Base of backends: the names of their devices, their capabilities, and how a device is opened.

A backend is one folder and one registration. Its `Backend` is light to import: what runs graphs is
imported by the methods that need it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.errors import DeviceError

if TYPE_CHECKING:
    from meganeura_dsl.ir.cost_model import DeviceModel
    from meganeura_dsl.ir.graph import Graph
    from meganeura_dsl.ir.quantization import Quantization
    from meganeura_dsl.settings.device_sharding import DeviceSharding
    from meganeura_runtime.backends.base import Session
    from meganeura_runtime.backends.memory_roles import StepMemory
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.support.tracing import Span


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device that is there, as `meganeura devices` lists it."""

    name: str
    title: str
    details: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a backend, as data; those left out it does not have."""

    opens_slowly: bool = False
    """True if a device is worth opening in a thread while the program is read."""
    stages: tuple[str, ...] = ()
    """The stages of `build --emit`; `after:PASS` stands for every name that begins with
    `after:`."""
    portable_stages: tuple[str, ...] = ()
    """Stages that are the same on all of its devices, so that none is opened for them."""
    precisions: tuple[ComputePrecision, ...] = (ComputePrecision.F32,)
    """The precisions that its devices can compute in, if not all of them each."""
    plans_memory: bool = False
    """True if it knows what a step takes without compiling it."""
    plans_of: str = ""
    """The backend whose plans it runs, so that a list of plans need not have both."""
    cache: str = ""
    """The folder of our cache in which a library of its own keeps what it compiled."""
    only_f32: str = "it has kernels for no others"
    """The reason why there is no other precision, if there is none."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The processes that train one model together, and which of them this is."""

    count: int = 1
    index: int = 0

    @property
    def is_first(self) -> bool:
        """True if this one writes what is written once."""
        return self.index == 0


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The address where the processes of a run find each other, and the number of this one."""

    coordinator: str
    """`HOST:PORT` of the first process."""
    hosts: Hosts


@dataclass(frozen=True, slots=True)
class Spread:
    """The use of several devices by sessions."""

    devices: int
    """The number of devices of all hosts together."""
    sharding: DeviceSharding
    rows: Mapping[str, int]
    """The rows of one example, for inputs whose first axis counts examples; others are
    replicated."""


ALONE = Hosts()
"""One process."""


class Backend(ABC):
    """Runs graphs on devices of one kind. Errors about devices are raised as `DeviceError`."""

    name: ClassVar[str]
    """The part of its devices' names before the first colon: `wgpu`."""
    title: ClassVar[str]
    """The name of its devices in messages: `GPU`."""
    forms: ClassVar[tuple[str, ...]]
    """The names of its devices, for people: `wgpu`, `wgpu:N`."""
    pattern: ClassVar[str]
    """A regular expression that matches exactly the names of its devices."""
    capabilities: ClassVar[Capabilities] = Capabilities()

    @property
    def is_installed(self) -> bool:
        """True if the library that it runs on is."""
        return True

    def accepts(self, name: str) -> bool:
        """True if a name is one of a device, which need not be there."""
        return re.fullmatch(self.pattern, name) is not None

    def can_emit(self, stage: str) -> bool:
        """True if `build --emit` prints a stage of this backend."""
        return _is_among(stage, self.capabilities.stages)

    def is_portable(self, stage: str) -> bool:
        """True if a stage is the same on all devices of this backend."""
        return _is_among(stage, self.capabilities.portable_stages)

    @abstractmethod
    def devices(self) -> Sequence[DeviceRow]:
        """The devices there are; raises `DeviceError` where there can be none, and says why."""

    @abstractmethod
    def require(self, name: str) -> None:
        """Raise `DeviceError` unless there is a device of that name; none is opened."""

    @abstractmethod
    def preferred(self) -> str:
        """The name of the device that `auto` takes; raises `DeviceError` if it is to take none.

        The text of the error is why; it is empty where a user who asks for nothing misses nothing.
        """

    @abstractmethod
    def ops(self) -> OpSupport:
        """Returns the table of ops that it runs, lowers and refuses."""

    def require_precision(self, precision: ComputePrecision) -> None:
        """Raise `ProblemError` for a precision that none of its devices has."""
        able = self.capabilities
        if precision not in able.precisions:
            from meganeura_dsl.diagnostics.problem import ProblemError
            from meganeura_runtime.backends.device_problems import UnsupportedPrecision

            raise ProblemError(
                UnsupportedPrecision(self.name, precision, able.only_f32, able.precisions)
            )

    def cost_model(self, name: str) -> DeviceModel:
        """Returns the cost model of a device before it is opened; the device need not exist."""
        del name
        from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE

        return DEFAULT_DEVICE

    @abstractmethod
    def open(self, name: str, reason: str) -> OpenDevice:
        """The device of that name, which was chosen for a reason."""

    def meet(self, rendezvous: Rendezvous | None) -> Hosts:
        """Bring the processes of a run together, before a device is opened; raises `DeviceError`.

        Without a place to meet, those that a launcher started, where the backend knows of it.
        """
        if rendezvous is None:
            return ALONE
        raise DeviceError(
            f"`{self.name}` runs on one host, and not on {rendezvous.hosts.count}; "
            f"`--device xla` runs on several"
        )

    def memory(self, graph: Graph, device: OpenDevice | None) -> StepMemory | None:
        """Returns the memory of a step on a device, or on any; `None` if only a run can tell.

        Raises `LimitError` for a value that is larger than the device can hold in one piece, and
        `ProblemError` for an op that is refused.
        """
        del graph, device
        return None

    def emit(
        self, stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision
    ) -> str:
        """The text of a stage, for a device or for any; raises `ValueError` for an unknown pass.

        A device computes in that precision already.
        """
        raise NotImplementedError(f"{self.name} emits no {stage} of {graph} in {precision}")


class OpenDevice(ABC):
    """A device that is ready to run graphs."""

    backend: Backend
    description: str
    """The device and why it was chosen, for people: `cpu (as asked)`."""
    short_name: str
    """The name of the device alone."""
    note: str = ""
    """A line about how it is configured, if there is anything to say."""

    @abstractmethod
    def open(self, graph: Graph) -> Session:
        """A session of a graph.

        Raises `ProblemError` for an op that the backend refuses, and `DeviceError`.
        """

    def packs(self, levels: Mapping[str, Quantization]) -> Mapping[str, Quantization]:
        """The quantized parameters that its sessions keep packed: all of them.

        None where each step would unpack them in its own pass.
        """
        return levels

    @property
    def hosts(self) -> Hosts:
        """The processes that its sessions run in."""
        return ALONE

    def spread(self, spread: Spread) -> OpenDevice:
        """This device and others like it as one; raises `DeviceError` where that cannot be."""
        raise DeviceError(
            f"`{self.backend.name}` runs on one device, and not on {spread.devices}; "
            f"`--device xla` runs on several"
        )

    def replicated(self, graph: Graph) -> tuple[str, ...]:
        """The parameters and states of a graph that were to be sharded and cannot be."""
        del graph
        return ()

    def at(self, precision: ComputePrecision) -> OpenDevice:
        """The same device, computing so exactly; raises `ProblemError` if it cannot."""
        self.backend.require_precision(precision)
        return self

    def tuned(self) -> OpenDevice:
        """The same device, configured as `meganeura tune` found best."""
        return self

    def profile(self, graph: Graph) -> Profile | None:
        """Returns the profile of a step; `None` where it cannot be measured."""
        del graph
        return None

    def tracer(self, timeline: Timeline, span: Span) -> Tracer:
        """Returns a tracer of the device's own work; `span` traces the work of its host code."""
        del span
        from meganeura_runtime.backends.timing.tracer import Tracer

        return Tracer(timeline)


def _is_among(stage: str, stages: Sequence[str]) -> bool:
    return any(
        stage.startswith(each.removesuffix("PASS")) if each.endswith(":PASS") else stage == each
        for each in stages
    )
