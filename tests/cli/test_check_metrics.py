"""`check` looks up the metrics that settings name, as a run does."""

from pathlib import Path

import pytest

from meganeura.cli.driver.checked_target import check_target

PROGRAM = """\
block Net()(x: [n, 4]) -> [n, 2] = x |> fc: linear(2)
model net = Net()
train fit(x: [batch, 4], y: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    data  = "rows.npz"
    batch = 8
    {setting}
"""
BY_ANOTHER_NAME = "all metrics are of held-out examples: it is `{}` here"


@pytest.mark.parametrize(
    ("setting", "code", "cure"),
    [
        ('schedule = plateau(metric="val_loss")', "E0545", BY_ANOTHER_NAME.format("loss")),
        ('schedule = plateau(metric="acc")', "E0545", "did you mean `accuracy`?"),
        ('schedule["fc.*"] = plateau(metric="lost")', "E0545", "did you mean `loss`?"),
        ('best = "highest val_accuracy"', "E0549", BY_ANOTHER_NAME.format("accuracy")),
        ('best = "highest acuracy"', "E0549", "did you mean `accuracy`?"),
        (
            'best = "lowest mae"',
            "E0549",
            "name one of these, or measure it by a line of the `train` block",
        ),
    ],
)
def test_a_metric_that_is_not_there_is_refused(
    setting: str, code: str, cure: str, tmp_path: Path
) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM.format(setting=setting))
    (report,) = check_target(str(file)).reports
    assert report.help is not None
    assert (report.code, report.help.text) == (code, cure)


@pytest.mark.parametrize(
    "setting",
    ['best = "highest accuracy"', 'schedule = plateau(metric="accuracy")', "schedule = plateau()"],
)
def test_a_metric_that_is_there_is_accepted(setting: str, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM.format(setting=setting))
    assert not check_target(str(file)).reports
