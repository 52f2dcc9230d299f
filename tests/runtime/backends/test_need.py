"""What a step takes is known before it runs, and told where there is not so much."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Add, Broadcast, Exp, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends import memory_estimate
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import TooLittleMemory
from meganeura_runtime.backends.errors import OutOfMemoryError
from meganeura_runtime.backends.memory_estimate import MemoryExceededError, estimate_memory
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.device.device import Buffer, Device
from meganeura_runtime.backends.webgpu.memory.memory_usage import memory_of_plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession


def chain(batch: int) -> Graph:
    """exp(exp(x) w), summed: two values of the batch are alive at once, and the weights."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (batch, 1000)))
    w = build.add(Parameter("w", DType.F32, (1000,), "param"))
    spread = build.add(Broadcast((batch, 1000), (1,)), w)
    y = build.add(Exp(), build.add(Mul(), build.add(Exp(), x), spread))
    return build.graph({"loss": build.add(Sum((0, 1)), y)}, {"w": build.add(Add(), w, w)})


def test_a_value_counts_from_its_computation_to_its_last_use() -> None:
    found = estimate_memory(chain(10))
    assert found.kept == 4000
    assert found.bytes == 4000 + 2 * 40_000  # the weights, and of each op its operand and result
    assert found.largest[0].startswith("0.0 MB: `")
    twice = estimate_memory(chain(20))
    assert twice.bytes - twice.kept == 2 * (found.bytes - found.kept)


def test_a_step_that_does_not_fit_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 44_000)
    with pytest.raises(ProblemError, match="E0554") as caught, explained_failures(("batch", 10)):
        ReferenceSession(chain(10))
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.needed == "0.1 MB"
    assert problem.change == "--set batch=5"
    ReferenceSession(chain(5))
    with pytest.raises(MemoryExceededError):
        ReferenceSession(chain(6))


def test_where_not_even_the_parameters_fit_no_batch_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 3000)
    with pytest.raises(ProblemError) as caught, explained_failures(("batch", 10)):
        ReferenceSession(chain(10))
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.change is None
    assert "even without a batch" in problem.cure


def test_the_system_says_what_is_free_or_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "meminfo"
    monkeypatch.setattr(memory_estimate, "MEMORY", told)
    assert memory_estimate.available_bytes() is None
    ReferenceSession(chain(10))
    told.write_text("MemTotal:  2000 kB\nMemAvailable:   84 kB\n")
    assert memory_estimate.available_bytes() == 84 * 1024
    ReferenceSession(chain(10))
    told.write_text("MemTotal:  2000 kB\n")
    assert memory_estimate.available_bytes() is None


@pytest.mark.adapter
def test_a_device_without_memory_left_names_what_takes_it(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_graph(chain(10), device.limits, device.style)
    right, before = Device.allocate, device.allocated

    def allocate(self: Device, size: int) -> Buffer:
        if size >= 40_000:
            raise OutOfMemoryError("out of memory")
        return right(self, size)

    monkeypatch.setattr(Device, "allocate", allocate)
    with pytest.raises(ProblemError, match="E0554") as caught, explained_failures(("batch", 10)):
        WebGpuSession(plan, device)
    problem = caught.value.problem
    assert isinstance(problem, TooLittleMemory)
    assert problem.available == ""
    assert problem.cure.startswith("half the batch would take about 0.0 MB")
    assert problem.largest == memory_of_plan(plan).largest
    assert device.allocated == before
