"""A process that reads some source files as if somebody had edited or added them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

EDITED = """
import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader

EDITS = {edits!r}


class Edited(SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_source(fullname)
        for old, new in EDITS[fullname]:
            assert text.count(old) == 1, (fullname, old)
            text = text.replace(old, new)
        return compile(text, self.path, "exec")


class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in EDITS:
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = Edited(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder())
for package, folder in {folders!r}.items():
    importlib.import_module(package).__path__.append(folder)
"""
Edits = Mapping[str, list[tuple[str, str]]]
"""Of a module, each text that is replaced, and by what."""

COMMAND = "from meganeura.cli.app import run\nsys.exit(run(tuple(sys.argv[1:])))"
"""Runs the command line."""


def run(
    edits: Edits,
    text: str,
    *arguments: str,
    new: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> subprocess.CompletedProcess[str]:
    """Run a program; the modules `new` are written below `folder`, as files of their packages."""
    folders: dict[str, str] = {}
    for module, source in (new or {}).items():
        package, _, name = module.rpartition(".")
        folders[package] = str(folder / package)
        (folder / package).mkdir(exist_ok=True)
        (folder / package / f"{name}.py").write_text(source)
    code = EDITED.format(edits=dict(edits), folders=folders) + text
    environment = {**os.environ, "MEGANEURA_CACHE": "off", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
