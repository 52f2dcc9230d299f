"""Files of choices: what they give back, whom they are for, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics import ProblemError
from meganeura_runtime.device import Device
from meganeura_runtime.kernels.limits import DeviceLimits
from meganeura_runtime.kernels.tile import WIDE
from meganeura_runtime.kernels.way import Fusing, Way
from meganeura_runtime.plan.choices import (
    Choices,
    ChoicesError,
    Found,
    Knowledge,
    Place,
    content_of,
    read_choices,
    read_found,
)
from meganeura_runtime.session.tuned import keep_choices, known_choices, tuned_choices

HERE = Place("Some GPU", "Vulkan, 1.2")
FEW = Fusing(epilogue=0)


def written(
    path: Path,
    ways: dict[str, Way],
    place: Place = HERE,
    fusings: dict[str, Fusing] | None = None,
) -> Path:
    found = {name: Found(way, 1.0, 2.0) for name, way in ways.items()}
    path.write_text(content_of(place, Knowledge(found, fusings or {})))
    return path


def test_a_file_gives_back_what_was_kept(tmp_path: Path) -> None:
    ways = {"a": Way(2, WIDE), "b": Way(1), "c": Way(3, rows=16)}
    path = written(tmp_path / "gpu.json", ways)
    read = read_choices(path, HERE, DeviceLimits(lanes=8))
    assert read.ways == ways
    assert read.name.startswith("gpu.json (")
    assert read_choices(path, HERE, DeviceLimits()).ways == {"a": Way(2, WIDE), "b": Way(1)}


def test_the_name_of_choices_tells_when_they_have_changed(tmp_path: Path) -> None:
    names = {
        read_choices(written(tmp_path / "gpu.json", ways), HERE, DeviceLimits()).name
        for ways in ({"a": Way(2)}, {"a": Way(3)}, {"b": Way(2)}, {"a": Way(2)})
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    "other",
    [
        Place("Another GPU", HERE.driver),
        Place(HERE.adapter, "Vulkan, 1.3"),
        Place(HERE.adapter, HERE.driver, "0.0.0"),
    ],
    ids=str,
)
def test_what_holds_for_another_place_is_refused_and_kept_elsewhere(
    other: Place, tmp_path: Path
) -> None:
    path = written(tmp_path / "gpu.json", {"a": Way(2)}, other)
    with pytest.raises(ChoicesError, match="is of "):
        read_found(path, HERE)
    assert other.file_name != HERE.file_name
    assert HERE.file_name.startswith("some-gpu-")


@pytest.mark.parametrize("cut", [0, 1, 40, -2])
def test_a_file_that_is_cut_short_is_refused(cut: int, tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {"a": Way(2, WIDE)})
    path.write_text(path.read_text()[:cut])
    with pytest.raises(ChoicesError, match="holds no choices"):
        read_found(path, HERE)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {"a": Way(2)})
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "version": 2}))
    with pytest.raises(ChoicesError, match="holds no choices"):
        read_found(path, HERE)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_found(path, HERE)


@pytest.mark.parametrize("odd", [Fusing(-1), Fusing(1 << 20), Fusing(60, 0.0), Fusing(60, -1.0)])
def test_fusing_that_makes_no_sense_is_left(odd: Fusing, tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {}, HERE, {"a": FEW, "b": odd})
    assert read_choices(path, HERE, DeviceLimits()).fusings == {"a": FEW}


# --- what an adapter gets ------------------------------------------------------------------------


@pytest.mark.adapter
def test_what_is_kept_for_an_adapter_is_used_by_its_next_session(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keep_choices(device.info, Knowledge()) is None
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    assert tuned_choices(device.info, device.limits) == (Choices(), "")
    assert known_choices(device.info) == Knowledge()
    known = Knowledge({"a": Found(Way(2), 1.0, 2.0)}, {"step": FEW})
    path = keep_choices(device.info, known)
    assert path is not None
    assert known_choices(device.info) == known
    choices, line = tuned_choices(device.info, device.limits)
    assert choices.ways == {"a": Way(2)}
    assert line == f"kernels as tuned: {path}"
    other = replace(device.info, driver="another")
    assert tuned_choices(other, device.limits) == (Choices(), "")
    path.write_text("{")
    choices, line = tuned_choices(device.info, device.limits)
    assert choices == Choices()
    assert line.startswith("kernels not as tuned: ")
    assert known_choices(device.info) == Knowledge()


@pytest.mark.adapter
def test_a_folder_that_cannot_be_made_is_a_problem(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "file"))
    with pytest.raises(ProblemError, match="E0534"):
        keep_choices(device.info, Knowledge())
