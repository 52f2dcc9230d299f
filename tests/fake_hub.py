"""A hub of weights on this machine: it tells checksums of files, and gives pieces of them."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

SMALLEST_LARGE = 1000
"""Bytes from which a file has a SHA-256, as large files of a hub have."""
NOWHERE = "http://127.0.0.1:9"
"""The address of a hub that is not there."""


@dataclass
class Repository:
    """Files of one commit, on the branch `main`."""

    files: dict[str, bytes]
    commit: str = "a" * 40
    lies: dict[str, str] = field(default_factory=dict[str, str])
    """Wrong checksums that the hub gives for files."""


@dataclass
class FakeHub:
    """Repositories by name, and what was asked."""

    repositories: dict[str, Repository]
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each path that was asked for, and its `Range`."""
    cut_after: int | None = None
    """Bytes of a file after which the connection ends; 0 sends nothing of it."""
    refusal: tuple[int, str] | None = None
    """A status and an error code that everything is answered with."""
    answer: bytes | None = None
    """The body that everything is answered with."""
    endpoint: str = ""

    def files_asked(self) -> list[tuple[str, str]]:
        """Returns the files that were asked for, without their folders."""
        return [(p.rpartition("/")[2], range_) for p, range_ in self.asked if "/resolve/" in p]


def _siblings(found: Repository) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = []
    for name, content in found.files.items():
        blob = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": blob}
        if len(content) >= SMALLEST_LARGE:
            digest = found.lies.get(name, sha256(content).hexdigest())
            entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
        listed.append(entry)
    return listed


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        """Answer what the client of a hub asks: the files of a revision, or one of them."""
        path = unquote(urlsplit(self.path).path)
        range_ = self.headers.get("Range", "")
        self.hub.asked.append((path, range_))
        if self.hub.answer is not None:
            self._send(200, self.hub.answer)
            return
        if self.hub.refusal is not None:
            self._refuse(*self.hub.refusal)
            return
        owner, name, *rest = path.removeprefix("/api/models/").removeprefix("/").split("/")
        found = self.hub.repositories.get(f"{owner}/{name}")
        if found is None:
            self._refuse(404, "RepoNotFound")
        elif rest[1] not in ("main", found.commit):
            self._refuse(404, "RevisionNotFound")
        elif rest[0] == "revision":
            told = {"id": f"{owner}/{name}", "sha": found.commit, "siblings": _siblings(found)}
            self._send(200, json.dumps(told).encode())
        else:
            content = found.files["/".join(rest[2:])]
            begin = int(range_.removeprefix("bytes=").rstrip("-") or 0)
            self._send(206 if begin else 200, content[begin:], self.hub.cut_after)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: int, content: bytes, cut_after: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if cut_after is None else content[:cut_after])
        if cut_after is not None:
            self.hub.cut_after = 0
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Say nothing."""


@contextmanager
def fake_hub(**repositories: Repository) -> Generator[FakeHub]:
    """A hub that runs as long as it is used; the owner of each repository is `me`."""
    hub = FakeHub({f"me/{name}": each for name, each in repositories.items()})
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield hub
        server.shutdown()
