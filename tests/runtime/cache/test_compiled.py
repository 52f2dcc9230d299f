"""Keys hold all that a result depends on, and what is found is what would have been made."""

import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from meganeura_dsl import fingerprint, pipeline
from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.entries import Entries
from meganeura_dsl.graph.core import Builder, Graph, Origin
from meganeura_dsl.graph.text import format_graph
from meganeura_dsl.ops import Add, Input, Mul, Parameter
from meganeura_dsl.optimize.rewriting import Rewriting
from meganeura_dsl.shapes.tensor import DType
from meganeura_dsl.training import Adam, Sgd, TrainingSettings, optimized_training_step
from meganeura_runtime.adapters import DeviceInfo
from meganeura_runtime.cache import compiled, kept_inference, kept_plan, kept_step, keys
from meganeura_runtime.cache.keys import OptimizedOf, PlanOf, inference_of, plan_of, step_of
from meganeura_runtime.device import Device
from meganeura_runtime.kernels.limits import DeviceLimits, Style
from meganeura_runtime.kernels.way import Way
from meganeura_runtime.plan import schedule
from meganeura_runtime.plan.choices import UNTUNED, Choices
from meganeura_runtime.plan.schedule import plan_graph

RULES = Rewriting()
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
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entries:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    return Entries(tmp_path / "cache" / "compiled")


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
        inference_of(graph, Rewriting(disabled=("norm",))),
        inference_of(graph, Rewriting(disabled=("norm", "silu"))),
        step_of(graph, STEP, RULES),
        step_of(graph, STEP, Rewriting(disabled=("norm",))),
        step_of(graph, TrainingSettings(Sgd(0.2)), RULES),
        step_of(graph, TrainingSettings(Sgd(0.1, nesterov=True)), RULES),
        step_of(graph, TrainingSettings(Adam(0.1)), RULES),
        step_of(graph, replace(STEP, clip_norm=1.0), RULES),
        step_of(graph, replace(STEP, feed_learning_rate=True), RULES),
        step_of(graph, replace(STEP, multipliers={"w": 0.0}), RULES),
    ]
    assert len({one.key for one in found}) == len(found)


@pytest.mark.parametrize("limit", [each.name for each in fields(DeviceLimits)])
def test_every_limit_is_in_the_key(limit: str) -> None:
    limits = DeviceLimits()
    value = getattr(limits, limit)
    changed = replace(limits, **{limit: not value if isinstance(value, bool) else value + 1})
    other = plan_of(small(), adapter(limits=changed), UNTUNED)
    assert other.key != plan_of(small(), adapter(), UNTUNED).key


def test_adapter_style_and_choices_are_in_the_key() -> None:
    found = [
        plan_of(small(), adapter(), UNTUNED),
        plan_of(small(), adapter(style=Style.CPU_ADAPTER), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, name="another")), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, driver="1.1")), UNTUNED),
        plan_of(small(), adapter(info=replace(INFO, backend="Metal")), UNTUNED),
        plan_of(small(), adapter(), Choices("tuned")),
        plan_of(small(), adapter(), Choices("tuned", {"matmul": Way(parts=2)})),
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
        OptimizedOf(mode="m", disabled_rules=(), device="", **same).key
        != PlanOf(adapter="", driver="", limits="", style="", choices="", **same).key
    )


def test_an_edited_compiler_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "inner" / "rules.py").write_text("x = 1\n")
    fake = SimpleNamespace(__path__=[str(package)], __version__="1.0")
    monkeypatch.setattr(fingerprint, "meganeura_dsl", fake)
    found: list[str] = []

    def look() -> None:
        fingerprint.front_end.cache_clear()
        keys.compiler.cache_clear()
        found.append(keys.compiler())

    try:
        look()
        (package / "inner" / "rules.py").write_text("x = 2\n")
        look()
        (package / "inner" / "more.py").write_text("")
        look()
        (package / "inner" / "more.py").rename(package / "more.py")
        look()
        fake.__version__ = "1.1"
        look()
        monkeypatch.setattr(keys, "ENGINE", "numpy")
        look()
        monkeypatch.setattr(keys, "ENGINE", "nothing_of_the_kind")
        look()
    finally:
        fingerprint.front_end.cache_clear()
        keys.compiler.cache_clear()
    assert len(set(found)) == len(found)


# --- what is found -------------------------------------------------------------------------------


def origins(graph: Graph) -> list[Origin]:
    return [value.origin for value in graph.values]


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object) -> None:
        raise AssertionError("this was made again")

    monkeypatch.setattr(Rewriting, "optimize", made)
    monkeypatch.setattr(compiled, "optimized_training_step", made)
    monkeypatch.setattr(schedule, "plan_graph", made)


def test_a_step_is_found_as_it_was_made(
    kept: Entries, forward: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kept_step(forward, STEP, RULES)
    forbid(monkeypatch)
    found = kept_step(forward, STEP, RULES)
    assert format_graph(found) == format_graph(made)
    assert origins(found) == origins(made)
    assert {origin.span.line for origin in origins(found) if origin.span} >= {2, 3}
    with pytest.raises(AssertionError, match="made again"):
        kept_step(forward, TrainingSettings(Sgd(0.2)), RULES)
    assert len(list(kept.paths())) == 1


def test_an_inference_form_is_found_with_what_it_derives(
    kept: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = loaded("resnet18")
    sizes = {"n": 1, "h": 32, "w": 32}
    graph = pipeline.elaborate_model(program, sizes=sizes).graph
    made = kept_inference(graph, RULES)
    forbid(monkeypatch)
    found = kept_inference(graph, RULES)
    assert len(found.load.outputs) > 0
    for name in ("graph", "load"):
        one, other = getattr(found, name), getattr(made, name)
        assert format_graph(one) == format_graph(other)
        assert origins(one) == origins(other)
    assert len(list(kept.paths())) == 1


@pytest.mark.adapter
def test_a_plan_is_found_as_it_was_made(
    kept: Entries, forward: Graph, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = optimized_training_step(forward, STEP, RULES).graph
    made = kept_plan(step, device)
    assert made == plan_graph(step, device.limits, device.style)
    forbid(monkeypatch)
    assert kept_plan(step, device) == made
    with pytest.raises(AssertionError, match="made again"):
        kept_plan(step, device, Choices("tuned"))
    assert len(list(kept.paths())) == 1


@pytest.mark.adapter
@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 2}', b"\xff"])
def test_whole_entries_that_make_no_sense_are_made_anew(
    content: bytes, kept: Entries, forward: Graph, device: Device
) -> None:
    step = kept_step(forward, STEP, RULES)
    form = kept_inference(small(), RULES)
    plan = kept_plan(step, device)
    for path in list(kept.paths()):
        kept.keep(path.stem, content)
    assert format_graph(kept_step(forward, STEP, RULES)) == format_graph(step)
    assert format_graph(kept_inference(small(), RULES).graph) == format_graph(form.graph)
    assert kept_plan(step, device) == plan


@pytest.mark.parametrize("damage", ["text", "origins", "place"])
def test_a_graph_that_cannot_be_read_is_made_anew(
    damage: str, kept: Entries, forward: Graph
) -> None:
    step = kept_step(forward, STEP, RULES)
    (path,) = kept.paths()
    entry = json.loads(path.read_bytes().partition(b"\n")[2])
    match damage:
        case "text":
            entry["graph"]["text"] = "%0 = Nothing()"
        case "origins":
            entry["graph"]["origins"] = entry["graph"]["origins"][:3]
        case _:
            entry["graph"]["origins"][0] = len(forward.values)
    kept.keep(path.stem, json.dumps(entry).encode())
    assert origins(kept_step(forward, STEP, RULES)) == origins(step)


def test_without_a_cache_everything_is_made(
    forward: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", "off")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    step = kept_step(forward, STEP, RULES)
    expected = optimized_training_step(forward, STEP, RULES).graph
    assert format_graph(step) == format_graph(expected)
    assert kept_inference(small(), RULES).load.outputs == {}
    assert not (tmp_path / "home").exists()


def test_an_unknown_rule_is_refused_and_nothing_is_kept(kept: Entries, forward: Graph) -> None:
    for _ in range(2):
        with pytest.raises(ProblemError, match="nonsense"):
            kept_step(forward, STEP, Rewriting(disabled=("nonsense",)))
    assert list(kept.paths()) == []


def test_what_is_not_optimized_is_not_kept(kept: Entries, forward: Graph) -> None:
    kept_step(forward, STEP, Rewriting(enabled=False))
    assert list(kept.paths()) == []
