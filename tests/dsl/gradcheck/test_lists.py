"""Configuration that is a list: what is drawn for it where several belong together."""

from random import Random

import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.cases import choose_case
from meganeura_dsl.gradcheck.subjects import Subject, block_subject, subjects
from meganeura_dsl.gradcheck.verdicts import Passed

BODY = """\
  for i in 0..len(widths):
    y = x |> fc[i]: linear(widths[i] + rows[i][1])
    x = tanh(y * scales[i])
  return x
"""


def subject(lists: str, fact: str, more: str = "") -> Subject:
    text = f"block Net({lists})(x: [n, 3])\n    where {fact}:\n{BODY}\n{more}"
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return block_subject(module, module.blocks["Net"])


def length(value: StaticValue) -> int:
    assert isinstance(value, list)
    return len(value)


@pytest.mark.parametrize(
    ("lists", "more"),
    [
        ("widths: list = [4, 8, 2], scales = [1, 2, 3], rows: list = [[4, 1], [8, 2], [3, 1]]", ""),
        (
            "widths: list, scales: list = [1, 2], rows: list = [[4, 1], [8, 2]]",
            """model a = Net(widths=[3, 4])
model b = Net(widths=[5, 6, 7], scales=[2, 2, 2], rows=[[1, 1], [1, 1], [1, 1]])
model c = Net(widths=[6, 5])
""",
        ),
    ],
)
def test_lists_of_one_length_are_drawn_so(lists: str, more: str) -> None:
    """Of rows two are drawn, and so many items of what is as long, also by way of another list."""
    checked = subject(lists, "len(scales) == len(rows), len(widths) == len(scales)", more)
    for seed in range(5):
        case = choose_case(Random(seed).choice, checked)
        assert {length(case.config[name]) for name in ("widths", "scales", "rows")} == {2}
    verdict = check_gradients(checked, SearchBudget(examples=3))
    assert isinstance(verdict, Passed)
    assert verdict.slopes > 0


def test_a_list_that_no_fact_speaks_of_is_as_long_as_it_is_written() -> None:
    lists = "widths: list = [4, 8], scales: list = [1, 2, 3], rows: list = [[4, 1], [8, 2], [3, 1]]"
    config = choose_case(Random(0).choice, subject(lists, "len(scales) >= 1, n >= 1")).config
    found = [length(config[name]) for name in ("widths", "scales", "rows")]
    assert found == [2, 3, 2]


MODEL = "model wide = Wide(d=800)\nmodel narrow = Wide(d=2)\n"
WIDE = "block Wide(d)(x: [n, 3]) -> [n, d] = x |> a: linear(d) |> b: linear(d)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{WIDE}{MODEL}", ["Wide", "narrow"]),
        (f"from other import Wide\n{MODEL}", ["wide, narrowed", "narrow"]),
    ],
)
def test_a_model_of_many_weights_is_left_to_its_block_where_that_is_checked(
    text: str, expected: list[str]
) -> None:
    sink = Sink()
    linker = Linker(lambda _: Source("other.mgn", WIDE), sink)
    module = linker.link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    assert [each.name for each in subjects(module)] == expected
