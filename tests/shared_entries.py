"""What one process of the suite has proved, for the others.

The standard files are checked by hundreds of tests, and every process would prove them all again.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from meganeura_dsl import proof_cache
from meganeura_dsl.support.disk_cache import user_cache

VARIABLE = "MEGANEURA_TEST_PROOFS"
"""Names the folder to the processes of one run, which begins without any proof."""


@dataclass(frozen=True)
class SharedProofs:
    """A folder with one file for each proof."""

    folder: Path

    def find(self, key: str) -> bytes | None:
        """The notes kept under a key, if there are any."""
        try:
            return (self.folder / key).read_bytes()
        except FileNotFoundError:
            return None

    def keep(self, key: str, content: bytes) -> None:
        """Keep notes for all processes, at once or not at all."""
        written = self.folder / f"{key}.{os.getpid()}"
        written.write_bytes(content)
        written.replace(self.folder / key)


def share(config: pytest.Config) -> None:
    """Look for proofs here where a test has no cache of its own; the first process removes them."""
    if VARIABLE not in os.environ:
        folder = os.environ[VARIABLE] = tempfile.mkdtemp(prefix="meganeura-proofs-")
        config.add_cleanup(lambda: _remove(folder))
    shared = SharedProofs(Path(os.environ[VARIABLE]))
    patch = pytest.MonkeyPatch()
    patch.setattr(proof_cache, "user_cache", lambda: user_cache() or shared)
    config.add_cleanup(patch.undo)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[VARIABLE]
