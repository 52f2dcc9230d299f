"""The wiring of the language server: requests of the protocol to functions of an analysis.

Checks run on one worker thread, so that the server answers meanwhile. A keystroke ends the check
of the text before it at the next declaration, and starts another a moment later.
"""

import asyncio
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from meganeura.language_server.analysis import Analysis, analyse, path_of
from meganeura.language_server.diagnostics import diagnostics
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura_dsl import __version__

PAUSE = 0.02
"""Seconds without a keystroke before a check begins."""


class OutdatedError(Exception):
    """A check was of a text that is no longer the newest."""


class MeganeuraServer(LanguageServer):
    """The open documents, and the newest check of each."""

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  its `*args` have no type
            "meganeura", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full
        )
        self._worker = ThreadPoolExecutor(1, "check")
        self._checks: dict[str, asyncio.Task[Analysis]] = {}
        self._newest: dict[str, object] = {}
        self.latest: dict[str, Analysis] = {}
        """The last check of each document that came to its end."""

    @property
    def texts(self) -> dict[Path, str]:
        """The open documents, by their paths."""
        documents = self.workspace.text_documents
        return {path_of(uri): documents[uri].source for uri in self._checks if uri in documents}

    def changed(self, uri: str) -> None:
        """Check a document whose text is new, and those that import it."""
        self._begin(uri)
        path = str(path_of(uri))
        for other, analysis in self.latest.items():
            sources = analysis.module.sources()
            if other != uri and any(source.name == path for source, _ in sources):
                self._begin(other)

    def changed_on_disk(self) -> None:
        """Check all open documents again: a file they import may be another."""
        for uri in tuple(self._checks):
            self._begin(uri)

    def closed(self, uri: str) -> None:
        """Forget a document."""
        self._newest.pop(uri, None)
        check = self._checks.pop(uri, None)
        if check is not None:
            check.cancel()
        self.latest.pop(uri, None)
        self._publish(uri, [], None)

    def _begin(self, uri: str) -> None:
        before = self._checks.get(uri)
        if before is not None:
            before.cancel()
        ticket = self._newest[uri] = object()
        self._checks[uri] = asyncio.get_running_loop().create_task(self._check(uri, ticket))

    async def _check(self, uri: str, ticket: object) -> Analysis:
        await asyncio.sleep(PAUSE)
        document = self.workspace.get_text_document(uri)
        text, version, texts = document.source, document.version, self.texts

        def go_on() -> None:
            if self._newest.get(uri) is not ticket:
                raise OutdatedError

        def run() -> tuple[Analysis, list[types.Diagnostic]]:
            go_on()
            analysis = analyse(uri, text, texts, go_on, self._encoding, version)
            return analysis, diagnostics(analysis)

        loop = asyncio.get_running_loop()
        analysis, found = await loop.run_in_executor(self._worker, run)
        self.latest[uri] = analysis
        self._publish(uri, found, version)
        return analysis

    @property
    def _encoding(self) -> str:
        return self.workspace.position_encoding or types.PositionEncodingKind.Utf16

    def _publish(self, uri: str, found: Iterable[types.Diagnostic], version: int | None) -> None:
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, list(found), version)
        )

    async def analysis(self, uri: str) -> Analysis | None:
        """The check of the newest text of a document; None if the document is not open."""
        while (check := self._checks.get(uri)) is not None:
            await asyncio.wait({check})
            if check is self._checks.get(uri):
                return check.result()
        return None


SERVER = MeganeuraServer()


@SERVER.feature(types.TEXT_DOCUMENT_DID_OPEN)
def did_open(server: MeganeuraServer, given: types.DidOpenTextDocumentParams) -> None:
    """A document was opened."""
    server.changed(given.text_document.uri)


@SERVER.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def did_change(server: MeganeuraServer, given: types.DidChangeTextDocumentParams) -> None:
    """A key was struck."""
    server.changed(given.text_document.uri)


@SERVER.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def did_close(server: MeganeuraServer, given: types.DidCloseTextDocumentParams) -> None:
    """A document was closed."""
    server.closed(given.text_document.uri)


@SERVER.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
def did_change_files(server: MeganeuraServer, _: types.DidChangeWatchedFilesParams) -> None:
    """A file was changed by another program."""
    server.changed_on_disk()


@SERVER.feature(types.TEXT_DOCUMENT_INLAY_HINT)
async def hints(
    server: MeganeuraServer, given: types.InlayHintParams
) -> list[types.InlayHint] | None:
    """The shapes of the lines that are shown."""
    analysis = await server.analysis(given.text_document.uri)
    return None if analysis is None else inlay_hints(analysis, given.range)


def serve() -> None:
    """Serve one editor on standard input and output, until it leaves.

    Nothing else may write there meanwhile: what is printed goes to standard error.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output, redirect_stdout(sys.stderr):
        SERVER.start_io(stdout=output)
