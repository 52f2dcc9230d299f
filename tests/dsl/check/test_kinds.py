"""What an expression needs, and what it is given instead, in words."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.source import Source

UNUSED = "E0207"
"""Of the sizes and values that an expression does not read."""

REFUSED = {
    "2 + (n == 1)": ("E0203", "this needs a number", "this is a condition"),
    '2 + "a"': ("E0203", "this needs a number", 'this is the text "a"'),
    "2 + [1]": ("E0203", "this needs a number", "this is a list of 1"),
    '-"a"': ("E0203", "this needs a number", 'this is the text "a"'),
    "-(n == 1)": ("E0203", "this needs a number", "this is a condition"),
    "-[1, 2]": ("E0203", "this needs a number", "this is a list of 2"),
    'x + "text"': ("E0307", 'a tensor of f32 cannot meet the text "text"', "f32[n, d]"),
    "[1] + 2": ("E0203", "this needs a number", "this is a list of 1"),
    "[1, 2] * n": ("E0203", "this needs a number", "this is a list of 2"),
    "[1] * 100000": ("E0203", "this needs a tensor to return", "this is a list of 100000"),
    "2 ** n": ("E0203", "this needs a tensor to return", "this is a number"),
    "2 ** -1": ("E0203", "this needs a tensor to return", "this is the number 0.5"),
    "0 ** -1": ("E0203", "this needs numbers whose result is finite", "this is the size -1"),
    "7 // 0": ("E0203", "this needs a divisor other than zero", "this is the size 0"),
    "n // 0": ("E0203", "this needs a divisor other than zero", "this is the size 0"),
    "n % 0": ("E0203", "this needs a divisor other than zero", "this is the size 0"),
    "2.5 // 2": ("E0203", "this needs a tensor to return", "this is the number 1.0"),
    "2.5 % 2": ("E0203", "this needs a tensor to return", "this is the number 0.5"),
    "1.5 ** 2": ("E0203", "this needs a tensor to return", "this is the number 2.25"),
    "x % 2": ("E0307", "`%` works on sizes, not on tensors", "the tensor f32[n, d] and the size 2"),
    "x // 2": (
        "E0307",
        "`//` works on sizes, not on tensors",
        "the tensor f32[n, d] and the size 2",
    ),
    'x == "a"': ("E0307", 'a tensor of f32 cannot meet the text "a"', "f32[n, d]"),
    '"a" == "b"': ("E0203", "this needs a tensor to return", "this is a condition"),
    '"a" < "b"': (
        "E0203",
        'this needs something to compare with the text "a"',
        'this is the text "b"',
    ),
    "[1] == [2]": ("E0203", "this needs a tensor to return", "this is a condition"),
    "1.5 < 2": ("E0203", "this needs a tensor to return", "this is a condition"),
    "not n": ("E0203", "this needs a condition", "this is the size n"),
    "x or true": ("E0307", "a tensor of f32 cannot meet a condition", "f32[n, d]"),
    "true and n": ("E0203", "this needs a condition", "this is the size n"),
    "x if x else x": ("E0203", "this needs a condition", "this is the tensor f32[n, d]"),
    "x[n == 1]": ("E0203", "this needs a size", "this is a condition"),
    "x[0.5]": ("E0203", "this needs a size", "this is the number 0.5"),
    'x["a"]': ("E0203", "this needs a size", 'this is the text "a"'),
    "[1, 2][5]": ("E0203", "this needs an index of a list of 2", "this is 5"),
    "[1, 2][-1]": ("E0203", "this needs a tensor to return", "this is the size 2"),
    '[1, 2]["a"]': ("E0203", "this needs an index", 'this is the text "a"'),
    "x[0, 0, 0]": ("E0302", "f32[n, d] needs at most 2 subscripts", "this is 3 subscripts"),
    "x[2:1]": (
        "E0305",
        "cannot show for every size that `Slice` keeps at least one element",
        "needs 2 < 1",
    ),
    "len(x)": ("E0203", "this needs a list", "this is the tensor f32[n, d]"),
    "len([1, 2])": ("E0203", "this needs a tensor to return", "this is the size 2"),
    "max(1, 2)": ("E0203", "this needs a tensor to return", "this is the size 2"),
    "max([1])": ("E0203", "this needs a tensor to return", "this is the size 1"),
    'max("a", 1)': (
        "E0203",
        "this needs a tensor, numbers or a list of numbers",
        'this is the text "a"',
    ),
    "min(1.5, 2)": ("E0203", "this needs a tensor to return", "this is the number 1.5"),
    "sum(x, 5)": ("E0302", "axis 5 needs an axis that exists", "this is of 2 axes"),
    'sum(x, "a")': ("E0203", "this needs the number of an axis", 'this is the text "a"'),
    "sum(x, n)": ("E0203", "this needs the number of an axis", "this is the size n"),
    "concat(x, 1)": ("E0203", "this needs a tensor", "this is the size 1"),
    "concat(x)": ("E0202", "`concat` needs `axis`", ""),
    "concat(x, x, axis=7)": ("E0302", "axis 7 needs an axis that exists", "this is of 2 axes"),
    "concat(x, x, axis=x)": (
        "E0203",
        "this needs the number of an axis",
        "this is the tensor f32[n, d]",
    ),
    "expand(x, 3)": ("E0202", "`expand` needs a pattern", ""),
    "rearrange(x, 3)": ("E0202", "`rearrange` needs a pattern", ""),
    "relu(n)": ("E0202", "`relu` needs a tensor `x`", ""),
    'relu("a")': ("E0202", "`relu` needs a tensor `x`", ""),
    'exp("a")': ("E0203", "this needs a tensor or a number", 'this is the text "a"'),
    "exp(2)": ("E0203", "this needs a tensor to return", "this is the number 7.38905609893065"),
    "exp(n)": ("E0203", "this needs a tensor to return", "this is a number"),
    "log(0)": ("E0203", "this needs a number the function is defined for", "this is the size 0"),
    "log(-1)": ("E0203", "this needs a number the function is defined for", "this is the size -1"),
    "sqrt(2.0)": (
        "E0203",
        "this needs a tensor to return",
        "this is the number 1.4142135623730951",
    ),
    "sqrt(-1.0)": (
        "E0203",
        "this needs a number the function is defined for",
        "this is the number -1.0",
    ),
    "f32(n)": ("E0203", "this needs a tensor", "this is the size n"),
    "i32(2.5)": ("E0203", "this needs a tensor", "this is the number 2.5"),
    "i32(1e30)": ("E0203", "this needs a tensor", "this is the number 1e+30"),
    'iota("a")': ("E0203", "this needs a size as `size`", 'this is the text "a"'),
    "iota(x)": ("E0203", "this needs a size as `size`", "this is the tensor f32[n, d]"),
    "argmax(x, 9)": ("E0302", "axis 9 needs an axis that exists", "this is of 2 axes"),
    "argmax(n, 0)": ("E0203", "this needs a tensor", "this is the size n"),
    "stop_gradient(n)": ("E0203", "this needs a tensor", "this is the size n"),
    "where(x, x, x)": (
        "E0203",
        "this needs a bool tensor as condition",
        "this is the tensor f32[n, d]",
    ),
    'where(x > 0, x, "a")': ("E0307", 'a tensor of f32 cannot meet the text "a"', "f32[n, d]"),
    "where(1, x, x)": ("E0203", "this needs a tensor", "this is the size 1"),
    "abs(-3)": ("E0203", "this needs a tensor to return", "this is the size 3"),
    'abs("a")': ("E0203", "this needs a tensor or a number", 'this is the text "a"'),
    "(0 - 2.5) ** 0.5": (
        "E0203",
        "this needs a whole exponent of a negative number",
        "this is the number 0.5",
    ),
    "0.0 ** -1": ("E0203", "this needs numbers whose result is finite", "this is the size -1"),
    "(1 - 1) ** (0 - 2)": (
        "E0203",
        "this needs numbers whose result is finite",
        "this is the size -2",
    ),
    "(0-8)**0.5": (
        "E0203",
        "this needs a whole exponent of a negative number",
        "this is the number 0.5",
    ),
    "- -n": ("E0203", "this needs a tensor to return", "this is the size n"),
}
"""Expressions of a block of x: f32[n, d]; the code, the headline and the label of the refusal."""


@pytest.mark.parametrize("expression", REFUSED)
def test_an_expression_of_another_kind_is_refused(expression: str) -> None:
    code, headline, label = REFUSED[expression]
    source = Source("kinds.mgn", f"block f()(x: [n, d]):\n  return {expression}\n")
    reports = pipeline.check(source, lambda _: None).reports
    (report,) = (each for each in reports if each.code != UNUSED)
    assert (report.code, report.headline) == (code, headline)
    assert report.label is not None
    assert report.label.text.split("\n")[0] == label
