"""The only door to egglog: its native module, loaded alone, and what we ask of an e-graph.

Importing the package `egglog` costs ten times as much as its native module, for a front end that
is not used here. An e-graph belongs to the thread that made it.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import local
from types import ModuleType
from typing import TYPE_CHECKING, cast

from meganeura_dsl.startup.tricks import Trick, is_enabled

if TYPE_CHECKING:
    from egglog import bindings

    Cell = bindings.Value
    Command = bindings._Command  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

_NATIVE = "egglog.bindings"
VERSION = "13.2.0"
"""The version whose native module this file knows; pyproject.toml pins it."""


class EngineError(Exception):
    """An error of egglog, in its own words."""


class MissingEngineError(EngineError):
    """egglog is not installed, or only as `installed`, which is not the version that is needed."""

    def __init__(self, installed: str = "") -> None:
        super().__init__(f"egglog {VERSION} is needed, and {installed or 'none'} is installed")
        self.installed = installed


class Tables:
    """The functions of an e-graph at one moment, read when they are asked for."""

    def __init__(self, functions: "Mapping[str, bindings.FrozenFunction]") -> None:
        self._functions = functions

    def rows(self, name: str) -> "Iterator[tuple[Sequence[Cell], Cell]]":
        """The entries of a function, arguments and result; no rule subsumes any."""
        function = self._functions.get(name)
        for row in function.rows if function else ():
            yield row.inputs, row.output


@dataclass(frozen=True)
class Progress:
    """The progress of a schedule: `updated` if anything is new, and the matches of each rule."""

    updated: bool
    matches: Mapping[str, int]


class Engine:
    """One e-graph, spoken to in egglog's language."""

    def __init__(self, program: Iterable[str]) -> None:
        self._graph = _egraph()
        self._run(program, self._parsed_before)

    def execute(self, commands: Iterable[str]) -> None:
        """Run commands, each parsed alone: a parse copies its whole text for every node in it."""
        self._run(commands, self._graph.parse_program)

    def _run(self, commands: Iterable[str], parse: "Callable[[str], Sequence[Command]]") -> None:
        try:
            self._graph.run_program(*[part for text in commands for part in parse(text)])
        except BaseException as error:
            raise _as_engine_error(error) from error

    def _parsed_before(self, text: str) -> "Sequence[Command]":
        """A command that other e-graphs of this thread are likely to run too."""
        known = _KNOWN.parsed
        if text not in known:
            if len(known) >= MOST_PARSED:
                known.clear()
            known[text] = self._graph.parse_program(text)
        return known[text]

    def load(self, tables: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Add rows of integers to relations, all at once: a command takes longer than a table.

        A table is read from a file; where none can be written, there are commands.
        """
        try:
            with ExitStack() as files:
                paths = {
                    relation: files.enter_context(_table(rows)) for relation, rows in tables.items()
                }
                self.execute(f"(input {name} {quoted(path)})" for name, path in paths.items())
        except OSError:
            rows = [(relation, row) for relation, rows in tables.items() for row in rows]
            self.execute([f"({relation} {' '.join(map(str, row))})" for relation, row in rows])

    def run(self, schedule: str) -> Progress:
        """Run a schedule once."""
        try:
            (output,) = self._graph.run_program(*self._graph.parse_program(schedule))
        except BaseException as error:
            raise _as_engine_error(error) from error
        report = cast("bindings.RunScheduleOutput", output).report
        return Progress(report.updated, dict(report.num_matches_per_rule))

    def entries(self) -> int:
        """Returns the number of entries of all functions together."""
        (output,) = self._graph.run_program(*self._graph.parse_program("(print-size)"))
        return sum(size for _, size in cast("bindings.PrintAllFunctionsSize", output).sizes)

    def tables(self) -> "Tables":
        """Every function with its entries."""
        return Tables(self._graph.freeze().functions)

    def integer(self, cell: "Cell") -> int:
        """An `i64`."""
        return self._graph.value_to_i64(cell)

    def real(self, cell: "Cell") -> float:
        """An `f64`."""
        return self._graph.value_to_f64(cell)

    def text(self, cell: "Cell") -> str:
        """A `String`."""
        return self._graph.value_to_string(cell)

    def boolean(self, cell: "Cell") -> bool:
        """A `bool`."""
        return self._graph.value_to_bool(cell)

    def vector(self, cell: "Cell") -> list["Cell"]:
        """The elements of a `Vec`."""
        return self._graph.value_to_vec(cell)


IN_MEMORY = Path("/proc/self/fd")
"""The folder with a process's open files, also of those without another name."""


class _Known(local):
    """The e-graphs of a thread, by the program of rules that each has run, and parsed commands."""

    def __init__(self) -> None:
        self.engines: dict[tuple[str, ...], Engine] = {}
        self.parsed: dict[str, Sequence[Command]] = {}


_KNOWN = _Known()
MOST_PARSED = 2048
"""Commands that are kept parsed: all rules, and the tables of many graphs."""
MOST_KNOWN = 8
"""The number of e-graphs that are cached; a training step is built with two."""


@contextmanager
def prepared(program: tuple[str, ...]) -> Generator[Engine]:
    """An e-graph that has run a program and nothing else; later additions are popped.

    Compiling rules takes longer than a small graph does, so it is done once in a thread. To forget
    takes a while too, so it is done when the program is met again.
    """
    engines = _KNOWN.engines
    engine = engines.pop(program, None)
    if engine is None:
        engine = Engine(program)
    else:
        engine.execute(["(pop)"])
    engine.execute(["(push)"])
    yield engine
    engines[program] = engine
    if len(engines) > MOST_KNOWN:
        del engines[next(iter(engines))]


@contextmanager
def _table(rows: Sequence[Sequence[int]]) -> Generator[str]:
    """The path of a file with a row a line: one in memory where the system has such, as Linux has.

    Raises `OSError`.
    """
    content = "\n".join("\t".join(map(str, row)) for row in rows).encode()
    if IN_MEMORY.is_dir() and hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("table"), "wb") as file:
            file.write(content)
            file.flush()
            yield str(IN_MEMORY / str(file.fileno()))
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        path.write_bytes(content)
        yield str(path)


def quoted(text: str) -> str:
    """A text as egglog reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _egraph() -> "bindings.EGraph":
    module = sys.modules.get(_NATIVE) or _load()
    return cast("bindings.EGraph", module.EGraph())


def _load() -> ModuleType:
    """The native module, without what its package does when it is imported."""
    package = find_spec("egglog")
    folders = list(package.submodule_search_locations or ()) if package else []
    spec = PathFinder.find_spec(_NATIVE, folders) if folders else None
    if spec is None or spec.loader is None:
        raise MissingEngineError
    _require_version(Path(folders[0]).parent)
    if not is_enabled(Trick.EGGLOG):
        return import_module(_NATIVE)
    module = module_from_spec(spec)
    sys.modules[_NATIVE] = module
    spec.loader.exec_module(module)
    return module


def _require_version(packages: Path) -> None:
    """Raise `MissingEngineError` where another version lies in that folder; reads no metadata."""
    found = [path.name for path in packages.glob("egglog-*.dist-info")]
    if found and f"egglog-{VERSION}.dist-info" not in found:
        names = ", ".join(name.removesuffix(".dist-info") for name in sorted(found))
        raise MissingEngineError(names)


def _as_engine_error(error: BaseException) -> BaseException:
    """A panic in Rust is no `Exception`; an interrupt or an exit is not ours to rename."""
    if isinstance(error, Exception) or type(error).__name__ == "PanicException":
        return EngineError(str(error))
    return error
