"""Options that other systems have are answered with the setting they are here."""

import pytest

from tests.cli.command import Command


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--lr", "--set optimizer.lr=1e-3"),
        ("--batch-size", "--set batch=64"),
        ("--epochs", "--set epochs=VALUE"),
        ("--output-dir", "`--out FOLDER`"),
    ],
)
def test_a_setting_that_is_written_as_an_option(option: str, said: str, meganeura: Command) -> None:
    shown = meganeura("train", "digits_mlp", option, "3")
    assert shown.code == 2
    assert f"No such option: {option}" in shown.err
    assert said in shown.err


def test_another_option_is_told_as_before(meganeura: Command) -> None:
    assert "setting" not in meganeura("train", "digits_mlp", "--foo", "3").err
