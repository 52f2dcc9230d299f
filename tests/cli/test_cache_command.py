"""`meganeura cache`."""

from pathlib import Path

import pytest

from meganeura_dsl.support.disk_cache import DiskCache
from tests.cli.command import Command


def test_it_tells_where_and_how_much_and_removes_it(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    folder = tmp_path / "compiled"
    shown = meganeura("cache")
    assert shown.out.startswith(f"{folder}: 0 files, 0.0 MB of at most 268 MB\n")
    DiskCache(folder).store("0123", bytes(1_000_000))
    assert ": 1 file, 1.0 MB" in meganeura("cache").out
    assert meganeura("cache", "--clear").out == "removed 1 file, 1.0 MB\n"
    assert ": 0 files" in meganeura("cache").out


def test_what_a_library_keeps_is_counted_and_removed_too(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    (tmp_path / "xla").mkdir()
    (tmp_path / "xla" / "jit_step-0123-cache").write_bytes(bytes(2_000_000))
    (tmp_path / "xla" / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    assert f"\n{tmp_path / 'xla'}: 1 file, 2.0 MB\n" in meganeura("cache").out
    (tmp_path / "xla" / "xla_gpu_per_fusion_autotune_cache_dir" / "a").write_bytes(bytes(1_000_000))
    assert f"\n{tmp_path / 'xla'}: 2 files, 3.0 MB\n" in meganeura("cache").out
    assert meganeura("cache", "--clear").out == "removed 2 files, 3.0 MB\n"
    assert "xla" not in meganeura("cache").out.replace(str(tmp_path), "")


def test_weights_from_a_hub_are_counted_and_kept(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    weights = tmp_path / "hub" / "me--net" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(2_000_000))
    line = f"\n{tmp_path / 'hub'}: 1 file, 2.0 MB, downloaded by `meganeura weights get`"
    assert line in meganeura("cache").out
    assert meganeura("cache", "--clear").out == "removed 0 files, 0.0 MB\n"
    assert weights.is_file()


def test_it_tells_that_nothing_is_kept(meganeura: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", "off")
    assert meganeura("cache").out == "nothing is kept: MEGANEURA_CACHE is off\n"


def test_a_second_run_of_a_command_finds_what_the_first_compiled(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    losses: list[str] = []
    kept: list[list[str]] = []
    for _ in range(2):
        arguments = ("train", "digits_mlp", "--device", "cpu", "--set", "epochs=1")
        shown = meganeura(*arguments)
        assert shown.code == 0, shown.err
        losses.append(next(line for line in shown.out.splitlines() if "held out after" in line))
        folder = tmp_path / "cache" / "compiled"
        kept.append(sorted(path.name for path in folder.iterdir()))
    assert len(kept[0]) >= 2, "the step, and the form that measures"
    assert kept[0] == kept[1]
    assert losses[0] == losses[1]
