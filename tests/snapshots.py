"""Snapshots: texts that a test compares, a few of them whole and the others by one checksum.

A snapshot has many texts in groups. Those chosen by name stand in its file, so that a change is
read in a diff; a group has one checksum of all its texts, so that no change goes unseen. The module
that makes the texts writes its file anew. Given a folder it writes every text there, one file each:
do so before and after a change, and `diff -r` shows all that changed.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from zlib import crc32

import pytest

from tests.index_package import take_for_index_package

LONGEST = 200
"""Number of lines of a difference that a failure shows."""


@dataclass(frozen=True)
class Text:
    """One text of a snapshot, with the group whose checksum it counts in."""

    group: str
    name: str
    text: str


@dataclass(frozen=True)
class Snapshot:
    """The texts of a module, with the names of those that stand in its file."""

    module: str
    texts: Callable[[], Iterable[Text]]
    shown: Collection[str]

    @property
    def file(self) -> Path:
        return Path(__file__).parents[1].joinpath(*self.module.split(".")).with_suffix(".snap")

    def content(self) -> str:
        """Content of the file as the code makes it now."""
        found = list(self.texts())
        named = {f"{each.group}: {each.name}": each.text for each in found}
        if len(named) < len(found):
            raise ValueError("two texts have one name")
        if lost := [name for name in self.shown if name not in named]:
            raise ValueError(f"no text is named {lost}")
        whole = (f"=== {name}\n{named[name].rstrip()}\n" for name in named if name in self.shown)
        sums: dict[str, int] = {}
        counts: dict[str, int] = {}
        for each in found:
            said = f"{each.name}\0{each.text}\0".encode()
            sums[each.group] = crc32(said, sums.get(each.group, 0))
            counts[each.group] = counts.get(each.group, 0) + 1
        lines = (f"{name}: {counts[name]} texts, checksum {sums[name]:08x}\n" for name in sums)
        return "\n".join((*whole, f"=== all texts\n{''.join(lines)}"))

    def check(self) -> None:
        """Fails with the difference between the file and what the code makes now."""
        before, now = self.file.read_text(encoding="utf-8"), self.content()
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
            (folder / f"{name} {mark}.txt").write_text(each.text, encoding="utf-8")
