"""Sizes and tensors by which is divided, and tensors with too many elements."""

from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.proof_failures import require_countable
from meganeura_dsl.elaborate.problems.shape_problems import ZeroDivisor
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import Program, check, elaborate_model
from meganeura_dsl.symbolic.assumptions import Facts
from tests.dsl.elaborate.declarations.proving import checked, codes


@pytest.mark.parametrize(
    ("where", "size", "example"),
    [
        ("", "c // k", ()),
        ("", "c // (c - 3)", (("c", 3),)),
        ("where c >= 4", "c // (c - 3)", ()),
        ("where c <= 2", "c % (c - 3)", ()),
        ("", "n % (2 * c - 1)", ()),
        ("", "n // (10 - c)", (("c", 10),)),
        ("", "1 if c > 3 and n % (c - 3) == 0 else 2", ()),
        ("", "1 if c <= 3 or n % (c - 3) == 0 else 2", ()),
        ("", "1 if c <= 3 and n % (c - 3) == 0 else 2", (("c", 3),)),
        ("where c > 3 or k == 1", "1 if k == 1 or (c > 3 and n % (c - 3) == 0) else 2", ()),
    ],
)
def test_no_size_is_divided_by_zero(
    where: str, size: str, example: tuple[tuple[str, int], ...]
) -> None:
    text = f"block F(k)(x: [n, c])\n    {where}:\n  return x + k + ({size})\n"
    text = text.replace("\n    :", ":")
    result = check(Source("net.mgn", text), lambda _: None)
    problems = [each for each in result.problems if isinstance(each, ZeroDivisor)]
    assert [each.example and each.example.sizes for each in problems] == [example] * bool(example)
    assert len(problems) == len(result.problems)
    assert result.proved == (() if example else ("F",))


@pytest.mark.parametrize(
    ("header", "divisor", "code"),
    [
        ("0..depth", "i", "E0322"),
        ("1..depth", "i", None),
        ("0..depth", "(i + 1)", None),
        ("0..depth", "(depth - i)", None),
        ("0..depth", "(i - 2)", "E0322"),
    ],
)
def test_no_iteration_divides_by_zero(header: str, divisor: str, code: str | None) -> None:
    """A label is computed too: the first iteration of `x |> norm{1 % i}: batch_norm` has none."""
    for body in (f"x + c // {divisor}", f"x |> fc{{1 % {divisor}}}: linear(c)"):
        text = f"block F(depth=2)(x: [n, c]):\n  for i in {header}:\n    x = {body}\n  return x\n"
        result = check(Source("net.mgn", text), lambda _: None)
        assert {each.code for each in result.problems} <= {code}
        assert result.fine == (code is None)


@pytest.mark.parametrize(
    ("divisor", "code"),
    [("t", "E0322"), ("(t + c - 3)", "E0322"), ("(t + 1)", "E0317"), ("c", None)],
)
def test_no_iteration_of_a_scan_divides_by_zero(divisor: str, code: str | None) -> None:
    """No `where` can name an iteration, so none is advised; other quotients differ by it."""
    text = (
        "block F()(x: [n, s, c]):\n  h = zeros([n, c])\n"
        f"  scan t in 0..s:\n    h = h + x[:, t] * (s // {divisor})\n  return h\n"
    )
    result = check(Source("net.mgn", text), lambda _: None)
    assert [each.code for each in result.problems] == [code] * (code is not None)
    cures = [each.help for each in result.reports if each.code == "E0322" and each.help]
    assert not any(each.edits or "where" in each.text for each in cures)


@pytest.mark.parametrize("divisor", ["(c - 24)", "(sqrt(c - 8) - 4)", "(0.5 * c - 12)"])
def test_no_model_divides_a_tensor_by_zero(divisor: str) -> None:
    """Neither the first that applies a layer, nor one that has it from what others found."""
    text = f"""\
        block Scaled()(x: [n, c]) -> [n, c] = x / {divisor}

        block Net(c)(x: [n, 9]) -> [n, c] = x |> fc: linear(c) |> Scaled
        """
    for widths in ((24,), (30, 40, 24), (24, 30)):
        models = "".join(f"model net{each} = Net({each})\n" for each in widths)
        refused = codes(dedent(text) + models)
        assert refused == [("E0203", 1)]
    assert checked(dedent(text) + "model a = Net(30)\nmodel b = Net(40)\n").fine


def test_a_size_of_data_by_which_a_tensor_cannot_be_divided_is_refused() -> None:
    text = "block Net()(x: [n, s]) -> [n, s] = x / (s - 3)\nmodel net = Net()\n"
    program = Program(Linker(lambda _: None, Sink()).link(Source("net.mgn", text)))
    assert elaborate_model(program, "net", sizes={"s": 4}).graph.outputs
    with pytest.raises(ProblemError, match="a divisor other than zero"):
        elaborate_model(program, "net", sizes={"s": 3})


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_tensor_of_too_many_elements_is_refused_whatever_else_is_empty(first: int) -> None:
    place = Location(Span(Source("net.mgn", ""), 0, 0))
    huge = TensorType(DType.F32, (first, 2**40, 2**40))
    with pytest.raises(ProblemError):
        require_countable(huge, place, Facts())
    require_countable(TensorType(DType.F32, (first, 2, 2**10)), place, Facts())
