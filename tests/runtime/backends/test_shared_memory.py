"""No array that a session is given or gives is memory of its own, on any backend."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.host_session import owned
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.backends.registry import choose_device
from tests.effort import effort

DEVICES = ["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]
STATEFUL = """\
block Net()(x: [n, 4], position: i32[]) -> {results}
    where 0 <= position, position < 3:
  param w: [4] = ones
  param v: [4, 2] = ones
  cache last: [n, 4]
  cache turned: [4, n]
  cache total: [n, 4]
  cache other: [n, 4]
  cache seen: [n, 3, 4]
  cache weights: [4]
  cache fixed: i32[4]
  cache iterations: [4]
  _before = last
  numbers = iota(4)
  g = iota(4)
  h = w
  scan t in 0..3:
    held = h
    h = f32(g)
    g = i32(held)
  _first = seen[:, 0]
  update last = x
  update turned = rearrange(x, [n, d] -> [d, n])
  update total = total + x
  update other = total
  update seen[:, position] = x
  update weights = w
  update fixed = numbers
  update iterations = h
  return {returned}

model net = Net()
"""
RESULTS = {
    "_before": "[n, 4]",
    "x": "[n, 4]",
    "position": "i32[]",
    "w": "[4]",
    "rearrange(v, [d, two] -> [two, d])": "[2, 4]",
    "last": "[n, 4]",
    "turned": "[4, n]",
    "total": "[n, 4]",
    "total[:, 1:]": "[n, 3]",
    "other": "[n, 4]",
    "_first": "[n, 4]",
    "seen": "[n, 3, 4]",
    "rearrange(seen, [n, c, d] -> [d, n, c])": "[4, n, 3]",
    "weights": "[4]",
    "numbers": "i32[4]",
    "fixed": "i32[4]",
    "h": "[4]",
    "iterations": "[4]",
    "total + other": "[n, 4]",
}
"""Possible results of a step: inputs, parameters, caches, constants, views of them, and sums."""
Write = Callable[[Array], None]


def overwritten(array: Array) -> None:
    """Write into an array, if it may be written to."""
    if array.flags.writeable:
        array[...] = 77


def left(array: Array) -> None:
    """Leave an array as it is."""
    del array


def fed(step: int) -> dict[str, Array]:
    x = np.random.default_rng(step).normal(size=(2, 4)).astype(np.float32)
    return {"x": x, "position": np.array(step % 3, np.int32)}


def opened(folder: Path, chosen: list[str], device: str, *, optimized: bool) -> Session:
    types = ", ".join(RESULTS[each] for each in chosen)
    text = STATEFUL.format(results=types, returned=", ".join(chosen))
    (folder / "net.mgn").write_text(text)
    program = pipeline.load(str(folder / "net.mgn"))
    graph = pipeline.elaborate_model(program, sizes={"n": 2}).graph
    return open_inference(graph, choose_device(device).open, RewriteOptions(enabled=optimized))


def history(session: Session, write: Write, *, uploaded: bool = False) -> list[list[Array]]:
    """All that a session gives, where `write` has every array that is given or read before."""
    v = np.arange(8, dtype=np.float32).reshape(4, 2)
    values: dict[str, Array] = {"w": np.arange(4, dtype=np.float32), "v": v}
    given = {name: array for name, array in values.items() if name in session.names}
    session.load(given)
    for array in given.values():
        write(array)
    found: list[list[Array]] = []
    batch = session.upload(fed(0)) if uploaded else None
    for step in range(4):
        feeds = fed(step)
        outputs = session.step(feeds if batch is None else batch)
        arrays = [outputs[name] for name in outputs]
        found.append([np.array(each) for each in arrays])
        for array in (*feeds.values(), *arrays):
            write(array)
        kept = session.persistent()
        found.append([np.array(kept[name]) for name in sorted(kept)])
        for array in kept.values():
            write(array)
    return found


@pytest.mark.parametrize("rules", effort(["optimized"], ["as written", "optimized"]))
@pytest.mark.parametrize("device", DEVICES)
def test_what_the_caller_writes_into_its_arrays_changes_nothing(
    device: str, rules: str, tmp_path: Path
) -> None:
    optimized, generator = rules == "optimized", np.random.default_rng(0)
    names = [*RESULTS]
    some = [str(name) for name in generator.permutation(names)[:4]]
    for chosen, uploaded in ((names, False), (names, True), (some, False)):
        histories: list[list[list[Array]]] = []
        for write in (left, overwritten):
            with closing(opened(tmp_path, chosen, device, optimized=optimized)) as session:
                histories.append(history(session, write, uploaded=uploaded))
        for place, (expected, found) in enumerate(zip(*histories, strict=True)):
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(other, one, err_msg=f"{chosen} at {place}")


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_follows_what_the_last_one_gave(device: str, tmp_path: Path) -> None:
    """Not what the caller made of it."""
    (tmp_path / "net.mgn").write_text(
        "block Net()(x: [n]) -> [n]:\n  return x + 1\n\nmodel net = Net()\n"
    )
    model = meganeura.load(str(tmp_path / "net.mgn")).model()
    with model.session({"n": 3}, device=device) as session:
        outputs = session.step({"x": np.zeros(3, np.float32)})
        overwritten(outputs["output"])
        np.testing.assert_array_equal(session.follow({}, {"x": "output"})["output"], [2, 2, 2])


@pytest.mark.parametrize("device", DEVICES)
def test_the_results_of_a_run_are_the_callers(device: str, tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(
        "block Net()(x: [n, 4]) -> [n, 4], [4]:\n  param w: [4] = ones\n  return x, w\n\n"
        "model net = Net()\n"
    )
    model = meganeura.load(str(tmp_path / "net.mgn")).model(seed=0)
    x = np.full((2, 4), 3, np.float32)
    for array in model.run({"x": x}, device=device).values():
        overwritten(array)
    np.testing.assert_array_equal(x, np.full((2, 4), 3))
    np.testing.assert_array_equal(model.values["w"], np.ones(4))


TRAINED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  param w: [4] = ones
  state last: [4] = zeros
  before = last
  if training:
    update last = x[0]
  return x * w - before

model net = Net()

train fit(x: [batch, 4]):
  minimize mean((x |> .: net) ** 2)
  run:
    batch = 2
    optimizer = sgd(lr=0.1)
"""


@pytest.mark.parametrize("device", effort(DEVICES[1:], DEVICES))
def test_a_trainer_copies_what_it_is_given(device: str, tmp_path: Path) -> None:
    """Batches in one buffer, gradients, weights and examples to evaluate on."""
    (tmp_path / "net.mgn").write_text(TRAINED)
    program = meganeura.load(str(tmp_path / "net.mgn"))

    def trained(write: Write) -> list[Mapping[str, Array] | float]:
        found: list[Mapping[str, Array] | float] = []
        with program.trainer(device=device) as trainer:
            for step in range(3):
                given = {"x": np.random.default_rng(step).normal(size=(2, 4)).astype(np.float32)}
                result = trainer.step(given)
                write(given["x"])
                found.append(result.loss)
                given = {"x": np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32)}
                gradients = dict(trainer.gradients(given).gradients)
                trainer.apply(gradients)
                found.append(trainer.evaluate(given)["loss"])
                weights, states = dict(trainer.weights), dict(trainer.states)
                found.append({name: array.copy() for name, array in {**weights, **states}.items()})
                for arrays in (given, gradients, weights, states, trainer.model("net").values):
                    for array in arrays.values():
                        write(array)
                value = np.full(4, step, np.float32)
                trainer.weights["w"] = value
                write(value)
        return found

    for expected, found in zip(trained(left), trained(overwritten), strict=True):
        np.testing.assert_equal(found, expected)


def test_memory_that_is_taken_is_not_given_again() -> None:
    whole, given = np.zeros((6, 4), np.float32), np.zeros(3)
    other, frozen = np.zeros(3), np.zeros(3)
    frozen.flags.writeable = False
    arrays = {"given": given, "whole": whole, "part": whole[:2], "other": other, "again": other}
    found = owned({**arrays, "frozen": frozen}, {id(given)})
    same = {name for name, each in arrays.items() if np.shares_memory(found[name], each)}
    assert same == {"whole", "other"}
    assert not np.shares_memory(found["part"], found["whole"])
    assert found["frozen"].flags.writeable
