"""`each v of batch` in the inputs of a `train`: what it declares, and where it cannot stand."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.ragged_axes import ragged_of
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from tests.ragged import PROGRAM

BODY = "  minimize mean(x |> fc: linear(2))\n"


def checked(text: str) -> str:
    """The report of the first problem of a text; empty where it holds."""
    found = pipeline.check_text(Source("fit.mgn", text))
    return "" if found.fine else "\n".join(str(ProblemError(each)) for each in found.problems)


def test_sizes_and_shifts_are_read_from_the_inputs() -> None:
    assert checked(PROGRAM) == ""
    program = pipeline.load_text(Source("fit.mgn", PROGRAM))
    ragged = pipeline.ragged_of(program, "fit")
    assert ragged is ragged_of(program.module.trains["fit"])
    assert ragged.sizes == {"x": "v", "source": "e", "target": "e"}
    assert (ragged.shifts, ragged.counter) == ({"source": "v", "target": "v"}, "batch")
    assert pipeline.free_sizes(program, "fit") == ("batch",)


def test_it_is_formatted_as_it_is_written() -> None:
    source = Source("fit.mgn", PROGRAM)
    assert format_module(parse(source, Sink()), find_comments(source)) == PROGRAM


def test_each_is_a_name_where_no_name_follows() -> None:
    text = "train fit(x: [each, 7], of: whole [7, 1]):\n  minimize mean(x @ of)\n"
    assert checked(text) == ""
    assert pipeline.free_sizes(pipeline.load_text(Source("fit.mgn", text)), "fit") == ("each",)


INPUT = "x: [each v of batch, 7]"


@pytest.mark.parametrize(
    ("inputs", "where", "marked", "reason"),
    [
        ("x: [each v of many, 7], y: [batch]", "", "many", "does not count examples"),
        (f"{INPUT}, y: [each v of many]", "", "many", "another size than `batch`"),
        ("x: [each v of v, 7]", "", "v", "cannot be ragged itself"),
        (f"{INPUT}, y: [v]", "", "v", "is ragged"),
        (f"{INPUT}, y: [batch, v]", "", "v", "is ragged"),
        (f"{INPUT}, y: whole [v]", "", "v", "is ragged"),
        ("x: [each v of batch, v]", "", "v", "is ragged"),
        (f"{INPUT}, i: i32[each e of batch]", "", "i: i32[each e of batch]", "and no bound"),
        (f"{INPUT}, i: i64[each e of batch]", "", "i64[each e of batch]", "cannot be bounded"),
        (f"{INPUT}, i: i32[each e of batch]", "where i < v + 1", "i < v + 1", "is not a bound"),
        (f"{INPUT}, i: i32[each e of batch], j: i32[each e of batch]",
         "where i < j, j < v", "i: i32[each e of batch]", "and no bound"),
        (f"{INPUT}, i: whole i32[3]", "where 0 <= i, i < v", "i: whole i32[3]", "has one entry"),
    ],
)  # fmt: skip
def test_what_cannot_be_ragged_is_refused_at_its_place(
    inputs: str, where: str, marked: str, reason: str
) -> None:
    text = f"train fit({inputs}) {where}:\n{BODY}".replace(") :", "):")
    with pytest.raises(ProblemError) as caught:
        ragged_of(_train(text))
    location = getattr(caught.value.problem, "location")  # noqa: B009 - any located problem
    assert location.span.text == marked
    assert reason in str(caught.value)
    assert "E0216" in checked(text)


def _train(text: str) -> ast.Train:
    found = parse(Source("fit.mgn", text), Sink()).declarations[-1]
    assert isinstance(found, ast.Train)
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"train fit({INPUT}):\n  g = example_of(batch)\n{BODY}", "once for each example"),
        ("train fit(x: [batch, 7]):\n  g = offsets(batch)\n" + BODY, "once for each example"),
        ("block B()(x: [v, 7]) -> i32[v]:\n  return example_of(v)\n", "stands in the `train`"),
        (f"train fit({INPUT}):\n  state m: [v] = zeros\n{BODY}", "depends on the data"),
        (
            "block B()(x: [each v of batch, 7]) -> [v, 7]:\n  return x\n",
            "first axis of an input of a `train`",
        ),
    ],
)
def test_misuse_is_refused_in_words(text: str, words: str) -> None:
    assert words in checked(text)


SELECT = """\
block Select()(x: [v, c], i: i32[n]) -> [n, c] where 0 <= i, i < v:
  return gather(x, i)
"""
SCAN = "  total = ones([])\n  scan t in 0..batch:\n    total = total + sum(gather(x, i[t:t + 1]))\n"


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("", "  y = gather(x, i)\n"),
        ("", "  y = gather(x, gather(i, argsort(i)))\n"),
        ("", "  y = gather(x, where(i == 3, 0, i))\n"),
        ("", "  y = one_hot(i, v) @ x\n"),
        ("", f"{SCAN}  y = x * total\n"),
        (" where 0 <= i, i < 4, v >= 4", "  y = x |> Select()(i)\n"),
    ],
)
def test_what_picks_rows_without_a_fact_is_refused(where: str, body: str) -> None:
    """It would not be moved to the rows of its example."""
    last = "  minimize mean(y |> fc: linear(1))\n"
    text = f"{SELECT}train fit({INPUT}, i: i32[batch]){where}:\n{body}{last}"
    found = checked(text)
    assert "`i` picks among rows of `v`" in found
    assert "where 0 <= i, i < v" in found
    stated = f"train fit({INPUT}, i: i32[batch]) where 0 <= i, i < v:"
    assert checked(f"{SELECT}{stated}\n{body}{last}") == ""


def test_numbers_moved_by_the_program_need_no_fact() -> None:
    first = "gather(offsets(v), iota(batch))"
    text = f"train fit({INPUT}, i: i32[batch]):\n  y = gather(x, i + {first})\n  minimize mean(y |> fc: linear(1))\n"  # noqa: E501
    assert checked(text) == ""
