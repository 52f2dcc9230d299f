"""A word in place of a setting's value: the value that it stands for is the first cure."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.problems.setting_problems import LISTS, RULES, TEXTS
from meganeura_dsl.settings.run_settings import SETTINGS

PROGRAM = """\
train fit(x: [batch, 64]):
  minimize mean(x |> fc: linear(1))
  run:
    {line}
"""


def cure(line: str) -> tuple[str, str | None]:
    """The code of the first problem, and the code of its help."""
    problem, *_ = pipeline.check(
        Source("fit.mgn", PROGRAM.format(line=line)), lambda _: None
    ).problems
    report = problem.report()
    return report.code, report.help.code if report.help else None


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("device = cpu", 'device = "cpu"'),
        ("precision = bf16", 'precision = "bf16"'),
        ("precision = f16", 'precision = "f16"'),
        ("data = digits", 'data = "digits"'),
        ("data = digits.npz", 'data = "digits.npz"'),
        ("not_finite = skip", 'not_finite = "skip"'),
        ("optimizer = adam", "optimizer = adam()"),
        ("optimizer = AdamW", "optimizer = adamw()"),
        ('optimizer["fc.*"] = sgd', 'optimizer["fc.*"] = sgd()'),
        ("schedule = cosine", "schedule = cosine()"),
        ("log = wandb", 'log = ["wandb"]'),
    ],
)
def test_a_word_is_given_the_form_of_the_setting(line: str, right: str) -> None:
    assert cure(line) == ("E0201", right)


def test_memory_has_a_unit_in_quotes() -> None:
    assert cure("memory = 8GiB") == ("E0114", 'memory = "8GiB"')


@pytest.mark.parametrize("line", ["epochs = two", "seed = cpu", "log_every = often"])
def test_a_number_is_none_of_these(line: str) -> None:
    assert cure(line) == ("E0201", None)


def test_texts_are_the_settings_that_take_them_without_quotes_elsewhere() -> None:
    assert {name for name, each in SETTINGS.items() if each.is_bare} == TEXTS
    assert {*SETTINGS} >= (RULES | LISTS)
