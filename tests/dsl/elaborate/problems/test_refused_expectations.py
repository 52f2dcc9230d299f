"""Expectations that are refused or advised, and the words of the messages."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.problems.refusal import Refusal

REFUSED = [
    Refusal(
        "an expected size has to be one of an input",
        """
block f(w)(x: [n, w]) -> [n, w]:
  return 2 * x
expect f(w=2) maps [n, 2] -> [m, 2]
""",
        "E0401",
        "what `f` maps to is not as expected",
        "expected f32[m, 2]",
    ),
    Refusal(
        "an expectation names what it configures",
        """
block f(a)(x: [n]) -> [n] = a * x
model m = f(2)
expect m(3) has 0 params
""",
        "E0203",
        "this needs a named configuration",
        "this is 3",
    ),
    Refusal(
        "an expectation has all results",
        """
block f()(x: [n]) -> [n], [n]:
  return x, x
model m = f()
expect m maps [n] -> [n]
""",
        "E0401",
        "`m` is not as expected",
        "expected 1 result",
    ),
    Refusal(
        "an expectation has all axes",
        """
block f()(x: [n]) -> [n] = x
model m = f()
expect m maps [n] -> [n, 1]
""",
        "E0401",
        "what `m` maps to is not as expected",
        "expected f32[n, 1]",
    ),
    Refusal(
        "an expectation has the element type",
        """
block f()(x: [n]) -> [n] = x
model m = f()
expect m maps [n] -> i32[n]
""",
        "E0401",
        "what `m` maps to is not as expected",
        "expected i32[n]",
    ),
    Refusal(
        "an expectation has all inputs",
        """
block f()(x: [n]) -> [n] = x
model m = f()
expect m maps [n], [n] -> [n]
""",
        "E0401",
        "the input of `m` is not as expected",
        "expected [n], [n]",
    ),
    Refusal(
        "an input that the model does not declare is said at the expectation",
        """
block f()(x: [n, 1, 512]) -> [n, 512] = x[:, 0]
model m = f()
expect m maps [n, 512] -> [n, 512]
""",
        "E0401",
        "the input of `m` is not as expected",
        "expected [n, 512]",
    ),
    Refusal(
        "what is said of a block is not said of another configuration of it",
        "block f(k, j)(x: [n]) -> [n] = k * j * x\n"
        "expect f(k=2, j=3) maps [n] -> [n]\nexpect f(j=3, k=2) has 0 params\n"
        "expect f(k=3, j=2) has 0 params\n",
        "E0203",
        "this needs a model, or a block whose `expect ... maps` stands above",
        "this is `f`",
    ),
]


@pytest.mark.parametrize("refusal", REFUSED, ids=repr)
def test_a_program_is_refused_in_words(refusal: Refusal) -> None:
    refusal.require()


def test_a_fact_that_fails_for_the_sizes_of_an_expectation_is_reported_there() -> None:
    """The model holds: its line is not where the mistake is."""
    text = (
        "block f()(x: [n, h]) -> [n, h // 2] where h % 2 == 0 = x[:, :h // 2]\n"
        "model m = f()\n"
        "expect m maps [n, 7] -> [n, 3]\n"
    )
    (report,) = pipeline.check(Source("example.mgn", text), lambda _: None).reports
    assert report.code == "E0311"
    assert report.label is not None
    assert report.label.span.line == 3


@pytest.mark.parametrize(
    ("expected", "fine"),
    [
        ("1 param", False),
        ("2 params", True),
        ("3 params", False),
        ("6 weights", True),
        ("1 weight", False),
        ("1 state", True),
        ("2 states", False),
        ("2 params, 6 weights, 1 state", True),
        ("2 params, 6 weights, 2 states", False),
    ],
)
def test_what_a_model_has_is_counted(expected: str, *, fine: bool) -> None:
    text = """\
block f()(x: [n, 2]) -> [n, 2]:
  state s: [3] = 0.0
  update s = s + sum(x)
  return x |> fc: linear(2)
model m = f()
expect m has """
    result = pipeline.check(Source("example.mgn", f"{text}{expected}\n"), lambda _: None)
    assert [each.code for each in result.reports] == ([] if fine else ["E0401"])


def test_what_is_counted_is_that_of_each_configuration() -> None:
    text = """\
block f(k, j=1)(x: [n, 4]) -> [n, j * k] = x |> fc: linear(j * k)
expect f(k=2) maps [n, 4] -> [n, 2]
expect f(k=3) maps [n, 4] -> [n, 3]
expect f(k=3, j=2) maps [n, 4] -> [n, 6]
expect f(k=2) has 10 weights
expect f(k=3) has 15 weights
expect f(j=2, k=3) has 30 weights
expect f(k=3) has {} weights
"""
    for number, said in ((15, []), (30, ["E0401"]), (10, ["E0401"])):
        result = pipeline.check(Source("example.mgn", text.format(number)), lambda _: None)
        assert [each.code for each in result.reports] == said
        assert result.holds == 7 - len(said)


EACH = "for i in 0..len(m):\n    x = x + m[i]\n  "


@pytest.mark.parametrize(
    ("parameters", "body", "maps", "advice"),
    [
        ("m: list", f"{EACH}return x", "[n, d] -> [n, d]", "(m=[8, 4]) maps [n, d] -> [n, d]"),
        ("m", f"{EACH}return x", "[n, d] -> [n, d]", "(m=[8, 4]) maps [n, d] -> [n, d]"),
        ("m", "return x * m[0]", "[n, d] -> [n, d]", "(m=[8, 4]) maps [n, d] -> [n, d]"),
        ("m", "return x * sum(m)", "[n, d] -> [n, d]", "(m=[8, 4]) maps [n, d] -> [n, d]"),
        ("m", "return x * product(m)", "[n, d] -> [n, d]", "(m=[8, 4]) maps [n, d] -> [n, d]"),
        ("m", "return x * sum(m)", "[n, d] -> [n, d * m[1]]", "(m=[8, 4]) maps [n, d] -> [n, 4*d]"),
        ("k, m", f"{EACH}return k * x", "[n] -> [n]", "(k=8, m=[8, 4]) maps [n] -> [n]"),
        ("k, m", f"{EACH}return x", "[n] -> [n * k]", "(k=8, m=[8, 4]) maps [n] -> [8*n]"),
        ("k=3, m=[2]", f"{EACH}return x", "[n] -> [n * k]", " maps [n] -> [3*n]"),
        (
            "f, m",
            f"if f:\n    x = -x\n  {EACH}return x",
            "[n] -> [n]",
            "(f=true, m=[8, 4]) maps [n] -> [n]",
        ),
        ("f: bool, m", f"{EACH}return x", "[n] -> [n]", "(f=true, m=[8, 4]) maps [n] -> [n]"),
        ("f: real, m", f"{EACH}return x", "[n] -> [n]", "(f=1.0, m=[8, 4]) maps [n] -> [n]"),
        ("f: int, m", f"{EACH}return x", "[n] -> [n]", "(f=0, m=[8, 4]) maps [n] -> [n]"),
        ("f: size, m", f"{EACH}return x", "[n] -> [n]", "(f=8, m=[8, 4]) maps [n] -> [n]"),
        ("f: text, m", f"{EACH}return x", "[n] -> [n]", '(f="a", m=[8, 4]) maps [n] -> [n]'),
        ('f: "p" or "q", m', f"{EACH}return x", "[n] -> [n]", '(f="p", m=[8, 4]) maps [n] -> [n]'),
        (
            "f: list[3], m",
            f"{EACH}return x",
            "[n] -> [f[2]]",
            "(f=[8, 4, 4], m=[8, 4]) maps [n] -> [4]",
        ),
        ("f: list[1], m", f"{EACH}return x", "[n] -> [f[0]]", "(f=[8], m=[8, 4]) maps [n] -> [8]"),
        ("m", f"{EACH}return x", "[...b, d] -> [...b, d]", "(m=[8, 4]) maps [b, d] -> [b, d]"),
        ("m", f"{EACH}return x", "any[n] -> [n]", "(m=[8, 4]) maps [n] -> [n]"),
        ("m", f"{EACH}return x", "i32[n] -> i32[n]", "(m=[8, 4]) maps i32[n] -> i32[n]"),
        (
            "m",
            f"{EACH}return x, f16(x)",
            "[n] -> [n], f16[n]",
            "(m=[8, 4]) maps [n] -> [n], f16[n]",
        ),
        ("m", f"{EACH}return x", "[n] ->", "(m=[8, 4]) maps [n] -> [...]"),
        ("m", f"{EACH}return x", "[m[5]] -> [n]", "(m=[8, 4]) maps [m[5]] -> [n]"),
    ],
)
def test_an_expectation_that_is_advised_has_an_example_of_each_kind(
    parameters: str, body: str, maps: str, advice: str
) -> None:
    taken, _, given = maps.partition(" ->")
    result = f" ->{given}" if given else ""
    text = f"block Net({parameters})(x: {taken}){result}:\n  {body}\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    codes = [each.help.code for each in reports if each.code == "E0404" and each.help]
    assert codes == [f"expect Net{advice}"]
