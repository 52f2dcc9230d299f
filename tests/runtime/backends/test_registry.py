"""Devices by name: whose they are, which one `auto` takes, how one is opened early."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir import cost_model
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, GPU, DeviceModel
from meganeura_dsl.plugins import plugin_groups
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends import registry
from meganeura_runtime.backends.backend import (
    ALONE,
    Backend,
    Capabilities,
    Hosts,
    OpenDevice,
    Rendezvous,
)
from meganeura_runtime.backends.device_problems import UnsupportedPrecision
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.backends.registry import (
    BUILT_IN,
    DEVICE_NAMES,
    backend_of,
    begin_to_open,
    choose_device,
    device_forms,
    device_or_any,
    meet_hosts,
    model_of,
    require_device,
)
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.webgpu.device import adapters, device
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.xla.backend import XlaBackend
from meganeura_runtime.support import background

REAL = DeviceInfo("wgpu:0", "a card", "DiscreteGPU", "Vulkan", "1")
SOFTWARE = DeviceInfo("wgpu:1", "llvmpipe", "CPU", "Vulkan", "1")


@pytest.mark.parametrize(
    ("selector", "infos", "model"),
    [
        ("cpu", [REAL], DEFAULT_DEVICE),
        ("auto", [SOFTWARE, REAL], GPU),
        ("wgpu", [REAL, SOFTWARE], GPU),
        ("auto", [SOFTWARE], DEFAULT_DEVICE),
        ("wgpu:0", [REAL, SOFTWARE], GPU),
        ("wgpu:1", [REAL, SOFTWARE], cost_model.SOFTWARE),
        ("wgpu", [SOFTWARE], cost_model.SOFTWARE),
        ("wgpu:7", [REAL, SOFTWARE], DEFAULT_DEVICE),
        ("auto", [], DEFAULT_DEVICE),
        ("cuda", [REAL], DEFAULT_DEVICE),
    ],
)
def test_a_real_gpu_is_preferred_and_software_has_to_be_asked_for(
    selector: str,
    infos: Sequence[DeviceInfo],
    model: DeviceModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: tuple(infos))
    assert model_of(selector) == model


def test_what_a_card_takes_at_most_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = tuple(replace(REAL, largest=size) for size in (3 << 30, 2 << 30))
    monkeypatch.setattr(adapters, "list_devices", lambda *_: cards)
    assert model_of("auto") == replace(GPU, largest=2 << 30)


def test_no_convolution_is_one_of_winograd_in_f16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: (replace(REAL, selector="dawn:0"),))
    assert model_of("dawn").winograd
    assert not model_of("dawn", ComputePrecision.F16).winograd


def test_a_driver_that_fails_is_told_where_the_device_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: object) -> tuple[DeviceInfo, ...]:
        raise DeviceError("no driver")

    monkeypatch.setattr(adapters, "list_devices", broken)
    assert model_of("auto") == model_of("wgpu") == DEFAULT_DEVICE
    assert choose_device("auto").description == "cpu (no driver)"
    with pytest.raises(DeviceError, match="no driver"):
        require_device("wgpu:0")


@pytest.mark.parametrize(
    ("name", "infos", "reason"),
    [
        ("wgpu", [], "no adapter was found; install the vendor's GPU driver"),
        ("wgpu:0", [], "no adapter was found"),
        ("wgpu", [SOFTWARE], None),
        ("wgpu:0", [SOFTWARE], None),
        ("wgpu:1", [REAL, SOFTWARE], None),
        ("wgpu:2", [REAL, SOFTWARE], "there is no adapter 2; there are: wgpu:0: a card"),
        ("cpu", [], None),
        ("auto", [], None),
    ],
)
def test_an_adapter_is_required_before_it_is_opened(
    name: str, infos: list[DeviceInfo], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: tuple(infos))
    if reason is None:
        require_device(name)
        return
    with pytest.raises(DeviceError, match=reason):
        require_device(name)


# --- names ---------------------------------------------------------------------------------------


def test_each_name_belongs_to_one_backend() -> None:
    for name in ("cpu", "wgpu", "wgpu:0", "wgpu:123456789", "xla", "xla:cpu", "xla:gpu:1"):
        assert [each.name for each in BUILT_IN if each.accepts(name)] == [name.partition(":")[0]]
        assert backend_of(name).name == name.partition(":")[0]
        assert DEVICE_NAMES.accepts(name)
    assert DEVICE_NAMES.accepts("auto")
    assert device_forms() == ("auto", "cpu", "dawn", "dawn:N", "wgpu", "wgpu:N", *XLA)


XLA = ("xla", "xla:cpu", "xla:gpu", "xla:gpu:N")
LISTED = "auto, cpu, dawn, dawn:N, wgpu, wgpu:N, xla, xla:cpu, xla:gpu"
NO_DEVICES = (
    "xla:",
    "xla:cpu:0",
    "xla:gpu:",
    "xla:tpu",
    "cuda",
    "",
    "cpu:0",
    "wgpu:",
    "wgpu:x",
    "wgpu:-1",
    "wgpu:0:0",
    "CPU",
    "cpu\n",
)


@pytest.mark.parametrize("name", [*NO_DEVICES, f"wgpu:{'9' * 5000}"])
def test_what_names_no_device_is_refused(name: str) -> None:
    assert not DEVICE_NAMES.accepts(name)
    for ask in (choose_device, require_device):
        with pytest.raises(DeviceError) as caught:
            ask(name)
        said = f"`{name}` is no device; there are {LISTED} and xla:gpu:N"
        assert str(caught.value).startswith(said)
        assert ("xla:gpu` too" in str(caught.value)) is (name == "cuda")
    assert DEVICE_NAMES.listed() == f"{LISTED} or xla:gpu:N"


@pytest.mark.parametrize(
    ("stage", "is_printed"),
    [
        ("plan", True),
        ("plans", False),
        ("pla", False),
        ("", False),
        ("after:fuse", True),
        ("after", False),
        ("after:PASS", True),
        ("before:fuse", False),
    ],
)
def test_a_backend_prints_the_stages_that_it_names(stage: str, *, is_printed: bool) -> None:
    class Toy(ReferenceBackend):
        capabilities = Capabilities(stages=("plan", "after:PASS"))

    assert Toy().can_emit(stage) is is_printed
    assert not ReferenceBackend().can_emit(stage)


def test_a_device_computes_as_exactly_as_its_backend_says() -> None:
    device = ReferenceBackend().open("cpu", "as asked")
    assert device.at(ComputePrecision.F32) is device
    with pytest.raises(ProblemError) as caught:
        device.at(ComputePrecision.BF16)
    assert isinstance(caught.value.problem, UnsupportedPrecision)


@pytest.mark.parametrize("name", ["auto", "cpu", "wgpu:0"])
def test_a_process_that_was_not_told_whom_to_meet_is_alone(name: str) -> None:
    assert meet_hosts(name, None) == ALONE == Hosts(1, 0)
    assert [Hosts(2, index).is_first for index in (0, 1)] == [True, False]
    reason = "names its device" if name == "auto" else "runs on one host, and not on 2"
    with pytest.raises(DeviceError, match=reason):
        meet_hosts(name, Rendezvous("localhost:1234", Hosts(2, 0)))


def test_a_device_is_as_it_was_tuned_unless_it_is_not_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuned = ReferenceBackend().open("cpu", "tuned")
    monkeypatch.setattr(OpenDevice, "tuned", lambda _: tuned)
    assert choose_device("cpu") is tuned
    assert choose_device("cpu", tuned=False) is not tuned
    assert device_or_any("cpu")[1] is tuned
    assert device_or_any("cpu", tuned=False)[1] is not tuned


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="there is a backend `cpu` already"):
        registry.register(BUILT_IN[-1])


def test_one_that_is_registered_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy(ReferenceBackend):
        name = "toy"
        forms = ("toy",)
        pattern = "toy"

    with pytest.raises(DeviceError, match="`toy` is no device"):
        backend_of("toy")
    monkeypatch.setattr(registry, "_registered", list[Backend]())
    added = Toy()
    registry.register(added)
    assert backend_of("toy") is added
    assert registry.backends() == ((*BUILT_IN, added), ())
    with pytest.raises(ValueError, match="there is a backend `toy` already"):
        registry.register(Toy())
    with pytest.raises(DeviceError, match="`toy:0` is no device"):
        backend_of("toy:0")


def test_a_package_cannot_take_the_name_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meaning of the name stays, and whoever lists the backends gets the message."""
    points = {"meganeura.backends": (("cpu", "json:dumps", "taker 1"),)}
    monkeypatch.setattr(plugin_groups, "entry_points", lambda: points)
    found, errors = registry.backends()
    assert found == BUILT_IN
    assert [(each.failure.owners, each.failure.name) for each in errors] == [(("taker 1",), "cpu")]
    assert backend_of("cpu") is BUILT_IN[-1]


def test_to_know_the_backends_loads_none_of_them() -> None:
    loaded = "import sys; print(*sys.modules)"
    text = f"from meganeura_runtime.backends import registry; registry.device_forms(); {loaded}"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {
        "numpy",
        "wgpu",
        "jax",
        "cffi",
        "threadpoolctl",
        "pydantic",
        "egglog",
        "importlib.metadata",
    }
    assert not heavy & set(done.stdout.split())


# --- opening early -------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Returns the devices that were opened, and the thread of each."""
    made: list[tuple[str, str]] = []

    def fail(selector: str) -> Device:
        made.append((selector, threading.current_thread().name))
        raise DeviceError(f"`{selector}` is no device")

    monkeypatch.setattr(device, "open_device", fail)
    monkeypatch.setattr(adapters, "list_devices", lambda *_: ())
    return made


def test_it_is_opened_once_by_a_thread(asked: list[tuple[str, str]]) -> None:
    begin_to_open("wgpu:7")
    begin_to_open("wgpu:7")
    with pytest.raises(DeviceError, match="`wgpu:7` is no device"):
        choose_device("wgpu:7")
    assert asked == [("wgpu:7", "device_0")]
    with pytest.raises(DeviceError, match="`wgpu:8` is no device"):
        choose_device("wgpu:8")
    assert asked[1:] == [("wgpu:8", threading.current_thread().name)]


def test_each_who_asks_has_a_device_of_its_own(asked: list[tuple[str, str]]) -> None:
    for _ in range(2):
        begin_to_open("wgpu")
        with pytest.raises(DeviceError):
            choose_device("wgpu")
    assert [(name, thread.partition("_")[0]) for name, thread in asked] == [("wgpu", "device")] * 2


def test_what_was_opened_unasked_computes_in_f32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first device with a precision may be another than the first of all."""
    opened: list[str] = []

    def note(backend: Backend, name: str, reason: str) -> OpenDevice:
        opened.append(name)
        return ReferenceBackend().open("cpu", f"{backend.name}: {reason}")

    monkeypatch.setattr(WebGpuBackend, "preferred", lambda self: self.name)
    monkeypatch.setattr(XlaBackend, "preferred", lambda _: "xla:gpu")
    for backend in (WebGpuBackend, XlaBackend):
        monkeypatch.setattr(backend, "open", note)
    monkeypatch.setattr(OpenDevice, "at", lambda self, _: self)
    for precision, names in (
        (ComputePrecision.F32, ["wgpu"]),
        (ComputePrecision.BF16, ["wgpu", "xla:gpu"]),
    ):
        opened.clear()
        begin_to_open("auto")
        found = choose_device("auto", precision=precision)
        assert opened == names
        assert names[-1].startswith(found.description.removeprefix("cpu (").partition(":")[0])
    assert choose_device("auto", precision=ComputePrecision.TF32).description == "cpu (xla: )"


@pytest.mark.parametrize(
    ("name", "backend"),
    [("wgpu", "wgpu"), ("xla", "xla"), ("xla:gpu", None), ("wgpu:0", None), ("auto", None)],
)
def test_a_backend_without_a_device_here_stands_for_any_of_its_devices(
    name: str, backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Backend, name: str, reason: str) -> OpenDevice:
        raise DeviceError(f"there is no {name} ({reason})")

    for each in (WebGpuBackend, XlaBackend):
        monkeypatch.setattr(each, "open", fail)
    monkeypatch.setattr(WebGpuBackend, "preferred", lambda self: self.name)
    if backend is not None:
        assert device_or_any(name) == (backend_of(backend), None)
        return
    with pytest.raises(DeviceError, match=f"there is no {'wgpu' if name == 'auto' else name}"):
        device_or_any(name)


def test_the_cpu_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "begin", None)
    begin_to_open("cpu")
    assert choose_device("cpu").description == "cpu (as asked)"


def test_what_a_thread_found_wrong_is_told_to_who_asks() -> None:
    begin_to_open("cuda")
    with pytest.raises(DeviceError, match="`cuda` is no device"):
        choose_device("cuda")


@pytest.mark.adapter
def test_what_a_thread_opened_works_in_this_one() -> None:
    begin_to_open("wgpu")
    found = choose_device("wgpu")
    assert isinstance(found, OpenAdapter)
    buffer = found.device.allocate(16)
    found.device.free(buffer)
    found.device.close()
