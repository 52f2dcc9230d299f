"""A program with its imports: where a target finds it, and which declaration is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from meganeura_dsl.diagnostics.problem import (
    ProblemError,
    Report,
)
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Loader, library, nearest
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.resources import standard_model_names, standard_models
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_dsl.target_problems import AmbiguousTarget, UnknownTarget


@dataclass(frozen=True)
class Program:
    """A linked file, ready to be elaborated; one that `load` gives is proved."""

    module: LinkedModule
    chosen: str | None = None
    """The model or `train` asked for by name, if one was."""
    prefix: str = ""
    """The text before the `:` in the name of a declaration; the program's name if empty."""
    notes: tuple[Report, ...] = ()
    """Notes of the proof of a program without problems."""
    is_standard: bool = False
    """True if it ships with the package."""

    @property
    def source(self) -> Source:
        """The file itself."""
        return self.module.source

    @property
    def sources(self) -> tuple[Source, ...]:
        """The file itself, and those that it imports and that do not ship with the package."""
        others = (each for each, _ in self.module.sources()[1:])
        return (self.source, *(each for each in others if not _is_standard(each)))

    @property
    def texts(self) -> tuple[Source, ...]:
        """All texts that it stands on: the file itself, those that it imports, the library."""
        of_library = (each.source for each in library())
        reached = (each for each, _ in self.module.sources())
        return (*reached, *of_library)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models declared in the file."""
        return tuple(self.module.models)

    @property
    def trains(self) -> tuple[str, ...]:
        """The names of the `train` blocks declared in the file."""
        return tuple(self.module.trains)

    def model(self, name: str | None = None) -> str:
        """The model asked for: by name, by the target, or the only one. Raises `ProblemError`."""
        return self._pick("model", name, self.models)

    def train(self, name: str | None = None) -> str:
        """The `train` asked for: by name, by the target, or the only one. Raises `ProblemError`.

        Where the target is a model, only those are meant that apply it.
        """
        known, model = self.trains, self.chosen
        if name is None and known and model in self.models:
            applying = tuple(each for each in known if self._applies(each, model))
            if not applying:
                cure = tuple(map(self._target, known))
                raise ProblemError(UnknownTarget(self.source.name, "train", "", cure, model))
            known = applying
        return self._pick("train", name, known)

    def _applies(self, train: str, model: str) -> bool:
        """True if a `train` block applies a model by its name."""
        return any(
            isinstance(node, ast.Call) and node.callee == model
            for node in walk(self.module.trains[train])
        )

    def _pick(self, kind: str, name: str | None, known: tuple[str, ...]) -> str:
        if name is None and self.chosen in known:
            name = self.chosen
        if name is None and len(known) == 1:
            name = known[0]
        if name is not None and name in known:
            return name
        cure = known if name else tuple(map(self._target, known))
        raise ProblemError(UnknownTarget(self.source.name, kind, name or "", cure))

    def _target(self, name: str) -> str:
        """Returns the name by which one of its declarations is asked for."""
        return f"{self.prefix or self.source.name}:{name}"


def _is_standard(source: Source) -> bool:
    """Returns True for a file that ships with the package, wherever it was read from."""
    path = Path(source.name)
    if path.stem not in standard_model_names():
        return False
    return source.text == (standard_models() / f"{path.stem}.mgn").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Target:
    """A program and, if one was named, its declaration."""

    path: Path
    chosen: str | None
    is_standard: bool = False

    @property
    def prefix(self) -> str:
        """The name of the program alone."""
        return self.path.stem if self.is_standard else str(self.path)

    def read(self) -> Source:
        """The program; a standard one is shown by its name alone. Raises `ProblemError`."""
        return read_source(self.path, self.path.name if self.is_standard else None)


def find(target: str) -> Target:
    """A path, `path:name`, or the name of a standard file or of what only one of them declares.

    A standard file may be followed by `:name` as well. Raises `ProblemError`.
    """
    path, _, chosen = target.partition(".mgn:")
    if chosen:
        return Target(Path(f"{path}.mgn"), chosen)
    if target.endswith(".mgn") or "/" in target or Path(target).is_file():
        return Target(Path(target), None)
    folder = Path(str(standard_models()))
    if (folder / f"{target}.mgn").is_file():
        return Target(folder / f"{target}.mgn", None, is_standard=True)
    name, _, chosen = target.partition(":")
    if chosen and name in standard_model_names():
        return Target(folder / f"{name}.mgn", chosen, is_standard=True)
    return _declared_in_library(target, folder)


def _declared_in_library(target: str, folder: Path) -> Target:
    """The model or `train` of that name, which one standard file declares."""
    known = list(standard_model_names())
    holders: list[str] = []
    for name in standard_model_names():
        source = read_source(folder / f"{name}.mgn")
        declared = [found.name for found in outline(source) if found.kind in ("model", "train")]
        holders += [name] if target in declared else []
        known += declared
    if len(holders) > 1:
        raise ProblemError(AmbiguousTarget(target, tuple(f"{each}:{target}" for each in holders)))
    if not holders:
        raise ProblemError(UnknownTarget("", "model", target, nearest(target, known)))
    return Target(folder / f"{holders[0]}.mgn", target, is_standard=True)


def loader_beside(path: Path, texts: Mapping[Path, str] = MappingProxyType({})) -> Loader:
    """Finds imports beside a file, then in the standard models; never above the file's folder.

    `texts` has what stands in some files, by their paths, in place of what is on disk.
    """

    def load_module(words: tuple[str, ...]) -> Source | None:
        relative = Path(*words).with_suffix(".mgn")
        if path.parent / relative in texts:
            return _source_of(str(path.parent / relative), texts[path.parent / relative])
        if (path.parent / relative).is_file():
            return _known_source(read_source(path.parent / relative))
        standard = Path(str(standard_models())) / relative
        if not standard.is_file():
            return None
        return _known_source(read_source(standard, str(relative)))

    return load_module


def _known_source(source: Source) -> Source:
    """A source that was read before with the same text, so that what is known of it is found."""
    return _source_of(source.name, source.text)


@lru_cache(maxsize=64)
def _source_of(name: str, text: str) -> Source:
    return Source(name, text)
