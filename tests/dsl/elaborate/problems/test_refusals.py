"""Blocks and models that are refused, and the words of the messages."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.problems.refusal import Refusal

REFUSED = [
    Refusal(
        "whole numbers are not trained",
        """
block f()(x: [n, 3]) -> [n, 3]:
  param w: i32[3]
  return x
""",
        "E0307",
        "a trainable parameter holds real numbers",
        "i32",
    ),
    Refusal(
        "only a state is updated",
        """
block f()(x: [n]) -> [n]:
  update s = sum(x)
  return x
model m = f()
""",
        "E0201",
        "nothing here is called `s`",
        "no state of this name",
    ),
    Refusal(
        "a parameter is no state",
        """
block f()(x: [n]) -> [n]:
  param s: [] = 1.0
  update s = sum(x)
  return x
model m = f()
""",
        "E0201",
        "nothing here is called `s`",
        "no state (a parameter is updated by the optimizer) of this name",
    ),
    Refusal(
        "an update has the shape of its state",
        """
block f()(x: [n]) -> [n]:
  state s: [] = 1.0
  update s = x
  return x
model m = f()
""",
        "E0303",
        "`update s` is given another shape than it has",
        "given  f32[n]",
    ),
    Refusal(
        "a block minimizes nothing",
        """
block f()(x: [n]) -> [n]:
  minimize sum(x)
  return x
""",
        "E0124",
        "`minimize` does not belong in a `block`",
        "this belongs in a `train`",
    ),
    *(
        Refusal(
            f"where random numbers are drawn, the seed has its name alone: {name}",
            f"block f()({given}) -> [3]:\n  {statement}return x + counter + random_uniform([3])\n"
            "model m = f()\n",
            "E0216",
            "`counter` is the seed and the step where random numbers are drawn: it needs another "
            "name",
            "",
        )
        for name, given, statement in (
            ("input", "x: [3], counter: [3]", ""),
            ("parameter", "x: [3]", "param counter: [3] = zeros\n  "),
        )
    ),
    Refusal(
        "a text is compared with texts",
        """
block f(kind: text)(x: [n]) -> [n]:
  return 2 * x if kind == 3 else x
""",
        "E0203",
        "this needs something to compare with the text `kind`",
        "this is the size 3",
    ),
    Refusal(
        "a number is compared with no text",
        """
block f(kind: text)(x: [n]) -> [n]:
  return 2 * x if 3 == kind else x
""",
        "E0203",
        "this needs something to compare with the size 3",
        "this is the text `kind`",
    ),
    Refusal(
        "a model is of a block or another model",
        """
def f(x) = 2 * x
model m = f()
""",
        "E0201",
        "nothing here is called `f`",
        "no layer or function of this name",
    ),
    Refusal(
        "a layer is configured once",
        """
block f()(x: [n, 3]) -> [n, 3]:
  x = x |> a: linear(3)
  return x |> a(3)
""",
        "E0202",
        "`a` is applied again, so its configuration is fixed",
        "",
    ),
    Refusal(
        "a rest has one rank",
        """
block g()(x: [...s], y: [...s]) -> [...s] = x + y
block f()(x: [n, 3], y: [n]) -> [n, 3] = g(x=x, y=y)
""",
        "E0302",
        "`y` of `g` needs [...s]",
        "this is f32[n]",
    ),
    Refusal(
        "labels have an axis less",
        """
block f()(x: [n, 3], y: i32[n, 3, 3]) -> [] = cross_entropy(x, y)
""",
        "E0503",
        "labels [n, 3, 3] cannot meet logits [n, 3]",
        "3 axes against 2. Meganeura never stretches an axis of size 1:",
    ),
    Refusal(
        "reals are no whole numbers",
        """
block g()(x: i32[n]) -> i32[n] = x
block f()(x: [n]) -> [n] = x |> g
""",
        "E0307",
        "`x` of `g` is i32",
        "f32[n]",
    ),
    Refusal(
        "the size of an input is whole",
        """
block f()(x: [n, 0.5]) -> [n]:
  return x
""",
        "E0203",
        "this needs a size",
        "this is the number 0.5",
    ),
    Refusal(
        "one tensor has one name",
        """
block f()(x: [n]) -> [n]:
  a, b = x
  return a
""",
        "E0203",
        "this needs 2 values for 2 names",
        "this is the tensor f32[n]",
    ),
    Refusal(
        "two results have two names",
        """
block g()(x: [n]) -> [n], [n]:
  return x, x
block f()(x: [n]) -> [n]:
  a, b, c = x |> g
  return a
""",
        "E0203",
        "this needs 3 values for 3 names",
        "this is 2 results",
    ),
    Refusal(
        "three tensors of a list do not have two names",
        "block f()(x: [n]) -> [n]:\n  a, b = [x, x] + [x]\n  return a\n",
        "E0203",
        "this needs 2 values for 2 names",
        "this is a list of 3 tensors",
    ),
    Refusal(
        "two results do not have one name",
        """
block g()(x: [n]) -> [n], [n]:
  return x, x
block f()(x: [n]) -> [n]:
  a = x |> g
  return a
""",
        "E0203",
        "this needs one value for one name",
        "this is 2 results",
    ),
    Refusal(
        "two results are no number",
        """
block g()(x: [n]) -> [n], [n]:
  return x, x
block f()(x: [n]) -> [n]:
  return (x |> g) + 1
""",
        "E0203",
        "this needs a number",
        "this is 2 results",
    ),
    Refusal(
        "a module has to exist",
        """
from nothing import f
block g()(x: [n]) -> [n] = x
""",
        "E0211",
        "there is no module `nothing`",
        "looked for nothing.mgn",
    ),
    Refusal(
        "a number that is not known decides nothing",
        """
block f(p=0.5)(x: [n]) -> [n]:
  if p > 0.25:
    x = x * -p
  return x
""",
        "E0404",
        "nothing checks `f`",
        "a choice depends on a number the configuration gives, and no model uses it",
    ),
    Refusal(
        "results of several shapes are declared",
        """
block f(k)(x: [n]):
  if k == 1:
    x = insert_axis(x, 0, 2)
  return x
""",
        "E0404",
        "nothing checks `f`",
        "`f` has results of several shapes and declares none, and no model uses it",
    ),
    Refusal(
        "a size that may be negative",
        """
block f()(x: [-n + 5]) -> [5 - n] = x
""",
        "E0305",
        "cannot show for every size that every size of `x` is at least 1",
        "needs 5 - n >= 1",
    ),
    Refusal(
        "a list is known in a model only",
        """
block f(k)(x: [n, k[0]]) -> [n, k[0]] = x
model m = f(k=[1, 2])
""",
        "N0001",
        "`f` is checked in each model that uses it",
        "`k` is a list the configuration gives",
    ),
    *(
        Refusal(
            f"several results are returned by themselves, not {what}",
            "block g()(x: [n]) -> [n], [n]:\n  return x, x + 1\n"
            f"block f()(x: [n]):\n  return {returned}\n",
            "E0203",
            "this needs a tensor to return",
            "this is 2 results",
        )
        for what, returned in (("before others", "g(x), x"), ("behind others", "x, g(x)"))
    ),
    Refusal(
        "there is an end to trying paths",
        "block f(a, b, c, d, e, g, h, i, j, k, l, m)(x: [n]) -> [n]:\n"
        + "".join(f"  if {name} == 1:\n    x = x + 1\n" for name in "abcdeghijklm")
        + "  return x\n",
        "E0404",
        "nothing checks `f`",
        "it has too many paths to prove at once, and no model uses it",
    ),
    Refusal(
        "a parameter does not begin as nothing",
        "block f()(x: [n, 4]) -> [n, 4]:\n  param w: [4]\n  return x * w\n",
        "E0209",
        "`w` has no initial value",
        "",
    ),
    Refusal(
        "a parameter does not begin as a tensor",
        "block f()(x: [n, 4]) -> [n, 4]:\n  param w: [4] = x\n  return x * w\n",
        "E0209",
        "`x` is not an initial value",
        "",
    ),
    Refusal(
        "a parameter does not begin as a text",
        'block f()(x: [n, 4]) -> [n, 4]:\n  param w: [4] = "a"\n  return x * w\n',
        "E0209",
        '`"a"` is not an initial value',
        "",
    ),
    *(
        Refusal(
            f"`{condition}` is no number",
            f"block f(a: bool, c)(x: [n]) -> [n] = x * ({condition}) + (c if a else 1)\n",
            "E0307",
            "a tensor of f32 cannot meet a condition",
            "f32[n]",
        )
        for condition in ("true", "a", "not a", "c > 1", "a and c > 1", "a or c > 1")
    ),
    Refusal(
        "facts about elements are about whole numbers",
        "block f()(x: [n], p: [n]) -> [n] where 0 <= p:\n  return x * p\n",
        "E0203",
        "this needs a condition",
        "this is the tensor bool[n]",
    ),
    Refusal(
        "of several mistakes in a call, the first",
        "block f()(x: [n], y: [n]) -> [n] = x + y\nblock g()(x: [n]) -> [n] = f(x, x, y=3)\n",
        "E0202",
        "`f` needs a tensor as `y`",
        "",
    ),
    Refusal(
        "a shape alone is no shape of truth values",
        "block f()(x: [n]) -> [n] = x\nblock g()(x: bool[n]) -> bool[n] = f(x)\n",
        "E0307",
        "`x` of `f` is f32 or f16",
        "bool[n]",
    ),
    Refusal(
        "f16 is not f32",
        "block f()(x: f32[n]) -> [n] = x\nblock g()(x: f16[n]) -> [n] = f(x)\n",
        "E0307",
        "`x` of `f` is f32",
        "f16[n]",
    ),
]


@pytest.mark.parametrize("refusal", REFUSED, ids=repr)
def test_a_program_is_refused_in_words(refusal: Refusal) -> None:
    refusal.require()


@pytest.mark.parametrize(
    ("parameters", "inputs", "unknown"),
    [
        ("", "y: [n, d], x: [n, d] = 1", ""),
        ("", "x: [n, d] = 1, y: [n, d]", ""),
        ("", "x: [n, d + 1] = 1, y: [n, d]", ""),
        ("m", "x: [m, n] = 1, y: [n]", ""),
        ("", "x: [m, n] = 1, y: [n]", "m"),
        ("", "x: [n, 2 * m] = 1, y: [n]", "2 * m"),
        ("", "y: [n], x: [m, n] = 1, z: [m] = 1", "m"),
        ("", "y: [...s], x: [...s] = 1", ""),
        ("", "y: [n, ...s], x: [n, ...t] = 1", "...t"),
    ],
)
def test_an_input_that_may_be_left_out_has_known_sizes(
    parameters: str, inputs: str, unknown: str
) -> None:
    given = "".join(f" + 0 * sum({name})" for name in "xyz" if f"{name}: " in inputs)
    text = f"block f({parameters})({inputs}) -> []:\n  return 1.0{given}\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    labels = [each.label.text for each in reports if each.label and each.code == "E0203"]
    assert labels == ([f"this is {unknown}"] if unknown else [])


def test_the_index_of_a_loop_is_no_size_that_a_caller_calls_so() -> None:
    """Otherwise `i < j` in the loop and `i >= 5` of the caller would show that `y[4]` is there."""
    text = """\
block g(k)(y: [j, d]) -> [j, d]
    where d >= 1:
  for i in 0..j:
    if k[0] == 1:
      y = y + y[4, 0]
  return y
block f(k)(x: [i, d], y: [j, d]) -> [j, d]
    where i >= 5, d >= 1:
  return (y + sum(x)) |> g(k)
model m = f(k=[1])
"""
    reports = pipeline.check(Source("example.mgn", text), lambda _: None).reports
    (error,) = (each for each in reports if each.code != "N0001")
    assert error.label is not None
    assert (error.code, error.label.text.split("\n")[0]) == ("E0305", "needs 5 <= j")
