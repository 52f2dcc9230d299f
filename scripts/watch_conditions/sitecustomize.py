"""Imported by every Python process whose path has this folder, as `scripts/conditions.py` makes it.

Modules of the packages are compiled from the trees that `scripts/condition_points.py` writes.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

SCRIPTS = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ["MEGANEURA_WATCH_CONDITIONS"])

sys.path.insert(0, str(SCRIPTS))
from condition_points import watched  # noqa: E402 - found by the path before
from condition_watch import Watch  # noqa: E402

sys.path.remove(str(SCRIPTS))


class WatchedLoader(SourceFileLoader):
    """Compiles what is watched."""

    def __init__(self, found: SourceFileLoader, first: int) -> None:
        super().__init__(found.name, found.path)
        self.first = first

    def get_code(self, fullname: str) -> CodeType:
        """The code of its tree that tells what it sees."""
        del fullname
        tree, _ = watched(Path(self.path), self.path, self.first)
        return compile(tree, self.path, "exec", dont_inherit=True)


class WatchedFinder:
    """Finds the modules whose points are numbered."""

    def __init__(self, firsts: dict[str, int]) -> None:
        self.firsts = firsts
        self.packages = ("meganeura_dsl", "meganeura_runtime")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the path has, with another loader if it is watched."""
        if not fullname.startswith(self.packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            first = self.firsts.get(str(Path(spec.loader.path).resolve()))
            if first is not None:
                spec.loader = WatchedLoader(spec.loader, first)
        return spec


sys.meta_path.insert(0, WatchedFinder(json.loads((FOLDER / "firsts.json").read_text())))
Watch(FOLDER / "seen").install()
