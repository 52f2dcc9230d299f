"""Processes of a run on several hosts, and how they connect."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock, Thread

import jax

from meganeura_runtime.backends.backend import Hosts, Rendezvous
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.device.launchers import is_launched

PATIENCE = 120
"""Seconds that processes wait for each other to start."""
HEARTBEAT = 20
"""Seconds without a sign of life after which a process counts as dead."""

_joining = Lock()
"""Lock of the thread that connects: devices may be opened by another."""


def join(rendezvous: Rendezvous) -> None:
    """Connect to the other processes; raises `DeviceError` if they do not come."""
    hosts = rendezvous.hosts
    came = f"not all of {hosts.count} hosts came to {rendezvous.coordinator}"
    _meet(
        came,
        partial(jax.distributed.initialize, rendezvous.coordinator, hosts.count, hosts.index),
    )


def join_launched() -> None:
    """Connect if a launcher started several processes, and they are not connected yet."""
    with _joining:
        if is_launched() and not jax.distributed.is_initialized():
            _meet("not all processes of the launcher came", jax.distributed.initialize)


def _meet(missing: str, start: Callable[..., None]) -> None:
    """Wait for the others in a thread, as JAX aborts the process at its own timeout."""
    met: Future[None] = Future()

    def initialize() -> None:
        try:
            start(initialization_timeout=2 * PATIENCE, heartbeat_timeout_seconds=HEARTBEAT)
        except Exception as error:  # noqa: BLE001 - raised by who waits
            met.set_exception(error)
        else:
            met.set_result(None)

    Thread(target=initialize, name="hosts", daemon=True).start()
    try:
        with explained():
            met.result(PATIENCE)
    except TimeoutError:
        raise DeviceError(f"{missing} within {PATIENCE} s") from None
    except ValueError as error:
        raise DeviceError(f"JAX: {error}") from error


def hosts_here() -> Hosts:
    """Returns the number of processes, and the index of this one."""
    return Hosts(jax.process_count(), jax.process_index())
