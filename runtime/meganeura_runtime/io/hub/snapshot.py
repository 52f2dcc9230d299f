"""The files of a repository in the cache: downloaded once, resumed, compared with checksums.

hub/OWNER--NAME/REVISION        the commit that a branch or tag was when it was asked for last
hub/OWNER--NAME/COMMIT.json     the files of a commit, with their checksums
hub/OWNER--NAME/COMMIT/FILE     one of them, and FILE.partial while it is downloaded
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.io.files.folder_lock import locked_in_turn
from meganeura_runtime.io.hub.hub_problems import (
    HubRefused,
    NoSafetensors,
    NotReached,
    WrongChecksum,
)
from meganeura_runtime.io.hub.listing import Entry, Listing
from meganeura_runtime.io.hub.pretrained import COMMIT, Pretrained
from meganeura_runtime.support.optional_imports import load

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
BESIDE = ("tokenizer.json", "generation_config.json")
"""Files that stay beside the weights, as commands look for them there."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
SHARDS = ".safetensors.index.json"
OFFLINE = "HF_HUB_OFFLINE"
"""Set this variable to 1 to ask no hub."""
NOT_ASKED = "nothing is asked of it (`--offline`, or HF_HUB_OFFLINE)"
FOLDER = "hub"
LARGEST = 8
"""Mebibytes of a listing."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a commit that are used."""

    source: Pretrained
    """With the commit as its revision, and the checksum of its weights."""
    files: dict[str, Path]

    @property
    def weights(self) -> Path:
        """The file of weights."""
        return self.files[WEIGHTS]


@dataclass(frozen=True)
class Cache:
    """The part of the cache for one repository."""

    folder: Path
    report: Callable[[str], None]
    is_offline: bool = False

    @staticmethod
    def of(
        base: Path, source: Pretrained, report: Callable[[str], None], *, offline: bool
    ) -> "Cache":
        """Returns that below the user's cache folder; `HF_HUB_OFFLINE` asks for no hub too."""
        named = source.repository.replace("/", "--")
        wanted = offline or os.environ.get(OFFLINE, "").lower() in ("1", "true", "yes", "on")
        return Cache(base / FOLDER / named, report, wanted)

    def get(self, source: Pretrained) -> Snapshot:
        """Returns the files of the weights, downloaded where they are not here yet.

        Where the hub is not reached, those are taken that its revision had when it was asked for
        last. Raises `ProblemError`.
        """
        found = self._listing(source)
        source = replace(source, revision=found.commit)
        if WEIGHTS not in found.files:
            raise ProblemError(_no_weights(source.repository, found))
        files = dict[str, Path]()
        for name in (WEIGHTS, CONFIG, PREPROCESSOR, *BESIDE):
            if name in found.files:
                files[name] = self._file(source, name, found.files[name])
        listed = found.files[WEIGHTS].sha256 or ""
        return Snapshot(replace(source, sha256=source.sha256 or listed), files)

    def _listing(self, source: Pretrained) -> Listing:
        known = self._known(source.revision)
        if known is not None and (self.is_offline or COMMIT.fullmatch(source.revision)):
            return known
        if self.is_offline:
            raise ProblemError(NotReached(source.repository, source.revision, NOT_ASKED))
        load("huggingface_hub", "hub", "get weights from a hub")
        from meganeura_runtime.io.hub import client

        try:
            found = client.listing(source.repository, source.revision)
        except ProblemError as error:
            if known is None or not isinstance(error.problem, NotReached):
                raise
            self.report(f"the hub is not reached ({error.problem.reason}): from the cache")
            return known
        self._keep(source.revision, found)
        return found

    def _known(self, revision: str) -> Listing | None:
        """Returns the files that a revision had; `None` where it was not asked for yet."""
        commit = revision
        try:
            if COMMIT.fullmatch(revision) is None:
                commit = read_bytes(self._ref(revision), 1).decode().strip()
            return Listing.model_validate_json(read_bytes(self.folder / f"{commit}.json", LARGEST))
        except (OSError, TooLongError, ValidationError, ValueError):
            return None

    def _ref(self, revision: str) -> Path:
        return self.folder / f"ref-{quote(revision, safe='')}"

    def _keep(self, revision: str, found: Listing) -> None:
        try:
            (self.folder / found.commit).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProblemError(CannotWrite(self.folder, error.strerror or str(error))) from None
        write_text(self.folder / f"{found.commit}.json", found.model_dump_json())
        if revision != found.commit:
            write_text(self._ref(revision), found.commit)

    def _file(self, source: Pretrained, name: str, entry: Entry) -> Path:
        """Returns a file that has the checksum it should; raises `ProblemError`."""
        if name == WEIGHTS and source.sha256:
            entry = entry.model_copy(update={"sha256": source.sha256})
        if entry.checksum is None:
            reason = f"the hub gives no checksum of `{name}`"
            cure = Help("download the file from its page, and name it", f"--weights {name}")
            raise ProblemError(HubRefused(source.repository, source.revision, reason, cure))
        path = self.folder / source.revision / name
        origin = "from the cache"
        if not path.is_file():
            self._download(source, name, path, entry)
            origin = "downloaded"
        found = entry.of(path)
        if found != entry.checksum:
            path.unlink(missing_ok=True)
            raise ProblemError(WrongChecksum(path, source.repository, entry.checksum, found))
        self.report(f"{name}: {path.stat().st_size / 1e6:.1f} MB, {origin}, {found[:20]}")
        return path

    def _download(self, source: Pretrained, name: str, path: Path, entry: Entry) -> None:
        partial = path.with_name(f"{name}.partial")
        if self.is_offline:
            kept = partial.stat().st_size if partial.is_file() else 0
            raise ProblemError(NotReached(source.repository, source.revision, NOT_ASKED, kept))
        load("huggingface_hub", "hub", "get weights from a hub")
        from meganeura_runtime.io.hub import client

        with locked_in_turn(path.parent, self._wait):
            if not path.is_file():  # another process may have downloaded it meanwhile
                client.download(source.repository, name, source.revision, partial, entry.size)
                partial.replace(path)

    def _wait(self, process: int | None) -> None:
        who = "another process" if process is None else f"process {process}"
        self.report(f"waiting for {who}, which downloads from {self.folder.name}")


def _no_weights(repository: str, found: Listing) -> NoSafetensors:
    pickles = tuple(sorted(each for each in found.files if each.endswith(PICKLES)))
    shards = tuple(sorted(each for each in found.files if each.endswith(SHARDS)))
    return NoSafetensors(repository, pickles, shards)
