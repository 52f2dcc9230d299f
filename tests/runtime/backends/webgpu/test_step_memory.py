"""The memory of a step on an adapter, and the limits that it is compared with."""

from types import SimpleNamespace

import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Exp, Input, MatMul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu import step_memory as module
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits
from meganeura_runtime.backends.webgpu.step_memory import StepMemory, limits_named, step_memory

SMALL, LARGE = DeviceLimits(binding_bytes=1 << 20), DeviceLimits(binding_bytes=1 << 30)
ADAPTERS = {"wgpu": SMALL, "wgpu:0": SMALL, "wgpu:1": LARGE}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the events of opening and closing two adapters."""
    events: list[str] = []

    def open_device(name: str = "wgpu") -> object:
        if name not in ADAPTERS:
            raise DeviceError(f"`{name}` is no device")
        events.append(f"open {name}")
        return SimpleNamespace(limits=ADAPTERS[name], close=lambda: events.append(f"close {name}"))

    monkeypatch.setattr(module, "open_device", open_device)
    return events


@pytest.mark.parametrize(
    ("name", "limits", "opens"),
    [
        ("webgpu-default", PORTABLE, None),
        ("adapter", SMALL, "wgpu"),
        ("wgpu", SMALL, "wgpu"),
        ("wgpu:0", SMALL, "wgpu:0"),
        ("wgpu:1", LARGE, "wgpu:1"),
    ],
)
def test_limits_are_those_of_the_adapter_that_is_named(
    opened: list[str], name: str, limits: DeviceLimits, opens: str | None
) -> None:
    """It is opened to be asked, and closed."""
    assert limits_named(name) is limits
    assert opened == ([] if opens is None else [f"open {opens}", f"close {opens}"])


@pytest.mark.parametrize("name", ["wgpu:2", "abacus", "cpu", "", "webgpu", "adapter:1"])
def test_limits_of_no_adapter_are_refused(opened: list[str], name: str) -> None:
    with pytest.raises(DeviceError, match=f"`{name}` is no device"):
        limits_named(name)
    assert opened == []


def product(rows: int, *, chained: bool) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (rows, 64)))
    w = build.add(Parameter("w", DType.F32, (64, 64), "param"))
    y = build.add(MatMul(), x, w)
    if chained:
        y = build.add(MatMul(), build.add(Exp(), y), w)
    return build.graph({"y": y})


@pytest.mark.parametrize("rows", [64, 256])
def test_a_step_takes_what_it_is_given_makes_and_keeps(rows: int) -> None:
    """A product has no temporaries; a second one reads that of the first."""
    given, kept = 4 * rows * 64, 4 * 64 * 64
    assert step_memory(product(rows, chained=False), PORTABLE) == StepMemory(
        2 * given + kept, given, 0, 0
    )
    assert step_memory(product(rows, chained=True), PORTABLE) == StepMemory(
        3 * given + kept, given, 1, 0
    )


@pytest.mark.parametrize(
    ("workgroups", "spread"), [(65_535, 0), (4096, 0), (4095, 1), (1024, 1), (16, 1)]
)
def test_dispatches_that_need_more_than_a_row_of_workgroups_are_counted(
    workgroups: int, spread: int
) -> None:
    """Of 2**22 elements 1,024 are done by a workgroup."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (1 << 22,)))
    graph = build.graph({"y": build.add(Exp(), x)})
    assert step_memory(graph, DeviceLimits(workgroups=workgroups)).spread == spread
