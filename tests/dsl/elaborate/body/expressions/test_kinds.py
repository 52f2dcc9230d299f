"""Words of messages for the kind that an expression needs, and for the one that it gets."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.typecheck.static_arithmetic import combine
from meganeura_dsl.elaborate.values import Axes
from tests.folded import each_of

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
    "2.5 // 2": ("E0203", "this needs a tensor to return", "this is the size 1"),
    "2.5 % 2": ("E0203", "this needs a tensor to return", "this is the number 0.5"),
    "1.5 ** 2": ("E0203", "this needs a tensor to return", "this is the number 2.25"),
    "x % 2": (
        "E0307",
        "`%` divides sizes, and tensors of whole numbers by sizes",
        "the tensor f32[n, d] and the size 2",
    ),
    "x // 2": (
        "E0307",
        "`//` divides sizes, and tensors of whole numbers by sizes",
        "the tensor f32[n, d] and the size 2",
    ),
    "f32(iota(n) // 0)": (
        "E0305",
        "cannot show for every size that `divisor` of `//` is at least 1",
        "needs 0 >= 1",
    ),
    "iota(n) // 2.5": (
        "E0307",
        "`//` divides sizes, and tensors of whole numbers by sizes",
        "the tensor i32[n] and the number 2.5",
    ),
    "cumsum(x)": ("E0202", "`cumsum` needs `axis`", ""),
    "cumprod(x, 2)": ("E0302", "axis 2 needs an axis that exists", "this is of 2 axes"),
    "-sort(x)": ("E0203", "this needs a number", "this is 2 results"),
    "sort(x, descending=2)": (
        "E0203",
        "this needs true or false as `descending`",
        "this is the size 2",
    ),
    "top_k(x)": ("E0202", "`top_k` needs `k`", ""),
    "one_hot(x, 2)": (
        "E0203",
        "this needs a tensor of whole numbers",
        "this is the tensor f32[n, d]",
    ),
    "any(x)": ("E0203", "this needs a bool tensor", "this is the tensor f32[n, d]"),
    "all(x, 1)": ("E0203", "this needs a bool tensor", "this is the tensor f32[n, d]"),
    "scatter_max(iota(n), x, n)": ("E0202", "`scatter_max` needs `empty`", ""),
    'scatter_min(iota(n), x, n, empty="a")': (
        "E0203",
        "this needs a number as `empty`",
        'this is the text "a"',
    ),
    "gather(x, iota(n), batch=-1)": (
        "E0203",
        "this needs a number of axes as `batch`",
        "this is the size -1",
    ),
    "constant(3.0)": (
        "E0203",
        "this needs a list of numbers, or of lists of numbers, in brackets",
        "this is the number 3.0",
    ),
    "constant([x, x])": (
        "E0203",
        "this needs a list of numbers, or of lists of numbers, in brackets",
        "this is a list of 2 tensors",
    ),
    "constant([[1.0, 2.0], [3.0]])": (
        "E0202",
        "`constant` needs lists of one length, and entry 1 is not like entry 0",
        "",
    ),
    "constant([1.0, true])": (
        "E0202",
        "`constant` has numbers and truth values in one list",
        "",
    ),
    'constant([1, "a"])': (
        "E0203",
        "this needs a number of the program in the list",
        'this is the text "a"',
    ),
    "roll(x, 1, 0.5)": (
        "E0203",
        "this needs a size or a tensor i32[] as `by`",
        "this is the number 0.5",
    ),
    "roll(x, 1, iota(n))": (
        "E0203",
        "this needs a size or a tensor i32[] as `by`",
        "this is the tensor i32[n]",
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
    "x or true": ("E0320", "`or` takes bool, not f32", "f32[n, d]"),
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
        "cannot show for every size that `x[a:b]` keeps at least one element",
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
    "stop_gradient()": ("E0202", "`stop_gradient` needs another tensor", ""),
    "zeros()": ("E0202", "`zeros` needs `shape`", ""),
    "x @ 2": ("E0203", "this needs tensors around `@`", "this is the size 2"),
    "2 @ 3": ("E0203", "this needs tensors around `@`", "this is the size 2"),
    "2.5 @ 2": ("E0203", "this needs tensors around `@`", "this is the number 2.5"),
    'x ** "a"': ("E0203", "this needs a number right of `**`", 'this is the text "a"'),
    "[x] ** x": ("E0203", "this needs a number left of `**`", "this is a list of 1 tensor"),
    "2 ** i32(x)": ("E0307", "`**` takes floats", "i32[n, d]"),
    "(x > 0) ** 2": (
        "E0307",
        "`**` takes floats on its left",
        "bool[n, d]",
    ),
    "[x]": ("E0203", "this needs a tensor to return", "this is a list of 1 tensor"),
    "[x, 1]": ("E0203", "this needs a tensor in a list of tensors", "this is the size 1"),
    "[1, x]": ("E0203", "this needs a number or a size in a list", "this is the tensor f32[n, d]"),
    "[x] + [1]": ("E0203", "this needs lists of tensors around `+`", "this is a list of 1"),
    "[x] * 2": ("E0203", "this needs lists of tensors around `+`", "this is a list of 1 tensor"),
    "[x][1]": ("E0203", "this needs an index of a list of 1", "this is 1"),
    "concat([], axis=0)": ("E0202", "`concat` needs at least one tensor", ""),
    "x + [x]": ("E0307", "a tensor of f32 cannot meet a list of 1 tensor", "f32[n, d]"),
    "(x + 1).weight": ("E0203", "this needs a parameter's path", "this is (x + 1).weight"),
    "x[n].weight": ("E0203", "this needs a parameter's path", "this is x[n].weight"),
    "x[1].weight": ("E0201", "nothing here is called `x.1.weight`", "no parameter of this name"),
    "[1, 2][0, 1]": ("E0203", "this needs one index", "this is 2 of them"),
    "[1, 2][n]": (
        "E0404",
        "nothing checks `f`",
        "`n` is an index the configuration gives, and no model uses it",
    ),
    'where(x > 0, 1, "a")': ("E0203", "this needs tensors or numbers", 'this is the text "a"'),
    "sum(x, 0, 0)": ("E0202", "`sum` names an axis twice", ""),
    "sum(n)": (
        "E0404",
        "nothing checks `f`",
        "`sum` needs the list the configuration gives, and no model uses it",
    ),
    "sum(x, [n, d] -> [d, n])": (
        "E0304",
        "a reduction keeps some axes of the source, in order",
        "f32[n, d]",
    ),
    "product(n)": (
        "E0404",
        "nothing checks `f`",
        "`product` needs the list the configuration gives, and no model uses it",
    ),
    "product([n, d])": ("E0203", "this needs a tensor to return", "this is the size d*n"),
    "maximum(1, 2)": ("E0203", "this needs a tensor", "this is the size 1"),
    "max(n, 2)": (
        "E0404",
        "nothing checks `f`",
        "`max` of sizes the configuration gives, and no model uses it",
    ),
    "n ** 99": ("E0203", "this needs an exponent up to 32", "this is the size 99"),
    "expand(x, [n, d] -> [d, n])": (
        "E0304",
        "expand keeps every axis of the source, in order",
        "f32[n, d]",
    ),
    "rearrange(x, [n, d] -> [n, d, ...r])": (
        "E0304",
        "`...r` is not on the left side",
        "[n, d] -> [n, d, ...r]",
    ),
    "rearrange(x, [n, d] -> [d, n, n])": (
        "E0304",
        "the two sides of the rearrangement hold different axes",
        "f32[n, d]",
    ),
    "zeros(3)": ("E0203", "this needs a list of sizes", "this is the size 3"),
    'zeros(["a"])': ("E0203", "this needs a list of sizes", 'this is the text "a"'),
    "zeros(-shape(x))": (
        "E0305",
        "cannot show for every size that `shape` of `expand` is at least 1",
        "needs -n >= 1",
    ),
    'full([n], "a")': ("E0203", "this needs a number", 'this is the text "a"'),
    "conv(rearrange(x, [n, d] -> [n, 1, d]), zeros([1, 1, 1]), stride=[1, 2])": (
        "E0203",
        "this needs a size, or a list of 1 sizes, as `stride`",
        "this is a list of 2",
    ),
    'conv(rearrange(x, [n, d] -> [n, 1, d]), zeros([1, 1, 1]), stride=["a"])': (
        "E0203",
        "this needs a size, or a list of 1 sizes, as `stride`",
        "this is a list of 1",
    ),
    "concat(axis=0)": ("E0202", "`concat` needs at least one tensor", ""),
    "relu(x, x)": ("E0202", "`relu` takes 1 tensor, and got 1 more", ""),
    'relu(x="a")': ("E0202", "`relu` needs a tensor as `x`", ""),
    "exp(x, y=2)": ("E0202", "`exp` has no argument `y`", ""),
    "exp([n, d] -> [d, n])": (
        "E0203",
        "this needs a tensor or a number",
        "this is a rearrangement",
    ),
    "shape(x)": ("E0203", "this needs a tensor to return", "this is the axes [n, d]"),
    "shape(x) * 0.5": ("E0203", "this needs sizes", "this is the axes [n, d]"),
    "x if n < 0.5 else x": (
        "E0404",
        "nothing checks `f`",
        "a choice compares a size with a number that is not whole, and no model uses it",
    ),
    'int("a")': ("E0203", "this needs a number", 'this is the text "a"'),
    "shape(x) + shape(sum(x, 0))": (
        "E0203",
        "this needs as many axes as 2",
        "this is the axes [d]",
    ),
    "- -n": ("E0203", "this needs a tensor to return", "this is the size n"),
    "sum(x, true)": ("E0203", "this needs the number of an axis", "this is a condition"),
    "gather(x, iota(n), batch=true)": (
        "E0203",
        "this needs a number of axes as `batch`",
        "this is a condition",
    ),
    "gather(x, iota(n), batch=n)": (
        "E0203",
        "this needs a number of axes as `batch`",
        "this is the size n",
    ),
    "abs(true)": ("E0203", "this needs a tensor or a number", "this is a condition"),
    "where(x > 0, 1, true)": ("E0203", "this needs tensors or numbers", "this is a condition"),
    'max("a", n)': (
        "E0203",
        "this needs a tensor, numbers or a list of numbers",
        'this is the text "a"',
    ),
    "max(2 ** -n, 2)": (
        "E0404",
        "nothing checks `f`",
        "`max` of sizes the configuration gives, and no model uses it",
    ),
    "min(3, n)": (
        "E0404",
        "nothing checks `f`",
        "`min` of sizes the configuration gives, and no model uses it",
    ),
    "min([])": (
        "E0203",
        "this needs a tensor, numbers or a list of numbers",
        "this is a list of 0",
    ),
    "sum([2 ** -n, 1])": ("E0203", "this needs a tensor to return", "this is a number"),
    "mean([1, 2])": ("E0203", "this needs a tensor", "this is a list of 2"),
    "max([3, 5], 1)": (
        "E0203",
        "this needs a tensor, numbers or a list of numbers",
        "this is a list of 2",
    ),
    "int(2 ** -n)": (
        "E0404",
        "nothing checks `f`",
        "a size is rounded from a number the configuration gives, and no model uses it",
    ),
    "0.5 + shape(x)": ("E0203", "this needs sizes", "this is the number 0.5"),
    '1.5 < "a"': (
        "E0203",
        "this needs something to compare with the number 1.5",
        'this is the text "a"',
    ),
    '"a" == [1]': (
        "E0203",
        'this needs something to compare with the text "a"',
        "this is a list of 1",
    ),
    '[1] == "a"': (
        "E0203",
        "this needs something to compare with a list of 1",
        'this is the text "a"',
    ),
    "[1] < [2]": (
        "E0203",
        "this needs something to compare with a list of 1",
        "this is a list of 1",
    ),
    "true < false": (
        "E0203",
        "this needs something to compare with a condition",
        "this is a condition",
    ),
    "true < 2": ("E0203", "this needs something to compare with a condition", "this is the size 2"),
    "(n == 2) < (d == 3)": (
        "E0203",
        "this needs something to compare with a condition",
        "this is a condition",
    ),
    "0.5 < n": (
        "E0404",
        "nothing checks `f`",
        "a choice compares a size with a number that is not whole, and no model uses it",
    ),
    'n == "a"': (
        "E0404",
        "nothing checks `f`",
        'a choice compares `n` with the text "a", and no model uses it',
    ),
    "[1] * true": ("E0203", "this needs a number", "this is a list of 1"),
    "2 * true": ("E0203", "this needs a number", "this is a condition"),
    "0.5 * true": ("E0203", "this needs a number", "this is a condition"),
    "[1] - [2]": ("E0203", "this needs a number", "this is a list of 1"),
    "[1] and true": ("E0203", "this needs a condition", "this is a list of 1"),
    "(-8) ** 1.5": (
        "E0203",
        "this needs a whole exponent of a negative number",
        "this is the number 1.5",
    ),
    "(-8.0) ** 3": ("E0203", "this needs a tensor to return", "this is the number -512.0"),
    "x ** true": (
        "E0203",
        "this needs a number right of `**`",
        "this is a condition",
    ),
    "sum(x) @ x": ("E0302", "`@` needs two tensors with axes", "this is the tensor f32[]"),
    "x @ sum(x)": ("E0302", "`@` needs two tensors with axes", "this is the tensor f32[]"),
    "iota(n) + 0.5": ("E0307", "a tensor of i32 cannot meet the number 0.5", "i32[n]"),
    "i32(x) + true": ("E0307", "a tensor of i32 cannot meet a condition", "i32[n, d]"),
    "x + true": ("E0307", "a tensor of f32 cannot meet a condition", "f32[n, d]"),
    "(x > 0) == 1": ("E0307", "a tensor of bool cannot meet the size 1", "bool[n, d]"),
    "7 // iota(n)": (
        "E0307",
        "`//` divides sizes, and tensors of whole numbers by sizes",
        "the size 7 and the tensor i32[n]",
    ),
    "iota(n) // true": (
        "E0307",
        "`//` divides sizes, and tensors of whole numbers by sizes",
        "the tensor i32[n] and a condition",
    ),
    "concat(f16(x), x, i32(x), axis=0)": (
        "E0320",
        "`concat` takes operands of one element type, not f32 and i32",
        "f32[n, d]",
    ),
    "sum(x, 1) + x": (
        "E0301",
        "the two sides of `+` have different shapes",
        "sum(x, 1): [n]",
    ),
    "x + sum(x, 1)": (
        "E0301",
        "the two sides of `+` have different shapes",
        "x: [n, d]",
    ),
    "constant([[]])": (
        "E0203",
        "this needs a list of numbers, or of lists of numbers, in brackets",
        "this is a list of 0",
    ),
    "zeros([n], 2)": ("E0202", "`zeros` got 1 argument too many", ""),
    "exp(x, 2, 3)": ("E0202", "`exp` got 2 arguments too many", ""),
    "where(x > 0, x, x, x)": ("E0202", "`where` got 1 argument too many", ""),
    "cumsum(x, 0, axis=1)": ("E0202", "`cumsum` got `axis` twice", ""),
    "pad(x, 0, 1, before=2)": ("E0202", "`pad` got `before` twice", ""),
    "gather(x, iota(n), 0, axis=0)": ("E0202", "`gather` got `axis` twice", ""),
}
"""Expressions of a block of x: f32[n, d]; the code, the headline and the label of the refusal."""


@each_of("expression", REFUSED)
def test_an_expression_of_another_kind_is_refused(expression: str) -> None:
    code, headline, label = REFUSED[expression]
    source = Source("kinds.mgn", f"block f()(x: [n, d]):\n  return {expression}\n")
    reports = pipeline.check(source, lambda _: None).reports
    (report,) = (each for each in reports if each.code != UNUSED)
    assert (report.code, report.headline) == (code, headline)
    assert report.label is not None
    assert report.label.text.split("\n")[0] == label


@pytest.mark.parametrize("size", ["n[0]", "n[0][1]", "len(n)", "product(n)", "n[n]"])
@pytest.mark.parametrize(
    "text",
    [
        "expect cross_entropy maps [n, c], i32[{}] -> []",
        "expect cross_entropy maps [n, c], i32[n] -> [{}]",
        "expect cross_entropy maps [n, c], i32[n] -> [] where {} > 1",
        "train fit(x: [n, {}]):\n  minimize mean(x)",
        "train fit(x: [n, d]) where {} > 2:\n  minimize mean(x)",
        "train fit(x: [n, d]):\n  y = x |> fc: linear({})\n  minimize mean(y)",
    ],
)
def test_where_no_configuration_is_to_come_a_size_is_no_list(text: str, size: str) -> None:
    source = Source("x.mgn", text.format(size) + "\n")
    result = pipeline.check(source, lambda _: None)
    assert not result.fine
    assert "E0203" in {report.code for report in result.reports}


def test_axes_differ_where_any_of_them_does() -> None:
    for other, differ in ((2, 3), False), ((2, 4), True), ((4, 5), True):
        left, right = Axes((2, 3)), Axes(other)
        assert combine("!=", left, right) is differ
        assert combine("==", left, right) is not differ
