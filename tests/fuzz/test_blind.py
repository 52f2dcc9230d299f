"""Every input of a campaign is counted once, whatever it does to the process that reads it."""

import os
import re
from pathlib import Path

import pytest

from fuzz import blind
from fuzz.mutants import mutant

MIB = 64
"""The memory of the large one."""


@pytest.mark.filterwarnings(r"ignore:.*fork\(\)")  # of JAX, which another test has loaded
def test_workers_that_die_are_followed_by_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inputs = [bytes([each]) for each in range(40)]
    deadly, wrong, large = (mutant("override", seed, inputs) for seed in (13, 18, 21))

    def read(data: bytes) -> str:
        if data == deadly:
            os._exit(3)
        if data == wrong:
            raise ValueError("no message")
        if data == large:
            b"\1" * (MIB << 20)
        return "read"

    monkeypatch.setitem(blind.READERS, "override", read)
    monkeypatch.setattr(blind, "fuzzing_corpus", lambda _: inputs)
    monkeypatch.setattr(blind, "MEMORY", MIB // 2)
    options = ["--blind", "30", "--workers", "2", "--first", "5", "--keep", str(tmp_path)]
    assert blind.fuzz_blindly("override", options) == 1
    said = capfd.readouterr()
    counts = dict(re.findall(r"  (\w+): (\d+) \(", said.out))
    assert counts == {"read": "28", "died": "1", "ValueError": "1"}
    assert "30 mutants" in said.out
    assert "3 ended otherwise than they may" in said.out
    assert re.search(r"the largest took \d+ MiB: seed 21", said.out)
    assert "seed 13: " in said.err
    assert "its worker ended with 3" in said.err
    assert "seed 18: " in said.err
    assert "no message" in said.err
    assert re.search(r"it took \d+ MiB", said.err)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"override-13": deadly, "override-18": wrong, "override-21": large}
