"""Plugins are found by name, imported when they are used, and refused in the name of a package."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from meganeura_dsl.plugins.plugin_groups import PluginGroup, blamed, entry_points, plugin_behind
from meganeura_dsl.plugins.plugin_problems import PluginError, UnfitPluginError
from tests.distributions import install

NO_ATTRIBUTE = "AttributeError: module 'rules_of_others' has no attribute 'Lost'"
MODULE = """\
class Rule:
    def __init__(self, rate=1):
        if rate < 0:
            raise RuntimeError("a rate\\nbelow 0")

class Other(Rule):
    pass

number = 3
"""


def checked(name: str, loaded: object) -> type:
    if not isinstance(loaded, type):
        raise UnfitPluginError("is no class")
    if name == "raises":
        raise KeyError("inside")
    return loaded


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginGroup[type]]:
    """A group of two packages, `first` and `second`, whose module is imported by no one yet."""
    (tmp_path / "rules_of_others.py").write_text(MODULE)
    one = {
        "rule": "rules_of_others:Rule",
        "both": "rules_of_others:Rule",
        "plain": "rules_of_others:Rule",
        "number": "rules_of_others:number",
        "not-a-word": "rules_of_others:Rule",
        "raises": "rules_of_others:Rule",
    }
    two = {"both": "rules_of_others:Rule", "lost": "rules_of_others:Lost", "form": "no form"}
    install(monkeypatch, tmp_path, "first", {"meganeura.rules": one, "other.rules": {"x": "y:z"}})
    install(monkeypatch, tmp_path, "second", {"meganeura.rules": two}, "2")
    yield PluginGroup("rule", "rules", ("plain",), checked)
    entry_points.cache_clear()
    sys.modules.pop("rules_of_others", None)


def test_names_are_known_without_an_import(rules: PluginGroup[type]) -> None:
    assert rules.names() == ("form", "lost", "number", "raises", "rule")
    assert "rules_of_others" not in sys.modules
    assert rules.owner("both") == "first 1.0 and second 2"
    assert rules.find("nothing") is None
    found = rules.find("rule")
    assert found is not None
    assert found.__module__ == "rules_of_others"
    assert rules.find("rule") is found


@pytest.mark.parametrize(
    ("name", "owners", "reason"),
    [
        ("both", ("first 1.0", "second 2"), "several packages have one of this name"),
        ("plain", ("first 1.0",), "this name is built in, and means what is built in"),
        ("not-a-word", ("first 1.0",), "nothing can be asked for by such a name"),
        ("number", ("first 1.0",), "`rules_of_others:number` is no class"),
        (
            "raises",
            ("first 1.0",),
            "`rules_of_others:Rule` is not loaded: KeyError: 'inside' (test_plugin_groups.py:31)",
        ),
        ("form", ("second 2",), "`no form` is not of the form `module:attribute`"),
        (
            "lost",
            ("second 2",),
            f"`rules_of_others:Lost` is not imported: {NO_ATTRIBUTE}",
        ),
    ],
)
def test_one_that_cannot_be_used_is_refused(
    rules: PluginGroup[type], name: str, owners: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(PluginError) as caught:
        rules.find(name)
    assert (caught.value.failure.owners, caught.value.failure.reason) == (owners, reason)


def test_the_rest_can_be_used(rules: PluginGroup[type]) -> None:
    usable, errors = rules.usable()
    assert list(usable) == ["rule"]
    names = [each.failure.name for each in errors]
    assert names == ["both", "form", "lost", "not-a-word", "number", "plain", "raises"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (breaks.py:2)"),
        ("raise ValueError\n", "ValueError (breaks.py:1)"),
        ("1 +\n", "SyntaxError: invalid syntax (breaks.py, line 1)"),
        (f"raise OSError({'long ' * 100!r})\n", f"OSError: {'long ' * 60}... (breaks.py:1)"),
    ],
)
def test_whatever_an_import_raises_is_told_with_its_line(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks.py").write_text(text)
    install(monkeypatch, tmp_path, "third", {"meganeura.rules": {"broken": "breaks:Rule"}})
    with pytest.raises(PluginError) as caught:
        PluginGroup("rule", "rules", (), checked).find("broken")
    assert caught.value.failure.reason == f"`breaks:Rule` is not imported: {reason}"


def test_what_the_code_of_a_plugin_raises_names_its_package(rules: PluginGroup[type]) -> None:
    rule = rules.find("rule")
    assert rule is not None
    with pytest.raises(PluginError) as caught, blamed(rule, "while it is made"):
        rule(-1)
    assert caught.value.failure.owners == ("first 1.0",)
    reason = "RuntimeError: a rate below 0 (rules_of_others.py:4), while it is made"
    assert caught.value.failure.reason == reason
    assert isinstance(caught.value.__cause__, RuntimeError)
    of_instance = plugin_behind(rule())
    assert of_instance is not None
    assert of_instance.name == "rule"
    assert plugin_behind(sys.modules["rules_of_others"].Other()) is None


def test_what_is_no_plugin_raises_what_it_raises() -> None:
    with pytest.raises(KeyError, match="mine"), blamed(3, "while it is made"):
        raise KeyError("mine")


def test_of_two_packages_of_one_name_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other is hidden from imports too."""
    for version in ("1.0", "2.0"):
        points = {"meganeura.rules": {"rule": f"at_{version[0]}:Rule"}}
        install(monkeypatch, tmp_path / version, "first", points, version)
    assert entry_points()["meganeura.rules"] == (("rule", "at_2:Rule", "first 2.0"),)


def test_metadata_of_others_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken file of a package that has nothing for us breaks nothing."""
    install(monkeypatch, tmp_path, "odd", {"no group]]": {"": "="}, "console_scripts": {"a": "b"}})
    install(monkeypatch, tmp_path, "fine", {"meganeura.rules": {"rule": "a.b : C.d [extra]"}})
    assert entry_points()["meganeura.rules"] == (("rule", "a.b : C.d [extra]", "fine 1.0"),)
