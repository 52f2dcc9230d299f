"""The origin of a run: its command, the text of its program, and the commit it was started at.

The repository is read from its files. Git is not started: it runs what the configuration of a
repository says.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha1
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.support.limited_read import TooLongError, read_bytes

MOST_TEXT = 200_000
"""Characters of all texts of a program that a description keeps."""
MOST_FILES = 20_000
"""The most tracked files to compare; of a larger repository only the commit is reported."""
INDEX = 16
"""MiB of an index that is read."""
HASHED = 4
"""MiB of a file that is hashed where its size is as before and its time is not."""
REF = 1
"""MiB of a file that names a commit."""
ENTRY = 62
"""Bytes of an entry of an index before its path."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Text(_Part):
    """One file of a program."""

    name: str
    text: str


class Repository(_Part):
    """The state of a Git repository."""

    commit: str
    """The commit in hexadecimal digits."""
    branch: str = ""
    """Empty where none is checked out."""
    changed: int | None = None
    """Tracked files that differ from what was last added or committed; `None` if not known."""


class RunOrigin(_Part):
    """The command, the program and the repository of a run."""

    commands: tuple[str, ...] = ()
    """The command lines that started it and went on with it; empty from Python."""
    texts: tuple[Text, ...] = ()
    """The files of the program, without those of the standard library."""
    left_out: int = 0
    """Files of the program that are too long to keep."""
    repository: Repository | None = None
    version: str = ""
    """The version of Meganeura."""


def texts_of(sources: Sequence[Source]) -> tuple[tuple[Text, ...], int]:
    """Returns the texts of a program, as many as are kept, and the number of the others."""
    kept, left = list[Text](), MOST_TEXT
    for each in sources:
        if len(each.text) <= left:
            kept.append(Text(name=each.name, text=each.text))
            left -= len(each.text)
    return tuple(kept), len(sources) - len(kept)


def repository_of(folder: Path) -> Repository | None:
    """Returns the state of the repository that holds a folder; `None` where there is none.

    `None` also where its files cannot be read.
    """
    try:
        for each in (folder.resolve(), *folder.resolve().parents):
            if (each / ".git").exists():
                return _state(each, _git_folder(each / ".git"))
    except (OSError, TooLongError, ValueError):
        return None
    return None


def _git_folder(path: Path) -> Path:
    """Returns the folder of a repository; of a worktree `.git` is a file that names it."""
    if path.is_dir():
        return path
    named = _line(path).removeprefix("gitdir:").strip()
    return path.parent / named


def _line(path: Path) -> str:
    return read_bytes(path, REF).decode().strip()


def _state(top: Path, git: Path) -> Repository | None:
    head = _line(git / "HEAD")
    common = git / _line(git / "commondir") if (git / "commondir").is_file() else git
    ref = head.removeprefix("ref: ")
    commit = head if ref == head else _commit(git, common, ref)
    if len(commit) not in (40, 64) or set(commit) - set("0123456789abcdef"):
        return None
    branch = "" if ref == head else ref.removeprefix("refs/heads/")
    return Repository(commit=commit, branch=branch, changed=_changed(top, git / "index"))


def _commit(git: Path, common: Path, ref: str) -> str:
    """Returns the commit of a reference, from its own file or the one that packs many; or ""."""
    for each in (git / ref, common / ref):
        if each.is_file():
            return _line(each)
    packed = common / "packed-refs"
    lines = read_bytes(packed, INDEX).decode().splitlines() if packed.is_file() else []
    return next((each.split()[0] for each in lines if each.endswith(f" {ref}")), "")


def _changed(top: Path, index: Path) -> int | None:
    """Counts tracked files that differ from the index; `None` if that is not known."""
    try:
        return sum(_differs(top / name, size, time, digest) for name, size, time, digest in
                   _entries(read_bytes(index, INDEX)))  # fmt: skip
    except (OSError, TooLongError, ValueError, struct.error):
        return None


def _entries(content: bytes) -> Iterator[tuple[str, int, tuple[int, int], bytes]]:
    """Yields the paths of regular files, their sizes, times and hashes (gitformat-index, v2)."""
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version != 2 or count > MOST_FILES:
        raise ValueError("it is no index of version 2")
    at = 12
    for _ in range(count):
        fields = struct.unpack_from(">10I20sH", content, at)
        end = content.index(b"\0", at + ENTRY)
        if fields[6] & 0o170000 == 0o100000:
            name = content[at + ENTRY : end].decode(errors="surrogateescape")
            yield name, fields[9], (fields[2], fields[3]), fields[10]
        at += (end - at) // 8 * 8 + 8


def _differs(path: Path, size: int, time: tuple[int, int], digest: bytes) -> bool:
    """Compares a file with its entry: by size and time, and by its text where the time differs."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    if found.st_size & 0xFFFFFFFF != size:
        return True
    if divmod(found.st_mtime_ns, 1_000_000_000) == time:
        return False
    content = read_bytes(path, HASHED)
    blob = b"blob %d\0" % len(content) + content
    return sha1(blob, usedforsecurity=False).digest() != digest
