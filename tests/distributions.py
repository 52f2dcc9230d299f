"""Installed packages that are nothing but metadata, for tests of what their entry points name."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from meganeura_dsl.plugins import plugin_groups


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
) -> None:
    """Put a package on the path for the rest of a test: entry points by group and name."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(str(folder))
    plugin_groups.entry_points.cache_clear()
