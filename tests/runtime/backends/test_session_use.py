"""Use of a session by several threads, after it was closed, and in a forked process."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import meganeura
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends import index_checks, inference_session, sized_session
from meganeura_runtime.backends.base import Session, SessionError
from meganeura_runtime.backends.reference import session as reference
from meganeura_runtime.backends.session_guard import ALONE, ALONE_AT_ANY_TIME, BESIDE
from meganeura_runtime.backends.webgpu import session as webgpu
from meganeura_runtime.profiling import trace
from tests.effort import effort

DEVICES = ["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]
SMALL = """\
block Net()(x: [n, 4], i: i32[n]) -> [n, 3]
    where 0 <= i, i < 3:
  y = x |> fc: linear(3) |> relu
  return y + one_hot(i, 3)

model net = Net()

block Large()(x: [n]) -> [n]:
  return 2 * x

model large = Large()

block Sum()(x: [n]) -> [n]:
  cache total: [n]
  update total = total + x
  return total

model acc = Sum()

train fit(x: [batch, 4], label: i32[batch]):
  minimize cross_entropy(x |> fc: linear(3), label)
  run:
    batch     = 4
    optimizer = adam(lr=0.01)
"""


@pytest.fixture
def program(tmp_path: Path) -> meganeura.Program:
    (tmp_path / "small.mgn").write_text(SMALL)
    return meganeura.load(str(tmp_path / "small.mgn"))


def in_threads(work: Callable[[int], object], threads: int = 3) -> None:
    """Do something in several threads that begin together; raises what any of them does."""
    together = Barrier(threads)

    def begun(number: int) -> object:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(begun, range(threads)))


@pytest.mark.parametrize("device", DEVICES)
def test_threads_of_one_session_get_their_own_answers(
    program: meganeura.Program, device: str
) -> None:
    model = program.model("net", seed=0)
    weight, bias = model.values["fc.weight"], model.values["fc.bias"]
    ids = np.zeros(5, np.int32)
    with model.session({"n": 5}, device=device) as session:

        def ask(number: int) -> None:
            generator = np.random.default_rng(number)
            for _ in range(40):
                x = generator.standard_normal((5, 4)).astype(np.float32)
                expected = np.maximum(x @ weight.T + bias, 0) + np.eye(3)[ids]
                found = session.step({"x": x, "i": ids})["output"]
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

        in_threads(ask)


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_of_any_size_wait_for_the_thread_that_made_them(
    program: meganeura.Program, device: str
) -> None:
    """Of one thread, those of more than a megabyte are gone with its next step."""
    count = 400_000
    with program.model("large").session({"n": count}, device=device) as session:

        def ask(number: int) -> None:
            for step in range(6):
                outputs = session.step({"x": np.full(count, 10 * number + step, np.float32)})
                np.testing.assert_array_equal(outputs["output"], 2 * (10 * number + step))

        in_threads(ask)


@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
def test_no_step_of_a_thread_is_lost(program: meganeura.Program, device: str) -> None:
    ones = np.ones(4, np.float32)
    with program.model("acc").session({"n": 4}, device=device) as session:
        in_threads(lambda _: [session.run({"x": ones}) for _ in range(30)])
        np.testing.assert_array_equal(session.read("total"), 90 * ones)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 4)).astype(np.float32)
    batch = {"x": x, "label": np.arange(4, dtype=np.int32) % 3}
    weights: list[Array] = []
    for threads in (1, 3):
        with program.trainer(device=device) as trainer:
            steps = 30 // threads
            in_threads(
                lambda _, by=trainer, n=steps: [by.step(batch).loss for _ in range(n)], threads
            )
            assert trainer.steps == 30
            weights.append(trainer.weights["fc.weight"])
    np.testing.assert_array_equal(weights[0], weights[1])


@pytest.mark.parametrize("device", DEVICES)
def test_a_closed_session_says_so(program: meganeura.Program, device: str) -> None:
    """The results of its last step can still be read."""
    model, x = program.model("net", seed=0), np.ones((5, 4), np.float32)
    feeds = {"x": x, "i": np.zeros(5, np.int32)}
    with model.session({"n": 5}, device=device) as session:
        expected = session.step(feeds)["output"]
        outputs = session.step(feeds)
    np.testing.assert_array_equal(outputs["output"], expected)
    session.close()
    session.wait()
    for use in (
        lambda: session.step(feeds),
        lambda: session.run(feeds),
        lambda: session.follow(feeds, {}),
        lambda: session.upload(feeds),
        lambda: session.stage(feeds),
        lambda: session.read("fc.bias"),
        lambda: session.write("fc.bias", np.zeros(3, np.float32)),
        lambda: session.load({}),
        session.persistent,
        session.outputs,
        session.reset,
        session.ready,
    ):
        with pytest.raises(SessionError, match="the session is closed"):
            use()


@pytest.mark.adapter
def test_large_outputs_that_nobody_read_are_gone_with_the_session(
    program: meganeura.Program,
) -> None:
    count = 400_000
    with program.model("large").session({"n": count}, device="wgpu") as session:
        outputs = session.step({"x": np.ones(count, np.float32)})
    with pytest.raises(SessionError, match="closed, and output `output` was not read before"):
        _ = outputs["output"]


@pytest.mark.parametrize("device", DEVICES)
def test_the_loss_of_the_last_step_is_read_after_the_trainer(
    program: meganeura.Program, device: str
) -> None:
    batch = {"x": np.ones((4, 4), np.float32), "label": np.zeros(4, np.int32)}
    with program.trainer(device=device) as trainer:
        expected = trainer.gradients(batch).loss
        result = trainer.step(batch)
    assert result.loss == pytest.approx(expected, rel=1e-5)


FORKING = """\
import os, signal, sys
import numpy as np
import meganeura
from meganeura_runtime.backends.base import SessionError
from meganeura_dsl.diagnostics.problem import ProblemError

model = meganeura.load(sys.argv[1]).model("large")
session = model.session({"n": 2}, device=sys.argv[2])
outputs = session.step({"x": np.ones(2, np.float32)})
child = os.fork()
if child == 0:
    signal.alarm(60)
    tries = (
        lambda: session.step({"x": np.ones(2, np.float32)})["output"].tolist(),
        lambda: outputs["output"].tolist(),
        lambda: model.run({"x": np.ones(2, np.float32)}, device=sys.argv[2])["output"].tolist(),
    )
    for each in tries[:2] if sys.argv[2] == "cpu" else tries:
        try:
            print(each())
        except (SessionError, ProblemError) as error:
            print("does not follow a fork" in str(error))
    session.close()
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(outputs["output"].tolist())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("device", effort(DEVICES[2:], DEVICES))
def test_an_open_device_does_not_follow_a_fork(
    program: meganeura.Program, device: str, tmp_path: Path
) -> None:
    """The arrays of `cpu` do."""
    del program
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "small.mgn"), device]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    expected = "[2.0, 2.0]"
    of_child = [expected] * 2 if device == "cpu" else ["True"] * 3
    assert said.splitlines() == [*of_child, expected]


def test_every_session_is_guarded() -> None:
    """Whatever a class of sessions defines anew."""
    modules = (index_checks, inference_session, sized_session, reference, webgpu, trace)
    assert all(inspect.ismodule(each) for each in modules)
    kinds = [Session]
    for kind in kinds:
        kinds += [each for each in kind.__subclasses__() if each.__module__.startswith("meganeura")]
    assert len(kinds) > 8
    unguarded = [
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name in (ALONE | ALONE_AT_ANY_TIME | BESIDE | {"close"}) & vars(kind).keys()
        if not hasattr(vars(kind)[name], "__wrapped__")
    ]
    assert not unguarded
