"""A graph that no rule rewrites comes back as it was, every attribute and all sharing kept."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Origin, Value
from meganeura_dsl.ir.ops import (
    OPS,
    Add,
    Broadcast,
    Constant,
    Exp,
    Input,
    Mul,
    Neg,
    Parameter,
    RandomBits,
)
from meganeura_dsl.ir.text import format_graph, parse_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.transforms.egraph import optimize as optimize_module
from meganeura_dsl.transforms.egraph.encoding import egglog_engine
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import (
    Engine,
    EngineError,
    MissingEngineError,
)
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, snapshot
from meganeura_dsl.transforms.egraph.encoding.encode import Encoding, encode, loading
from meganeura_dsl.transforms.egraph.encoding.schema import (
    NotConcreteError,
    constructors,
    declarations,
)
from meganeura_dsl.transforms.egraph.extract.decode import Decoder, Roots
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode, rewrites
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph
from meganeura_dsl.transforms.egraph.saturate.saturation import OptimizerError, saturate
from tests.dsl.transforms.egraph.compare import data
from tests.samples import SAMPLES


def through_the_engine(graph: Graph) -> EGraphSnapshot:
    engine = Engine(declarations(constructors()))
    encoding = loaded(engine, graph.values)
    return snapshot(engine, encoding.opaque, encoding.bodies)


def loaded(engine: Engine, values: Sequence[Value]) -> Encoding:
    encoding = encode(values)
    engine.execute(loading(encoding.shapes))
    encoding.load(engine)
    return encoding


def rebuilt(graph: Graph) -> Graph:
    found = through_the_engine(graph)
    numbers = dict(zip((value.id for value in graph.values), found.values, strict=True))
    roots = {name: numbers[value.id] for name, value in graph.outputs.items()}
    return Decoder(
        found, {number: nodes[0] for number, nodes in enumerate(found.classes)}, {}
    ).graph(Roots(roots, {}))


def test_every_op_comes_back_with_its_attributes() -> None:
    build = Builder()
    outputs: dict[str, Value] = {}
    for sample in SAMPLES:
        operands = [
            build.add(Input(f"{sample.name}.{place}", of.dtype, of.shape))
            for place, of in enumerate(sample.types)
        ]
        for result in build.add_all(sample.op, *operands):
            outputs[f"{sample.name}.{result.index}"] = result
    graph = build.graph(outputs)
    found = rebuilt(graph)
    assert {name: (value.op, value.index) for name, value in found.outputs.items()} == {
        name: (value.op, value.index) for name, value in outputs.items()
    }
    assert sorted(map(_named, found.values)) == sorted(map(_named, graph.values))


def _named(value: Value) -> str:
    return f"{value.op} {[str(operand.op) for operand in value.operands]} {value.type}"


def test_there_is_a_constructor_for_every_op() -> None:
    assert {each.op for each in constructors().values()} >= {
        op for op in OPS if not issubclass(op, Leaf)
    }


@pytest.mark.parametrize("number", [0.0, -0.0, float("inf"), float("nan"), 0.1, 1e-38, 3e38])
def test_numbers_are_told_apart_to_the_last_bit(number: float) -> None:
    build = Builder()
    constants = [build.add(Constant(each, DType.F32)) for each in (number, 0.0, -0.0)]
    graph = build.graph({str(place): value for place, value in enumerate(constants)})
    assert [value.op for value in rebuilt(graph).outputs.values()] == [
        value.op for value in constants
    ]


def test_shared_work_stays_shared() -> None:
    build = Builder()
    x = data(build, "x", 2)
    for _ in range(40):
        x = build.add(Mul(), x, x)
    graph = build.graph({"y": x})
    assert len(rebuilt(graph).values) == len(graph.values)


def test_equal_values_become_one() -> None:
    text = """
    %0 = Input(name="x", dtype=f32, shape=[2]) : f32[2]
    %1 = Neg(%0) : f32[2]
    %2 = Neg(%0) : f32[2]
    output "a" = %1
    output "b" = %2
    """
    outputs = optimize(parse_graph(text, OPS), mode="train").graph.outputs
    assert outputs["a"] is outputs["b"]


def test_a_value_comes_from_where_the_first_of_its_equals_does() -> None:
    build = Builder()
    with build.at(Origin(path="first")):
        first = build.add(Exp(), data(build, "x", 2))
    with build.at(Origin(path="second")):
        second = build.add(Neg(), build.add(Neg(), first))
    outputs = optimize(build.graph({"a": first, "b": second}), mode="train").graph.outputs
    assert [value.origin.path for value in outputs.values()] == ["first", "first"]


def test_random_streams_are_never_merged() -> None:
    build = Builder()
    counter = data(build, "counter", 2, dtype=DType.U32)
    first, second = (build.add(RandomBits(stream, (4,)), counter) for stream in (0, 1))
    optimized = optimize(build.graph({"a": first, "b": second}), mode="train")
    assert optimized.graph.outputs["a"].op == RandomBits(0, (4,))
    assert optimized.graph.outputs["b"].op == RandomBits(1, (4,))


def test_parameters_keep_their_order_and_identity_even_when_nothing_reads_them() -> None:
    build = Builder()
    leaves = [build.add(Parameter(name, DType.F32, (2,), "param")) for name in "zayb"]
    graph = build.graph({"y": build.add(Add(), leaves[1], leaves[2])}, {"z": leaves[3]})
    optimized = optimize(graph, mode="train").graph
    assert [value.op for value in optimized.values[:4]] == [leaf.op for leaf in leaves]
    assert list(optimized.updates) == ["z"]


def test_names_may_hold_any_character() -> None:
    build = Builder()
    names = ['say "x"', "back\\slash", "line\nbreak", "Größe", ""]
    graph = build.graph({name: data(build, name, 1) for name in names})
    found = rebuilt(graph)
    assert [value.op for value in found.outputs.values()] == [
        Input(name, DType.F32, (1,)) for name in names
    ]


def test_a_size_that_is_no_number_is_refused() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (dim("n"),)))
    with pytest.raises(NotConcreteError) as caught:
        encode(build.graph({"y": x}).values)
    assert caught.value.__notes__ == [f"in %{x.id} = Input"]


def test_growth_past_the_bound_names_the_rule() -> None:
    build = Builder()
    graph = build.graph({"y": build.add(Broadcast((2,), ()), build.add(Constant(1, DType.F32)))})
    engine = Engine(
        [
            *declarations(constructors()),
            "(ruleset reading)",
            "(ruleset rewriting)",
            "(ruleset late)",
        ]
    )
    loaded(engine, graph.values)
    grow = (
        '(rule ((= e (Constant v d t))) ((Constant (+ v 1.0) d t)) :ruleset rewriting :name "more")'
    )
    engine.execute([grow])
    with pytest.raises(OptimizerError, match="`more`"):
        saturate(engine, 2, limit=20)


def test_what_egglog_refuses_is_an_error_of_ours() -> None:
    with pytest.raises(EngineError):
        Engine(["(no such command)"])
    with pytest.raises(EngineError):
        Engine(declarations(constructors())).run("(run-schedule (run 1))")


def test_a_panic_of_egglog_is_an_error_of_ours() -> None:
    engine = Engine(declarations(constructors()))
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(engine.execute, ["(push)"]).exception()
    assert isinstance(error, EngineError)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2), GeneratorExit()])
def test_an_interrupt_of_egglog_is_none_of_ours(error: BaseException) -> None:
    assert egglog_engine._as_engine_error(error) is error  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("installed", "refused"),
    [
        ([], False),
        (["egglog-13.2.0"], False),
        (["egglog-13.1.0", "egglog-13.2.0"], False),
        (["egglog_extras-1.0.0"], False),
        (["egglog-13.2.0.post1"], True),
        (["egglog-13.2.0rc1"], True),
        (["egglog-13.2.01"], True),
        (["egglog-13.2"], True),
        (["egglog-12.0.0", "egglog-13.3.0"], True),
    ],
)
def test_the_version_of_egglog_is_this_one(
    installed: Sequence[str], *, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egglog_engine, "VERSION", "13.2.0")
    for name in installed:
        (tmp_path / f"{name}.dist-info").mkdir()
    with pytest.raises(MissingEngineError) if refused else nullcontext() as caught:
        egglog_engine._require_version(tmp_path)  # pyright: ignore[reportPrivateUsage]
    if caught is not None:
        assert caught.value.installed == ", ".join(installed)


def test_tables_are_loaded_from_files_that_have_a_name_or_by_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build = Builder()
    x, y = (data(build, name, 3) for name in "xy")
    graph = build.graph({"z": build.add(Add(), build.add(Mul(), x, y), x)})
    expected = format_graph(rebuilt(graph))
    folders: list[str] = []

    def counted() -> TemporaryDirectory[str]:
        folder = TemporaryDirectory(dir=tmp_path)
        folders.append(folder.name)
        return folder

    def refuse() -> None:
        raise PermissionError

    monkeypatch.setattr(egglog_engine, "IN_MEMORY", tmp_path / "none")
    monkeypatch.setattr(egglog_engine, "TemporaryDirectory", counted)
    assert format_graph(rebuilt(graph)) == expected
    assert folders
    assert not any(tmp_path.iterdir())
    monkeypatch.setattr(egglog_engine, "TemporaryDirectory", refuse)
    assert format_graph(rebuilt(graph)) == expected


def test_what_is_said_of_rules_and_devices_is_said_of_loops_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their bodies are optimized by themselves, for the same device and by the same rules."""
    program = pipeline.check(Source("net.mgn", LOOP), lambda _: None).program
    graph = pipeline.elaborate_model(program, sizes={"n": 2, "s": 3}).graph
    device = replace(DEFAULT_DEVICE, launch=1.0)
    seen: list[tuple[DeviceModel, str]] = []
    select = optimize_module.select

    def spied(
        graph: Graph, explored: SaturatedGraph, mode: Mode, device: DeviceModel
    ) -> optimize_module.Optimized:
        seen.append((device, mode))
        return select(graph, explored, mode, device)

    monkeypatch.setattr(optimize_module, "select", spied)
    modes: tuple[tuple[Mode, Mode], ...] = (
        ("forward", "forward"), ("train", "train"), ("infer", "train"),
    )  # fmt: skip
    for mode, inner in modes:
        seen.clear()
        changed = optimize(graph, mode=mode, device=device).graph
        assert format_graph(changed) != format_graph(graph)
        assert seen == [(device, inner), (device, mode)]
        kept = optimize(graph, mode=mode, device=device, disabled=[*rewrites()]).graph
        assert "Transpose" in format_graph(kept)
        assert "Transpose" not in format_graph(changed)


LOOP = """\
block Net()(x: [n, s]) -> [n]:
  h = x[:, 0]
  scan t in 0..s:
    two = insert_axis(h + x[:, t], 1, 2)
    h = rearrange(rearrange(two, [n, c] -> [c, n]), [c, n] -> [n, c])[:, 0]
  return h
model net = Net()
"""
