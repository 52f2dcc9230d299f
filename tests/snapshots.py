"""Snapshots: texts that a test compares, a few of them whole and the others by one checksum.

A snapshot has many texts in groups. Those chosen by name stand in its file, so that a change is
read in a diff; a group has one checksum of all its texts, so that no change goes unseen. Texts that
take long to make are given as functions: their group has a checksum for each of a few shares of
them, of which the first is compared by day, and all at night. The module
that makes the texts writes its file anew. Given a folder it writes every text there, one file each:
do so before and after a change, and `diff -r` shows all that changed.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from zlib import crc32

import pytest

from tests.effort import effort
from tests.index_package import take_for_index_package

LONGEST = 200
"""Number of lines of a difference that a failure shows."""

SHARES = 5
"""Shares of the texts of a group that are given as functions, with a checksum each."""
LATER = re.compile(r"(?<=, checksums [0-9a-f]{8}) .*")
"""The checksums of a line that are compared at night alone."""


@dataclass(frozen=True)
class Text:
    """One text of a snapshot, or what makes it, with the group whose checksum it counts in."""

    group: str
    name: str
    text: str | Callable[[], str]

    def made(self) -> str:
        """The text itself."""
        return self.text if isinstance(self.text, str) else self.text()


def _line(group: str, is_made: bool, count: int, sums: Iterable[int]) -> str:  # noqa: FBT001
    """The line of a group of texts; a group may have texts of both kinds."""
    kind = "checksum" if is_made else "checksums"
    return f"{group}: {count} texts, {kind} {' '.join(f'{each:08x}' for each in sums)}\n"


@dataclass(frozen=True)
class Snapshot:
    """The texts of a module, with the names of those that stand in its file."""

    module: str
    texts: Callable[[], Iterable[Text]]
    shown: Collection[str]

    @property
    def file(self) -> Path:
        return Path(__file__).parents[1].joinpath(*self.module.split(".")).with_suffix(".snap")

    def content(self, shares: int = SHARES) -> str:
        """Content of the file as the code makes it now, with so many shares of each group."""
        names: set[str] = set()
        whole: dict[str, str] = {}
        sums: dict[tuple[str, bool], dict[int, int]] = {}
        counts: Counter[tuple[str, bool]] = Counter()
        for each in self.texts():
            name, group = f"{each.group}: {each.name}", (each.group, isinstance(each.text, str))
            if name in names:
                raise ValueError("two texts have one name")
            names.add(name)
            share = 0 if isinstance(each.text, str) else counts[group] % SHARES
            counts[group] += 1
            if share >= shares and name not in self.shown:
                continue
            text = each.made()
            if name in self.shown:
                whole[name] = text
            if share < shares:
                of = sums.setdefault(group, {})
                of[share] = crc32(f"{each.name}\0{text}\0".encode(), of.get(share, 0))
        if lost := [name for name in self.shown if name not in whole]:
            raise ValueError(f"no text is named {lost}")
        parts = (f"=== {name}\n{text.rstrip()}\n" for name, text in whole.items())
        lines = (_line(*group, counts[group], sums[group].values()) for group in sums)
        return "\n".join((*parts, f"=== all texts\n{''.join(lines)}"))

    def check(self) -> None:
        """Fails with the difference between the file and what the code makes now."""
        before, now = self.file.read_text(encoding="utf-8"), self.content(effort(1, SHARES))
        if effort(usual=True, nightly=False):
            before = LATER.sub("", before)
        if before != now:
            lines = [*unified_diff(before.splitlines(), now.splitlines(), "written", "now", n=2)]
            more = len(lines) - LONGEST
            cut = [f"... {more} more lines"] if more > 0 else []
            advice = (
                f"`python -m {self.module}` writes {self.file.name} anew, `python -m {self.module} "
                "FOLDER` every text into FOLDER: before and after a change, for `diff -r`."
            )
            pytest.fail("\n".join((*lines[:LONGEST], *cut, advice)), pytrace=False)

    def main(self) -> None:
        """Writes the file, or every text into the folder that is named."""
        take_for_index_package()
        if not sys.argv[1:]:
            self.file.write_text(self.content(), encoding="utf-8")
            return
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for each in self.texts():
            name = re.sub(r"[^\w.,= -]", "_", f"{each.group}: {each.name}")[:150]
            mark = f"{crc32(each.name.encode()):08x}"
            (folder / f"{name} {mark}.txt").write_text(each.made(), encoding="utf-8")
