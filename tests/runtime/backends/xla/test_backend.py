"""The devices of JAX: which there are, what is said where there is none, what a session does."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends import registry
from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.memory_estimate import MemoryExceededError, estimate_memory
from meganeura_runtime.backends.registry import choose_device, require_device
from meganeura_runtime.backends.webgpu.device import adapters
from meganeura_runtime.backends.xla import backend, step
from meganeura_runtime.backends.xla.backend import XlaBackend
from meganeura_runtime.backends.xla.device import devices
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.session import XlaSession
from tests.runtime.backends.test_registry import REAL, SOFTWARE

ONES = np.ones(3, np.float32)


def without(*modules: str) -> object:
    return lambda name: None if name in modules else object()


def test_the_cpu_is_there_and_says_what_it_is() -> None:
    assert choose_device("xla:cpu").description == "xla:cpu: cpu by XLA (as asked)"
    assert choose_device("xla").description == "xla: cpu by XLA (as asked)"
    assert [row.name for row in XlaBackend().devices()] == ["xla:cpu"]
    require_device("xla:cpu")


def test_a_gpu_that_is_not_there_is_told_with_what_to_install() -> None:
    for name in ("xla:gpu", "xla:gpu:1"):
        with pytest.raises(DeviceError, match=r"JAX \S+ has no GPU here: .*; .*jax\[cuda13\]"):
            require_device(name)


def test_a_number_beyond_the_last_is_told_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = devices.of_platform("cpu")
    monkeypatch.setattr(
        devices, "_found", lambda platform: ([*cpu, *cpu], "") if platform == "gpu" else (cpu, "")
    )
    require_device("xla:gpu:1")
    with pytest.raises(
        DeviceError, match=r"^there is no `xla:gpu:2`: JAX has xla:cpu, xla:gpu:0, xla:gpu:1$"
    ):
        require_device("xla:gpu:2")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("INTERNAL: a kernel failed", DeviceError),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.", OutOfMemoryError),
    ],
)
def test_a_failure_is_an_error_of_a_line_and_one_of_memory_is_known(
    reason: str, kind: type[DeviceError]
) -> None:
    """A smaller batch is no cure for any other."""
    with pytest.raises(DeviceError) as caught, explained():
        raise JaxRuntimeError(f"{reason}\nmore of it")
    assert type(caught.value) is kind
    assert str(caught.value) == f"XLA: {reason}"


def test_without_jax_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", without("jax"))
    asked = (XlaBackend().devices, XlaBackend().ops, lambda: choose_device("xla"))
    for ask in (*asked, lambda: require_device("xla:cpu")):
        with pytest.raises(
            DeviceError, match=r"^JAX is not installed: pip install 'meganeura\[xla"
        ):
            ask()


@pytest.mark.parametrize(
    ("infos", "modules", "gpus", "taken"),
    [
        ((REAL,), (), 1, "wgpu"),
        ((), (), 1, "xla:gpu (no GPU was found)"),
        ((SOFTWARE,), (), 1, "xla:gpu (no GPU was found)"),
        ((), (), 0, "cpu (no GPU was found; JAX has no GPU)"),
        ((), ("jax_plugins",), 1, "cpu (no GPU was found)"),
        ((), ("jax",), 1, "cpu (no GPU was found)"),
        ((), ("jax", "jax_plugins"), 1, "cpu (no GPU was found)"),
    ],
)
def test_auto_takes_what_is_fastest(
    infos: tuple[adapters.DeviceInfo, ...],
    modules: tuple[str, ...],
    gpus: int,
    taken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: infos)
    monkeypatch.setattr(backend, "find_spec", without(*modules))
    monkeypatch.setattr(devices, "of_platform", lambda platform: [platform] * gpus)
    found, name, reason = registry._meant("auto")
    assert f"{name} ({reason})" == taken or (name, reason) == (taken, "")
    assert found.accepts(name)


def test_jax_is_not_imported_where_no_device_of_it_is_asked_for() -> None:
    loaded = "import sys; assert 'jax' not in sys.modules"
    text = f"""
from meganeura_runtime.backends.registry import choose_device, require_device
choose_device("auto"), choose_device("cpu"); {loaded}"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


# --- sessions ------------------------------------------------------------------------------------


def shared() -> Graph:
    """Returns a graph whose update is also an output, another update, and an input."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    w, c, *_ = (
        build.add(Parameter(name, DType.F32, (3,), "state")) for name in ("w", "c", "v", "u")
    )
    moved = build.add(Add(), w, x)
    outputs = {"before": w, "after": moved, "again": moved, "constant": c, "fed": x}
    return build.graph(outputs, {"w": moved, "v": moved, "u": x})


def test_an_update_overwrites_nothing_that_can_still_be_read() -> None:
    with choose_device("xla:cpu").open(shared()) as session:
        session.load(dict.fromkeys(session.names, ONES))
        with session.upload({"x": ONES}) as fed:
            steps = [session.step(fed) for _ in range(4)]
        for number, outputs in enumerate(steps, start=1):
            found = {name: float(array[0]) for name, array in outputs.items()}
            same = {"constant": 1, "fed": 1}
            assert found == {"before": number, "after": number + 1, "again": number + 1, **same}
        kept = {name: float(array[0]) for name, array in session.persistent().items()}
        assert kept == {"w": 5, "v": 5, "u": 1, "c": 1}


def test_updates_get_memory_of_their_own_where_others_have_their_values() -> None:
    """An output, an input, another state, and all but one of the updates of one value."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    w, v, u, _c, a, b = (build.add(Parameter(name, DType.F32, (3,), "state")) for name in "wvucab")
    moved, square, double = build.add(Add(), w, v), build.add(Mul(), a, a), build.add(Add(), b, b)
    updates = {"w": moved, "v": moved, "u": x, "c": u, "a": square, "b": double}
    assert step._aliased_updates(build.graph({"y": square}, updates)) == {"v", "u", "c", "a"}


@pytest.mark.parametrize(("is_told", "need"), [(True, 160), (False, 6 * 12)])
def test_a_step_that_finds_no_memory_says_how_much_it_takes(
    monkeypatch: pytest.MonkeyPatch, *, is_told: bool, need: int
) -> None:
    """Arguments, temporaries and outputs but for what these overwrite; or what the graph says."""
    analysis = SimpleNamespace(
        argument_size_in_bytes=100,
        temp_size_in_bytes=30,
        output_size_in_bytes=50,
        alias_size_in_bytes=20,
    )

    class Full:
        def __call__(self, *_: object) -> None:
            raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

        def memory_analysis(self) -> object:
            return analysis if is_told else None

    with choose_device("xla:cpu").open(shared()) as session:
        session.load(dict.fromkeys(session.names, ONES))
        monkeypatch.setattr(XlaSession, "compiled", property(lambda _: Full()))
        with pytest.raises(MemoryExceededError) as caught:
            session.step({"x": ONES})
    found = caught.value
    assert (found.need.bytes, found.need.persistent, found.available) == (need, 4 * 12, None)
    assert found.need.largest == estimate_memory(shared()).largest


def test_what_is_kept_changes_places() -> None:
    build = Builder()
    w, v = (build.add(Parameter(name, DType.F32, (3,), "state")) for name in ("w", "v"))
    with choose_device("xla:cpu").open(build.graph({}, {"w": v, "v": w})) as session:
        session.load({"w": ONES, "v": 2 * ONES})
        for _ in range(3):
            session.step({})
        assert {name: float(array[0]) for name, array in session.persistent().items()} == {
            "w": 2,
            "v": 1,
        }


def test_steps_that_update_different_tensors_share_all_of_them() -> None:
    """One that is closed leaves the values to the others."""
    build = Builder()
    w, v = (build.add(Parameter(name, DType.F32, (3,), "param")) for name in ("w", "v"))
    squares = build.graph({}, {"w": build.add(Mul(), w, w)})
    products = build.graph({}, {"v": build.add(Mul(), v, w)})
    device = choose_device("xla:cpu")
    with device.open(squares) as one:
        with device.open(products) as other:
            other.share(one)
            one.load({"w": 3 * ONES, "v": 2 * ONES})
            other.step({})
            one.step({})
            other.step({})
            one.step({})
            assert (float(other.read("w")[0]), float(one.read("v")[0])) == (81, 54)
        assert (float(one.read("w")[0]), float(one.read("v")[0])) == (81, 54)
