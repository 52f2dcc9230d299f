"""Entries of the cache: whole or not there, bounded, and never believed unseen."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meganeura_dsl.support.disk_cache import SUFFIX, DiskCache, user_cache

KEY = "0123abcd"
OTHER = "4567cdef"


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are given once in a process, which here is once in a test."""
    monkeypatch.setattr("meganeura_dsl.support.disk_cache._reported", set[str]())


class _Notes(logging.Handler):
    """The messages that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def notes() -> Iterator[list[str]]:
    """The messages that a test logs."""
    handler, log = _Notes(), logging.getLogger()
    log.addHandler(handler)
    yield handler.messages
    log.removeHandler(handler)


@pytest.fixture
def kept(tmp_path: Path) -> DiskCache:
    found = DiskCache(tmp_path / "cache")
    found.store(KEY, b"content\nof two lines")
    return found


def path_of(kept: DiskCache, key: str = KEY) -> Path:
    return kept.folder / f"{key}{SUFFIX}"


def test_what_was_kept_is_found_and_nothing_else(kept: DiskCache) -> None:
    assert kept.find(KEY) == b"content\nof two lines"
    assert kept.find(OTHER) is None
    kept.store(KEY, b"")
    assert kept.find(KEY) == b""
    assert [path.name for path in kept.folder.iterdir()] == [f"{KEY}{SUFFIX}"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut short": lambda content: content[:-1],
    "a line only": lambda content: content.split(b"\n")[0],
    "a bit flipped": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "longer": lambda content: content + b" ",
    "another key's": lambda content: content.replace(KEY.encode(), OTHER.encode(), 1),
    "newer": lambda content: content.replace(b"entry 1", b"entry 2", 1),
    "foreign": lambda _: b'{"plan": 1}',
    "binary": lambda _: bytes(range(256)) * 64,
    "an enormous line": lambda _: b"meganeura-entry " * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_not_whole_is_as_good_as_absent(
    damage: Callable[[bytes], bytes], kept: DiskCache, notes: list[str]
) -> None:
    path = path_of(kept)
    path.write_bytes(damage(path.read_bytes()))
    assert kept.find(KEY) is None
    assert kept.find(KEY) is None
    (note,) = notes
    assert note.startswith(
        f"note: a compiled entry cannot be used, and is made anew: {path}: it is"
    )
    kept.store(KEY, b"new")
    assert kept.find(KEY) == b"new"


def test_every_prefix_of_an_entry_is_refused(kept: DiskCache) -> None:
    path = path_of(kept)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert kept.find(KEY) is None


def test_a_folder_that_cannot_be_used_is_told_and_no_error(
    tmp_path: Path, notes: list[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = DiskCache(tmp_path / "file")
    kept.store(KEY, b"content")
    kept.store(KEY, b"content")
    assert kept.find(KEY) is None
    path = path_of(DiskCache(tmp_path / "folder"))
    path.mkdir(parents=True)
    assert DiskCache(path.parent).find(KEY) is None
    DiskCache(path.parent).store(KEY, b"content")
    assert [message.partition(": [Errno")[0] for message in notes] == [
        f"note: what was compiled cannot be kept: {path_of(kept)}",
        f"note: a compiled entry cannot be read, and is made anew: {path_of(kept)}",
    ], "one note of each kind"


def test_what_could_not_be_written_whole_leaves_nothing(
    kept: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(partial: Path, _: Path) -> None:
        assert partial.stat().st_size > 0
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    kept.store(OTHER, b"content")
    assert [path.name for path in kept.folder.iterdir()] == [f"{KEY}{SUFFIX}"]


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, most_bytes=1200)
    for number in range(3):
        kept.store(f"k{number}", bytes(250))
        os.utime(path_of(kept, f"k{number}"), (1000 + number, 1000 + number))
    assert kept.find("k0") == bytes(250)  # used now
    kept.store("k3", bytes(250))
    assert {path.stem for path in kept.paths()} == {"k0", "k2", "k3"}
    assert kept.bytes() <= 1200
    kept.store("large", bytes(2000))
    assert list(kept.paths()) == []


@pytest.mark.parametrize(("less", "remaining"), [(0, 3), (1, 2), (400, 1)])
def test_entries_may_take_all_that_they_may_take_and_no_byte_more(
    tmp_path: Path, less: int, remaining: int
) -> None:
    """Of three of equal size, with a bound below that of all of them."""
    roomy = DiskCache(tmp_path / "roomy")
    for number in range(3):
        roomy.store(f"k{number}", bytes(250))
    bound = roomy.bytes() - less
    tight = DiskCache(tmp_path / "tight", most_bytes=bound)
    for number in range(3):
        tight.store(f"k{number}", bytes(250))
        os.utime(path_of(tight, f"k{number}"), (1000 + number, 1000 + number))
    names = [f"k{number}" for number in range(3)]
    assert sorted(path.stem for path in tight.paths()) == names[3 - remaining :]
    assert tight.bytes() <= bound


def test_a_process_that_stores_little_removes_what_others_left(tmp_path: Path) -> None:
    """It looks at all entries with the first that it stores, however small that is."""
    tight = DiskCache(tmp_path, most_bytes=20_000)
    for number in range(9):
        path = tmp_path / f"k{number}{SUFFIX}"
        path.write_bytes(bytes(4000))
        os.utime(path, (1000 + number, 1000 + number))
    tight.store("own", b"")
    assert sorted(path.stem for path in tight.paths()) == ["k5", "k6", "k7", "k8", "own"]


def test_entries_of_nothing_are_bounded_too(tmp_path: Path) -> None:
    """Each takes a line."""
    tight = DiskCache(tmp_path, most_bytes=8_000)
    for number in range(200):
        tight.store(f"k{number}", b"")
    assert 4_000 < tight.bytes() < 10_000


def test_two_processes_write_an_entry_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, names = DiskCache(tmp_path), list[str]()
    monkeypatch.setattr(Path, "replace", lambda partial, _: names.append(partial.name))
    for process in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        kept.store(KEY, b"content")
    assert len(set(names)) == 2


def test_clearing_removes_entries_alone(kept: DiskCache) -> None:
    kept.store(OTHER, b"content")
    (kept.folder / "notes.txt").write_text("mine")
    assert kept.clear() == 2
    assert [path.name for path in kept.folder.iterdir()] == ["notes.txt"]
    assert kept.bytes() == 0


def test_what_a_killed_process_left_is_counted_and_removed(kept: DiskCache) -> None:
    left = kept.folder / f".{OTHER}{SUFFIX}.12345.partial"
    left.write_bytes(bytes(1000))
    assert left in set(kept.paths())
    assert kept.bytes() > 1000
    assert kept.clear() == 2
    assert list(kept.folder.iterdir()) == []


def test_what_a_killed_process_left_counts_towards_the_bound(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, most_bytes=1200)
    left = tmp_path / f".{OTHER}{SUFFIX}.12345.partial"
    left.write_bytes(bytes(1000))
    os.utime(left, (1000, 1000))
    kept.store(KEY, bytes(900))
    assert [path.stem for path in kept.paths()] == [KEY]


def test_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    assert user_cache() == DiskCache(tmp_path / "compiled")
    monkeypatch.setenv("MEGANEURA_CACHE", "Off")
    assert user_cache() is None
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEGANEURA_CACHE", "~/mine")
    assert user_cache() == DiskCache(tmp_path / "home" / "mine" / "compiled")
    monkeypatch.setenv("MEGANEURA_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert user_cache() == DiskCache(tmp_path / "caches" / "meganeura" / "compiled")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache() == DiskCache(tmp_path / "home" / ".cache" / "meganeura" / "compiled")


def test_what_another_process_removes_meanwhile_is_no_error(kept: DiskCache) -> None:
    whole = kept.bytes()
    path_of(kept, OTHER).symlink_to(kept.folder / "gone")
    assert kept.bytes() == whole
    assert kept.find(OTHER) is None
    kept.store(KEY, b"content")
    assert kept.find(KEY) == b"content"


REASONS = {
    "cut short": "it is damaged, or of another key",
    "another key's": "it is damaged, or of another key",
    "newer": "it is of another version",
    "foreign": "it is no entry",
    "an enormous line": "it is no entry",
}


@pytest.mark.parametrize("damage", REASONS)
def test_why_an_entry_is_not_used_is_told(damage: str, kept: DiskCache, notes: list[str]) -> None:
    path = path_of(kept)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert kept.find(KEY) is None
    assert REASONS[damage] in notes[0]


def test_an_entry_is_as_old_as_its_last_use_and_not_as_who_looked_at_it(tmp_path: Path) -> None:
    whole = DiskCache(tmp_path / "cache")
    for key in (KEY, OTHER):
        whole.store(key, bytes(1000))
    os.utime(path_of(whole), (2_000, 1_000))
    os.utime(path_of(whole, OTHER), (1_000, 2_000))
    small = DiskCache(whole.folder, most_bytes=2_500)
    small.store("89abef01", bytes(1000))
    assert small.find(KEY) is None
    assert small.find(OTHER) == bytes(1000)
