"""Caches in sessions: kept from call to call, cleared by `reset`, written where they lie."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Session, SessionError
from meganeura_runtime.backends.inference_session import open_inference, open_shared
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.session_proxy import SessionProxy
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, Style
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from tests.effort import effort

HEAD = """\
block Net()(x: [n, s, 4], position: i32[]) -> [n, s, 4], [n, 16, 4]
    where 0 <= position, position + s <= 16:
  cache keys: [n, 16, 4]
  cache values: [n, 16, 4]
  k = x |> k: linear(4, bias=false)
  v = x |> v: linear(4, bias=false)
  update keys[:, position:position + s] = k
  update values[:, position:position + s] = v
  scores = x @ rearrange(keys, [n, t, d] -> [n, d, t])
  return scores @ values, 0 + values

model net = Net()
"""
OLD = """\
block Net()(x: [n, 4], position: i32[]) -> [n, 4]
    where 0 <= position, position + 1 <= 8:
  cache seen: [n, 8, 4]
  before = seen
  update seen[:, position] = x
  return sum(before, 1) + 10 * sum(seen, 1)

model net = Net()
"""
SHIFTED = """\
block Net()(x: [n, 4]) -> [n, 3, 4]:
  cache seen: [n, 3, 4]
  update seen[:, :2] = seen[:, 1:]
  update seen[:, 2] = x
  return 1 * seen

model net = Net()
"""
TOTAL = """\
block Net()(x: [n, s, 4]) -> [n, 4]:
  cache total: [n, 4]
  h = total
  scan t in 0..s:
    h = 0.5 * h + x[:, t]
  update total = h
  return 1 * h

model net = Net()
"""
UNREAD = """\
block Net()(x: [n, 4]) -> [n, 4]:
  cache last: [n, 4]
  update last = x
  return 2 * x

model net = Net()
"""
GIVEN = """\
block Net()(x: [n, 4]) -> [n, 4]:
  cache last: [n, 4]
  update last = x
  return last

model net = Net()
"""
NEVER_UPDATED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  cache start: [n, 4]
  return x + tanh(0.5 * start + 1)

model net = Net()
"""
UNUSED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  cache start: [n, 4]
  _other = start
  return 2 * x

model net = Net()
"""
DEVICES = ["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]
Feeds = Mapping[str, Array]


@pytest.fixture(params=["optimized", "as written"])
def rules(request: pytest.FixtureRequest) -> RewriteOptions:
    return RewriteOptions(enabled=request.param == "optimized")


def written(text: str, folder: Path) -> pipeline.Program:
    (folder / "net.mgn").write_text(text)
    return pipeline.load(str(folder / "net.mgn"))


def elaborated(text: str, folder: Path, **sizes: int) -> Elaboration:
    return pipeline.elaborate_model(written(text, folder), sizes=sizes)


def opened(elaboration: Elaboration, device: str, rules: RewriteOptions) -> Session:
    session = open_inference(elaboration.graph, choose_device(device).open, rules)
    generator = np.random.default_rng(0)
    for info in elaboration.parameters:
        shape = tuple(int(str(size)) for size in info.type.shape)
        session.write(info.name, generator.normal(size=shape).astype(np.float32))
    return session


def numbers(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def at(place: int) -> Array:
    return np.asarray(place, np.int32)


@pytest.mark.parametrize("device", DEVICES)
def test_a_call_finds_what_the_calls_before_it_left(
    device: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    x = numbers(2, 3, 4)
    with opened(elaborated(HEAD, tmp_path, n=2, s=3), device, rules) as session:
        whole = session.step({"x": x, "position": at(5)})
        expected = {name: np.array(array) for name, array in whole.items()}
    assert session.caches == ("keys", "values")
    with opened(elaborated(HEAD, tmp_path, n=2, s=1), device, rules) as session:
        for _ in range(2):
            found = [
                np.array(session.step({"x": x[:, t : t + 1], "position": at(5 + t)})["output0"])
                for t in range(3)
            ]
            kept = session.outputs()["output1"]
            np.testing.assert_allclose(kept, expected["output1"], atol=1e-5)
            np.testing.assert_allclose(found[2], expected["output0"][:, 2:], atol=1e-5)
            np.testing.assert_array_equal(session.read("values"), kept)
            session.reset()
            assert not session.read("keys").any()


PICKED = """\
block Net()(x: [n, 4], place: i32[n]) -> [n, 4], i32[n]:
  cache total: [n, 4]
  update total = total + x
  return gather(total, place - 1), place + 1

model net = Net()
"""
"""A program whose index is computed, so each step is checked."""


@pytest.mark.parametrize("device", DEVICES)
def test_sessions_that_check_indices_share_their_caches(
    device: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    graph, open_session = elaborated(PICKED, tmp_path, n=2).graph, choose_device(device).open
    ones, start = np.ones((2, 4), np.float32), np.ones(2, np.int32)
    with (
        open_shared(graph, open_session, rules, None) as first,
        open_shared(graph, open_session, rules, first) as second,
    ):
        for _ in range(2):
            first.reset()
            first.step({"x": ones, "place": start})
            second.step({"x": ones, "place": start})
            found = second.follow({"x": 2 * ones}, {"place": "output1"})
            np.testing.assert_array_equal(found["output0"], 4 * ones)
        with pytest.raises(ProblemError, match="E0537"):
            _ = second.follow({"x": ones}, {"place": "output1"})["output0"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_value_from_before_an_update_is_not_overwritten(
    device: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    x = numbers(5, 2, 4)
    with opened(elaborated(OLD, tmp_path, n=2), device, rules) as session:
        total = np.zeros((2, 4))
        for t in range(5):
            found = session.step({"x": x[t], "position": at(t)})["output"]
            np.testing.assert_allclose(found, total + 10 * (total + x[t]), atol=1e-4)
            total += x[t]


VIEWED = """\
block Net()(x: [n, 2], position: i32[]) -> {types}
    where 0 <= position, position + 2 <= 4:
  cache seen: [n, 4]
  before = {before}
  update seen[:, position:position + 2] = x
  after = {after}
  return before, after, 1 * seen

model net = Net()
"""
VIEWS: dict[str, tuple[str, str, Callable[[Array, int], Array]]] = {
    "itself": ("seen", "[n, 4]", lambda seen, _: seen),
    "stopped": ("stop_gradient(seen)", "[n, 4]", lambda seen, _: seen),
    "slice": ("seen[:, 1:3]", "[n, 2]", lambda seen, _: seen[:, 1:3]),
    "column": ("seen[:, 3]", "[n]", lambda seen, _: seen[:, 3]),
    "part": ("seen[:, position:position + 2]", "[n, 2]", lambda seen, at: seen[:, at : at + 2]),
    "reshape": (
        "rearrange(seen, [n, 2 * 2] -> [n, 2, 2])",
        "[n, 2, 2]",
        lambda seen, _: seen.reshape(-1, 2, 2),
    ),
    "transposed": ("rearrange(seen, [n, t] -> [t, n])", "[4, n]", lambda seen, _: seen.T),
    "repeated": (
        "expand(seen, [n, t] -> [3, n, t])",
        "[3, n, 4]",
        lambda seen, _: np.broadcast_to(seen, (3, *seen.shape)),
    ),
    "negative": ("-seen", "[n, 4]", lambda seen, _: -seen),
}
"""A read of a cache, its type, and the same of an array."""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
def test_what_is_read_of_a_cache_is_of_its_time(
    device: str, view: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    written_so, type_, read = VIEWS[view]
    types = f"{type_}, {type_}, [n, 4]"
    text = VIEWED.format(types=types, before=written_so, after=written_so)
    x, cache = numbers(3, 2, 2), np.zeros((2, 4), np.float32)
    with opened(elaborated(text, tmp_path, n=2), device, rules) as session:
        for place, part in zip((1, 0, 2), x, strict=True):
            found = session.step({"x": part, "position": at(place)})
            before = read(cache, place)
            cache = cache.copy()
            cache[:, place : place + 2] = part
            expected = (before, read(cache, place), cache)
            for name, array in zip(("output0", "output1", "output2"), expected, strict=True):
                np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("given", ["before", "seen"])
def test_a_cache_that_is_given_out_stays_as_it_was_then(given: str, tmp_path: Path) -> None:
    text = OLD.replace("sum(before, 1) + 10 * sum(seen, 1)", given)
    text = text.replace("-> [n, 4]", "-> [n, 8, 4]")
    text = text if given == "before" else text.replace("  before = seen\n", "")
    with opened(elaborated(text, tmp_path, n=1), "cpu", RewriteOptions()) as session:
        x = numbers(1, 4)
        first = session.step({"x": x, "position": at(0)})["output"]
        then = first.copy()
        session.step({"x": 2 * x, "position": at(1)})
        np.testing.assert_array_equal(first, then)


@pytest.mark.parametrize("device", DEVICES)
def test_a_part_may_be_computed_from_the_rest(
    device: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    x = numbers(5, 2, 4)
    with opened(elaborated(SHIFTED, tmp_path, n=2), device, rules) as session:
        found = [np.array(session.step({"x": x[t]})["output"]) for t in range(5)]
        np.testing.assert_allclose(found[-1], np.moveaxis(x[2:], 0, 1), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_recurrence_goes_on_where_it_was(
    device: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    x = numbers(2, 6, 4)
    with opened(elaborated(TOTAL, tmp_path, n=2, s=6), device, rules) as session:
        expected = np.array(session.step({"x": x})["output"])
    with opened(elaborated(TOTAL, tmp_path, n=2, s=2), device, rules) as session:
        parts = (x[:, t : t + 2] for t in range(0, 6, 2))
        found = [np.array(session.step({"x": part})["output"]) for part in parts]
        np.testing.assert_allclose(found[-1], expected, atol=1e-5)


def test_the_interpreter_writes_into_a_cache_that_nobody_reads_later(tmp_path: Path) -> None:
    for text, changed in ((HEAD, True), (OLD, False)):
        sizes = {"n": 2, "s": 1} if text == HEAD else {"n": 2}
        elaboration = elaborated(text, tmp_path, **sizes)
        rules = RewriteOptions(enabled=False)
        session = open_inference(elaboration.graph, ReferenceSession, rules)
        for info in elaboration.parameters:
            session.write(info.name, np.ones(tuple(map(int, map(str, info.type.shape))), "f4"))
        inner = session
        while isinstance(inner, SessionProxy):
            inner = inner._inner
        assert isinstance(inner, ReferenceSession)
        name = session.caches[0]
        before = inner._values[name]
        session.step({"x": numbers(2, *(1 for _ in range(text == HEAD)), 4), "position": at(3)})
        assert (inner._values[name] is before) is changed


def planned(text: str, folder: Path, **sizes: int) -> Plan:
    plan = plan_graph(elaborated(text, folder, **sizes).graph, PORTABLE, Style.GPU)
    verify_plan(plan, PORTABLE)
    return plan


def test_one_kernel_writes_the_parts_of_several_caches(tmp_path: Path) -> None:
    plan = planned(HEAD, tmp_path, n=2, s=3)
    (update,) = [each for each in plan.dispatches if each.name.startswith("update")]
    assert not plan.copies
    assert update.bytes == 2 * 2 * (2 * 3 * 4) * 4
    assert update.workgroups == (1, 1, 1)
    places = {tensor.name: tensor.slot for tensor in plan.parameters}
    assert {places["keys"], places["values"]} <= {*update.slots}


def test_a_larger_cache_takes_no_longer_to_write(tmp_path: Path) -> None:
    long = planned(HEAD.replace("16", "4096"), tmp_path, n=2, s=3)
    short = planned(HEAD, tmp_path, n=2, s=3)
    for plan in (long, short):
        (update,) = [each for each in plan.dispatches if each.name.startswith("update")]
        assert (update.bytes, update.workgroups) == (384, (1, 1, 1))


@pytest.mark.parametrize("device", DEVICES)
def test_sessions_of_several_sizes_share_what_they_keep(device: str, tmp_path: Path) -> None:
    x, rules = numbers(2, 4, 4), RewriteOptions(enabled=False)
    elaborations = [elaborated(HEAD, tmp_path, n=2, s=s) for s in (3, 1)]
    chosen = choose_device(device)
    with opened(elaborations[0], device, rules) as alone:
        alone.step({"x": x[:, :3], "position": at(0)})
        values = {info.name: alone.read(info.name) for info in elaborations[0].parameters}
    with chosen.open(elaborations[0].graph) as first, chosen.open(elaborations[1].graph) as second:
        first.begin(("keys", "values"))
        second.share(first)
        second.load(values)
        first.step({"x": x[:, :3], "position": at(0)})
        found = second.step({"x": x[:, 3:], "position": at(3)})["output1"]
        np.testing.assert_allclose(found[:, :4], x @ values["v.weight"].T, atol=1e-5)
        np.testing.assert_array_equal(first.read("values"), found)
        second.write("values", np.ones_like(found))
        assert first.read("values").all()
    with (
        chosen.open(elaborated(OLD, tmp_path, n=2).graph) as other,
        chosen.open(elaborations[0].graph) as session,
        pytest.raises(SessionError, match="do not keep the same tensors"),
    ):
        session.share(other)


def test_a_model_keeps_caches_from_python_and_feeds_optional_inputs(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(HEAD.replace("position: i32[])", "position: i32[] = 0)"))
    program = meganeura.load(str(tmp_path / "net.mgn"))
    model = program.model(seed=0, optional=["position"])
    assert [*model.inputs] == ["x", "position"]
    assert [each.name for each in model.parameters] == ["k.weight", "v.weight"]
    assert [*program.model(seed=0).inputs] == ["x"]
    x = numbers(1, 2, 4)
    with model.session({"n": 1, "s": 1}, device="cpu") as session:
        parts = ({"x": x[:, t : t + 1], "position": at(t)} for t in range(2))
        *_, kept = [np.array(session.step(part)["output1"]) for part in parts]
    alone = model.run({"x": x, "position": at(0)}, device="cpu")["output1"]
    np.testing.assert_allclose(kept, alone, atol=1e-6)
    with pytest.raises(ValueError, match="no optional input `place`"):
        program.model(seed=0, optional=["place"])


@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
@pytest.mark.parametrize("text", [UNREAD, GIVEN, NEVER_UPDATED, UNUSED])
def test_a_cache_need_not_be_read_nor_updated(
    device: str, text: str, rules: RewriteOptions, tmp_path: Path
) -> None:
    """It is read, written and cleared as any other, optimized or not."""
    graph = pipeline.elaborate_model(written(text, tmp_path), sizes={"n": 1}).graph
    x = np.full((1, 4), 3, np.float32)
    zeros, ones = np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)
    is_updated = text in (UNREAD, GIVEN)
    with open_inference(graph, choose_device(device).open, rules) as session:
        (name,) = session.caches
        np.testing.assert_array_equal(session.read(name), zeros)
        for start in (zeros, ones, zeros):
            if start is ones:
                session.write(name, ones)
            else:
                session.reset()
            expected = {NEVER_UPDATED: x + np.tanh(0.5 * start + 1), GIVEN: x}.get(text, 2 * x)
            for _ in range(2):
                found = session.step({"x": x})["output"]
                np.testing.assert_allclose(found, expected, rtol=1e-6)
                np.testing.assert_array_equal(session.read(name), x if is_updated else start)


BEGUN = """\
block Most()(x: [n, 4]) -> [n, 4]:
  cache most: [n, 4] = -1e30
  cache left: i32[n] = 3
  update most = maximum(most, x)
  update left = left - 1
  return most + f32(left[0])

block Net()(x: [n, 4]) -> [n, 4], [n, 4]:
  layer deep: Most()
  once = x |> deep
  layer inner: Most()
  y = x
  scan _t in 0..3:
    y = (y - 1) |> inner
  return once + 2 * ((x - 1) |> deep), y

model net = Net()
"""


@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
def test_a_cache_begins_as_its_number(device: str, rules: RewriteOptions, tmp_path: Path) -> None:
    """Applied twice in a call, and in a scan; also after `reset`, and not where it was written."""
    graph = elaborated(BEGUN, tmp_path, n=2).graph
    rows = -np.arange(1, 17, dtype=np.float32).reshape(2, 2, 4)

    class Most:
        """Two caches."""

        def __init__(self, most: float) -> None:
            self.most, self.left = np.full((2, 4), most), 3

        def __call__(self, x: Array) -> Array:
            self.most, self.left = np.maximum(self.most, x), self.left - 1
            return self.most + self.left

    with open_inference(graph, choose_device(device).open, rules) as session:
        for start in (-1e30, -3.0, -1e30):
            session.reset()
            deep, inner = Most(start), Most(-1e30)
            if start != -1e30:
                session.write("deep.most", np.full((2, 4), start, np.float32))
            for x in (*rows, *rows[::-1]):
                y, found = x, session.step({"x": x})
                once = deep(x) + 2 * deep(x - 1)
                for _ in range(3):
                    y = inner(y - 1)
                np.testing.assert_allclose(found["output0"], once, rtol=1e-6)
                np.testing.assert_allclose(found["output1"], y, rtol=1e-6)
            np.testing.assert_allclose(session.read("deep.most"), deep.most, rtol=1e-6)
            saved = session.persistent()
            again = np.array(session.step({"x": rows[0]})["output0"])
            session.reset()
            session.load(saved)
            np.testing.assert_array_equal(session.step({"x": rows[0]})["output0"], again)
        session.reset()
        session.load(saved | {"deep.most.begun": np.zeros((), np.int32)})
        deep = Most(-1e30)
        deep.left = int(saved["deep.left"][0])
        once = deep(rows[0]) + 2 * deep(rows[0] - 1)
        np.testing.assert_allclose(session.step({"x": rows[0]})["output0"], once, rtol=1e-6)
