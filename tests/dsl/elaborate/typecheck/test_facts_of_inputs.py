"""Facts about sizes in `where` are known when the types of inputs are read."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source

RESULT = "-> [n, u - 1]"
BODY = "  return x[:, 1:] * f32(label)\n"
SHIFTED = f"block B()(x: [n, u], label: i32[n, u - 1]) {RESULT}"

PROVED = {
    "a bound": f"{SHIFTED} where u >= 2:\n{BODY}",
    "behind a fact about another input": (
        f"block B(v)(x: [n, u], label: i32[n, u - 1]) {RESULT}\n"
        f"    where 0 <= label, label < v, u >= 2:\n{BODY}"
    ),
    "through configuration": (
        f"block B(k: size)(x: [n, u], label: i32[n, u - 1]) {RESULT}\n"
        f"    where k >= 2, u >= k:\n{BODY}"
    ),
    "a divisor": (
        "block B(k)(x: [n, d], y: [n, d // (k - 1)]) -> [n, d // (k - 1)]\n"
        "    where k >= 2, d >= k = y + 0 * sum(x)\n"
    ),
    "configuration alone": "block B(a, b)(x: [n, a - b]) -> [n, a - b] where a > b = x\n",
    "on either way of a choice": (
        f"block B(deep: bool)(x: [n, u], label: i32[n, u - 1]) {RESULT}\n"
        f"    where (u >= 3 if deep else u >= 2):\n{BODY}"
    ),
}
REFUSED = {
    "one too few": f"{SHIFTED} where u >= 1:\n{BODY}",
    "one of two facts": f"{SHIFTED} where u >= 2 or n >= 2:\n{BODY}",
    "a fact about another size": f"{SHIFTED} where n >= 2:\n{BODY}",
    "one way of a choice": (
        f"block B(deep: bool)(x: [n, u], label: i32[n, u - 1]) {RESULT}\n"
        f"    where (u >= 2 if deep else u >= 1):\n{BODY}"
    ),
    "what reads the input itself": f"{SHIFTED} where size(x, 1) >= 2:\n{BODY}",
    "no fact": f"{SHIFTED}:\n{BODY}",
}


def _check(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("facts.mgn", text), lambda _: None)


@pytest.mark.parametrize("name", PROVED)
def test_a_type_relies_on_what_is_stated(name: str) -> None:
    result = _check(PROVED[name])
    assert (result.proved, result.reports) == (("B",), ())


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_relies_on_nothing_else(name: str) -> None:
    result = _check(REFUSED[name])
    assert [each.code for each in result.reports] == ["E0305"]


def test_a_size_that_is_not_shown_has_the_fact_as_its_cure() -> None:
    (report,) = _check(REFUSED["no fact"]).reports
    assert report.help is not None
    assert [each.text for each in report.help.edits] == [" where u >= 2"]
    cured = REFUSED["no fact"].replace(f"{RESULT}:", f"{RESULT} where u >= 2:")
    assert _check(cured).fine


CALLS = {
    "(x: [n, d]) -> [n, d - 1] where d >= 2 = B(x, i32(x[:, 1:]))": "",
    "(x: [n, d]) -> [n, d - 1] = B(x, i32(x[:, 1:]))": "E0305",
    "(x: [n, d], y: i32[n, e]) -> [n, e] = B(x, y)": "E0308",
    "(x: [n, d + 1], y: i32[n, d]) -> [n, d] = B(x, y)": "",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_caller_proves_what_types_rely_on(call: str) -> None:
    result = _check(f"{PROVED['a bound']}block Call(){call}\n")
    assert [each.code for each in result.reports] == ([CALLS[call]] if CALLS[call] else [])


def test_a_model_a_training_and_a_block_that_is_given_keep_to_the_facts() -> None:
    text = f"""\
{PROVED["a bound"]}\
model m = B()
expect B maps [3, 5], i32[3, 4] -> [3, 4]
block Takes(act = B)(x: [n, u], label: i32[n, u - 1]) {RESULT} where u >= 2 = act(x, label)
block Small()(x: [n, 4], label: i32[n, 3]) -> [n, 3] = Takes(act=B)(x, label)
train t(x: [b, 5], y: i32[b, 4]):
  minimize mean(m(x |> fc: linear(5), y))
"""
    assert _check(text).fine, _check(text).reports
    small = text + "expect B maps [3, 5], i32[3, 3] -> [3, 0]\n"
    assert not _check(small).fine
