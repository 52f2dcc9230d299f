"""Options that other systems have are answered with the setting they are here."""

import pytest

from tests.cli.command import Command


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--lr", "--set optimizer.lr=3"),
        ("--learning-rate", "--set optimizer.lr=3"),
        ("--weight-decay", "--set optimizer.weight_decay=3"),
        ("--batch-size", "--set batch=3"),
        ("--epochs", "--set epochs=3"),
        ("--steps", "--set steps=3"),
        ("--optimizer", "--set optimizer=3"),
        ("--gpu", "--set device=wgpu"),
        ("--eval-steps", "--set eval_every_steps=3"),
        ("--output-dir", "`--out FOLDER`"),
    ],
)
def test_a_setting_that_is_written_as_an_option(option: str, said: str, meganeura: Command) -> None:
    shown = meganeura("train", "digits_mlp", option, "3")
    assert shown.code == 2
    assert f"No such option: {option}" in shown.err
    assert said in shown.err
    assert "Possible options" not in shown.err, "what is spelled like it does something else"
    joined = meganeura("train", "digits_mlp", f"{option}=3")
    assert joined.err == shown.err


def test_a_value_that_is_missing_or_no_number_is_not_made_up(meganeura: Command) -> None:
    assert "--set epochs=VALUE\n" in meganeura("train", "digits_mlp", "--epochs").err
    assert "--set epochs=VALUE\n" in meganeura("train", "digits_mlp", "--epochs", "-o", "x").err
    assert "--set epochs=-1\n" in meganeura("train", "digits_mlp", "--epochs", "-1").err
    assert "--set optimizer.lr=1e-3\n" in meganeura("train", "digits_mlp", "--lr", "high").err
    shown = meganeura("train", "digits_mlp", "--optimizer", "sgd(lr=0.1)")
    assert "--set 'optimizer=sgd(lr=0.1)'\n" in shown.err


def test_another_option_is_told_as_before(meganeura: Command) -> None:
    assert "setting" not in meganeura("train", "digits_mlp", "--foo", "3").err
