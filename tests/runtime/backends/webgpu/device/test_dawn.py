"""Dawn runs what wgpu-native runs: on the software Vulkan of Chromium, as Dawn takes no llvmpipe.

Also, the kernels of standard models are WGSL by the rules of Tint, the compiler of Chromium.
"""

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Builder, Graph, Leaf
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Sum, Tanh
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import require_device
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, WITH_MATRICES, Style
from meganeura_runtime.backends.webgpu.device import adapters, dawn
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo, list_devices
from meganeura_runtime.backends.webgpu.device.dawn import DAWN
from meganeura_runtime.backends.webgpu.device.device import Device, Range, open_device
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.train.spec.session_inputs import feeds
from tests.effort import effort
from tests.narrow import NARROW
from tests.runtime.backends.webgpu.schedule.graphs import Example, examples
from tests.runtime.running import assert_as_reference
from tests.stdlib_models.first_step import EXAMPLES, TRAININGS, job
from tests.wgsl.compilers import tint, tint_with_matrices

STAND_FOR_ALL = (("digits_cnn", "fit"),)
"""Trainings that every run of the suite compiles; nightly runs compile all."""
FILL = """\
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    b0[id.x] = 1.0f;
}
"""


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """The device, on Chromium's software Vulkan."""
    with tint() as opened:
        yield opened


def validate(graph: Graph, device: Device) -> None:
    """Have Tint check the kernels of a graph's plans, which are for any GPU with half floats."""
    for style in Style:
        for text in plan_graph(graph, PORTABLE, style).kernels:
            device._device.create_shader_module(code=text)


def test_where_dawn_is_missing_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapters, "_found", dict[str, list[DeviceInfo]]())
    monkeypatch.setitem(sys.modules, "wgpudawn", None)
    with pytest.raises(DeviceError, match=r"not installed: pip install 'meganeura\[dawn\]'"):
        require_device("dawn")


def test_where_there_is_no_adapter_no_software_is_recommended_that_dawn_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda _: ())
    with pytest.raises(
        DeviceError, match=r"no adapter was found; .* use the device `wgpu`"
    ) as told:
        require_device("dawn")
    assert "mesa" not in str(told.value)


def test_another_version_of_dawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_found", dict[str, list[DeviceInfo]]())
    other = SimpleNamespace(version_info=(0, 33, 0), __version__="0.33.0")
    monkeypatch.setitem(sys.modules, "wgpudawn", other)
    with pytest.raises(DeviceError, match=r"wgpudawn 0\.33\.0 is installed, 0\.32 is needed"):
        list_devices(DAWN)


def test_the_version_that_is_needed_is_the_one_that_is_installed() -> None:
    major, minor = dawn.VERSION
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    (needed,) = extras["dawn"]
    assert needed.startswith(f"wgpudawn>={major}.{minor}.")
    assert needed.endswith(f",<{major}.{minor + 1}")
    assert needed in extras["test"]


@pytest.mark.adapter
@pytest.mark.browser
class TestAdapter:
    """Tests that need Dawn and Chromium's software Vulkan."""

    @given(example=examples(), style=st.sampled_from(Style))
    @settings(max_examples=effort(12, 250))
    def test_random_graphs_mean_what_the_reference_says(
        self, example: Example, style: Style, device: Device
    ) -> None:
        assert_as_reference(example.graph, example.feeds, device, style)

    def test_a_step_of_training_gives_what_the_reference_gives(
        self, device: Device, tmp_path: Path
    ) -> None:
        made = job(effort("digits_mlp", "digits_cnn"), "fit", tmp_path)
        data = feeds(made.spec.step, made.dataset.train.take(slice(0, EXAMPLES)), 0, 0, 0.01)
        step = made.spec.compiled
        names = {value.op.name for value in step.values if isinstance(value.op, Leaf)}
        fed = {**made.spec.initial_values(), **data}
        assert_as_reference(step, {name: fed[name] for name in names}, device)

    def test_bytes_go_there_and_back_in_turns(self, device: Device) -> None:
        """Each submission is waited for by itself, with more behind it."""
        between = Range(device.allocate(64), 0, 64)
        turns: list[tuple[int, MappedBuffer]] = []
        for turn in range(8):
            outgoing, incoming = device.outgoing(64), device.incoming(64)
            outgoing.content()[:] = turn
            outgoing.give()
            number = device.submit(
                [],
                [
                    (Range(outgoing.buffer, 0, 64), between),
                    (between, Range(incoming.buffer, 0, 64)),
                ],
            )
            incoming.ask()
            turns.append((number, incoming))
        for turn, (number, incoming) in enumerate(turns):
            device.wait(number)
            assert incoming.content().tolist() == [turn] * 64
        assert not device.is_busy

    def test_times_of_kernels_are_seconds(self, device: Device) -> None:
        assert device.has_clock
        at = Range(device.allocate(64), 0, 64)
        launch = device.launch(FILL, [at], (1, 1, 1))
        ((start, end),) = device.stamped([launch])
        assert 0 <= end - start < 1

    def test_what_is_no_kernel_is_an_error_that_says_so(self, device: Device) -> None:
        with pytest.raises(DeviceError, match=r"compiling a kernel failed: .*expected '\)'"):
            device.launch("fn main( { }", [], (1, 1, 1))

    def test_a_device_that_is_not_there(self, device: Device) -> None:
        assert device.info.selector == "dawn:0"
        with pytest.raises(DeviceError, match="there is no adapter 99; there are: dawn:0: "):
            require_device("dawn:99")

    @pytest.mark.parametrize("trained", [False, True])
    def test_the_kernels_of_attention_are_valid(self, device: Device, *, trained: bool) -> None:
        build = Builder()
        q, k, v = (build.add(Input(name, DType.F32, (4, 16, 1500, 64))) for name in "qkv")
        op = Attention(0.125, causal=True)
        results = build.add_all(op, q, k, v)
        outputs = {"y": results[0]}
        if trained:
            found = op.pullback(build, results, (results[0], None))
            outputs |= {f"d{n}": each for n, each in zip("qkv", found, strict=True) if each}
        graph = build.graph(outputs)
        plan = plan_graph(graph, replace(PORTABLE, workgroup_bytes=32 << 10), Style.GPU)
        assert any("flash attention" in each.name for each in plan.dispatches)
        for text in plan.kernels:
            device._device.create_shader_module(code=text)

    @pytest.mark.parametrize("name", effort(["whisper_tiny"], list(NARROW)))
    def test_the_kernels_of_a_model_are_valid(self, name: str, device: Device) -> None:
        validate(NARROW[name].elaborate().graph, device)

    @pytest.mark.parametrize(
        ("file", "train"),
        effort([each for each in TRAININGS if each in STAND_FOR_ALL], TRAININGS),
    )
    def test_the_kernels_of_a_training_are_valid(
        self, file: str, train: str, device: Device, tmp_path: Path
    ) -> None:
        validate(job(file, train, tmp_path).spec.compiled, device)

    def test_kernels_of_strangers_run_on_a_device_that_checks_them(self, device: Device) -> None:
        """Dawn leaves the checks out of all kernels of a device or of none."""
        assert device.checking is device
        fast = open_device("dawn:0", checked=False)
        assert not fast.checked
        assert fast.checking.checked
        assert fast.checking is fast.checking is not fast
        text = FILL.replace("b0[id.x]", "b0[id.x + 1000u]")
        ran: list[bool] = []
        for opened in (device, fast.checking):
            at = Range(opened.allocate(64), 0, 64)
            opened.wait(opened.submit([opened.launch(text, [at], (1, 1, 1), checked=True)]))
            ran.append(bool(opened.read(at).any()))
        assert ran == [True, True], "an index beyond the end is that of the last element"
        fast.close()


def test_the_kernels_for_matrix_units_are_valid() -> None:
    """Of a step of training, with all that is stored in f16."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 256, 64)))
    w, v = (build.add(Parameter(name, DType.F32, (64, 64), "param")) for name in "wv")
    bent = build.add(Tanh(), build.add(MatMul(), x, w))
    loss = build.add(Sum((0, 1, 2)), build.add(MatMul(), bent, v))
    graph = training_step(build.graph({"loss": loss}), TrainingSettings(Sgd(0.1)))
    kernels = plan_graph(graph, WITH_MATRICES).kernels
    assert sum("subgroupMatrixMultiplyAccumulate" in text for text in kernels) >= 3
    device = tint_with_matrices()
    for text in kernels:
        device.create_shader_module(code=text)
    wrong = kernels[-1].replace("main(", "main(,", 1)
    with pytest.raises(DAWN.module().GPUValidationError, match="expected"):
        device.create_shader_module(code=wrong)
