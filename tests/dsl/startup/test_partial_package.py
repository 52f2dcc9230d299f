"""A package whose modules are imported alone is whole as soon as something of it is used."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from meganeura_dsl.startup.partial_package import import_in_parts


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package that counts how often it runs."""
    folder = tmp_path / "in_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from in_parts.other import RUNS\nRUNS.append(1)\nanswer = 42\n"
    )
    (folder / "other.py").write_text("RUNS = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("in_parts", "in_parts.other"):
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
    return "in_parts"


def test_a_module_is_imported_without_its_package(package: str) -> None:
    import_in_parts(package)
    other = import_module("in_parts.other")
    assert other.RUNS == []
    whole = import_module(package)
    assert other.RUNS == []
    assert (whole.answer, whole.other, other.RUNS) == (42, other, [1])
    with pytest.raises(AttributeError, match="has no attribute 'question'"):
        _ = whole.question
    assert other.RUNS == [1]


def test_a_package_that_was_imported_stays(package: str) -> None:
    whole = import_module(package)
    import_in_parts(package)
    assert import_module(package) is whole
    assert import_module("in_parts.other").RUNS == [1]


def test_a_package_that_is_not_installed_stays_so() -> None:
    import_in_parts("not_installed_anywhere")
    with pytest.raises(ModuleNotFoundError):
        import_module("not_installed_anywhere")
