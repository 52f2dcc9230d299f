"""A package whose modules are imported alone is whole as soon as something of it is used."""

import sys
from importlib import import_module
from pathlib import Path
from threading import Thread

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
    for name in ("in_parts", "in_parts.other", "in_parts.inner"):
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


def test_a_function_may_be_imported_before_its_package_runs(package: str) -> None:
    other = import_module(f"{package}.other")
    folder = Path(str(other.__file__)).parent
    (folder / "inner").mkdir()
    (folder / "inner" / "__init__.py").write_text(
        "from in_parts.other import RUNS\nRUNS.append(2)\ndef double(x):\n  return 2 * x\n"
    )
    import_in_parts("in_parts.inner", ["double"])
    inner = import_module(package).inner
    double = inner.double
    assert other.RUNS == [1]
    assert (double(4), double(x=5), inner.double(6)) == (8, 10, 12)
    assert inner.double is not double
    assert other.RUNS == [1, 2]


def test_another_thread_waits_until_a_package_is_whole(package: str) -> None:
    folder = Path(str(import_module(f"{package}.other").__file__)).parent
    (folder / "inner").mkdir()
    (folder / "inner" / "during.py").write_text("def act():\n  raise NotImplementedError\n")
    (folder / "inner" / "__init__.py").write_text(
        "from in_parts.inner import during\nduring.act()\nanswer = 42\ndef double(x):\n"
        "  return x + x\n"
    )
    import_in_parts("in_parts.inner", ["double"])
    inner, during = import_module("in_parts.inner"), import_module("in_parts.inner.during")
    found: list[object] = []

    def ask() -> None:
        try:
            found.append((inner.double(4), inner.answer))
        except AttributeError as error:
            found.append(error)

    def act() -> None:
        for name in ("answer", "double"):
            with pytest.raises(AttributeError, match=f"inner' has no attribute '{name}'"):
                getattr(inner, name)
        other.start()
        other.join(0.05)
        assert not found

    vars(during)["act"] = act
    other = Thread(target=ask)
    assert inner.answer == 42
    other.join()
    assert found == [(8, 42)]


def test_a_package_that_fails_is_run_again(package: str) -> None:
    import_in_parts(package)
    other = import_module(f"{package}.other")
    runs = vars(other).pop("RUNS")
    whole = import_module(package)
    for _ in range(2):
        with pytest.raises(ImportError, match="RUNS"):
            _ = whole.answer
    vars(other)["RUNS"] = runs
    assert whole.answer == 42
    assert runs == [1]
