"""`meganeura cache`: what is kept of earlier compilations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count


def cache(
    *, clear: Annotated[bool, typer.Option("--clear", help="Remove what was compiled.")] = False
) -> None:
    """Say where compiled programs are kept, and how many; they are made anew where missing."""
    from meganeura_dsl.support.disk_cache import user_cache
    from meganeura_dsl.support.paths import VARIABLE
    from meganeura_runtime.io.hub.snapshot import FOLDER

    cache = user_cache()
    if cache is None:
        say(f"nothing is kept: {VARIABLE} is off")
        return
    others = _files_of_libraries(cache.folder.parent)
    megabytes = cache.bytes() / 1e6 + sum(map(_megabytes, others.values()))
    if clear:
        files = cache.clear() + sum(map(_remove, others.values()))
        say(f"removed {count(files, 'file')}, {megabytes:.1f} MB")
        return
    files = count(len(list(cache.paths())), "file")
    most = cache.most_bytes / 1e6
    say(f"{cache.folder}: {files}, {cache.bytes() / 1e6:.1f} MB of at most {most:.0f} MB")
    for folder, found in others.items():
        say(f"{folder}: {count(len(found), 'file')}, {_megabytes(found):.1f} MB")
    downloaded = cache.folder.parent / FOLDER
    if found := _files(downloaded):
        size = f"{count(len(found), 'file')}, {_megabytes(found):.1f} MB"
        say(f"{downloaded}: {size}, downloaded by `meganeura weights get`; --clear leaves them")
    say(f"set {VARIABLE} to keep them in another folder, or to `off`")


def _files_of_libraries(base: Path) -> dict[Path, Sequence[Path]]:
    """Returns the cached files that libraries of backends keep in other folders."""
    from meganeura_runtime.backends.registry import BUILT_IN

    names = [each.capabilities.cache for each in BUILT_IN if each.capabilities.cache]
    found = {base / name: _files(base / name) for name in names}
    return {folder: files for folder, files in found.items() if files}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _megabytes(files: Sequence[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 1e6


def _remove(files: Sequence[Path]) -> int:
    for path in files:
        path.unlink()
    return len(files)
