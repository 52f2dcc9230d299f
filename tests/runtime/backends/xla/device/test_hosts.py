"""Processes of a run, as launchers start them, and devices of several of them as one."""

import os
from collections.abc import Mapping
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import ALONE, Hosts, Rendezvous, Spread
from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.registry import meet_hosts
from meganeura_runtime.backends.xla import open_device as xla_device
from meganeura_runtime.backends.xla.backend import XlaBackend
from meganeura_runtime.backends.xla.device import devices, hosts
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.device.launchers import SEVERAL, is_launched
from meganeura_runtime.backends.xla.open_device import XlaDevice

HERE = Rendezvous("127.0.0.1:5000", Hosts(4, 2))


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """With what JAX was asked to bring processes together; there are three, of which this is 1."""
    told: list[tuple[object, ...]] = []

    def initialize(*where: object, **patience: object) -> None:
        assert patience == {"initialization_timeout": 240, "heartbeat_timeout_seconds": 20}
        told.append(where)

    for name in SEVERAL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: bool(told))
    monkeypatch.setattr(jax, "process_count", lambda: 3 if told else 1)
    monkeypatch.setattr(jax, "process_index", lambda: 1 if told else 0)
    return told


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_STEP_NUM_TASKS": "2"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "16"}, True),
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, False),
        ({"TPU_WORKER_HOSTNAMES": "one,other"}, True),
        ({"MEGASCALE_COORDINATOR_ADDRESS": ""}, False),
        ({"MEGASCALE_COORDINATOR_ADDRESS": "one:8080"}, True),
        ({"SLURM_STEP_NUM_TASKS": "1", "OMPI_COMM_WORLD_SIZE": "2"}, True),
    ],
)
def test_those_that_a_launcher_started_meet_without_being_asked(
    joined: list[tuple[object, ...]],
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    several: bool,
) -> None:
    """Once, whoever asks first: the command or the device."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_launched() == several
    for _ in range(2):
        assert meet_hosts("xla", None) == (Hosts(3, 1) if several else ALONE)
        hosts.join_launched()
        assert joined == ([()] if several else [])


def test_those_that_name_a_place_meet_there(
    joined: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert meet_hosts("xla:gpu", HERE) == Hosts(3, 1)
    assert joined == [("127.0.0.1:5000", 4, 2)]

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("coordinator_address should be defined")

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    with pytest.raises(DeviceError, match=r"^JAX: coordinator_address should be defined$"):
        meet_hosts("xla", HERE)


def test_hosts_that_do_not_come_are_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: ended.wait(60))
    monkeypatch.setattr(hosts, "PATIENCE", 0.05)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(DeviceError, match=r"not all of 4 hosts came to 127\.0\.0\.1:5000 within"):
        hosts.join(HERE)
    with pytest.raises(DeviceError, match=r"not all processes of the launcher came within 0\.05 s"):
        hosts.join_launched()
    ended.set()


def test_other_devices_are_of_one_host() -> None:
    for name in ("cpu", "wgpu:1", "auto"):
        assert meet_hosts(name, None) == ALONE
    with pytest.raises(DeviceError, match="`cpu` runs on one host, and not on 4; `--device xla`"):
        meet_hosts("cpu", HERE)
    with pytest.raises(DeviceError, match="names its device, such as `--device xla`"):
        meet_hosts("auto", HERE)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.\nBFC", OutOfMemoryError),
        ("INTERNAL: no kernel image\nRESOURCE_EXHAUSTED in line 2", DeviceError),
    ],
)
def test_failures_of_xla_are_told_in_a_line(said: str, kind: type[DeviceError]) -> None:
    with pytest.raises(DeviceError) as caught, explained():
        raise JaxRuntimeError(said)
    assert type(caught.value) is kind
    assert str(caught.value) == f"XLA: {said.splitlines()[0]}"


# --- devices -------------------------------------------------------------------------------------


def devices_of(count: int, each: int, platform: str = "gpu") -> list[Any]:
    """Those of so many processes."""
    return [
        SimpleNamespace(
            platform=platform, process_index=number // each, id=number, device_kind="card"
        )
        for number in range(count * each)
    ]


def device_of(
    there: list[Any], first: int, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> XlaDevice:
    """One of them, where JAX has them."""
    monkeypatch.setattr(xla_device, "all_of_platform", lambda _: there)
    monkeypatch.setattr(xla_device, "of_platform", lambda _: there[:4])
    monkeypatch.setattr(xla_device, "hosts_here", lambda: hosts)
    monkeypatch.setattr(
        xla_device, "Mesh", lambda of, _: SimpleNamespace(devices=np.array(of), size=len(of))
    )
    return XlaDevice(XlaBackend(), there[first], "xla: card", "card")


@pytest.mark.parametrize(
    ("processes", "first", "asked", "reason"),
    [
        (1, 0, 2, None),
        (1, 0, 4, None),
        (1, 0, 5, "5 devices of the platform gpu are asked for; JAX has 4"),
        (1, 1, 2, "several devices are named together, as `xla:gpu`: `xla:gpu:N` is one of them"),
        (2, 0, 8, None),
        (2, 0, 4, "2 hosts have 8 devices, and use all of them: --set devices=8"),
        (2, 0, 9, "9 devices of the platform gpu are asked for; JAX has 8"),
    ],
)
def test_devices_are_spread_over_as_they_are_there(
    processes: int, first: int, asked: int, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_GRAPH_MIXING_SUPPORT", "0")
    there = devices_of(processes, 4)
    device = device_of(there, first, Hosts(processes, 0), monkeypatch)
    spread = Spread(asked, DeviceSharding.DATA, {"x": 1})
    if reason is not None:
        with pytest.raises(DeviceError) as caught:
            device.spread(spread)
        assert str(caught.value) == reason
        return
    found = device.spread(spread)
    on = " of 2 hosts" if processes > 1 else ""
    assert found.description == f"xla: card; {asked} devices{on}, data"
    assert found.placement is not None
    assert [*cast("Any", found.placement).mesh.devices] == there[:asked]


@pytest.mark.parametrize(
    ("platform", "before", "after"), [("gpu", None, "0"), ("gpu", "1", "1"), ("cpu", None, None)]
)
def test_nccl_is_told_that_collectives_are_not_mixed(
    platform: str, before: str | None, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {} if before is None else {"NCCL_GRAPH_MIXING_SUPPORT": before}
    monkeypatch.setattr(os, "environ", environment)
    device = device_of(devices_of(1, 2, platform), 0, ALONE, monkeypatch)
    assert environment.get("NCCL_GRAPH_MIXING_SUPPORT") == before
    device.spread(Spread(2, DeviceSharding.DATA, {"x": 1}))
    assert environment.get("NCCL_GRAPH_MIXING_SUPPORT") == after


def test_devices_of_one_process_are_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each feeds a run of the examples of a step."""
    there = [SimpleNamespace(process_index=p, id=n) for p, n in ((1, 0), (0, 3), (1, 2), (0, 1))]
    monkeypatch.setattr(jax, "devices", lambda _: there)
    found = [(each.process_index, each.id) for each in devices.all_of_platform("cpu")]
    assert found == [(0, 1), (0, 3), (1, 0), (1, 2)]
