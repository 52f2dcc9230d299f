"""Proofs and optimized graphs of one process of the suite, for the others.

The standard files are checked by hundreds of tests, and every process would prove them all again;
hundreds of runs train the same few programs.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from meganeura_dsl import pipeline, proof_cache
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.program import Program
from meganeura_dsl.support.disk_cache import user_cache
from meganeura_runtime.backends import cache_keys, compile_cache
from meganeura_runtime.backends.compile_cache import Rewritten

_Found = TypeVar("_Found")

VARIABLE = "MEGANEURA_TEST_SHARED"
"""Names the folder to the processes of one run, which begins with nothing in it."""
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it have their own names
ROOM = 8 << 30
"""Bytes that are free where files of tests are in memory: a run takes 1 to 2 GiB at most."""
_FOLDER = re.compile(r"(?<=\()/[^\s:]*/(?=[^/\s:]+\.mgn:)")
"""The folder of a program, where a value of a graph says which line it comes from."""


@dataclass(frozen=True)
class SharedEntries:
    """A folder with one file for each proof or optimized graph."""

    folder: Path

    def find(self, key: str) -> bytes | None:
        """The entry of a key, if there is one."""
        try:
            return (self.folder / key).read_bytes()
        except FileNotFoundError:
            return None

    def store(self, key: str, content: bytes) -> None:
        """Store an entry for all processes, at once or not at all."""
        written = self.folder / f"{key}.{os.getpid()}"
        written.write_bytes(content)
        written.replace(self.folder / key)


def share(config: pytest.Config) -> None:
    """Look for proofs here where a test has no cache of its own; the first process removes them."""
    if VARIABLE not in os.environ:
        root = _memory()
        if root is not None:  # where pytest makes the folders of tests
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(root))
        folder = os.environ[VARIABLE] = tempfile.mkdtemp(prefix="meganeura-shared-", dir=root)
        config.add_cleanup(lambda: _remove(folder))
    # JAX reads these when it is imported: what XLA compiled for one test is loaded for others.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(os.environ[VARIABLE]) / "xla")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    patch = pytest.MonkeyPatch()
    patch.setattr(proof_cache, "user_cache", lambda: user_cache() or _shared())
    config.add_cleanup(patch.undo)


@contextmanager
def shared_graphs() -> Iterator[None]:
    """Look for optimized graphs there too, for tests of something else than how graphs become so.

    The key of a graph is its text, and all that decides over what the optimizer does with it. The
    folder of a program is left out of the text, because each test has its own folder.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_keys, "format_graph", _text_anywhere)
        patch.setattr(compile_cache, "user_cache", lambda: user_cache() or _shared())
        patch.setattr(compile_cache, "rewritten", _read_once)
        patch.setattr(pipeline, "elaborate_train", _elaborated_once)
        yield


_elaborate = pipeline.elaborate_train
_read = compile_cache.rewritten
_elaborated: dict[object, tuple[Program, Elaboration]] = {}
_rewritten: dict[object, tuple[Graph, Rewritten | None]] = {}
_MOST = 200
"""Graphs that a process holds; what their keys number is held with them."""


def _elaborated_once(
    program: Program,
    train: str | None = None,
    *,
    sizes: Mapping[str, int],
    training: bool,
    shows: bool = False,
) -> Elaboration:
    """`pipeline.elaborate_train`, which elaborates a block of a program once for the same sizes.

    A run that goes on asks for the graphs again with which it began.
    """
    name = program.train(train)
    key = (id(program.module), name, tuple(sorted(sizes.items())), training, shows)
    if key not in _elaborated:
        found = _elaborate(program, name, sizes=sizes, training=training, shows=shows)
        _hold(_elaborated, key, (program, found))
    return _elaborated[key][1]


def _read_once(content: bytes, before: Graph) -> Rewritten | None:
    """`compile_cache.rewritten`, which reads the text of an optimized graph once."""
    key = (content, id(before))
    if key not in _rewritten:
        _hold(_rewritten, key, (before, _read(content, before)))
    return _rewritten[key][1]


def _hold(known: dict[object, _Found], key: object, found: _Found) -> None:
    """Adds an entry, in the place of the oldest if there are many."""
    known[key] = found
    if len(known) > _MOST:
        del known[next(iter(known))]


def cache_of_processes() -> str:
    """A folder for `MEGANEURA_CACHE` of processes that a test starts, where caches are not tested.

    They find the proofs, the optimized graphs and the tables of wgpu that one of them made.
    """
    return str(Path(os.environ[VARIABLE]) / "processes")


def _text_anywhere(graph: Graph) -> str:
    """The text of a graph whose values come from files, without the folders of these."""
    return _FOLDER.sub("", format_graph(graph))


def _shared() -> SharedEntries:
    return SharedEntries(Path(os.environ[VARIABLE]))


def _memory() -> Path | None:
    """The folder whose files are in memory, if there is room; a disk waits 1 ms for each file."""
    return IN_MEMORY if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ROOM else None


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[VARIABLE]
