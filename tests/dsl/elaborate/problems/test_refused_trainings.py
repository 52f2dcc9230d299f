"""Trainings and settings that are refused, and the words of the messages."""

import pytest

from tests.dsl.elaborate.problems.refusal import Refusal

REFUSED = [
    Refusal(
        "a parameter has one objective",
        """
train t(x: [b, 3]):
  y = x |> m: linear(1)
  minimize sum(y)
  minimize mean(y)
  run:
    data = "digits"
    batch = 2
""",
        "E0508",
        "`m.weight` is moved twice",
        "moves `m.weight`",
    ),
    Refusal(
        "a training knows its axes",
        """
train t(x: [b, ...s]):
  minimize sum(x)
  run:
    data = "digits"
""",
        "E0216",
        "a rest cannot stand in the inputs of a `train` block",
        "",
    ),
    *(
        Refusal(
            f"what a run feeds is no data: {name}",
            f"train t({name}: [batch, 3]):\n  minimize mean({name} |> fc: linear(1))\n",
            "E0216",
            f"`{name}` is fed by the run: it needs another name",
            "",
        )
        for name in ("counter", "learning_rate")
    ),
    *(
        Refusal(
            f"what a record says is no metric: {name}",
            "train t(x: [batch, 3]):\n  y = x |> fc: linear(1)\n  minimize mean(y)\n"
            f"  metric {name} = mean(y)\n",
            "E0216",
            f"`{name}` is in the records of a run: the metric needs another name",
            "",
        )
        for name in ("kind", "step", "epoch", "learning_rate", "steps_per_second")
    ),
    *(
        Refusal(
            f"what a training has itself is no parameter: {name}",
            f"train t(x: [batch, 3]):\n  {statement}\n  minimize mean(y)\n",
            "E0216",
            f"`{name}` is the training's own: it needs another name",
            "",
        )
        for name, statement in (
            ("optimizer.weight", "y = x |> optimizer: linear(1)"),
            ("learning_rate", "param learning_rate: [3] = zeros\n  y = x * learning_rate"),
            ("counter", "param counter: [3] = zeros\n  y = x * counter"),
        )
    ),
    Refusal(
        "a setting is no rearrangement",
        """
train t(x: [b, 3]):
  y = x |> m: linear(1)
  minimize sum(y)
  run:
    data = "digits"
    batch = 2
    optimizer = adam([n] -> [n])
""",
        "E0203",
        "this needs a number, text or list",
        "this is adam([n] -> [n])",
    ),
    Refusal(
        "a setting is given once",
        """
train t(x: [b, 3]):
  y = x |> m: linear(1)
  minimize sum(y)
  run:
    data = "digits"
    batch = 2
    batch = 4
""",
        "E0216",
        "`batch` is set twice",
        "",
    ),
    Refusal(
        "a setting reads no sizes",
        """
train t(x: [b, 3]):
  y = x |> m: linear(1)
  minimize sum(y)
  run:
    data = "digits"
    batch = 2
    epochs = b
""",
        "E0201",
        "nothing here is called `b`",
        "no value of this name",
    ),
    *(
        Refusal(
            f"the loss is no metric, {where} what is minimized",
            f"train fit(x: [batch, 4]):\n  y = x |> fc: linear(1)\n{text}",
            "E0216",
            "`loss` is measured twice",
            "",
        )
        for where, text in (
            ("before", "  metric loss = mean(y)\n  minimize mean(y ** 2)\n"),
            ("behind", "  minimize mean(y ** 2)\n  metric loss = mean(y)\n"),
            ("without", "  metric loss = mean(y)\n"),
        )
    ),
]


@pytest.mark.parametrize("refusal", REFUSED, ids=repr)
def test_a_program_is_refused_in_words(refusal: Refusal) -> None:
    refusal.require()
