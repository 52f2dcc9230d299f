"""Sessions: the same words and the same numbers on the CPU and on an adapter."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.ir.ops import Add, Broadcast, Compare, Input, MatMul, Mul, Parameter, Sub, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.base import Session, SessionError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import AHEAD, WebGpuSession
from tests.effort import effort

Open = Callable[[Graph], Session]


@pytest.fixture(params=["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)])
def open_session(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a graph on either kind of device."""
    if request.param != "wgpu":
        yield choose_device(request.param).open
        return
    device: Device = request.getfixturevalue("device")
    opened: list[WebGpuSession] = []

    def begin(graph: Graph) -> Session:
        opened.append(WebGpuSession(plan_graph(graph, device.limits, device.style), device))
        return opened[-1]

    yield begin
    for session in opened:
        session.close()


def descent() -> Graph:
    """One step of w' = w - rate x, with the loss sum(w x)."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    rate = build.add(Input("rate", DType.F32, (3,)))
    w = build.add(Parameter("layer.w", DType.F32, (3,), "param"))
    scale = build.add(Parameter("scale", DType.F32, (3,), "frozen"))
    loss = build.add(Sum((0,)), build.add(Mul(), build.add(Mul(), w, scale), x))
    moved = build.add(Sub(), w, build.add(Mul(), rate, x))
    large = build.add(Compare("gt"), w, full(build, w.type, 1))
    return build.graph({"loss": loss, "large": large}, {"layer.w": moved})


def fed(number: float) -> dict[str, Array]:
    x = np.array([number, 1, -number], np.float32)
    return {"x": x, "rate": np.full(3, 0.5, np.float32)}


def started(open_session: Open) -> Session:
    session = open_session(descent())
    session.load({"layer.w": np.array([1, 2, 3], np.float32), "scale": np.ones(3, np.float32)})
    return session


def test_what_shares_is_given_what_the_other_is_given_later(open_session: Open) -> None:
    with open_session(descent()) as first, open_session(descent()) as second:
        second.share(first)
        for session in (first, second):
            with pytest.raises(SessionError, match="no value was written"):
                session.step(fed(1))
        first.write("scale", np.ones(3, np.float32))
        second.write("layer.w", np.array([1, 2, 3], np.float32))
        assert [float(each.step(fed(1))["loss"]) for each in (second, first)] == [0, -1.5]
        np.testing.assert_array_equal(second.read("layer.w"), [0, 1, 4])


def test_steps_update_what_later_steps_read(open_session: Open) -> None:
    session = started(open_session)
    assert session.names == ("layer.w", "scale")
    assert float(session.step(fed(1))["loss"]) == 1 + 2 - 3
    np.testing.assert_array_equal(session.read("layer.w"), [0.5, 1.5, 3.5])
    assert float(session.step(fed(2))["loss"]) == 1 + 1.5 - 7
    np.testing.assert_array_equal(session.persistent()["layer.w"], [-0.5, 1, 4.5])
    np.testing.assert_array_equal(session.persistent()["scale"], np.ones(3))


def test_outputs_have_names_types_and_lengths(open_session: Open) -> None:
    outputs = started(open_session).step(fed(1))
    assert sorted(outputs) == ["large", "loss"]
    assert len(outputs) == 2
    assert outputs["loss"].dtype == np.float32
    assert outputs["large"].dtype == np.bool_
    assert outputs["large"].tolist() == [False, True, True]


def test_results_have_the_order_of_the_program(open_session: Open) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2,)))
    outputs = {f"output{number}": x for number in range(12)} | {"another": x}
    found = open_session(build.graph(outputs)).step({"x": np.ones(2, np.float32)})
    assert [*found] == [*outputs]


def test_a_step_follows_only_outputs_of_the_types_of_its_inputs(open_session: Open) -> None:
    session, rate = started(open_session), fed(1)["rate"]
    for feeds, links, said in (
        ({"rate": rate}, {"x": "loss"}, r"`x` is f32\[3\], not"),
        ({"x": rate}, {"rate": "large"}, r"`rate` is f32\[3\], not"),
        ({"x": rate}, {}, "no value was fed for `rate`"),
    ):
        session.step(fed(1))
        with pytest.raises(FeedError, match=said):
            session.follow(feeds, links)


def test_inputs_that_are_refused_leave_the_last_step_as_it_was(open_session: Open) -> None:
    session = started(open_session)
    session.step(fed(1))
    with pytest.raises(FeedError):
        session.step({"x": fed(1)["x"]})
    with pytest.raises(FeedError):
        session.follow({"x": fed(1)["x"]}, {})
    assert float(session.outputs()["loss"]) == 0


def test_run_and_outputs_are_a_step_in_two_halves(open_session: Open) -> None:
    session = started(open_session)
    with pytest.raises(SessionError, match="no step has run"):
        session.outputs()
    session.run(fed(1))
    assert float(session.outputs()["loss"]) == 0


def test_what_is_written_and_read_is_a_copy(open_session: Open) -> None:
    session = started(open_session)
    w = np.array([1, 2, 3], np.float32)
    session.write("layer.w", w)
    w[:] = 0
    read = session.read("layer.w")
    np.testing.assert_array_equal(read, [1, 2, 3])
    session.step(fed(1))
    np.testing.assert_array_equal(read, [1, 2, 3])


def test_zeros_are_kept_to_the_bit(open_session: Open) -> None:
    session = open_session(descent())
    for first in (np.zeros(3, np.float32), np.ones(3, np.float32), np.zeros(3, np.float32)):
        session.write("layer.w", first)
        assert session.read("layer.w").tobytes() == first.tobytes()
    negative = np.array([-0.0, 0, -0.0], np.float32)
    session.write("scale", negative)
    assert session.read("scale").tobytes() == negative.tobytes()


def test_names_shapes_and_types_are_checked(open_session: Open) -> None:
    session = started(open_session)
    with pytest.raises(FeedError, match=r"there is no `layer.v`; did you mean `layer.w`"):
        session.write("layer.v", np.zeros(3, np.float32))
    with pytest.raises(FeedError, match=r"there is no `nothing at all`$"):
        session.read("nothing at all")
    with pytest.raises(FeedError, match=r"`layer.w` is f32\[3\], not float32\[4\]"):
        session.write("layer.w", np.zeros(4, np.float32))
    with pytest.raises(FeedError, match=r"`layer.w` is f32\[3\], not float64\[3\]"):
        session.write("layer.w", np.zeros(3))
    with pytest.raises(FeedError, match=r"`x` is f32\[3\], not float32\[3, 1\]"):
        session.step({**fed(1), "x": np.zeros((3, 1), np.float32)})
    with pytest.raises(FeedError, match="no value was fed for `rate`"):
        session.step({"x": np.zeros(3, np.float32)})
    with pytest.raises(FeedError, match=r"there is no `rates`; did you mean `rate`"):
        session.step({**fed(1), "rates": np.zeros(3, np.float32)})


def test_a_step_needs_every_parameter(open_session: Open) -> None:
    session = open_session(descent())
    session.write("scale", np.ones(3, np.float32))
    with pytest.raises(SessionError, match=r"no value was written for `layer.w`"):
        session.step(fed(1))
    with pytest.raises(SessionError, match=r"`layer.w` has no value yet"):
        session.read("layer.w")


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (DType.F16, np.array([1, 2.5, -3], np.float16)),
        (DType.I32, np.array([1, -2, 3], np.int32)),
        (DType.U32, np.array([1, 4_000_000_000, 3], np.uint32)),
        (DType.BOOL, np.array([True, False, True])),
    ],
)
def test_every_element_type_goes_there_and_back(
    dtype: DType, values: Array, open_session: Open
) -> None:
    build = Builder()
    x = build.add(Input("x", dtype, (3,)))
    build.add(Parameter("state", dtype, (3,), "state"))
    session = open_session(build.graph({"y": x}, {"state": x}))
    session.write("state", values[::-1])
    np.testing.assert_array_equal(session.read("state"), values[::-1])
    outputs = session.step({"x": values})
    for found in (outputs["y"], session.read("state")):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


def test_uploaded_inputs_are_fed_again_and_again(open_session: Open) -> None:
    session = started(open_session)
    x = np.array([1, 1, -1], np.float32)
    with session.upload({**fed(1), "x": x}) as once:
        x[:] = 7
        assert float(session.step(once)["loss"]) == 1 + 2 - 3
        assert float(session.step(fed(2))["loss"]) == 1 + 1.5 - 7
        assert float(session.step(once)["loss"]) == -0.5 + 1 - 4.5
    with pytest.raises(SessionError, match="given back"):
        session.step(once)
    once.close()
    with pytest.raises(FeedError, match="no value was fed for `rate`"):
        session.upload({"x": x})
    with pytest.raises(SessionError, match="those of another session"):
        started(open_session).step(session.upload(fed(1)))


@pytest.mark.adapter
def test_a_step_is_one_submission_and_reads_nothing_back(device: Device) -> None:
    graph = descent()
    with WebGpuSession(plan_graph(graph, device.limits), device) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        submissions, read_backs = device.submissions, device.read_backs
        steps = [session.step(fed(number)) for number in range(5)]
        assert device.submissions == submissions + 5
        assert device.read_backs == read_backs
        assert float(steps[-1]["loss"]) == float(steps[-1]["loss"])
        assert device.read_backs == read_backs + 1


@pytest.mark.adapter
def test_outputs_are_those_of_their_step_whenever_they_are_read(device: Device) -> None:
    with WebGpuSession(plan_graph(descent(), device.limits), device) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        steps = [session.step(fed(number)) for number in range(5)]
        steps[-1].request()
        steps[-1].request()
        session.step(fed(9))
        losses = [float(outputs["loss"]) for outputs in reversed(steps)]
    with ReferenceSession(descent()) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        expected = [float(session.step(fed(number))["loss"]) for number in range(5)]
    assert losses == expected[::-1]


def large_outputs() -> Graph:
    """An output of 4 MB, all of it the input."""
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    whole = build.add(Broadcast((1 << 20,), ()), x)
    return build.graph({"whole": whole, "x": build.add(Add(), x, x)}, {})


@pytest.mark.adapter
def test_large_outputs_are_kept_for_those_who_ask(device: Device) -> None:
    with WebGpuSession(plan_graph(large_outputs(), device.limits), device) as session:
        asked = session.step({"x": np.array(1, np.float32)})
        asked.request()
        read = session.step({"x": np.array(2, np.float32)})
        assert float(read["x"]) == 4
        session.step({"x": np.array(3, np.float32)})
        assert asked["whole"].sum() == 1 << 20
        assert float(read["x"]) == 4
        with pytest.raises(SessionError, match="output `whole` of step 2 was overwritten"):
            assert read["whole"].any()
        with pytest.raises(SessionError, match="neither read nor brought to the host"):
            read.request()


def test_inputs_are_staged_by_another_thread(open_session: Open) -> None:
    session = started(open_session)
    with ThreadPoolExecutor(1) as feeder:
        staged = [feeder.submit(session.stage, fed(number)) for number in range(6)]
        losses = [float(session.step(one.result())["loss"]) for one in staged]
    other = started(open_session)
    assert losses == [float(other.step(fed(number))["loss"]) for number in range(6)]
    unused = session.stage(fed(1))
    unused.close()
    unused.close()
    with pytest.raises(SessionError, match="given back"):
        session.step(unused)


@pytest.mark.adapter
@pytest.mark.parametrize("most", [1, 1 << 28])
def test_all_parameters_are_read_in_few_pieces(
    most: int, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.backends.webgpu.session.MOST_READ", most)
    with WebGpuSession(plan_graph(descent(), device.limits), device) as session:
        with pytest.raises(SessionError, match=r"`layer.w` has no value yet"):
            session.persistent()
        session.load({"layer.w": np.arange(3, dtype=np.float32), "scale": np.ones(3, np.float32)})
        before = device.read_backs
        kept = session.persistent()
        assert device.read_backs == before + (2 if most == 1 else 1)
        assert tuple(kept) == session.names
        assert [array.tolist() for array in kept.values()] == [[0, 1, 2], [1, 1, 1]]


@pytest.mark.adapter
def test_parameters_of_several_buffers_are_read_from_their_own(device: Device) -> None:
    limits = replace(device.limits, buffer_bytes=device.limits.offset_alignment)
    plan = plan_graph(descent(), limits)
    assert len({tensor.slot.buffer for tensor in plan.parameters}) == 2
    with WebGpuSession(plan, device) as session:
        session.load({"layer.w": np.arange(3, dtype=np.float32), "scale": np.ones(3, np.float32)})
        assert [array.tolist() for array in session.persistent().values()] == [[0, 1, 2], [1, 1, 1]]


@pytest.mark.adapter
def test_the_memory_of_outputs_that_nobody_reads_is_given_back(device: Device) -> None:
    before = device.allocated
    with WebGpuSession(plan_graph(descent(), device.limits), device) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        held = session.step(fed(0))
        for number in range(10):
            held = session.step(fed(number))
            held.request()
        for number in range(10):
            held = session.step(fed(number))
        assert held["loss"].shape == ()
        del held
    assert device.allocated == before


@pytest.mark.adapter
@pytest.mark.usefixtures("own_garbage")
def test_the_memory_of_outputs_that_were_read_is_used_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    incoming = Device.incoming

    def counted(self: Device, size: int) -> MappedBuffer:
        made.append(size)
        return incoming(self, size)

    monkeypatch.setattr(Device, "incoming", counted)
    before = device.allocated
    with WebGpuSession(plan_graph(descent(), device.limits), device) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        for _ in range(effort(6, 12)):
            outputs = session.step(fed(0))
            outputs.request()
            assert outputs["loss"].shape == ()
            del outputs
            gc.collect()
    assert len(made) <= 2
    assert device.allocated == before


@pytest.mark.adapter
def test_inputs_take_turns_in_memory(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    outgoing = Device.outgoing

    def counted(self: Device, size: int) -> MappedBuffer:
        sizes.append(size)
        return outgoing(self, size)

    monkeypatch.setattr(Device, "outgoing", counted)
    with WebGpuSession(plan_graph(descent(), device.limits), device) as session:
        session.load({"layer.w": np.ones(3, np.float32), "scale": np.ones(3, np.float32)})
        for number in range(20):
            session.step(fed(number))
    assert len(sizes) <= AHEAD + 1


@pytest.mark.adapter
def test_inputs_written_while_a_step_runs_reach_the_next_one_only(device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (64, 64)))
    total = build.add(Parameter("total", DType.F32, (64, 64), "state"))
    product = build.add(MatMul(), build.add(MatMul(), x, x), x)
    graph = build.graph({}, {"total": build.add(Add(), total, product)})
    with WebGpuSession(plan_graph(graph, device.limits), device) as session:
        session.write("total", np.zeros((64, 64), np.float32))
        for number in (1, 2, 3):
            session.step({"x": number * np.eye(64, dtype=np.float32)})
        np.testing.assert_array_equal(session.read("total"), (1 + 8 + 27) * np.eye(64))


def test_the_cpu_is_chosen_by_name_and_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose_device("cpu").description == "cpu (as asked)"
    monkeypatch.setattr(
        "meganeura_runtime.backends.webgpu.device.adapters.list_devices", lambda *_: ()
    )
    chosen = choose_device("auto")
    assert chosen.description == "cpu (no GPU was found)"
    assert isinstance(chosen.open(descent()), ReferenceSession)


@pytest.mark.adapter
def test_an_adapter_is_chosen_by_name() -> None:
    chosen = choose_device("wgpu")
    assert chosen.description.startswith("wgpu:")
    session = chosen.open(descent())
    assert isinstance(session, WebGpuSession)
    session.close()
    session.device.close()
