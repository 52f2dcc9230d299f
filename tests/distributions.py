"""Installed packages that are nothing but metadata, for tests of what their entry points name."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from meganeura_dsl.plugins import plugin_groups
from meganeura_dsl.plugins.plugin_groups import PluginGroup
from meganeura_dsl.settings.choices import PLUGINS
from meganeura_runtime.backends import registry
from meganeura_runtime.importing import importers

GROUPS: tuple[PluginGroup[Any], ...] = (*PLUGINS.values(), registry.PLUGINS, importers.PLUGINS)


def forget() -> None:
    """Read what is installed, and import it, anew, which a process does once."""
    plugin_groups.entry_points.cache_clear()
    plugin_groups._origins.clear()
    for group in GROUPS:
        group._loaded.clear()
    for name in [each for each in sys.modules if each.startswith("meganeura_example")]:
        del sys.modules[name]


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
    forget()
