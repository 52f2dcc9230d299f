"""The values of settings: what is a number, text or list, and calls, which are kept as data."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.written_settings import train_settings
from meganeura_dsl.elaborate.values import Invocation, StaticValue

TEXT = """\
def twice(x) = 2 * x
block Part()(x: [n]) -> [n] = x
train fit(x: [batch, 4]):
  minimize mean(x |> fc: linear(1))
  run:
    option = {}
"""


def value_of(written: str) -> StaticValue:
    program = pipeline.check(Source("fit.mgn", TEXT.format(written)), lambda _: None).program
    (setting,) = train_settings(program.module, program.module.trains["fit"]).values()
    return setting.value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2 * 3", 6),
        ("1e-3", 1e-3),
        ('"a"', "a"),
        ("true", True),
        ('[1, "a"]', [1, "a"]),
        ("1 if 2 > 3 else 2", 2),
        ("frozen", Invocation("frozen", {})),
        ("f()", Invocation("f", {})),
        ("f(1, 2 * 3, lr=3)", Invocation("f", {"lr": 3}, (1, 6))),
        ("f(g(1), a=[h(b=2)])", Invocation("f", {"a": [Invocation("h", {"b": 2})]},
            (Invocation("g", {}, (1,)),))),
        ("twice(3)", Invocation("twice", {}, (3,))),
        ("Part()", Invocation("Part", {})),
    ],
)  # fmt: skip
def test_a_setting_is_data(written: str, value: StaticValue) -> None:
    assert value_of(written) == value


@pytest.mark.parametrize(
    "written",
    ["zeros", "Part", "linear", "f(1)(2)", "f()(2)", "1 |> f", "1 |> f(2)", "f([n] -> [n])",
        "f(a=[n] -> [n])", "f(Part)(1)"],
)  # fmt: skip
def test_a_setting_is_no_value_of_a_model(written: str) -> None:
    with pytest.raises(ProblemError) as refused:
        value_of(written)
    report = refused.value.problem.report()
    assert (report.code, report.headline) == ("E0203", "this needs a number, text or list")
