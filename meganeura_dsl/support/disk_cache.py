"""The disk cache: entries by key, written atomically, bounded in bytes, validated when read.

An entry begins with a line of the format, the key and a hash of the content. An entry that does not
match its line counts as missing; a note is logged once.
"""

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from meganeura_dsl.support.limited_read import MEBIBYTE, TooLongError, read_bytes
from meganeura_dsl.support.paths import cache_folder

FOLDER = "compiled"
SUFFIX = ".entry"
PARTIAL = ".partial"
"""Ends the name of a file that is being written, or was when its process was killed."""
VERSION = 1
MOST_BYTES = 256 << 20
"""The most bytes of all entries together; the least recently used are removed first."""
SHARE_UNCOUNTED = 16
"""A process stores this share of all bytes until it looks at all entries again, of thousands."""
LONGEST_LINE = 256
_IS_ENTRY = re.compile(rf".*{re.escape(SUFFIX)}|\..*{re.escape(SUFFIX)}\..*{re.escape(PARTIAL)}")

_log = logging.getLogger("meganeura")
_uncounted: dict[Path, int] = {}
"""The bytes that this process has stored since it last counted all entries, by folder."""
_reported: set[str] = set()
"""Notes of this process; each is given once."""


@dataclass(frozen=True)
class DiskCache:
    """A folder of entries, which need not exist."""

    folder: Path
    most_bytes: int = MOST_BYTES

    def find(self, key: str) -> bytes | None:
        """The content stored under a key, if it is there and valid."""
        path = self._path(key)
        try:
            line, _, content = read_bytes(path, -(-self.most_bytes // MEBIBYTE)).partition(b"\n")
            if line != _line(key, content):
                _note("a compiled entry cannot be used, and is made anew", path, _reason(line))
                return None
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, TooLongError) as error:
            _note("a compiled entry cannot be read, and is made anew", path, str(error))
            return None
        return content

    def store(self, key: str, content: bytes) -> None:
        """Store a content under a key; where that is impossible, log a note and continue."""
        path = self._path(key)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _replace(path, _line(key, content) + b"\n" + content)
            self._bound(len(content) + LONGEST_LINE)
        except OSError as error:
            _note("what was compiled cannot be kept", path, str(error))

    def clear(self) -> int:
        """Remove all entries, and what killed processes left of others; how many there were."""
        return sum(_remove(path) for path in list(self.paths()))

    def paths(self) -> Iterator[Path]:
        """The entries, whole or in part, in no order."""
        return (Path(entry.path) for entry in self._entries())

    def bytes(self) -> int:
        """Returns the size of all entries in bytes."""
        return sum(size for _, size, _ in self._ages())

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """Yields the entries of the folder without building paths, as there may be thousands."""
        try:
            folder = os.scandir(self.folder)
        except FileNotFoundError:
            return
        with folder:
            yield from (entry for entry in folder if _IS_ENTRY.fullmatch(entry.name))

    def _ages(self) -> list[tuple[float, int, str]]:
        """Returns last use and size of each entry; another process may remove some."""
        found: list[tuple[float, int, str]] = []
        for entry in self._entries():
            try:
                stat = entry.stat()
            except FileNotFoundError:
                continue
            found.append((stat.st_mtime, stat.st_size, entry.path))
        return sorted(found)

    def _bound(self, stored: int) -> None:
        """Remove entries that are too many, once some bytes were stored, and at first."""
        uncounted = _uncounted.get(self.folder, self.most_bytes) + stored
        if uncounted > self.most_bytes // SHARE_UNCOUNTED:
            self._remove_oldest()
            uncounted = 0
        _uncounted[self.folder] = uncounted

    def _remove_oldest(self) -> None:
        ages = self._ages()
        total = sum(size for _, size, _ in ages)
        for _, size, path in ages:
            if total <= self.most_bytes:
                return
            _remove(Path(path))
            total -= size


def user_cache() -> DiskCache | None:
    """The cache in the user's cache folder; `None` where caching is off."""
    folder = cache_folder()
    return None if folder is None else DiskCache(folder / FOLDER)


def _line(key: str, content: bytes) -> bytes:
    return f"meganeura-entry {VERSION} {key} {sha256(content).hexdigest()}".encode()


def _reason(line: bytes) -> str:
    words = line[:LONGEST_LINE].split(b" ")
    if words[0] != b"meganeura-entry" or len(words) != 4:
        return "it is no entry"
    if words[1] != str(VERSION).encode():
        return "it is of another version"
    return "it is damaged, or of another key"


def _replace(path: Path, content: bytes) -> None:
    """Write a temporary file in the same folder, then rename it.

    It is not synced before the rename: an entry cut short by a crash does not match its line.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _remove(path: Path) -> bool:
    path.unlink(missing_ok=True)
    return True


def _note(what: str, path: Path, reason: str) -> None:
    if what not in _reported:
        _reported.add(what)
        _log.warning("note: %s: %s: %s", what, path, reason)
