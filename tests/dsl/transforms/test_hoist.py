"""Hoisting: two graphs in turn give what the whole graph gives, and the first has the work."""

from collections.abc import Collection

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Origin, Value
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.ir.ops import Add, Exp, Input, MatMul, Parameter, RandomBits, Tanh, Transpose
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.hoist import hoist

SHAPE = (3, 3)


def leaves(graph: Graph) -> set[str]:
    return {value.op.name for value in graph.values if isinstance(value.op, Leaf)}


def ops(graph: Graph) -> set[str]:
    return {type(value.op).__name__ for value in graph.values}


@pytest.fixture
def build() -> Builder:
    return Builder()


def fed(build: Builder, name: str) -> Value:
    return build.add(Input(name, DType.F32, SHAPE))


def kept(build: Builder, name: str, kind: str) -> Value:
    assert kind in ("param", "cache")
    return build.add(Parameter(name, DType.F32, SHAPE, "cache" if kind == "cache" else "param"))


def numbers(graph: Graph, inputs: dict[str, Array], context: Collection[str]) -> None:
    """Both ways give the same outputs and updates."""
    whole = Interpreter(graph).run(inputs)
    parts = hoist(graph, context)
    held = Interpreter(parts.first).run({name: inputs[name] for name in leaves(parts.first)})
    rest = {**inputs, **held.outputs}
    found = Interpreter(parts.rest).run({name: rest[name] for name in leaves(parts.rest)})
    assert found.outputs.keys() == whole.outputs.keys()
    for name, array in {**whole.outputs, **whole.updates}.items():
        np.testing.assert_array_equal({**found.outputs, **found.updates}[name], array)


def arrays(*names: str) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=SHAPE).astype(np.float32) for name in names}


def test_what_follows_from_the_context_alone_is_computed_first(build: Builder) -> None:
    sound, token = fed(build, "sound"), fed(build, "token")
    weight, cache = kept(build, "weight", "param"), kept(build, "cache", "cache")
    keys = build.add(MatMul(), build.add(Exp(), sound), weight)
    turned = build.add(Transpose((1, 0)), keys)
    seen = build.add(Add(), build.add(MatMul(), token, turned), build.add(Tanh(), weight))
    graph = build.graph({"y": build.add(Add(), seen, cache)}, {"cache": build.add(Exp(), seen)})
    parts = hoist(graph, ["sound"])
    assert ops(parts.first) == {"Input", "Parameter", "Exp", "MatMul"}
    assert leaves(parts.first) == {"sound", "weight"}
    assert leaves(parts.rest) == {"token", "weight", "cache", "held.0"}
    assert "Transpose" in ops(parts.rest)
    (held,) = (
        value.op
        for value in parts.rest.values
        if isinstance(value.op, Parameter) and value.op.name == "held.0"
    )
    assert held == Parameter("held.0", DType.F32, SHAPE, "frozen")
    assert [*parts.first.outputs] == ["held.0"]
    numbers(graph, arrays("sound", "token", "weight", "cache"), ["sound"])


def test_both_parts_come_from_where_the_whole_does(build: Builder) -> None:
    sound, token = fed(build, "sound"), fed(build, "token")
    with build.at(Origin(path="early")):
        early = build.add(Exp(), sound)
    with build.at(Origin(path="late")):
        late = build.add(Add(), early, token)
    parts = hoist(build.graph({"y": late}), ["sound"])
    assert parts.first.outputs["held.0"].origin.path == "early"
    assert parts.rest.outputs["y"].origin.path == "late"


def test_what_a_run_changes_is_not_held(build: Builder) -> None:
    sound, cache = fed(build, "sound"), kept(build, "cache", "cache")
    state = kept(build, "state", "param")
    changing = build.add(Add(), build.add(Exp(), sound), build.add(Exp(), state))
    both = build.add(Add(), changing, build.add(Exp(), cache))
    graph = build.graph({"y": build.add(Add(), both, state)}, {"state": both})
    parts = hoist(graph, ["sound"])
    assert leaves(parts.first) == {"sound"}
    assert leaves(parts.rest) == {"held.0", "cache", "state"}
    numbers(graph, arrays("sound", "cache", "state"), ["sound"])


def test_a_cache_that_is_only_read_is_left_to_the_run_that_clears_it(build: Builder) -> None:
    sound, cache = fed(build, "sound"), kept(build, "cache", "cache")
    graph = build.graph({"y": build.add(Add(), build.add(Exp(), sound), cache)})
    parts = hoist(graph, ["sound"])
    assert leaves(parts.first) == {"sound"}
    assert leaves(parts.rest) == {"held.0", "cache"}
    numbers(graph, arrays("sound", "cache"), ["sound"])


def test_an_output_of_the_context_alone_is_held(build: Builder) -> None:
    sound, token = fed(build, "sound"), fed(build, "token")
    loud = build.add(Exp(), sound)
    graph = build.graph({"loud": loud, "sum": build.add(Add(), loud, token)})
    parts = hoist(graph, ["sound"])
    assert leaves(parts.rest) == {"held.0", "token"}
    numbers(graph, arrays("sound", "token"), ["sound"])


def test_what_the_rest_does_not_compute_with_is_held_where_it_is_given_out(build: Builder) -> None:
    """One is an output alone, and the other the next value of a state alone, turned."""
    sound, token, state = fed(build, "sound"), fed(build, "token"), kept(build, "state", "param")
    loud, new = build.add(Exp(), sound), build.add(Transpose((1, 0)), build.add(Tanh(), sound))
    graph = build.graph({"loud": loud, "sum": build.add(Add(), token, state)}, {"state": new})
    parts = hoist(graph, ["sound"])
    assert ops(parts.first) == {"Input", "Exp", "Tanh"}
    assert leaves(parts.rest) == {"held.0", "held.1", "token", "state"}
    assert ops(parts.rest) == {"Input", "Parameter", "Transpose", "Add"}
    numbers(graph, arrays("sound", "token", "state"), ["sound"])


def test_random_numbers_are_drawn_anew(build: Builder) -> None:
    counter = build.add(Input("counter", DType.U32, (2,)))
    bits = build.add(RandomBits(0, SHAPE), counter)
    sound = build.add(Input("sound", DType.U32, SHAPE))
    graph = build.graph({"y": build.add(Add(), bits, build.add(Add(), sound, sound))})
    assert "RandomBits" not in ops(hoist(graph, ["sound"]).first)
