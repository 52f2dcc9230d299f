"""The processes of a run on several hosts, and how they find each other."""

from threading import Lock

import jax

from meganeura_runtime.backends.backend import Hosts, Rendezvous
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.xla.failures import explained
from meganeura_runtime.backends.xla.launchers import is_launched

PATIENCE = 120
"""Seconds that processes wait for each other to start."""
HEARTBEAT = 20
"""Seconds without a sign of life after which a process counts as dead."""

_joining = Lock()
"""Held while a thread meets the others: devices may be opened by another."""


def join(rendezvous: Rendezvous) -> None:
    """Meet the other processes at a place; raises `DeviceError` where they do not come."""
    hosts = rendezvous.hosts
    with explained():
        try:
            jax.distributed.initialize(
                rendezvous.coordinator,
                hosts.count,
                hosts.index,
                initialization_timeout=PATIENCE,
                heartbeat_timeout_seconds=HEARTBEAT,
            )
        except ValueError as error:
            raise DeviceError(f"JAX: {error}") from error


def join_launched() -> None:
    """Meet the others where a launcher started several processes, unless that is done."""
    with _joining:
        if is_launched() and not jax.distributed.is_initialized():
            with explained():
                jax.distributed.initialize(
                    initialization_timeout=PATIENCE, heartbeat_timeout_seconds=HEARTBEAT
                )


def hosts_here() -> Hosts:
    """The processes, of which this is one."""
    return Hosts(jax.process_count(), jax.process_index())
