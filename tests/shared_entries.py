"""Proofs and optimized graphs of one process of the suite, for the others.

The standard files are checked by hundreds of tests, and every process would prove them all again;
hundreds of runs train the same few programs.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from meganeura_dsl import pipeline, proof_cache
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.program import Program
from meganeura_dsl.support.disk_cache import user_cache
from meganeura_runtime.backends import cache_keys, compile_cache

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
        patch.setattr(pipeline, "elaborate_train", _elaborated_once())
        yield


def _elaborated_once() -> Callable[..., Elaboration]:
    """`pipeline.elaborate_train`, which elaborates a block of a program once for the same sizes.

    A test that begins a run and goes on with it asks for the same graphs again.
    """
    elaborate = pipeline.elaborate_train
    known: dict[object, tuple[Program, Elaboration]] = {}

    def elaborated(
        program: Program,
        train: str | None = None,
        *,
        sizes: Mapping[str, int],
        training: bool,
        shows: bool = False,
    ) -> Elaboration:
        name = program.train(train)
        key = (id(program.module), name, tuple(sorted(sizes.items())), training, shows)
        if key not in known:
            found = elaborate(program, name, sizes=sizes, training=training, shows=shows)
            known[key] = program, found  # held, so that no other has its number
        return known[key][1]

    return elaborated


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
