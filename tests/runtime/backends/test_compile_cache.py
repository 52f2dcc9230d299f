"""Keys hold all that a result depends on, and what is found is what would have been made."""

import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Builder, Graph, Origin
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.support import compiler_fingerprint
from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Sgd
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends import cache_keys, compile_cache
from meganeura_runtime.backends.cache_keys import OptimizedKey, inference_of, step_of
from meganeura_runtime.backends.compile_cache import cached_inference, cached_training_step
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig, KernelConfig
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
)
from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED, TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan_cache import (
    PlanKey,
    cached_memory,
    cached_plan,
    plan_of,
)
from meganeura_runtime.backends.webgpu.schedule import compile as schedule
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph, plan_memory
from tests.effort import effort

RULES = RewriteOptions()
STEP = TrainingSettings(Sgd(0.1))
PROGRAM = """\
train fit(x: [batch, 6], y: i32[batch]):
  h = x |> fc1: linear(8) |> norm: batch_norm |> gelu |> dropout(0.25)
  minimize cross_entropy(h |> fc2: linear(3), y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 1
    optimizer = sgd(lr=0.1)
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    return DiskCache(tmp_path / "cache" / "compiled")


def loaded(target: str) -> pipeline.Program:
    """A program; its proof is not kept, which would be one more entry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEGANEURA_CACHE", "off")
        return pipeline.load(target)


@pytest.fixture
def forward(tmp_path: Path) -> Graph:
    (tmp_path / "fit.mgn").write_text(PROGRAM)
    program = loaded(str(tmp_path / "fit.mgn"))
    return pipeline.elaborate_train(program, "fit", sizes={"batch": 4}, training=True).graph


INFO = DeviceInfo("wgpu:0", "card", "DiscreteGPU", "Vulkan", "1.0")
LIMITS = DeviceLimits()


def adapter(
    info: DeviceInfo = INFO, limits: DeviceLimits = LIMITS, style: Style = Style.GPU
) -> Device:
    """As much of a device as a key looks at."""
    made: Device = Device.__new__(Device)
    made.info, made.limits, made.style = info, limits, style
    return made


# --- keys ----------------------------------------------------------------------------------------


def small(
    op: type[Add | Mul] = Add,
    *,
    dtype: DType = DType.F32,
    length: int = 4,
    name: str = "x",
    origin: str = "head",
    output: str = "y",
    kind: str = "param",
) -> Graph:
    build = Builder()
    with build.at(Origin(None, origin)):
        x = build.add(Input(name, dtype, (length,)))
        w = build.add(Parameter("w", dtype, (length,), "param" if kind == "param" else "frozen"))
        return build.graph({output: build.add(op(), x, w)}, {})


CHANGED: dict[str, Graph] = {
    "op": small(Mul),
    "dtype": small(dtype=DType.F16),
    "shape": small(length=5),
    "name": small(name="z"),
    "origin": small(origin="tail"),
    "output": small(output="loss"),
    "kind": small(kind="frozen"),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_every_part_of_a_graph_is_in_its_keys(changed: Graph) -> None:
    one, device = small(), adapter()
    assert inference_of(one, RULES).key == inference_of(small(), RULES).key
    assert inference_of(one, RULES).key != inference_of(changed, RULES).key
    assert step_of(one, STEP, RULES).key != step_of(changed, STEP, RULES).key
    assert plan_of(one, device, UNTUNED).key == plan_of(small(), device, UNTUNED).key
    assert plan_of(one, device, UNTUNED).key != plan_of(changed, device, UNTUNED).key


def test_rules_and_settings_are_in_the_keys() -> None:
    graph = small()
    found = [
        inference_of(graph, RULES),
        inference_of(graph, RewriteOptions(disabled=("norm",))),
        inference_of(graph, RewriteOptions(disabled=("norm", "silu"))),
        step_of(graph, STEP, RULES),
        step_of(graph, STEP, RewriteOptions(disabled=("norm",))),
        step_of(graph, TrainingSettings(Sgd(0.2)), RULES),
        step_of(graph, TrainingSettings(Sgd(0.1, momentum=0.5)), RULES),
        step_of(graph, TrainingSettings(Sgd(0.1, momentum=0.5, nesterov=True)), RULES),
        step_of(graph, TrainingSettings(Adam(0.1)), RULES),
        step_of(graph, replace(STEP, clip_norm=1.0), RULES),
        step_of(graph, replace(STEP, feed_learning_rate=True), RULES),
        step_of(graph, replace(STEP, groups=(("w", None),)), RULES),
    ]
    assert len({one.key for one in found}) == len(found)


OTHER_STEPS = {
    "optimizer": Sgd(0.3),
    "clip_norm": 2.0,
    "feed_learning_rate": True,
    "groups": (("w", Sgd(0.3)),),
    "gradients": True,
    "every": (("w", 2),),
    "clip_value": 2.0,
    "gradient_norm": True,
    "accumulate": 2,
    "ema": 0.5,
    "skip_not_finite": True,
    "scale_loss": True,
    "part": StepPart.SUM,
    "recompute_above": 0,
    "schedules": ("w",),
}
"""For each field of the settings of a step, another value."""


@pytest.mark.parametrize("name", [each.name for each in fields(TrainingSettings)])
def test_every_setting_of_a_step_is_in_its_key(name: str) -> None:
    other = replace(STEP, **{name: OTHER_STEPS[name]})
    assert step_of(small(), other, RULES).key != step_of(small(), STEP, RULES).key


@pytest.mark.parametrize("name", [each.name for each in fields(DeviceModel)])
def test_every_number_of_the_device_is_in_the_keys(name: str) -> None:
    value = getattr(DEFAULT_DEVICE, name)
    other = RewriteOptions(device=replace(DEFAULT_DEVICE, **{name: changed_number(value)}))
    assert inference_of(small(), other).key != inference_of(small(), RULES).key
    assert step_of(small(), STEP, other).key != step_of(small(), STEP, RULES).key


def changed_number(value: object) -> object:
    match value:
        case bool():
            return not value
        case int() | float():
            return value * 2 + 1
        case _:
            return None


def test_a_form_for_training_is_another_than_that_for_inference() -> None:
    assert inference_of(small(), RULES, "train").key != inference_of(small(), RULES, "infer").key


def test_choices_of_how_a_step_is_fused_are_in_the_key() -> None:
    fused = TunedConfigs("tuned", {}, {step_name(small()): FusionConfig(epilogue=3)})
    others = TunedConfigs("tuned", {}, {"another step": FusionConfig(epilogue=3)})
    plain = plan_of(small(), adapter(), TunedConfigs("tuned"))
    assert plan_of(small(), adapter(), fused).key != plain.key
    assert plan_of(small(), adapter(), others).key == plain.key


UNITS = MatrixUnits(MatrixDialect.PLAIN)


@pytest.mark.parametrize("limit", [each.name for each in fields(DeviceLimits)])
def test_every_limit_is_in_the_key(limit: str) -> None:
    limits = DeviceLimits()
    value = getattr(limits, limit)
    other = not value if isinstance(value, bool) else UNITS if value is None else value + 1
    changed = replace(limits, **{limit: other})
    other = plan_of(small(), adapter(limits=changed), UNTUNED)
    assert other.key != plan_of(small(), adapter(), UNTUNED).key


def test_adapter_style_and_choices_are_in_the_key() -> None:
    found = [
        plan_of(small(), adapter(), UNTUNED),
        plan_of(small(), adapter(style=Style.SOFTWARE_VULKAN), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, name="another")), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, driver="1.1")), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, backend="Metal")), UNTUNED),
        plan_of(small(), adapter(), TunedConfigs("tuned")),
        plan_of(small(), adapter(), TunedConfigs("tuned", {"matmul": KernelConfig(split_k=2)})),
        plan_of(small(), adapter(), TunedConfigs("tuned", {"matmul": KernelConfig(split_k=3)})),
    ]
    assert len({one.key for one in found}) == len(found)


def test_every_field_of_an_ingredient_changes_its_key() -> None:
    for one in (inference_of(small(), RULES), plan_of(small(), adapter(), UNTUNED)):
        for each in fields(one):
            value = getattr(one, each.name)
            changed = ("x",) if isinstance(value, tuple) else f"{value}x"
            assert replace(one, **{each.name: changed}).key != one.key, each.name
    same = {"graph": "g", "compiler": "c"}
    assert (
        OptimizedKey(mode="m", disabled_rules=(), device="", **same).key
        != PlanKey(adapter="", driver="", limits="", style="", choices="", **same).key
    )


def test_the_same_compiler_elsewhere_is_the_same(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "rules.py").write_text("x = 1\n")
        (tmp_path / name / "inner" / "rules.pyc").write_text(name)
    here, there = (compiler_fingerprint.fingerprint(str(tmp_path / n)) for n in ("here", "there"))
    assert here == there


def test_an_edited_compiler_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "inner" / "rules.py").write_text("x = 1\n")
    fake = SimpleNamespace(__path__=[str(package)], __version__="1.0")
    monkeypatch.setattr(compiler_fingerprint, "meganeura_dsl", fake)
    found: list[str] = []

    def look() -> None:
        compiler_fingerprint.front_end.cache_clear()
        cache_keys.compiler.cache_clear()
        found.append(cache_keys.compiler())

    try:
        look()
        (package / "inner" / "rules.py").write_text("x = 2\n")
        look()
        (package / "inner" / "more.py").write_text("")
        look()
        (package / "inner" / "more.py").rename(package / "more.py")
        look()
        (package / "tables.json").write_text("{}")
        look()
        fake.__version__ = "1.1"
        look()
        monkeypatch.setattr(cache_keys, "ENGINE", "numpy")
        look()
        monkeypatch.setattr(cache_keys, "ENGINE", "nothing_of_the_kind")
        look()
    finally:
        compiler_fingerprint.front_end.cache_clear()
        cache_keys.compiler.cache_clear()
    assert len(set(found)) == len(found)


# --- what is found -------------------------------------------------------------------------------


def origins(graph: Graph) -> list[Origin]:
    return [value.origin for value in graph.values]


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object) -> None:
        raise AssertionError("this was recomputed")

    monkeypatch.setattr(RewriteOptions, "optimize", made)
    monkeypatch.setattr(compile_cache, "optimized_training_step", made)
    monkeypatch.setattr(schedule, "plan_graph", made)


def test_a_step_is_found_as_it_was_made(
    kept: DiskCache, forward: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cached_training_step(forward, STEP, RULES)
    forbid(monkeypatch)
    found = cached_training_step(forward, STEP, RULES)
    assert format_graph(found) == format_graph(made)
    assert origins(found) == origins(made)
    assert {origin.span.line for origin in origins(found) if origin.span} >= {2, 3}
    with pytest.raises(AssertionError, match="recomputed"):
        cached_training_step(forward, TrainingSettings(Sgd(0.2)), RULES)
    assert len(list(kept.paths())) == 1


def test_an_inference_form_is_found_with_what_it_derives(
    kept: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = loaded("resnet18")
    sizes = {"n": 1, "h": 32, "w": 32}
    graph = pipeline.elaborate_model(program, sizes=sizes).graph
    made = cached_inference(graph, RULES)
    forbid(monkeypatch)
    found = cached_inference(graph, RULES)
    assert len(found.load.outputs) > 0
    for name in ("graph", "load"):
        one, other = getattr(found, name), getattr(made, name)
        assert format_graph(one) == format_graph(other)
        assert origins(one) == origins(other)
    assert len(list(kept.paths())) == 1


def test_a_form_for_training_is_not_found_as_that_for_inference(
    kept: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch norms with fixed statistics are folded into weights for inference alone."""
    sizes = {"n": 1, "h": 8, "w": 8}
    graph = pipeline.elaborate_model(loaded("digits_cnn"), sizes=sizes).graph
    forms = [cached_inference(graph, RULES, mode).load.outputs for mode in ("infer", "train")]
    assert [len(each) > 0 for each in forms] == [True, False]
    assert len(list(kept.paths())) == 2
    forbid(monkeypatch)
    for mode, form in zip(("infer", "train"), forms, strict=True):
        assert cached_inference(graph, RULES, mode).load.outputs.keys() == form.keys()


@pytest.mark.adapter
def test_a_plan_is_found_as_it_was_made(
    kept: DiskCache, forward: Graph, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = optimized_training_step(forward, STEP, RULES).graph
    made = cached_plan(step, device)
    assert made == plan_graph(step, device.limits, device.style)
    forbid(monkeypatch)
    assert cached_plan(step, device) == made
    with pytest.raises(AssertionError, match="recomputed"):
        cached_plan(step, device, TunedConfigs("tuned"))
    assert len(list(kept.paths())) == 1


def test_the_memory_of_a_plan_is_found_as_it_was_worked_out(
    kept: DiskCache, forward: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = optimized_training_step(forward, TrainingSettings(Adam(0.1)), RULES).graph
    device = adapter()
    made = cached_memory(step, device)
    plan = plan_graph(step, LIMITS)
    assert made == plan_memory(step, LIMITS)
    assert made.bytes == sum(buffer.bytes for buffer in plan.buffers)
    with monkeypatch.context() as patch:
        forbid(patch)
        patch.setattr(schedule, "plan_memory", schedule.plan_graph)
        assert cached_memory(step, device) == made
        with pytest.raises(AssertionError, match="recomputed"):
            cached_memory(step, device, TunedConfigs("tuned"))
    (path,) = kept.paths()
    for content in (b"", b"[]", b"{}", b'{"roles": {"x": 1}}'):
        kept.store(path.stem, content)
        assert cached_memory(step, device) == made


@pytest.mark.adapter
@pytest.mark.parametrize("content", effort([b"[]"], [b"", b"[]", b'{"version": 2}', b"\xff"]))
def test_whole_entries_that_make_no_sense_are_made_anew(
    content: bytes, kept: DiskCache, forward: Graph, device: Device
) -> None:
    step = cached_training_step(forward, STEP, RULES)
    form = cached_inference(small(), RULES)
    plan = cached_plan(step, device)
    for path in list(kept.paths()):
        kept.store(path.stem, content)
    assert format_graph(cached_training_step(forward, STEP, RULES)) == format_graph(step)
    assert format_graph(cached_inference(small(), RULES).graph) == format_graph(form.graph)
    assert cached_plan(step, device) == plan


@pytest.mark.parametrize("damage", ["text", "origins", "place"])
def test_a_graph_that_cannot_be_read_is_made_anew(
    damage: str, kept: DiskCache, forward: Graph
) -> None:
    step = cached_training_step(forward, STEP, RULES)
    (path,) = kept.paths()
    entry = json.loads(path.read_bytes().partition(b"\n")[2])
    match damage:
        case "text":
            entry["graph"]["text"] = "%0 = Nothing()"
        case "origins":
            entry["graph"]["origins"] = entry["graph"]["origins"][:3]
        case _:
            entry["graph"]["origins"][0] = len(forward.values)
    kept.store(path.stem, json.dumps(entry).encode())
    assert origins(cached_training_step(forward, STEP, RULES)) == origins(step)


def test_without_a_cache_everything_is_made(
    forward: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", "off")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    step = cached_training_step(forward, STEP, RULES)
    expected = optimized_training_step(forward, STEP, RULES).graph
    assert format_graph(step) == format_graph(expected)
    assert cached_inference(small(), RULES).load.outputs == {}
    assert not (tmp_path / "home").exists()


def test_an_unknown_rule_is_refused_and_nothing_is_kept(kept: DiskCache, forward: Graph) -> None:
    for _ in range(2):
        with pytest.raises(ProblemError, match="nonsense"):
            cached_training_step(forward, STEP, RewriteOptions(disabled=("nonsense",)))
    assert list(kept.paths()) == []


def test_what_is_not_optimized_is_not_kept(kept: DiskCache, forward: Graph) -> None:
    cached_training_step(forward, STEP, RewriteOptions(enabled=False))
    assert list(kept.paths()) == []
