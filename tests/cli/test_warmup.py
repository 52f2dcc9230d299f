"""A warmup that is longer than the run is told before the first step."""

from pathlib import Path

import pytest

from tests.cli.command import Command


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            ("steps=5", "schedule=cosine(warmup=50)"),
            "`schedule = cosine(warmup=50)` and 5 updates; the learning rate reaches 10 % of `lr`",
        ),
        (
            ("steps=4", "accumulate=2", 'schedule["fc1.*"]=linear(warmup=8)'),
            '`schedule["fc1.*"] = linear(warmup=8)` and 2 updates; the learning rate reaches 25 %',
        ),
        (("steps=5", "schedule=cosine(warmup=5)"), None),
    ],
)
def test_a_run_that_ends_within_its_warmup_says_so(
    meganeura: Command, tmp_path: Path, settings: tuple[str, ...], line: str | None
) -> None:
    sets = [word for each in settings for word in ("--set", each)]
    out = str(tmp_path / "run")
    shown = meganeura("train", "digits_mlp", "--device", "cpu", "--out", out, *sets)
    assert shown.code == 0
    assert (line in shown.out + shown.err) if line else "warmup" not in shown.out + shown.err
