"""The reference interpreter: what may be fed, what it keeps, and in which numbers it computes."""

import re
import tracemalloc

import numpy as np
import pytest

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Array, Body, Builder, Graph, Op, Origin, Value
from meganeura_dsl.ir.interpreter import FeedError, Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Constant,
    Div,
    DynamicSlice,
    DynamicUpdate,
    Exp,
    Gather,
    Input,
    MatMul,
    Mul,
    Neg,
    Parameter,
    RandomBits,
    Reshape,
    Scan,
    Slice,
    StopGradient,
    Sum,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import dim
from tests.folded import each_of
from tests.samples import SAMPLES, Sample


def affine() -> Graph:
    """A product with a weight, plus one; and the weight doubles."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    weight = build.add(Parameter("weight", DType.F32, (3,), "param"))
    one = build.add(Broadcast((3,), ()), build.add(Constant(1, DType.F32)))
    out = build.add(Add(), build.add(Mul(), x, weight), one)
    return build.graph({"out": out}, {"weight": build.add(Add(), weight, weight)})


def singles(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def test_outputs_and_updates_come_by_name() -> None:
    results = evaluate(affine(), {"x": singles(1, 2, 3), "weight": singles(4, 5, 6)})
    np.testing.assert_array_equal(results.outputs["out"], [5, 11, 19])
    np.testing.assert_array_equal(results.updates["weight"], [8, 10, 12])
    assert results.outputs["out"].dtype == np.float32


def test_an_interpreter_runs_again_and_again() -> None:
    interpreter = Interpreter(affine())
    feeds = {"x": singles(1, 1, 1), "weight": singles(1, 2, 3)}
    for power in range(3):
        assert feeds["weight"][2] == 3 * 2**power
        feeds["weight"] = interpreter.run(feeds).updates["weight"]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"x": singles(1, 2, 3)}, "no value was fed for `weight`"),
        (
            {"x": singles(1, 2, 3), "weight": singles(1, 2, 3), "wieght": singles(1)},
            "does not read `wieght`; it has `weight`",
        ),
        (
            {"x": singles(1, 2, 3), "weight": singles(1, 2, 3), "q": singles(1)},
            "does not read `q`$",
        ),
        (
            {"x": singles(1, 2, 3), "weight": singles(1, 2)},
            r"`weight` is f32\[3\], but float32\[2\] was fed",
        ),
        (
            {"x": np.array([1, 2, 3]), "weight": singles(1, 2, 3)},
            r"`x` is f32\[3\], but int64\[3\] was fed",
        ),
        (
            {"x": np.array([1.0, 2, 3]), "weight": singles(1, 2, 3)},
            r"`x` is f32\[3\], but float64\[3\] was fed",
        ),
    ],
    ids=["missing", "unknown", "unlike any", "shape", "integers", "doubles"],
)
def test_feeds_must_fit(feeds: dict[str, Array], words: str) -> None:
    with pytest.raises(FeedError, match=words):
        evaluate(affine(), feeds)


def test_double_precision_takes_any_floats() -> None:
    feeds = {"x": np.array([1.0, 2, 3]), "weight": singles(0.1, 0.2, 0.3)}
    out = evaluate(affine(), feeds, Precision.DOUBLE).outputs["out"]
    assert out.dtype == np.float64
    with pytest.raises(FeedError, match="int64"):
        evaluate(affine(), {**feeds, "x": np.array([1, 2, 3])}, Precision.DOUBLE)
    build = Builder()
    ids = build.add(Input("ids", DType.I32, (3,)))
    graph = build.graph({"out": build.add(Add(), ids, ids)})
    for precision in Precision:
        with pytest.raises(FeedError, match=r"`ids` is i32\[3\], but float64\[3\] was fed"):
            evaluate(graph, {"ids": np.array([1.0, 2, 3])}, precision)


def test_sizes_must_be_numbers() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (dim("n"), dim("h"))))
    with pytest.raises(ValueError, match="`h`, `n`"):
        Interpreter(build.graph({"x": x}))


def test_infinities_and_nan_are_numbers_like_others() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    out = build.add(Div(), build.add(Exp(), x), x)
    found = evaluate(build.graph({"out": out}), {"x": singles(1000, 0, -np.inf)}).outputs["out"]
    np.testing.assert_array_equal(found, [np.inf, np.inf, -0.0])


def test_half_floats_are_multiplied_in_single_precision() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F16, (1, 4096)))
    out = build.add(MatMul(transpose_right=True), x, x)
    graph = build.graph({"out": out})
    ones = np.ones((1, 4096), np.float16)
    found = evaluate(graph, {"x": ones}).outputs["out"]
    assert found.dtype == np.float16
    assert found == 4096  # in half precision the sum would stay at 2048
    assert evaluate(graph, {"x": ones}, Precision.DOUBLE).outputs["out"].dtype == np.float64


def test_an_id_outside_the_table_is_an_error_that_says_where() -> None:
    source = Source("net.mgn", "line one\nembed(x)\n")
    build = Builder()
    table = build.add(Parameter("table", DType.F32, (5, 2), "param"))
    ids = build.add(Input("ids", DType.I32, (2,)))
    with build.at(Origin(Span(source, 9, 14), "embed")):
        out = build.add(Gather(0), table, ids)
    feeds = {"table": np.zeros((5, 2), np.float32), "ids": np.array([0, 5], np.int32)}
    with pytest.raises(IndexError, match="id 5 is outside the 5 rows") as error:
        evaluate(build.graph({"out": out}), feeds)
    assert error.value.__notes__ == ["in the `Gather` of `embed` (net.mgn:2)"]


def test_values_nobody_reads_any_more_are_freed() -> None:
    size = 1 << 16
    build = Builder()
    x = build.add(Input("x", DType.F32, (size,)))
    for _ in range(50):
        x = build.add(Neg(), x)
    interpreter = Interpreter(build.graph({"out": x}))
    feeds = {"x": np.ones(size, np.float32)}
    tracemalloc.start()
    interpreter.run(feeds)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * (4 * size)


def test_an_operand_that_is_an_output_too_is_kept() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    inner = build.add(Neg(), x)
    graph = build.graph({"inner": inner, "out": build.add(Exp(), inner), "again": inner})
    outputs = evaluate(graph, {"x": singles(0, 1, 2)}).outputs
    np.testing.assert_array_equal(outputs["inner"], [0, -1, -2])
    np.testing.assert_array_equal(outputs["again"], [0, -1, -2])


def test_outputs_are_contiguous_and_keep_their_rank() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    outputs = {"wide": build.add(Broadcast((3, 2), ()), x), "scalar": build.add(Neg(), x)}
    found = evaluate(build.graph(outputs), {"x": np.array(1, np.float32)}).outputs
    assert found["wide"].flags.c_contiguous
    assert found["wide"].shape == (3, 2)
    assert found["scalar"].shape == ()


def test_a_deep_graph_is_no_recursion() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    out = x
    for _ in range(16_000):
        out = build.add(Add(), out, x)
    found = evaluate(build.graph({"out": out}), {"x": np.array(1, np.float32)})
    assert found.outputs["out"] == 16_001


def test_integers_wrap_around() -> None:
    build = Builder()
    x = build.add(Input("x", DType.U32, ()))
    out = build.add(Mul(), x, x)
    found = evaluate(build.graph({"out": out}), {"x": np.array(65_537, np.uint32)})
    assert found.outputs["out"] == 65_537**2 % 2**32


def random_words(stream: int, seed: int, step: int, *shape: int) -> Array:
    build = Builder()
    counter = build.add(Input("counter", DType.U32, (2,)))
    bits = build.add(RandomBits(stream, shape), counter)
    feeds = {"counter": np.array([seed, step], np.uint32)}
    return evaluate(build.graph({"bits": bits}), feeds).outputs["bits"]


def test_random_words_depend_on_seed_step_stream_and_index_only() -> None:
    base = random_words(1, 2, 3, 64)
    np.testing.assert_array_equal(base, random_words(1, 2, 3, 64))
    np.testing.assert_array_equal(base, random_words(1, 2, 3, 8, 8).reshape(64))
    np.testing.assert_array_equal(base[:5], random_words(1, 2, 3, 5))
    others = (random_words(0, 2, 3, 64), random_words(1, 0, 3, 64), random_words(1, 2, 0, 64))
    for other in others:
        assert not np.any(base == other)


def test_random_words_are_uniform() -> None:
    words = random_words(0, 0, 0, 1 << 16)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 32)
    assert len(np.unique(words)) > 65_500
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.01)


def test_reshape_of_a_transposed_view_reads_in_row_major_order() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2,)))
    wide = build.add(Broadcast((2, 3), (0,)), x)
    out = build.add(Reshape((3, 2)), wide)
    found = evaluate(build.graph({"out": out}), {"x": singles(1, 2)}).outputs["out"]
    np.testing.assert_array_equal(found, [[1, 1], [1, 2], [2, 2]])


def test_from_the_values_of_a_run_a_nearby_one_follows() -> None:
    build = Builder()
    x, y = (build.add(Input(name, DType.F32, (2,))) for name in "xy")
    held = build.add(StopGradient(), build.add(Exp(), x))
    out = build.add(Add(), build.add(Mul(), build.add(Neg(), x), held), build.add(Exp(), y))
    graph = build.graph({"out": out, "exp": build.add(Exp(), y)})
    interpreter = Interpreter(graph, Precision.DOUBLE)
    feeds = {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 4.0])}
    values = interpreter.every_value(feeds)
    near = interpreter.perturbed(values, {"x": np.array([5.0, 6.0])})
    expected = -np.array([5.0, 6.0]) * np.exp(feeds["x"]) + np.exp(feeds["y"])
    np.testing.assert_array_equal(near["out"], expected)
    np.testing.assert_array_equal(near["exp"], np.exp(feeds["y"]))
    for changed in ({"y": np.array([0.0, 1.0])}, {}):
        found = interpreter.perturbed(values, changed)
        for name, array in interpreter.run({**feeds, **changed}).outputs.items():
            np.testing.assert_array_equal(found[name], array)
    with pytest.raises(FeedError, match=re.escape("`x` is f32[2], but float64[3] was fed")):
        interpreter.perturbed(values, {"x": np.zeros(3)})


def test_a_watched_run_tells_each_op_once_and_gives_the_same() -> None:
    graph = affine()
    feeds = {"x": singles(1, 2, 3), "weight": singles(4, 5, 6)}
    told: list[tuple[tuple[Value, ...], float, float]] = []
    found = Interpreter(graph).run(feeds, lambda *each: told.append(each))
    expected = evaluate(graph, feeds)
    assert found.outputs.keys() == expected.outputs.keys()
    for name, array in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], array)
    computed = [(value,) for value in graph.values if value.operands]
    assert [results for results, _, _ in told] == computed
    ends = [end for _, _, end in told]
    assert all(start <= end for _, start, end in told)
    assert ends == sorted(ends)


def carried() -> Scan:
    """A loop that gives back what it is given."""
    build = Builder()
    build.add(Input("iteration", DType.I32, ()))
    body = build.graph({"carry.0": build.add(Input("carry.0", DType.F32, (4,)))})
    return Scan(Body(body), iterations=2, carried=1, sliced=(), collected=(), backward=False)


VIEWS: dict[str, tuple[Op, ...]] = {
    "itself": (),
    "slice": (Slice((1,), (3,), (1,)),),
    "reshape": (Reshape((2, 2)), Reshape((4,))),
    "part": (DynamicSlice((2,)),),
    "slice of a shape": (Reshape((2, 2)), Slice((0, 1), (2, 2), (1, 1))),
    "repeated": (Broadcast((2, 4), (1,)),),
    "stopped": (StopGradient(),),
    "cast": (Cast(DType.F32),),
    "carried": (carried(),),
    "negative": (Neg(),),
}
"""Values that may be read of a cache; the arrays of some are views of it."""


@each_of("views", VIEWS.values(), ids=VIEWS)
@each_of("how", ["given", "kept", "read"])
@each_of("when", ["before", "behind", "of the new"])
def test_a_cache_that_is_changed_where_it_lies_gives_the_same(
    views: tuple[Op, ...], how: str, when: str
) -> None:
    """Values that were read of it keep their elements, also in the next iteration."""
    build = Builder()
    cache = build.add(Parameter("cache", DType.F32, (4,), "cache"))
    part = build.add(Input("part", DType.F32, (2,)))
    start = build.add(Input("start", DType.I32, ()))

    def read(value: Value) -> Value:
        for op in views:
            value = build.add(op, value, *([start] if isinstance(op, DynamicSlice) else []))
        return value

    seen = read(cache) if when == "before" else None
    new = build.add(DynamicUpdate(), cache, part, start)
    seen = seen or read(cache if when == "behind" else new)
    outputs, updates = {"new": build.add(Exp(), new)}, {"cache": new}
    if how == "kept":
        build.add(Parameter("seen", DType.F32, seen.type.shape, "state"))
        updates["seen"] = seen
    else:
        outputs["seen"] = seen if how == "given" else build.add(Exp(), seen)
    graph = build.graph(outputs, updates)
    told: list[list[Array]] = []
    for interpreter in (Interpreter(graph), Interpreter(graph, in_place=True)):
        state: dict[str, Array] = {"cache": singles(1, 2, 3, 4)}
        if how == "kept":
            state["seen"] = np.zeros(concrete_shape(seen.type.shape), np.float32)
        told.append([])
        for place in (1, 0, 2):
            feeds = {"part": singles(5 + place, 6), "start": np.array(place, np.int32)}
            results = interpreter.run({**state, **feeds})
            state = dict(results.updates)
            told[-1] += [*results.outputs.values(), state.get("seen", state["cache"].copy())]
    for first, second in zip(*told, strict=True):
        np.testing.assert_array_equal(second, first)


def test_a_cache_that_nobody_reads_later_is_changed_where_it_lies() -> None:
    build = Builder()
    cache = build.add(Parameter("cache", DType.F32, (4,), "cache"))
    part = build.add(Reshape((2,)), build.add(Slice((0,), (2,), (1,)), cache))
    start = build.add(Input("start", DType.I32, ()))
    new = build.add(DynamicUpdate(), cache, build.add(Exp(), part), start)
    graph = build.graph({"sum": build.add(Sum((0,)), new)}, {"cache": new})
    held = singles(0, 0, 3, 4)
    feeds = {"cache": held, "start": np.array(2, np.int32)}
    assert Interpreter(graph, in_place=True).run(feeds).updates["cache"] is held
    np.testing.assert_array_equal(held, [0, 0, 1, 1])
    assert Interpreter(graph).run(feeds).updates["cache"] is not held


def test_what_is_no_cache_or_another_one_stays() -> None:
    build = Builder()
    state = build.add(Parameter("state", DType.F32, (4,), "state"))
    first, second = (build.add(Parameter(name, DType.F32, (4,), "cache")) for name in "ab")
    part = build.add(Input("part", DType.F32, (2,)))
    start = build.add(Input("start", DType.I32, ()))
    new = [build.add(DynamicUpdate(), each, part, start) for each in (state, first, second)]
    graph = build.graph({}, {"state": new[0], "a": new[2], "b": new[1]})
    held = {name: singles(1, 2, 3, 4) for name in ("state", "a", "b")}
    feeds = {"part": singles(5, 6), "start": np.array(0, np.int32)}
    found = Interpreter(graph, in_place=True).run({**held, **feeds}).updates
    for name, array in held.items():
        np.testing.assert_array_equal(array, [1, 2, 3, 4])
        np.testing.assert_array_equal(found[name], [5, 6, 3, 4])


@each_of("sample", SAMPLES, ids=lambda sample: sample.name)
def test_an_array_shares_memory_with_what_its_op_views_alone(sample: Sample) -> None:
    op = sample.op
    if op.traits & {Trait.LEAF, Trait.LOOP}:
        return
    results = op.evaluate_all(*sample.operands)
    for place, operand in enumerate(sample.operands):
        may = place == 0 and (Trait.VIEW in op.traits or isinstance(op, Cast | DynamicSlice))
        assert may or not any(np.shares_memory(operand, each) for each in results)
