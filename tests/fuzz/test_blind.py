"""Every input of a campaign is counted once, whatever it does to the process that reads it."""

import os
import re

import pytest

from fuzz import blind
from fuzz.mutants import mutant


@pytest.mark.filterwarnings(r"ignore:.*fork\(\)")  # of JAX, which another test has loaded
def test_workers_that_die_are_followed_by_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs = [bytes([each]) for each in range(40)]
    deadly, wrong = (mutant("override", seed, inputs) for seed in (13, 18))

    def read(data: bytes) -> str:
        if data == deadly:
            os._exit(3)
        if data == wrong:
            raise ValueError("no message")
        return "read"

    monkeypatch.setitem(blind.READERS, "override", read)
    monkeypatch.setattr(blind, "fuzzing_corpus", lambda _: inputs)
    assert blind.fuzz_blindly("override", ["--blind", "30", "--workers", "2", "--first", "5"]) == 1
    said = capfd.readouterr()
    counts = dict(re.findall(r"  (\w+): (\d+) \(", said.out))
    assert counts == {"read": "28", "died": "1", "ValueError": "1"}
    assert "30 mutants" in said.out
    assert "2 ended otherwise than they may" in said.out
    assert "seed 13: " in said.err
    assert "its worker ended with 3" in said.err
    assert "seed 18: " in said.err
    assert "no message" in said.err
