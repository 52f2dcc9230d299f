"""The files of a revision: their sizes and checksums, as the hub lists them."""

from collections.abc import Mapping
from hashlib import sha1, sha256
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

CHUNK = 1 << 20
"""Bytes that are hashed at once."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Entry(_Part):
    """A file: its bytes, and a hash of them."""

    size: Annotated[int, Field(ge=0)] | None = None
    sha256: str | None = None
    """Of a large file."""
    blob: str | None = None
    """Git's hash of a small file: SHA-1 of its size and its content."""

    @property
    def checksum(self) -> str | None:
        """The hash with its kind; `None` if the hub gives none."""
        if self.sha256 is not None:
            return f"SHA-256 {self.sha256}"
        return None if self.blob is None else f"git {self.blob}"

    def of(self, path: Path) -> str:
        """Returns the same of a file."""
        hashed = sha256() if self.sha256 is not None else sha1(usedforsecurity=False)
        if self.sha256 is None:
            hashed.update(b"blob %d\0" % path.stat().st_size)
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                hashed.update(piece)
        return f"{'git' if self.sha256 is None else 'SHA-256'} {hashed.hexdigest()}"


class Listing(_Part):
    """The files of a commit by name."""

    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    files: Mapping[str, Entry]
