"""Metadata that no parser can read: the package that has it is named, whoever reads it."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from meganeura_dsl.plugins.plugin_groups import malformed_metadata
from meganeura_dsl.settings.choices import PLUGINS
from tests.cli.command import Command
from tests.distributions import install


def installed(site: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    install(monkeypatch, site, "meganeura-broken", {})
    (file,) = site.glob("*.dist-info/entry_points.txt")
    file.write_bytes(content)


def test_a_command_names_the_package(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "site", monkeypatch, b"[console_scripts]\n\xff\n")
    shown = meganeura("explain", "heavy_ball")
    assert shown.code == 1
    package = f"`meganeura-broken` in {tmp_path / 'site'}"
    begin = f"error: `entry_points.txt` of the package {package} is malformed: UnicodeDecodeError"
    assert shown.err.startswith(begin)
    assert shown.err.endswith("help: reinstall or uninstall that package\n")


def test_an_error_of_a_library_that_reads_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "site", monkeypatch, b"[console_scripts]\nno value\n")
    with pytest.raises(TypeError) as raised:
        entry_points(group="plugins.of.a.library")
    assert "package `meganeura-broken` in" in malformed_metadata(raised.value)
    assert malformed_metadata(TypeError("of something else")) == ""


def test_a_name_twice_in_one_package_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        b"[meganeura.optimizers]\ntwice = a:A\ntwice = b:B\nsame = json:dumps\nsame = json:dumps\n"
    )
    installed(tmp_path / "site", monkeypatch, lines)
    assert PLUGINS["optimizer"].names() == ("same",)
    _, errors = PLUGINS["optimizer"].usable()
    reasons = {each.failure.name: (each.failure.owners, each.failure.reason) for each in errors}
    assert reasons["twice"] == (
        ("meganeura-broken 1.0",),
        "its package has several of this name",
    )
