"""Facts about all elements of whole-number tensors: stated, proved at calls, checked in data."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.symbolic.conditions import show_condition
from meganeura_runtime.train.spec.train_job import prepare

PICK = """\
block Pick(words, d)(ids: i32[n, s]) -> [n, s, d]
    where 0 <= ids, ids < words:
  return ids |> table: embedding(words, d)

block Twice()(ids: i32[n, s]) -> i32[n, s] = 2 * ids

"""

STATED = " where 0 <= ids, ids < words"

CALLS = {
    "as it came, stated": (STATED, "ids", True),
    "as it came, not stated": ("", "ids", True),
    "joined": (STATED, "concat(ids, ids, axis=0)[:n]", True),
    "joined with what may be too large": (STATED, "concat(ids, ids + 1, axis=0)[:n]", False),
    "joined with what may be below 0": (STATED, "concat(ids - 1, ids, axis=0)[:n]", False),
    "joined with what came, of which nothing is stated": (
        "",
        "concat(ids, ids, axis=0)[:n]",
        False,
    ),
    "the larger of two": (STATED, "maximum(ids, reverse(ids, 1))", True),
    "the larger of two, and one more": (STATED, "maximum(ids, reverse(ids, 1)) + 1", False),
    "either of two": (STATED, "where(ids % 2 == 0, ids, words - 1 - ids)", True),
    "either of two, of which one may be too large": (
        STATED,
        "where(ids < 1, ids, words - ids)",
        False,
    ),
    "moved": ("", "reverse(ids[:, :], 1)", True),
    "one more than is stated": (STATED, "ids + 1", False),
    "one more, and stated": (" where 0 <= ids, ids + 1 < words", "ids + 1", True),
    "stated too wide": (" where ids < words + 1", "ids", False),
    "stated narrower": (" where ids < words - 1, words >= 2", "ids", True),
    "a difference of two elements": (STATED, "ids - reverse(ids, 1)", False),
    "a sum within the bound": (" where 2 * ids < words", "ids + ids", True),
    "a remainder": ("", "ids % words", True),
    "a quotient": (STATED, "ids // 2", True),
    "kept below": ("", "minimum(maximum(ids, 0), words - 1)", True),
    "kept below too late": ("", "minimum(maximum(ids, 0), words)", False),
    "unknown": ("", "ids * ids", False),
    "gathered from what came": ("", "gather(ids, ids % n)[:, 0]", True),
    "what a block gives": ("", "Twice()(ids)", False),
    "what came, of which a block takes some as well": ("", "ids + 0 * Twice()(ids)", False),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_proves_what_its_block_states(name: str) -> None:
    where, given, is_proved = CALLS[name]
    text = (
        f"{PICK}block Use(words, d)(ids: i32[n, s]) -> [n, s, d]{where}:\n"
        f"  return ({given}) |> pick: Pick(words, d)\n"
    )
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert ("Use" in result.proved) == is_proved, result.reports
    assert {report.code for report in result.reports} <= {"E0311", "E0312"}


NUMBERS = [
    ("0 <= p, p < words", "p", True),
    ("0 <= p, p < words", "p - 1", False),
    ("1 <= p, p < words", "p - 1", True),
    ("0 <= p, p + 1 < words", "p + 1", True),
    ("0 <= p, 2 * p < words", "p * 2", True),
    ("0 <= p, 2 * p < words", "p + p", True),
    ("0 <= p, p < words", "p * p", False),
    ("0 <= p, p < words", "words - 1 - p", True),
    ("0 <= p, p < words", "-p + words", False),
    ("1 <= p, p < words", "-p + words", True),
    ("0 <= p, p < words", "p // 2", True),
    ("0 <= p, p < 2 * words", "p // 2", True),
    ("0 <= p, p <= 2 * words", "p // 2", False),
    ("words == 3", "p % 3", True),
    ("words == 3", "p % 2 + 1", True),
    ("words == 2", "p % 2 + 1", False),
    ("words == 2", "p % 3", False),
    ("ids < words", "ids[0]", True),
    ("ids < words", "ids[0] - 1", False),
    ("ids < words", "ids[0] + 1", False),
    ("ids < words - 1", "ids[0] + 1", True),
    ("words >= 2", "argmax(x[:, 0], 0)", True),
    ("words >= 2", "argmax(x[:, 0], 0) - 1", False),
    ("words >= 2", "argmax(x[:, 0], 0) + 1", False),
    ("words >= 2", "argmax(x[1:, 0], 0) + 1", True),
    ("words == 3", "p % 3 - 1", False),
    ("words >= 2", "p", False),
    ("words >= 1", "order[0]", True),
    ("words >= 1", "order[0] + 1", False),
    ("n == words", "smallest[0]", False),
    ("words >= 2", "minimum(p, words - 1)", False),
    ("words >= 2", "minimum(words - 1, p)", False),
    ("words >= 2", "minimum(maximum(p, 0), words - 1)", True),
    ("words >= 2", "minimum(maximum(p, -2), words - 1)", False),
    ("words >= 2", "minimum(argmax(x[:, 0], 0), words - 2) + 1", True),
    ("words >= 2", "minimum(words - 2, argmax(x[:, 0], 0)) + 1", True),
    ("words >= 2", "minimum(words - 1, argmax(x[:, 0], 0)) + 1", False),
    ("words >= 3, ids < n", "minimum(minimum(words - 2, ids[0]), n) + 1", True),
    ("words >= 3, n < words", "minimum(minimum(ids[0], words), argmax(ids, 0)) + 1", False),
    ("words >= 3, n < words, 0 <= p", "minimum(p, argmax(ids, 0)) + 1", True),
    ("words >= 3, n < words, 0 <= p", "minimum(argmax(ids, 0), p) + 1", True),
    ("words >= 3, n < words", "minimum(argmax(ids, 0), p) + 1", False),
    ("words >= 5, p < words", "maximum(maximum(p, 3), -4) - 3", True),
    ("words >= 5, p < words", "maximum(maximum(p, 3), -4) - 4", False),
    ("words >= 5, p < words", "maximum(maximum(p, 2), -4) - 3", False),
    ("words >= 5", "maximum(minimum(argmax(x[:, 0], 0), 3), 3) - 3", True),
    ("words >= 5", "maximum(minimum(argmax(x[:, 0], 0), 3), 4) - 5", False),
    ("words >= 2", "maximum(argmax(x[:, 0], 0), p)", False),
    ("words >= 2", "maximum(p, argmax(x[:, 0], 0))", False),
    ("words >= 2", "maximum(argmax(x[:, 0], 0), words)", False),
    ("words >= 2, ids < words", "minimum(argmax(ids, 0), ids[0])", True),
    ("words >= 2, ids < words", "minimum(argmax(ids, 0), ids[0]) + 1", False),
    ("p < words, ids < words", "maximum(p, ids[0])", True),
    ("p < words, ids < words", "maximum(ids[0], p)", True),
    ("p < words, ids < words", "maximum(p, ids[0]) + 1", False),
    ("p < words, ids < words + 1", "maximum(p, ids[0])", False),
    ("p < words + 1, ids < words", "maximum(p, ids[0])", False),
    ("p < words", "maximum(p, ids[0])", False),
    ("p + 1 < words, ids + 1 < words", "maximum(p, ids[0]) + 1", True),
    ("2 * p < words, 2 * ids < words", "2 * maximum(p, ids[0])", False),
    ("2 * p < words, ids < words", "2 * maximum(p, ids[0])", False),
    ("1 <= p, p < words, 1 <= ids, ids < words", "minimum(p, ids[0]) - 1", True),
    ("1 <= p, p < words, ids < words", "minimum(p, ids[0]) - 1", False),
    ("1 <= p, p < words, ids < words", "maximum(p, ids[0]) - 1", True),
    ("1 <= p, p < words, ids < words", "where(x[0, 0] > 0, p, ids[0])", True),
    ("1 <= p, p < words, ids < words", "where(x[0, 0] > 0, p, ids[0]) - 1", False),
    ("1 <= p, p < words, ids < words", "where(x[0, 0] > 0, p - 1, ids[0])", True),
    ("1 <= p, p < words, ids < words", "where(x[0, 0] > 0, p, ids[0] + 1)", False),
    ("p < words, words >= 3", "maximum(p, minimum(ids[0], 2))", True),
    ("p < words, words >= 3", "maximum(p, minimum(ids[0], 3))", False),
    ("words > p, words >= 3", "maximum(p, minimum(ids[0], 2))", True),
    ("words >= p, words >= 3", "maximum(p, minimum(ids[0], 2))", False),
    ("p < words", "where(x[0, 0] > 0, p, ids[0])", False),
    ("p < words, words >= 3", "where(x[0, 0] > 0, p, 2)", True),
    ("p < words, words >= 3", "where(x[0, 0] > 0, p, 3)", False),
    ("p < words, words >= 3", "where(x[0, 0] > 0, -1, p)", False),
    ("p < words, ids < words", "where(x[0, 0] > 0, p, ids[0]) - p", False),
    ("p < words, ids < words", "maximum(p, ids[0]) - p", True),
    ("p < words, ids < words", "p - minimum(p, ids[0])", True),
    ("p < words, ids < words", "minimum(maximum(p, ids[0]), words - 1)", True),
    ("p < n, ids < n, words >= 4", "minimum(maximum(p, ids[0]), 3)", True),
    ("p < n, ids < n, words >= 4", "minimum(maximum(p, ids[0]), words)", False),
    ("words >= 2, ids < words, 0 <= p, p < n", "ids[p]", True),
    ("words >= 2, ids < words, 0 <= p, p < n", "ids[p] + 1", False),
]


@pytest.mark.parametrize(("where", "given", "is_proved"), NUMBERS)
def test_what_is_known_of_one_number(where: str, given: str, is_proved: bool) -> None:  # noqa: FBT001
    text = (
        "block Pick(words)(x: [words, d], i: i32[]) -> [d] where 0 <= i, i < words:\n"
        "  return x[i]\n\n"
        "block Use(words)(x: [words, d], ids: i32[n], p: i32[] = 1) -> [d]\n"
        f"    where n >= 1, {where}:\n"
        "  _values, order = sort(x[:, 0], axis=0)\n"
        "  smallest, _order = sort(ids, axis=0)\n"
        f"  return Pick(words)(x, {given})\n"
    )
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert ("Use" in result.proved) == is_proved, result.reports
    assert {each.code for each in result.reports} - {"E0207"} == (set() if is_proved else {"E0311"})


@pytest.mark.parametrize(
    ("body", "is_proved"),
    [
        ("if k >= 3:\n    y = Pick(words)(x, at)", True),
        ("y = Pick(words)(x, at)", False),
        ("if k >= 2:\n    y = Pick(words)(x, at)", False),
        ("if k >= 3:\n    y = Pick(words)(x, at)\n  y = y + Pick(words)(x, at)", False),
        (
            "if k >= 3:\n    y = Pick(words)(x, at)\n  else:\n    y = Pick(words)(x, at)",
            False,
        ),
        ("if k < words:\n    y = Pick(words)(x, up)", True),
        ("if k < words:\n    y = Pick(words)(x, up)\n  y = y + Pick(words)(x, up)", False),
        ("y = Pick(words)(x, maximum(low, low))", False),
        ("y = Pick(words)(x, maximum(low, 0))", True),
        ("if k >= 3:\n    y = Pick(words)(x, moved)\n  y = y + Pick(words)(x, moved)", False),
    ],
)
def test_what_a_branch_knows_of_a_number_is_not_known_behind_it(
    body: str,
    is_proved: bool,  # noqa: FBT001
) -> None:
    text = (
        "block Pick(words)(x: [words, d], i: i32[]) -> [d] where 0 <= i, i < words:\n"
        "  return x[i]\n\n"
        "block Use(words, k: size)(x: [words, d], p: i32[], q: i32[]) -> [d]\n"
        "    where words >= 9, q < words:\n"
        "  at = minimum(maximum(p, k - 3), words - 1)\n"
        "  up = maximum(argmax(x[:, 0], 0), minimum(p, k))\n"
        "  moved = expand(at, [] -> [3])[0]\n"
        "  low = expand(q - 1, [] -> [3])[0]\n"
        f"  y = x[0]\n  {body}\n  return y\n"
    )
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert ("Use" in result.proved) == is_proved, result.reports
    assert {each.code for each in result.reports} - {"E0207"} == (set() if is_proved else {"E0311"})


def test_what_came_is_handed_to_several_blocks() -> None:
    text = f"{PICK}block Use(words)(ids: i32[n, s]) -> [n, s, 4]:\n"
    text += "  return (ids |> a: Pick(words, 4)) + (ids |> b: Pick(words, 4))\n"
    assert "Use" in pipeline.check(Source("facts.mgn", text), lambda _: None).proved


@pytest.mark.parametrize(
    ("where", "given", "stated"),
    [
        (" where ids < words", "ids", {"ids < 9"}),
        (" where ids < words - 1", "ids + 1", {"ids < 8"}),
        ("", "ids", {"0 <= at0", "at0 < 9"}),
        ("", "reverse(ids, 1)", {"0 <= at0", "at0 < 9"}),
        ("", "ids % words", set[str]()),
    ],
)
def test_what_is_fed_is_what_its_blocks_state_or_is_checked(
    where: str, given: str, stated: set[str]
) -> None:
    text = f"{PICK}block Net(words)(ids: i32[n, s]) -> [n, s, 4]{where}:\n"
    text += f"  return ({given}) |> pick: Pick(words, 4)\n\nmodel net = Net(9)\n"
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert {each.code for each in result.reports} <= {"E0207"}
    found = pipeline.elaborate_model(result.program, "net").facts.stated
    assert {show_condition(each) for each in found} == stated


@pytest.mark.parametrize(("words", "code"), [(6, []), (5, ["E0311"]), (3, ["E0311"])])
def test_what_no_number_can_be_is_not_stated_of_what_is_fed(words: int, code: list[str]) -> None:
    text = f"{PICK}block Net(words)(ids: i32[n, s]) -> [n, s, 4]\n"
    text += "    where 0 <= ids, ids < words - 5:\n  return ids |> pick: Pick(words, 4)\n\n"
    text += f"model net = Net({words})\n"
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert [each.code for each in result.reports] == code


def test_a_model_is_held_to_what_its_own_block_proved() -> None:
    text = (
        f"{PICK}block Next(words, d)(ids: i32[n, s]) -> [n, s, d]\n"
        "    where 0 <= ids, ids + 1 < words:\n  return (ids + 1) |> pick: Pick(words, d)\n\n"
        "block Net()(ids: i32[n, s], x: [n, s, 5]) -> [n, s, 4]:\n"
        "  return (ids |> a: Next(9, 4)) + (argmax(x, 2) |> b: Next({}, 4))\n\nmodel net = Net()\n"
    )
    assert pipeline.check(Source("facts.mgn", text.format(6)), lambda _: None).fine
    result = pipeline.check(Source("facts.mgn", text.format(5)), lambda _: None)
    assert {report.code for report in result.reports} == {"E0311"}


BELOW = """\
block Bag(words)(ids: i32[n, s]) -> [n, s]
    where -1 <= ids, ids < words:
  return f32(maximum(ids, 0))

block Picked(words)(ids: i32[n, s]) -> [n, s]
    where 0 <= ids, ids < words:
  return f32(ids)

block Use(words)(ids: i32[n, s]) -> [n, s]
    where {}, ids < words:
  return {}
"""
BELOW_ZERO = {
    "what is 0 at least": ("0 <= ids", "ids |> Bag(words)", True),
    "one less": ("0 <= ids", "(ids - 1) |> Bag(words)", True),
    "two less": ("0 <= ids", "(ids - 2) |> Bag(words)", False),
    "the same": ("-1 <= ids", "ids |> Bag(words)", True),
    "said with a sum": ("0 <= ids + 1", "ids |> Bag(words)", True),
    "said strictly": ("ids > -2", "ids |> Bag(words)", True),
    "less than that": ("-2 <= ids", "ids |> Bag(words)", False),
    "an index": ("-1 <= ids", "ids |> Picked(words)", False),
    "an index, of the larger": ("-1 <= ids", "maximum(ids, 0) |> Picked(words)", True),
    "an index of one more": ("-1 <= ids", "(ids + 1) |> Picked(words + 1)", True),
    "an index of one more, too large": ("-1 <= ids", "(ids + 1) |> Picked(words)", False),
    "another element": ("-1 <= ids", "(reverse(ids, 1) + 1) |> Picked(words + 1)", True),
    "both": ("-1 <= ids, 0 <= ids", "ids |> Picked(words)", True),
    "both, the other way": ("0 <= ids, -1 <= ids", "ids |> Picked(words)", True),
    "as many as a size": ("-words <= ids", "(ids + words) |> Picked(2 * words)", True),
    "more than a size": ("-words <= ids", "(ids + words - 1) |> Picked(2 * words)", False),
    "a size that may be larger": ("words - 3 <= ids", "ids |> Picked(words)", True),
}


@pytest.mark.parametrize("name", BELOW_ZERO)
def test_a_bound_below_zero_is_kept_as_it_is_stated(name: str) -> None:
    stated, value, is_proved = BELOW_ZERO[name]
    text = BELOW.format(stated, value)
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert ("Use" in result.proved) is is_proved
    assert result.fine is is_proved


def test_a_part_that_begins_below_zero_is_refused() -> None:
    text = (
        "block Part(k)(x: [n, s], p: i32[]) -> [n, k]\n"
        "    where -1 <= p, p + k < s:\n  return x[:, {0}:{0} + k]\n"
    )
    for start, is_proved in (("p", False), ("p + 1", True)):
        result = pipeline.check(Source("facts.mgn", text.format(start)), lambda _: None)
        assert result.fine is is_proved


TRAIN = (
    PICK
    + """\
block Net()(ids: i32[n, s]) -> [n, s, 4]
    where 0 <= ids, ids < 7:
  return ids |> pick: Pick(9, 4)

model net = Net()

train fit(ids: i32[batch, 3], y: [batch, 3, 4])
    where 0 <= ids, ids < 7:
  minimize mse(ids |> net, y)
  run:
    data      = "data.safetensors"
    batch     = 2
    epochs    = 1
    optimizer = sgd(lr=0.1)
"""
)


@pytest.mark.parametrize(
    ("largest", "fault"), [(6, ""), (7, "must be below 7"), (-1, "at least 0")]
)
def test_what_a_training_states_is_checked_where_data_is_read(
    largest: int, fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "fit.mgn"
    file.write_text(TRAIN)
    ids = np.zeros((4, 3), np.int32)
    ids[3, 1] = largest
    save_file({"ids": ids, "y": np.zeros((4, 3, 4), np.float32)}, tmp_path / "data.safetensors")
    program = pipeline.load(str(file))
    if not fault:
        assert prepare(program, "fit", tmp_path).spec.whole_step.bounds is not None
        return
    with pytest.raises(ProblemError, match=fault) as caught:
        prepare(program, "fit", tmp_path)
    assert caught.value.problem.code == "E0535"


LABELS = """\
train fit(x: [batch, 4], label: i32[batch])
    where {} <= label, label < 3:
  minimize masked_cross_entropy(ignore={})(x |> fc: linear(3), label)
  run:
    data      = "data.safetensors"
    batch     = 2
    epochs    = 1
    optimizer = sgd(lr=0.1)
"""


@pytest.mark.parametrize(
    ("stated", "label", "fault"),
    [
        (-1, -1, ""), (-1, -2, "at least -1"), (-1, 3, "below 3"), (0, -1, "at least 0"),
        (-2, -1, ""), (-2, -2, "at least -1"), (-100, -1, ""),
    ],
)  # fmt: skip
def test_what_a_training_states_below_zero_is_taken(
    stated: int, label: int, fault: str, tmp_path: Path
) -> None:
    """Labels have to be a class and to fulfil the stated facts."""
    (tmp_path / "fit.mgn").write_text(LABELS.format(stated, -1))
    labels = np.array([0, 1, label, 2], np.int32)
    save_file({"label": labels, "x": np.ones((4, 4), np.float32)}, tmp_path / "data.safetensors")
    program = pipeline.load(str(tmp_path / "fit.mgn"))
    if not fault:
        assert prepare(program, "fit", tmp_path).spec.whole_step.bounds is not None
        return
    with pytest.raises(ProblemError, match=fault) as caught:
        prepare(program, "fit", tmp_path)
    assert caught.value.problem.code == "E0535"
