"""Sessions on an adapter: tensors in many buffers, what sessions share, and what is given back."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter, Sub
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.base import Outputs, Session, SessionError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu import session as sessions
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.device.wgpu_native import WGPU
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession

pytestmark = pytest.mark.adapter

SIZE = 64
BYTES = 4 * SIZE
"""Of every tensor."""


def exchange() -> Graph:
    """Two inputs, two parameters and two outputs, each of which tells all others apart."""
    build = Builder()
    a, b = (build.add(Input(name, DType.F32, (SIZE,))) for name in "ab")
    p, q = (build.add(Parameter(name, DType.F32, (SIZE,), "param")) for name in "pq")
    outputs = {"sum": build.add(Add(), a, p), "gap": build.add(Sub(), q, b)}
    return build.graph(outputs, {"p": build.add(Sub(), p, b), "q": build.add(Mul(), q, a)})


def fed(number: int) -> dict[str, Array]:
    base = np.arange(SIZE, dtype=np.float32)
    return {"a": base % 3 + number, "b": base % 5 - number}


def values() -> dict[str, Array]:
    return {"p": np.arange(SIZE, dtype=np.float32), "q": np.ones(SIZE, np.float32)}


def in_many_buffers(device: Device) -> Plan:
    return plan_graph(exchange(), replace(device.limits, buffer_bytes=BYTES))


def steps(session: Session) -> list[dict[str, Array]]:
    """All that a session can be asked for, in turns."""
    session.load(values())
    found = [dict(session.step(fed(1)))]
    with session.upload(fed(2)) as uploaded:
        found += [dict(session.step(uploaded)) for _ in range(2)]
    staged = [session.stage(fed(number)) for number in (3, 4)]
    later = [session.step(each) for each in staged]
    found.append(dict(session.follow({}, {"a": "gap", "b": "sum"})))
    found += [dict(each) for each in later]
    asked = session.step(fed(5))
    asked.request()
    session.step(fed(6))
    return [*found, dict(asked), session.persistent(), {"q": session.read("q")}]


def test_tensors_of_one_kind_lie_in_several_buffers(device: Device) -> None:
    plan, before = in_many_buffers(device), device.allocated
    for role in (Role.INPUTS, Role.PARAMETERS, Role.OUTPUTS):
        assert len(plan.numbers(role)) == 2
    with WebGpuSession(plan, device) as session:
        found = steps(session)
    assert device.allocated == before
    with ReferenceSession(exchange()) as reference:
        expected = steps(reference)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=f"{name} of {number}")


def test_sessions_share_parameters_in_several_buffers(device: Device) -> None:
    plan = in_many_buffers(device)
    with WebGpuSession(plan, device) as first, WebGpuSession(plan, device) as second:
        first.load(values())
        second.share(first)
        second.step(fed(1))
        np.testing.assert_array_equal(first.read("p"), values()["p"] - fed(1)["b"])
        np.testing.assert_array_equal(first.read("q"), fed(1)["a"])
        p = first.read("p")
        np.testing.assert_array_equal(second.step(fed(2))["sum"], fed(2)["a"] + p)


def prompt(rows: int) -> Graph:
    """A product of so many rows with a parameter, by way of what is stored in between."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (rows, SIZE)))
    w = build.add(Parameter("w", DType.F32, (SIZE, SIZE), "param"))
    y = build.add(MatMul(), build.add(MatMul(), x, w), w)
    return build.graph({"y": y}, {"w": build.add(Mul(), w, w)})


@pytest.mark.parametrize(("rows", "others"), [(1, 40), (40, 1), (8, 8)])
def test_sessions_share_memory_for_steps_of_any_size(
    rows: int, others: int, device: Device
) -> None:
    """Buffers that hold nothing between steps are the first session's if it is large enough."""
    plans = [plan_graph(prompt(each), device.limits, device.style) for each in (rows, others)]
    w = np.eye(SIZE, dtype=np.float32) * 2
    before = device.allocated
    with WebGpuSession(plans[0], device) as first, WebGpuSession(plans[1], device) as second:
        first.write("w", w)
        second.share(first)
        for turn in range(2):
            found: list[tuple[Outputs, Array]] = []
            for session, count in ((first, rows), (second, others)):
                x = np.arange(count * SIZE, dtype=np.float32).reshape(count, SIZE) + turn
                found.append((session.step({"x": x}), x * w[0, 0] ** 2))
                w = w * w
            for outputs, expected in found:  # a step of another session overwrites none
                np.testing.assert_array_equal(outputs["y"], expected)
        np.testing.assert_array_equal(second.read("w"), w)
    assert device.allocated == before


def test_only_sessions_of_one_device_with_parameters_in_one_place_share(device: Device) -> None:
    plan = in_many_buffers(device)
    turned = replace(plan, parameters=plan.parameters[::-1])
    elsewhere = open_device()
    with WebGpuSession(plan, device) as first:
        first.load(values())
        for other in (turned, plan_graph(exchange(), device.limits)):
            with WebGpuSession(other, device) as session, pytest.raises(SessionError):
                session.share(first)
        with WebGpuSession(plan, elsewhere) as session, pytest.raises(SessionError):
            session.share(first)
        with WebGpuSession(plan, device) as used:
            used.load(values())
            with pytest.raises(SessionError):
                used.share(first)
        with ReferenceSession(exchange()) as reference, pytest.raises(SessionError):
            WebGpuSession(plan, device).share(reference)
    elsewhere.close()


def test_outputs_that_are_read_after_the_session_leave_no_memory(device: Device) -> None:
    before = device.allocated
    with WebGpuSession(in_many_buffers(device), device) as session:
        session.load(values())
        outputs = session.step(fed(1))
        outputs.request()
    np.testing.assert_array_equal(outputs["sum"], fed(1)["a"] + values()["p"])
    assert device.allocated == before


def test_inputs_that_were_staged_for_no_step_leave_their_memory_to_others(device: Device) -> None:
    """And those that a step took are not given back a second time."""
    with WebGpuSession(in_many_buffers(device), device) as session:
        session.load(values())
        session.stage(fed(1)).close()
        before = device.allocated
        staged = session.stage(fed(2))
        assert device.allocated == before
        session.step(staged)
        staged.close()
        first, second = session.stage(fed(3)), session.stage(fed(4))
        kept = session.persistent()
        outputs = [dict(session.step(each)) for each in (first, second)]
    p, q = kept["p"], kept["q"]
    np.testing.assert_array_equal(outputs[0]["sum"], fed(3)["a"] + p)
    np.testing.assert_array_equal(outputs[1]["gap"], q * fed(3)["a"] - fed(4)["b"])


@pytest.mark.parametrize(("less", "is_kept"), [(0, True), (1, False)])
def test_outputs_are_kept_up_to_a_size(
    less: int,
    is_kept: bool,  # noqa: FBT001
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = in_many_buffers(device)
    monkeypatch.setattr(sessions, "MOST_KEPT", plan.bytes_for(Role.OUTPUTS) - less)
    with WebGpuSession(plan, device) as session:
        session.load(values())
        outputs = session.step(fed(1))
        session.step(fed(2))
        if is_kept:
            np.testing.assert_array_equal(outputs["sum"], fed(1)["a"] + values()["p"])
        else:
            with pytest.raises(SessionError, match="was overwritten"):
                assert outputs["sum"].any()


@pytest.mark.parametrize(("most", "reads"), [(BYTES, 5), (2 * BYTES - 1, 5), (2 * BYTES, 3)])
def test_as_many_parameters_are_read_at_once_as_fit(
    most: int, reads: int, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Builder()
    names = [f"p{number}" for number in range(5)]
    total, *others = (build.add(Parameter(n, DType.F32, (SIZE,), "param")) for n in names)
    for other in others:
        total = build.add(Add(), total, other)
    monkeypatch.setattr(sessions, "MOST_READ", most)
    graph = build.graph({"y": total})
    with WebGpuSession(plan_graph(graph, device.limits), device) as session:
        session.load({name: np.full(SIZE, float(name[1]), np.float32) for name in names})
        before = device.read_backs
        kept = session.persistent()
        assert device.read_backs == before + reads
    assert [array.tolist() for array in kept.values()] == [[number] * SIZE for number in range(5)]


def test_a_session_without_steps_is_not_busy(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever others have the device do."""
    with WebGpuSession(in_many_buffers(device), device) as session:
        session.load(values())
        monkeypatch.setattr(Device, "is_busy", property(lambda _: True))
        assert not session.is_busy
        session.step(fed(1))
        assert session.is_busy


def test_who_waits_for_a_session_reads_behind_its_steps(device: Device) -> None:
    """There is nothing to read before it has memory, nor once it is closed."""
    before = device.read_backs
    session = WebGpuSession(in_many_buffers(device), device)
    session.wait()
    assert device.read_backs == before
    session.load(values())
    session.step(fed(1))
    session.wait()
    assert device.read_backs == before + 1
    assert not session.is_busy
    session.close()
    session.wait()
    assert device.read_backs == before + 1


@pytest.mark.usefixtures("own_garbage")
def test_sessions_that_were_closed_leave_no_memory_that_host_and_device_share(
    device: Device,
) -> None:
    """However many buffers a session has asked for, and whatever it was in the middle of."""

    def mapped() -> int:
        gc.collect()
        return sum(isinstance(each, MappedBuffer) for each in gc.get_objects())

    before = mapped()
    for _ in range(3):
        with WebGpuSession(plan_graph(exchange(), device.limits), device) as session:
            steps(session)
            assert mapped() > before
            session.step(fed(1)).request()
        del session
    device.wait(device.submit([]))
    assert mapped() == before


@pytest.mark.parametrize("checked", [False, True])
def test_kernels_that_are_not_ours_are_checked_on_every_device(
    monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    device = open_device("wgpu", checked=False)
    unchecked: list[str] = []
    module = WGPU.unchecked_module
    monkeypatch.setattr(
        WGPU,
        "unchecked_module",
        lambda on, text: (unchecked.append(text), module(on, text))[1],
    )
    plan = plan_graph(exchange(), device.limits, device.style)
    with WebGpuSession(plan, device, checked=checked) as session:
        session.load(values())
        np.testing.assert_array_equal(session.step(fed(1))["sum"], fed(1)["a"] + values()["p"])
    assert sorted(unchecked) == ([] if checked else sorted(plan.kernels))
    device.close()
