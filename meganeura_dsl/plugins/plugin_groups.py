"""Plugins: classes and objects of other packages, found by the entry points of their metadata.

There is one group of entry points for each kind of plugin. Metadata is read at most once in a
process, and only for a name that is not built in, because reading it takes about 50 ms. The module
that an entry point names is imported when its plugin is used, and not when plugins are listed.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import Generic, TypeVar

from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.plugins.plugin_problems import PluginError, PluginFailure, UnfitPluginError

T = TypeVar("T")

PREFIX = "meganeura."
"""Start of the names of all groups."""
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Pattern of the names that a program can write."""
OURS = ("meganeura", "meganeura_dsl", "meganeura_runtime", "importlib", "contextlib")
"""The packages whose lines are not the place of an error of a plugin."""
LONGEST_REASON = 300
"""Characters of a message of a plugin that are shown."""
_VALUE = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)")


@dataclass(frozen=True)
class Plugin:
    """An entry point of an installed package; its module need not be imported."""

    kind: str
    """The kind, in words: `optimizer`."""
    name: str
    value: str
    """The module and the attribute, as `module:attribute`."""
    owner: str
    """The package and its version, such as `meganeura-example 1.0`."""

    def failure(self, reason: str, span: Span | None = None) -> PluginError:
        """Returns the error of this plugin for a reason."""
        cure = f"update or uninstall `{package_of(self.owner)}`"
        return PluginError(PluginFailure(self.kind, self.name, (self.owner,), reason, cure, span))


@dataclass(frozen=True)
class PluginGroup(Generic[T]):
    """The plugins of one kind."""

    kind: str
    """The kind, in words: `optimizer`."""
    group: str
    """The group of entry points, after `meganeura.`."""
    built_in: Collection[str]
    """The names that plugins cannot have."""
    checked: Callable[[str, object], T]
    """Returns what an entry point of a name loads; or raises `UnfitPluginError`."""
    spelling: re.Pattern[str] = WORD
    """Pattern of the names."""
    _loaded: dict[Plugin, T] = field(default_factory=dict[Plugin, T], repr=False)

    def names(self) -> tuple[str, ...]:
        """The names that plugins can be used by, in alphabetical order; imports no plugin."""
        return tuple(
            name
            for name, found in self._plugins().items()
            if len(found) == 1 and not self._naming_error(found[0])
        )

    def find(self, name: str) -> T | None:
        """Returns the plugin of a name, or `None` if no package has it; raises `PluginError`.

        Asked for names that are not built in.
        """
        found = self._plugins().get(name, ())
        if not found:
            return None
        self._require_one(found)
        return self._load(found[0])

    def owner(self, name: str) -> str:
        """The package that has the plugin of a name, with its version; empty if none has it."""
        return " and ".join(each.owner for each in self._plugins().get(name, ()))

    def usable(self) -> tuple[Mapping[str, T], tuple[PluginError, ...]]:
        """All plugins by their names, and why others cannot be used; imports all of them."""
        usable: dict[str, T] = {}
        errors: list[PluginError] = []
        for name, found in self._plugins().items():
            try:
                self._require_one(found)
                usable[name] = self._load(found[0])
            except PluginError as error:
                errors.append(error)
        return usable, tuple(errors)

    def _plugins(self) -> Mapping[str, tuple[Plugin, ...]]:
        found: dict[str, tuple[Plugin, ...]] = {}
        for name, value, owner in sorted(set(entry_points().get(PREFIX + self.group, ()))):
            found[name] = (*found.get(name, ()), Plugin(self.kind, name, value, owner))
        return found

    def _require_one(self, found: tuple[Plugin, ...]) -> None:
        """Raise `PluginError` for plugins of one name that are several or cannot have the name."""
        if reason := self._naming_error(found[0]):
            raise found[0].failure(reason)
        if len(found) > 1:
            owners = tuple(dict.fromkeys(each.owner for each in found))
            if len(owners) == 1:
                raise found[0].failure("its package has several of this name")
            reason, cure = "several packages have one of this name", "uninstall all but one of them"
            raise PluginError(PluginFailure(self.kind, found[0].name, owners, reason, cure))

    def _naming_error(self, plugin: Plugin) -> str:
        if plugin.name in self.built_in:
            return "this name is built in, and means what is built in"
        if self.spelling.fullmatch(plugin.name) is None:
            return "nothing can be asked for by such a name"
        return ""

    def _load(self, plugin: Plugin) -> T:
        if plugin not in self._loaded:
            loaded = _imported(plugin)
            try:
                self._loaded[plugin] = self.checked(plugin.name, loaded)
            except UnfitPluginError as error:
                raise plugin.failure(f"`{plugin.value}` {error}") from None
            except Exception as error:
                reason = f"`{plugin.value}` is not loaded: {told(error)}"
                raise plugin.failure(reason) from error
            _origins[id(loaded)] = (plugin, loaded)
        return self._loaded[plugin]


def package_of(owner: str) -> str:
    """Returns the name of a package without its version."""
    return owner.partition(" ")[0]


@contextmanager
def blamed(
    subject: object, action: str, *, passing: type[Exception] = ProblemError
) -> Generator[None]:
    """Raises what the code of a plugin raises as a `PluginError` that names its package.

    `subject` is what an entry point gave, or an object of such a class; what is built in raises
    what it raises. `action` says what the plugin was asked for: `while it updates `fc.weight``.
    Errors of the class `passing` have a meaning there, and are raised as they are.
    """
    plugin = plugin_behind(subject)
    try:
        yield
    except (passing, ProblemError, ProblemsError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if plugin is None:
            raise
        raise plugin.failure(f"{told(error)}, {action}") from error


def plugin_behind(subject: object) -> Plugin | None:
    """Returns the plugin that an object or its class was loaded from, if it was."""
    for each in (subject, type(subject)):
        plugin, loaded = _origins.get(id(each), (None, None))
        if loaded is each:
            return plugin
    return None


def blame_of(error: BaseException) -> PluginError | None:
    """Returns an error that passed through the code of a plugin as one that names its package.

    `None` if it passed through none. Of several plugins of one package it is one whose module
    it passed through, if there is such a plugin.
    """
    modules = [
        (each.value.partition(":")[0].strip(), each) for each, _ in reversed(_origins.values())
    ]
    by_module = dict(modules)
    by_package = {module.partition(".")[0]: each for module, each in modules}
    names = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    for name in reversed(names):
        found = by_module.get(name) or by_package.get(name.partition(".")[0])
        if found is not None:
            return found.failure(told(error))
    return None


def told(error: BaseException) -> str:
    """An error of other people's code in a line: its type, its text and where it was raised."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
    frames = [
        (Path(frame.f_code.co_filename).name, line)
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in OURS
    ]
    at = f" ({frames[-1][0]}:{frames[-1][1]})" if frames else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{at}"


# --- metadata ------------------------------------------------------------------------------------

EntryPoint = tuple[str, str, str]
"""The name, the value and the package of an entry point."""

_origins: dict[int, tuple[Plugin, object]] = {}
"""The plugins that are loaded, by the id of what their entry points gave."""


@cache
def entry_points() -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of all installed packages, by those groups that are ours.

    Of two packages of one name the first on the path is installed, as for imports.
    """
    from importlib.metadata import (  # noqa: PLC0415 - takes 20 ms, and is rarely needed
        PackageNotFoundError,
        distribution,
        distributions,
    )

    found: dict[str, tuple[EntryPoint, ...]] = {}
    names = {
        package.metadata["Name"]: package
        for package in distributions()
        if f"[{PREFIX}" in (package.read_text("entry_points.txt") or "")
    }
    for name, package in names.items():
        try:
            first = distribution(name)
        except (
            PackageNotFoundError,
            ValueError,
        ):  # the name of its folder is another, or it has none
            first = package
        owner = f"{name or 'a package without a name'} {first.metadata['Version'] or ''}".strip()
        for group, line in _lines(first.read_text("entry_points.txt") or ""):
            entry, _, value = line.partition("=")
            found[group] = (*found.get(group, ()), (entry.strip(), value.strip(), owner))
    return found


def malformed_metadata(error: BaseException) -> str:
    """Returns which package has the metadata that an error comes of; empty if it is of none.

    Libraries that look for plugins of their own read the entry points of all packages, and end in
    an error of whatever class where those of one are malformed.
    """
    names = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    if not any(each.startswith("importlib.metadata") for each in names):
        return ""
    from importlib.metadata import distributions  # noqa: PLC0415 - takes 20 ms, and rarely needed

    for package in distributions():
        try:
            _ = package.entry_points
        except Exception as reason:  # noqa: BLE001 - the parser raises whatever it comes upon
            name = f"`{package.metadata['Name']}` in {package.locate_file('')}"
            why = f"{type(reason).__name__}: {reason}"
            return f"`entry_points.txt` of the package {name} is malformed: {why}"
    return ""


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a file `entry_points.txt` in groups of ours, each with its group."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[] ")
        elif line and not line.startswith(("#", ";")) and group.startswith(PREFIX):
            yield group, line


def _imported(plugin: Plugin) -> object:
    """Returns the object that an entry point names; raises `PluginError`."""
    found = _VALUE.fullmatch(plugin.value.partition("[")[0].strip())
    if found is None:
        raise plugin.failure(f"`{plugin.value}` is not of the form `module:attribute`")
    try:
        loaded: object = import_module(found["module"])
        for each in found["attribute"].split("."):
            loaded = getattr(loaded, each)
    except (Exception, SystemExit) as error:  # whatever the code of others raises
        raise plugin.failure(f"`{plugin.value}` is not imported: {told(error)}") from error
    return loaded
