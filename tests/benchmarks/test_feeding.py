"""The benchmark of feeding, on as little as it takes."""

from pathlib import Path

import pytest

from benchmarks import feeding


def rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def test_it_measures_how_long_a_device_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feeding.main(["write", str(tmp_path), "--count", "42", "--processes", "1"])
    options = ["--batch", "4", "--step", "1", "--workers", "1"]
    feeding.main(["pictures", "--folder", str(tmp_path), *options])
    text = capsys.readouterr().out
    found = rows(text)
    assert found[2][:2] == ["1", "17"]  # of two epochs of 11 steps, but for the first five
    assert float(found[2][4].removesuffix(" ms")) > 0
    assert "of 42 pictures, 0 came more or less than 2 times" in text


def test_it_measures_memory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "SHARD_ROWS", 320)
    feeding.main(["shards", "--gigabytes", "0.01"])
    found = rows(capsys.readouterr().out)
    assert [each[0] for each in found[2:]][-1] == "100%"
    assert all(float(each[1].split()[0]) > 10 for each in found[2:])


def test_it_measures_what_an_iterator_costs(capsys: pytest.CaptureFixture[str]) -> None:
    feeding.main(["iterator", "--steps", "8", "--step", "1"])
    found = rows(capsys.readouterr().out)
    assert [each[0] for each in found[2:]] == ["0.025 MB", "0.39 MB", "3.5 MB", "19 MB"]
    assert all(float(each[1].removesuffix(" ms")) > 0.9 for each in found[2:])
