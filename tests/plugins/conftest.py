"""Installs the package of tests/example_plugins as `pip install` would, for one test."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from meganeura_dsl.reference.lookup import pages, reference
from tests.cli.conftest import meganeura
from tests.distributions import forget, install

__all__ = ["meganeura"]

EXAMPLE = Path(__file__).parents[1] / "example_plugins"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clears the list of installed plugins, which a process reads once, before each test."""
    monkeypatch.chdir(tmp_path)
    forget()
    pages.cache_clear()
    reference.cache_clear()
    yield
    forget()
    pages.cache_clear()
    reference.cache_clear()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder on the path in which the package is installed."""
    site = tmp_path / "site"
    copytree(EXAMPLE / "meganeura_example", site / "meganeura_example")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(monkeypatch, site, project["name"], project["entry-points"], project["version"])
    return site


def uninstall(site: Path) -> None:
    """Remove the metadata of the example, so that nothing of it is found any more."""
    for info in site.glob("*.dist-info/*"):
        info.unlink()
    forget()
