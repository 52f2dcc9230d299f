"""Indices of a graph: which are proved, which come from outside, and which a step looks at."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Builder, Graph, Value, dependencies
from meganeura_dsl.ir.index_checks import Bound, all_of, checks_of, leaf_bounds, with_checks
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.interval_analysis import Range, ranges_of
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.symbolic.size import dim
from tests.folded import each_of

PROGRAM = """\
block Pick()(table: [7, 3], id: i32[4], any_: i32[4], mask: bool[4]) -> [4, 3]:
  {bound}
  return picked + 0 * (sum(table) + sum(f32(id)) + sum(f32(any_)) + sum(f32(mask)))

model pick = Pick()
"""


def graph_of(picked: str, folder: Path) -> Graph:
    (folder / "pick.mgn").write_text(PROGRAM.format(bound=f"picked = {picked}"))
    return pipeline.elaborate_model(pipeline.load(str(folder / "pick.mgn"))).graph


PROVED = (
    "gather(table, iota(4) + 3)",
    "gather(table, 3 - iota(4))",
    "gather(table, 2 * iota(4))",
    "gather(table, argmax(table[:4], 1))",
    "gather(table, maximum(minimum(any_, 6), 0))",
    "gather(table, minimum(abs(maximum(any_, -6)), 6))",
    "gather(table, where(mask, iota(4), 6))",
    "gather(table, i32(mask) + i32(any_ > 2))",
    "gather(table, i32(f32(iota(4)) * 1.5))",
    "gather(table, gather(iota(7), id))",
    "gather(table, id) + gather(table[:4], minimum(id, 3))",
    "scatter_add(iota(4), table[:4], 4)",
    "scatter_max(any_ % 4, table[:4], 4, empty=0)",
    "gather(table, iota(28) // 7)[:4] + gather(table, iota(28) % 7)[:4]",
    "gather(table, argsort(table, axis=0)[:4, 0])",
    "gather(table, cummax(iota(4), 0)) + gather(table, i32(round(f32(iota(4)))))",
    "roll(table, 0, any_[0])[:4]",
    "where(insert_axis(iota(4) - 1, 1, 3) == iota(3), table[:4], 0)",
    "where(iota(3) == insert_axis(iota(4) - 1, 1, 3), table[:4], 0)",
    "insert_axis(sum(where(insert_axis(iota(4) - 1, 1, 3) == iota(3), table[:4], 0), 1), 1, 3)",
    "one_hot(minimum(maximum(any_, 0), 2), 3)",
    "one_hot(argmax(table[:4], 1), 3)",
    "where(insert_axis(any_ - 1, 1, 3) == iota(3), table[:4], 1)",
    "where(insert_axis(any_ - 1, 1, 3) == iota(3), 1.0, 0.0)",
    "insert_axis(sum(where(table[:4] == f32(insert_axis(iota(3), 0, 4)), table[:4], 0), 1), 1, 3)",
)
"""Indices that need no check. An input that is an index itself is checked when it comes in."""

EACH = "insert_axis(id, 1, 3)"
OPEN = (
    (
        f"where({EACH} == iota(3), table[:4], f32({EACH} != -9)) + gather(table, 1 * id)",
        7,
    ),
    (
        f"where({EACH} == iota(3), table[:4], f32({EACH} != 9)) + gather(table, 1 * id)",
        7,
    ),
    ("gather(table, any_ + 1)", 7),
    ("gather(table, -any_)", 7),
    ("gather(table, any_ // 7)", 7),
    ("gather(table, cumsum(any_, 0))", 7),
    ("scatter_min(any_ + 1, table[:4], 4, empty=1)", 4),
    ("gather(table, minimum(any_, 6) * 1)", 7),
    ("gather(table, where(mask, any_, 0))", 7),
    ("gather(table, i32(table[:4, 0]))", 7),
    ("gather(table, id) + gather(table, id + 1)", 7),
    ("scatter_add(any_ * 1, table[:4], 4)", 4),
    ("insert_axis(sum(where(insert_axis(any_ - 1, 1, 3) == iota(3), table[:4], 0), 1), 1, 3)", 3),
    ("insert_axis(sum(where(iota(3) == insert_axis(any_ - 1, 1, 3), table[:4], 0), 1), 1, 3)", 3),
    ("one_hot(any_ - 1, 3)", 3),
    ("f32(insert_axis(any_ - 1, 1, 3) == iota(3))", 3),
    ("f32(one_hot(any_, 7)[:, :3]) + one_hot(any_ - 1, 3)", 3),
    ("one_hot(any_ - 1, 3) + f32(insert_axis(any_ - 1, 1, 3) != -1)", 3),
)


@pytest.mark.parametrize("picked", PROVED)
def test_what_is_proved_needs_no_check(picked: str, tmp_path: Path) -> None:
    graph = graph_of(picked, tmp_path)
    assert with_checks(graph) is graph


@pytest.mark.parametrize(("picked", "count"), OPEN)
def test_what_is_not_proved_is_looked_at(picked: str, count: int, tmp_path: Path) -> None:
    (check,) = checks_of(with_checks(graph_of(picked, tmp_path)))
    assert check.below == count
    assert check.location.startswith("pick.mgn:2  ")


MASKED = {"bert", "detr", "dit"}
"""Models whose tokens or labels are hidden at random, or whose assignment is computed."""


@pytest.mark.parametrize("name", standard_model_names())
def test_standard_models_need_no_check(name: str) -> None:
    program = pipeline.load(name)
    for train in program.trains:
        sizes = dict.fromkeys(pipeline.free_sizes(program, train), 4)
        graph = pipeline.elaborate_train(program, train, sizes=sizes, training=True).graph
        assert (with_checks(graph) is graph) == (name not in MASKED)


ROUNDS = """\
block Pick()(table: [7, 3], ids: i32[4, 5], k: i32[4]) -> [5, 4, 3]:
  p = k
  scan t in 0..5:
    y[t] = gather(table, {picked}) + gather(table, t + 2) + 0 * sum(f32(ids)) * sum(f32(p))
    p = p + 1
  return y

model pick = Pick()
"""


@pytest.mark.parametrize(
    ("picked", "largest"), [("ids[:, t]", 4), ("p", 5), ("2 * p", 10), ("minimum(p * p, 6)", None)]
)
def test_an_index_of_an_iteration_is_looked_at_in_all_iterations(
    picked: str, largest: int | None, tmp_path: Path
) -> None:
    (tmp_path / "pick.mgn").write_text(ROUNDS.format(picked=picked))
    graph = pipeline.elaborate_model(pipeline.load(str(tmp_path / "pick.mgn"))).graph
    checked = with_checks(graph)
    checks = checks_of(checked)
    if largest is None:
        # A product may wrap, so that it is looked at although it is small.
        assert len(checks) == 1
        return
    (check,) = checks
    assert (check.number, check.below) == (0, 7)
    assert check.location.startswith("pick.mgn:4  ")
    feeds = {
        "table": np.zeros((7, 3), np.float32),
        "ids": np.full((4, 5), 4, np.int32),
        "k": np.ones(4, np.int32),
    }
    if largest < 7:
        assert int(evaluate(checked, feeds).outputs[check]) == largest
    else:
        with pytest.raises(IndexError):
            evaluate(checked, feeds)


@pytest.mark.parametrize(
    ("known", "picked"),
    [("minimum(maximum(k, 0), 6)", "q"), ("minimum(maximum(ids, 0), 6)", "q[:, t]")],
)
def test_what_is_known_before_a_loop_is_known_in_its_iterations(
    known: str, picked: str, tmp_path: Path
) -> None:
    text = ROUNDS.replace("  p = k\n", f"  q = {known}\n  p = k\n").format(picked=picked)
    (tmp_path / "pick.mgn").write_text(text)
    graph = pipeline.elaborate_model(pipeline.load(str(tmp_path / "pick.mgn"))).graph
    assert with_checks(graph) is graph


def test_several_indices_of_an_iteration_are_looked_at_each(tmp_path: Path) -> None:
    text = ROUNDS.format(picked="p) + gather(table[:6], p - k) + gather(table, ids[:, t]")
    (tmp_path / "pick.mgn").write_text(text)
    checked = with_checks(pipeline.elaborate_model(pipeline.load(str(tmp_path / "pick.mgn"))).graph)
    ids = np.arange(20, dtype=np.int32).reshape(4, 5) % 4
    feeds = {"table": np.zeros((7, 3), np.float32), "ids": ids, "k": np.full(4, 2, np.int32)}
    found = evaluate(checked, feeds).outputs
    largest = {check.below: [] for check in checks_of(checked)}
    for check in checks_of(checked):
        largest[check.below].append(int(found[check]))
    assert {count: sorted(each) for count, each in largest.items()} == {6: [4], 7: [3, 6]}


@pytest.mark.parametrize("start", ["iota(4)", "0 * iota(4)", "k"])
@pytest.mark.parametrize("next_", ["p + 1", "p - 1", "2 * p + 1"])
def test_what_an_iteration_makes_of_a_known_start_is_looked_at(
    start: str, next_: str, tmp_path: Path
) -> None:
    text = ROUNDS.format(picked="p").replace("p = k", f"p = {start}").replace("p + 1", next_)
    text = text.replace("f32(p)", "f32(p + k)")
    (tmp_path / "pick.mgn").write_text(text)
    checked = with_checks(pipeline.elaborate_model(pipeline.load(str(tmp_path / "pick.mgn"))).graph)
    (output,) = checks_of(checked)
    p, largest = (np.arange(4) if start == "iota(4)" else np.zeros(4, int)), 0
    for _ in range(5):
        largest = max(largest, *(p % 2**32))
        p = {"p + 1": p + 1, "p - 1": p - 1, "2 * p + 1": 2 * p + 1}[next_]
    feeds = {"table": np.zeros((7, 3), np.float32), "ids": np.zeros((4, 5), np.int32)}
    feeds["k"] = np.zeros(4, np.int32)
    if largest < 7:
        assert int(evaluate(checked, feeds).outputs[output]) == largest
    else:
        with pytest.raises(IndexError):
            evaluate(checked, feeds)


def test_every_number_a_label_is_compared_with_is_left_out(tmp_path: Path) -> None:
    text = "0 * table[:4] + masked_cross_entropy(table[:4], any_ - 1)"
    also = " + 0 * sum(f32(any_ - 1 == -7)) + 0 * sum(f32(any_ - 1 != -8))"
    for picked in (text + also, f"0 * (table[:4]{also.replace(' + ', ' + ', 1)})" + text[13:]):
        checked = with_checks(graph_of(picked, tmp_path))
        (output,) = checks_of(checked)
        fed = {"table": np.zeros((7, 3), np.float32), "id": np.zeros(4, np.int32)}
        fed["mask"] = np.zeros(4, np.bool_)
        for given, largest in (
            ([1, -99, 3, 1], 2),
            ([1, -6, 3, -7], 2),
            ([1, 0, 3, 1], 2**32 - 1),
        ):
            found = evaluate(checked, {**fed, "any_": np.array(given, np.int32)}).outputs[output]
            assert int(found) == largest


def test_a_label_that_a_loss_leaves_out_is_no_mistake(tmp_path: Path) -> None:
    picked = "0 * table[:4] + masked_cross_entropy(table[:4], {})"
    graph = graph_of(picked.format("any_ - 1"), tmp_path)
    checked = with_checks(graph)
    (output,) = checks_of(checked)
    fed = {"table": np.zeros((7, 3), np.float32), "id": np.zeros(4, np.int32)}
    fed["mask"] = np.zeros(4, np.bool_)
    for given, largest in (([1, -99, 3, 1], 2), ([1, 5, 3, 1], 4), ([1, 0, 3, 1], (1 << 32) - 1)):
        found = evaluate(checked, {**fed, "any_": np.array(given, np.int32)}).outputs[output]
        assert int(found) == largest


def test_a_number_that_stands_for_no_class_is_none_of_one_hot_either(tmp_path: Path) -> None:
    graph = graph_of("one_hot(any_ - 1, 3) + f32(insert_axis(any_ - 1, 1, 3) != -8)", tmp_path)
    checked = with_checks(graph)
    (output,) = checks_of(checked)
    fed = {"table": np.zeros((7, 3), np.float32), "id": np.zeros(4, np.int32)}
    fed["mask"] = np.zeros(4, np.bool_)
    for given, largest in (([1, -7, 3, 1], 2), ([1, 5, 3, 1], 4), ([1, -6, 3, 1], 2**32 - 7)):
        found = evaluate(checked, {**fed, "any_": np.array(given, np.int32)}).outputs[output]
        assert int(found) == largest


@pytest.mark.parametrize(
    ("picked", "largest"),
    [("t - 1 == iota(5)", None), ("k[0] + t == iota(5)", 5), ("ids[0, t] - 1 == iota(5)", 6)],
)
def test_a_comparison_that_becomes_numbers_is_looked_at_in_all_iterations(
    picked: str, largest: int | None, tmp_path: Path
) -> None:
    """But one that depends on the iteration alone is a mask, the same whatever is fed."""
    text = """\
block Pick()(ids: i32[4, 5], k: i32[4]) -> [5, 5]:
  scan t in 0..5:
    y[t] = f32({picked}) + 0 * (sum(f32(ids)) + sum(f32(k)))
  return y

model pick = Pick()
"""
    (tmp_path / "pick.mgn").write_text(text.replace("{picked}", picked))
    checked = with_checks(pipeline.elaborate_model(pipeline.load(str(tmp_path / "pick.mgn"))).graph)
    fed = {"ids": np.full((4, 5), 7, np.int32), "k": np.ones(4, np.int32)}
    found = [int(evaluate(checked, fed).outputs[output]) for output in checks_of(checked)]
    assert found == ([] if largest is None else [largest])


def test_a_check_says_which_index_is_outside() -> None:
    check = IndexCheck(3, DType.I32, 50, "sage.mgn:9  gather(x, source + 1)")
    assert [check.outside(each) for each in (0, 49, 50, (1 << 32) - 1)] == [None, None, 50, -1]
    unsigned = IndexCheck(0, DType.U32, 50, "")
    assert unsigned.outside((1 << 32) - 1) == (1 << 32) - 1


def test_a_parameter_is_looked_at_where_it_comes_from_unless_a_step_changes_it() -> None:
    build = Builder()
    table = build.add(ops.Input("table", DType.F32, (5, 2)))
    ids = build.add(ops.Parameter("ids", DType.I32, (3,), "frozen"))
    out = build.add(ops.Gather(0), table, ids)
    assert leaf_bounds(build.graph({"out": out})) == {"ids": Bound(5)}
    moved = build.add(ops.Add(), ids, full(build, ids.type, 1))
    graph = build.graph({"out": out}, {"ids": moved})
    assert leaf_bounds(graph) == {}
    assert [check.below for check in checks_of(with_checks(graph))] == [5]


def test_a_table_does_not_take_what_a_loss_leaves_out() -> None:
    build = Builder()
    table = build.add(ops.Input("table", DType.F32, (9, 2)))
    ids = build.add(ops.Input("ids", DType.I32, (3,)))
    missing = build.add(ops.Compare("eq"), ids, full(build, ids.type, -100))
    numbers = build.add(ops.Broadcast((3, 3), (1,)), build.add(ops.Iota(3)))
    classes = build.add(ops.Compare("eq"), build.add(ops.Broadcast((3, 3), (0,)), ids), numbers)
    label = {"missing": missing, "classes": classes}
    assert leaf_bounds(build.graph(label)) == {"ids": Bound(3, frozenset({-100}))}
    row = build.add(ops.Gather(0), table, ids)
    assert leaf_bounds(build.graph({**label, "row": row})) == {"ids": Bound(3)}


def test_numbers_compared_one_by_one_with_those_from_0_on_pick_nothing() -> None:
    build = Builder()
    ids = build.add(ops.Input("ids", DType.I32, (3,)))
    rows = build.add(ops.Input("rows", DType.I32, (2, 3)))
    numbers = build.add(ops.Iota(3))
    turned = build.add(ops.Transpose((1, 0)), rows)
    found = {
        "alone": build.add(ops.Compare("eq"), ids, numbers),
        "in rows": build.add(
            ops.Compare("eq"), rows, build.add(ops.Broadcast((2, 3), (1,)), numbers)
        ),
        "turned": build.add(
            ops.Compare("eq"), turned, build.add(ops.Broadcast((3, 2), (0,)), numbers)
        ),
    }
    assert leaf_bounds(build.graph(found)) == {}


def test_two_bounds_leave_what_satisfies_both() -> None:
    wide = Bound(9, frozenset({-1, -2}), "v = 9", "a.mgn:1")
    narrow = Bound(5, frozenset({-2, -3}), "w = 5", "a.mgn:2")
    for found in (wide.narrowed(narrow), narrow.narrowed(wide)):
        assert found == Bound(5, frozenset({-2}))
        assert (found.shown, found.location) == ("w = 5", "a.mgn:2")
    merged = all_of({"a": wide, "b": wide}, {"b": narrow, "c": narrow})
    assert merged == {"a": wide, "b": Bound(5, frozenset({-2})), "c": narrow}


def test_a_size_that_is_left_open_bounds_what_it_is_given() -> None:
    build = Builder()
    table = build.add(ops.Input("table", DType.F32, (2 * dim("v"), 2)))
    ids = build.add(ops.Input("ids", DType.I32, (3,)))
    graph = build.graph({"row": build.add(ops.Gather(0), table, ids)})
    assert leaf_bounds(graph) == {}
    assert leaf_bounds(graph, {"w": 3}) == {}
    (bound,) = leaf_bounds(graph, {"v": 3}).values()
    assert (bound.count, bound.shown) == (6, "2*v = 6")


def test_of_indices_that_are_computed_a_slice_is_looked_at_alone() -> None:
    """Results of views are checked at their operand."""
    build = Builder()
    x = build.add(ops.Input("x", DType.F32, (4,)))
    table = build.add(ops.Input("table", DType.F32, (9, 2)))
    ids = build.add(ops.Cast(DType.I32), x)
    part = build.add(ops.Slice((1,), (4,), (1,)), ids)
    rows = build.add(ops.Gather(0), table, build.add(ops.Reshape((3, 1)), part))
    checked = with_checks(build.graph({"rows": rows}))
    (check,) = checks_of(checked)
    assert check.below == 9
    feeds = {"table": np.zeros((9, 2), np.float32), "x": np.array([99, 5, 0, 4], np.float32)}
    assert evaluate(checked, feeds).outputs[check] == 5


@pytest.mark.parametrize("index", [-101, -100, 0, 2, 3])
@pytest.mark.parametrize("first", ["loss", "row"])
def test_what_stands_for_no_class_is_no_row_of_a_table(index: int, first: str) -> None:
    """A number that indices are compared with is left out of a loss, and of nothing else."""
    build = Builder()
    x = build.add(ops.Input("x", DType.I32, (1,)))
    table = build.add(ops.Input("table", DType.F32, (3,)))
    ids = build.add(ops.Add(), x, full(build, x.type, 1))
    missing = build.add(ops.Compare("eq"), ids, full(build, ids.type, -100))
    picked: dict[str, Value] = {}
    for name in (first, *({"loss", "row"} - {first})):
        if name == "row":
            picked[name] = build.add(ops.Gather(0), table, ids)
            continue
        each = build.add(ops.Broadcast((1, 3), (0,)), ids)
        classes = build.add(ops.Broadcast((1, 3), (1,)), build.add(ops.Iota(3)))
        is_class = build.add(ops.Compare("eq"), each, classes)
        scores = build.add(ops.Broadcast((1, 3), (1,)), table)
        zero = full(build, scores.type, 0)
        picked[name] = build.add(ops.Sum((0, 1)), build.add(ops.Where(), is_class, scores, zero))
    fits = 0 <= index < 3
    for names, passes in (({"loss"}, fits or index == -100), ({"row"}, fits), (picked, fits)):
        outputs = {"missing": missing, **{name: picked[name] for name in names}}
        checked = with_checks(build.graph(outputs))
        found: set[int | None] = set()
        for check in checks_of(checked):
            largest = checked.outputs[check]
            alone = Graph(dependencies([largest]), {check: largest})
            fed = evaluate(alone, {"x": np.array([index - 1], np.int32)})
            found.add(check.outside(int(fed.outputs[check])))
        assert found - {None} == (set() if passes else {index})


def test_unsigned_indices_are_looked_at_as_they_are() -> None:
    build = Builder()
    words = build.add(ops.Input("words", DType.U32, (4,)))
    table = build.add(ops.Input("table", DType.F32, (9, 2)))
    ids = build.add(ops.Add(), words, full(build, words.type, 3))
    updates = {
        name: build.add(op, build.add(ops.Parameter(name, DType.F32, (4, 2), "state")))
        for name, op in (("one", ops.Neg()), ("two", ops.Exp()))
    }
    graph = build.graph({"row": build.add(ops.Gather(0), table, ids)}, updates)
    checked = with_checks(graph)
    assert list(checked.updates) == ["one", "two"]
    (check,) = checks_of(checked)
    assert (check.dtype, check.below) == (DType.U32, 9)
    feeds = {"table": np.zeros((9, 2), np.float32), "words": np.array([5, 0, 1, 4], np.uint32)}
    feeds |= {name: np.zeros((4, 2), np.float32) for name in updates}
    found = evaluate(checked, feeds)
    assert int(found.outputs[check]) == 8
    assert {name: float(each[0, 0]) for name, each in found.updates.items()} == {
        "one": 0, "two": 1,
    }  # fmt: skip


# --- ranges hold what the reference computes -----------------------------------------------------

SIX = TensorType(DType.I32, (6,))
FLOATS = TensorType(DType.F32, (6,))


def random_value(build: Builder, generator: np.random.Generator, made: list[Value]) -> Value:
    """A random op of values made before, all of them six numbers."""

    def any_(type_: TensorType) -> Value:
        fitting = [value for value in made if value.type == type_]
        return fitting[int(generator.integers(len(fitting)))]

    def pair(op: Callable[[], ops.Binary]) -> Value:
        type_ = (SIX, FLOATS)[int(generator.integers(2))]
        return build.add(op(), any_(type_), any_(type_))

    match int(generator.integers(10)):
        case 0:
            return full(build, SIX, int(generator.integers(-40_000, 40_000)))
        case 1:
            return full(build, FLOATS, float(generator.normal() * 9))
        case 2:
            return build.add(ops.Cast(DType.I32), any_(FLOATS))
        case 3:
            return build.add(ops.Cast(DType.F32), any_(SIX))
        case 4:
            less = build.add(ops.Compare("lt"), any_(SIX), any_(SIX))
            return build.add(ops.Where(), less, any_(SIX), any_(SIX))
        case 5:
            return build.add((ops.Abs, ops.Neg)[int(generator.integers(2))](), any_(SIX))
        case 6:
            return build.add(ops.Floor(), any_(FLOATS))
        case 7:
            total = build.add(ops.Sum((0,)), any_(SIX))
            return build.add(ops.Broadcast((6,), ()), total)
        case 8:
            padded = build.add(ops.Pad((2,), (1,), (0,)), any_(SIX))
            return build.add(ops.Slice((0,), (6,), (1,)), padded)
        case _:
            kinds = (ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum)
            return pair(kinds[int(generator.integers(len(kinds)))])


@each_of("seed", range(60))
def test_ranges_hold_every_value(seed: int) -> None:
    generator = np.random.default_rng(seed)
    build = Builder()
    made = [build.add(ops.Input("x", DType.I32, (6,))), build.add(ops.Iota(6))]
    made.append(build.add(ops.Cast(DType.F32), made[0]))
    for _ in range(30):
        made.append(random_value(build, generator, made))
    graph = build.graph({str(value.id): value for value in made})
    ranges = ranges_of(graph, {"x": Range(-5, 9)})
    x = generator.integers(-5, 10, 6).astype(np.int32)
    for name, array in evaluate(graph, {"x": x}).outputs.items():
        known = ranges.get(int(name))
        if known is not None:
            assert known.low <= array.min(), name
            assert array.max() <= known.high, name


def test_a_result_that_could_wrap_may_be_any() -> None:
    build = Builder()
    large = full(build, SIX, 1 << 30)
    total = build.add(ops.Add(), large, large)
    assert total.id not in ranges_of(build.graph({"total": total}), {})


def test_unsigned_numbers_reach_further_and_not_below_zero() -> None:
    build = Builder()
    word = TensorType(DType.U32, (6,))
    large, one = full(build, word, (1 << 32) - 2), full(build, word, 1)
    found = [build.add(ops.Add(), large, one), build.add(ops.Add(), large, large)]
    found.append(build.add(ops.Sub(), one, large))
    ranges = ranges_of(build.graph({str(each.id): each for each in found}), {})
    assert [ranges.get(each.id) for each in found] == [
        Range((1 << 32) - 1, (1 << 32) - 1),
        None,
        None,
    ]


def test_a_number_that_is_not_finite_has_no_range() -> None:
    build = Builder()
    numbers = [build.add(ops.Constant(each, DType.F32)) for each in (inf, -inf, nan, 1.5)]
    ranges = ranges_of(build.graph({str(each.id): each for each in numbers}), {})
    assert [ranges.get(each.id) for each in numbers] == [None, None, None, Range(1, 2)]


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (DType.F16, -(1 << 11), 1 << 11),
        (DType.F32, -(1 << 24), 1 << 24),
        (DType.I32, -(1 << 31), (1 << 31) - 1),
    ],
)
def test_a_type_holds_whole_numbers_exactly_up_to_its_ends(
    dtype: DType, low: int, high: int
) -> None:
    if dtype.is_float:
        of_type = np.dtype(f"float{dtype.value[1:]}").type
        assert [int(of_type(each)) for each in (low - 1, high + 1)] == [low, high]
    build = Builder()
    x = build.add(ops.Input("x", DType.I32, (6,)))
    by_way = build.add(ops.Cast(DType.I32), build.add(ops.Cast(dtype), x))
    graph = build.graph({"y": by_way})
    held = Range(low, high)
    assert ranges_of(graph, {"x": held})[by_way.id] == held
    for wider in (Range(low - 1, 0), Range(0, high + 1)):
        assert by_way.id not in ranges_of(graph, {"x": wider})


def test_padding_adds_zeros() -> None:
    build = Builder()
    six = build.add(ops.Add(), build.add(ops.Iota(6)), full(build, SIX, 3))
    padded = build.add(ops.Pad((1,), (0,), (0,)), six)
    assert ranges_of(build.graph({"padded": padded}), {})[padded.id] == Range(0, 8)


@pytest.mark.parametrize(
    ("dtype", "largest", "outside"),
    [
        (DType.I32, 4, None),
        (DType.I32, 5, 5),
        (DType.I32, (1 << 31) - 1, (1 << 31) - 1),
        (DType.I32, 1 << 31, -(1 << 31)),
        (DType.I32, (1 << 32) - 1, -1),
        (DType.U32, 1 << 31, 1 << 31),
        (DType.U32, (1 << 32) - 1, (1 << 32) - 1),
    ],
)
def test_what_is_outside_is_told_as_its_type_has_it(
    dtype: DType, largest: int, outside: int | None
) -> None:
    assert IndexCheck(0, dtype, 5, "").outside(largest) == outside
