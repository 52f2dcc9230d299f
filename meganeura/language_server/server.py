"""The wiring of the language server: requests of the protocol to functions of an analysis.

Checks run on one worker thread, so that the server answers meanwhile. A keystroke ends the check
of the text before it at the next declaration, and starts another a moment later.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Protocol, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from meganeura.language_server.analysis import Analysis, analyse, path_of
from meganeura.language_server.code_actions import code_actions, formatting
from meganeura.language_server.code_lenses import COMMAND, code_lenses
from meganeura.language_server.completion import completion
from meganeura.language_server.diagnostics import diagnostics
from meganeura.language_server.hover import hover
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura.language_server.navigation import (
    definition,
    document_symbols,
    folding_ranges,
    references,
)
from meganeura.language_server.positions import Positions
from meganeura.language_server.rename import RenameError, rename, renamed_range
from meganeura.language_server.semantic_tokens import LEGEND, semantic_tokens
from meganeura.language_server.signature_help import signature_help
from meganeura_dsl import __version__

PAUSE = 0.02
"""Seconds without a keystroke before a check begins."""


_Answer = TypeVar("_Answer")


class _OfDocument(Protocol):
    """The parameters of a request about one document."""

    @property
    def text_document(self) -> types.TextDocumentIdentifier: ...


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
        try:
            analysis, found = await loop.run_in_executor(self._worker, run)
        except Exception as error:
            text = f"internal error: {type(error).__name__}: {error}: please report it"
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, text))
            raise
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

    async def answer(
        self, given: _OfDocument, function: Callable[[Analysis], _Answer]
    ) -> _Answer | None:
        """A function of the newest check of a document; None if the document is not open."""
        analysis = await self.analysis(given.text_document.uri)
        return None if analysis is None else await self._computed(lambda: function(analysis))

    async def answer_soon(
        self, given: _OfDocument, function: Callable[[Analysis], _Answer]
    ) -> _Answer | None:
        """A function of the last check of a document, which may be of an older text."""
        analysis = self.latest.get(given.text_document.uri)
        if analysis is None:
            return await self.answer(given, function)
        return await asyncio.to_thread(function, analysis)

    async def _computed(self, function: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function)

    def offset(self, text: str, position: types.Position) -> int:
        """The offset of a position in a text."""
        return Positions(text, self._encoding).offset(position)

    @property
    def can_annotate(self) -> bool:
        """True if the client shows what edits do, and asks before it makes them."""
        workspace = self.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        return edit is not None and bool(edit.document_changes and edit.change_annotation_support)


SERVER = MeganeuraServer()


@SERVER.feature(types.INITIALIZED)
async def initialized(server: MeganeuraServer, _: types.InitializedParams) -> None:
    """Ask for notifications of programs that change on disk, as those are that open ones import."""
    workspace = server.client_capabilities.workspace
    watched = workspace.did_change_watched_files if workspace else None
    if watched is not None and watched.dynamic_registration:
        programs = types.DidChangeWatchedFilesRegistrationOptions(
            [types.FileSystemWatcher("**/*.mgn")]
        )
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        registration = types.Registration("programs", method, programs)
        await server.client_register_capability_async(types.RegistrationParams([registration]))


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
async def on_inlay_hint(
    server: MeganeuraServer, given: types.InlayHintParams
) -> list[types.InlayHint] | None:
    """The shapes of the lines that are shown."""
    return await server.answer(given, lambda analysis: inlay_hints(analysis, given.range))


@SERVER.feature(types.TEXT_DOCUMENT_HOVER)
async def on_hover(server: MeganeuraServer, given: types.HoverParams) -> types.Hover | None:
    """Returns the hover text for a position."""
    return await server.answer(given, lambda analysis: hover(analysis, given.position))


ACTIONS = types.CodeActionOptions(
    [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
)


@SERVER.feature(types.TEXT_DOCUMENT_CODE_ACTION, ACTIONS)
async def on_code_action(
    server: MeganeuraServer, given: types.CodeActionParams
) -> list[types.CodeAction] | None:
    """The fixes of a range, of the kinds that are asked for."""
    found = await server.answer(given, lambda analysis: code_actions(analysis, given.range))
    only = given.context.only
    if found is None or only is None:
        return found
    return [
        each
        for each in found
        if any(f"{each.kind}.".startswith(f"{kind}.") for kind in map(str, only))
    ]


@SERVER.feature(types.TEXT_DOCUMENT_FORMATTING)
async def on_formatting(
    server: MeganeuraServer, given: types.DocumentFormattingParams
) -> list[types.TextEdit] | None:
    """The layout of `meganeura fmt`."""
    return await server.answer(given, formatting)


@SERVER.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
async def on_folding_range(
    server: MeganeuraServer, given: types.FoldingRangeParams
) -> list[types.FoldingRange] | None:
    """Returns the folding ranges."""
    return await server.answer(given, folding_ranges)


@SERVER.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
async def on_document_symbol(
    server: MeganeuraServer, given: types.DocumentSymbolParams
) -> list[types.DocumentSymbol] | None:
    """The declarations of a document."""
    return await server.answer(given, document_symbols)


@SERVER.feature(types.TEXT_DOCUMENT_DEFINITION)
async def on_definition(
    server: MeganeuraServer, given: types.DefinitionParams
) -> types.Location | None:
    """Returns the declaration of a name."""
    return await server.answer(given, lambda analysis: definition(analysis, given.position))


@SERVER.feature(types.TEXT_DOCUMENT_REFERENCES)
async def on_references(
    server: MeganeuraServer, given: types.ReferenceParams
) -> list[types.Location] | None:
    """Returns the mentions of a name."""
    return await server.answer(given, lambda analysis: references(analysis, given.position))


@SERVER.feature(types.TEXT_DOCUMENT_CODE_LENS)
async def on_code_lens(
    server: MeganeuraServer, given: types.CodeLensParams
) -> list[types.CodeLens] | None:
    """Returns the lenses above declarations."""
    return await server.answer(given, code_lenses)


@SERVER.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
async def on_semantic_tokens(
    server: MeganeuraServer, given: types.SemanticTokensParams
) -> types.SemanticTokens | None:
    """Returns the kind of each word."""
    return await server.answer(given, semantic_tokens)


@SERVER.feature(
    types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["(", ">", " ", "."])
)
async def on_completion(
    server: MeganeuraServer, given: types.CompletionParams
) -> list[types.CompletionItem] | None:
    """Returns the completions at a position, by the last check, without waiting for the next."""
    text = server.workspace.get_text_document(given.text_document.uri).source
    return await server.answer_soon(
        given, lambda analysis: completion(analysis, text, server.offset(text, given.position))
    )


@SERVER.feature(
    types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(trigger_characters=["(", ","])
)
async def on_signature_help(
    server: MeganeuraServer, given: types.SignatureHelpParams
) -> types.SignatureHelp | None:
    """The form of what is called, by the last check."""
    text = server.workspace.get_text_document(given.text_document.uri).source
    return await server.answer_soon(
        given, lambda analysis: signature_help(analysis, text, server.offset(text, given.position))
    )


@SERVER.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
async def on_prepare_rename(
    server: MeganeuraServer, given: types.PrepareRenameParams
) -> types.Range | None:
    """The name that would be another."""
    return await server.answer(given, lambda analysis: renamed_range(analysis, given.position))


@SERVER.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
async def on_rename(
    server: MeganeuraServer, given: types.RenameParams
) -> types.WorkspaceEdit | None:
    """The edits of a rename, and the checkpoint keys that change."""
    texts = server.texts
    try:
        found = await server.answer(
            given, lambda analysis: rename(analysis, given.position, given.new_name, texts)
        )
    except RenameError as error:
        raise JsonRpcInvalidParams(str(error)) from None
    if found is None:
        return None
    uri = given.text_document.uri
    if not found.told:
        return types.WorkspaceEdit({uri: found.edits})
    if not server.can_annotate:
        server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, found.told))
        return types.WorkspaceEdit({uri: found.edits})
    edits = [types.AnnotatedTextEdit("keys", each.range, each.new_text) for each in found.edits]
    document = types.OptionalVersionedTextDocumentIdentifier(uri)
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(document, edits)],
        change_annotations={"keys": types.ChangeAnnotation(found.told, needs_confirmation=True)},
    )


@SERVER.command(COMMAND)
def on_run(server: MeganeuraServer, *arguments: str) -> None:
    """Say what to type: a training belongs into a terminal, where it can be seen and ended."""
    line = shlex.join(["meganeura", *arguments])
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, line))


def serve() -> None:
    """Serve one editor on standard input and output, until it leaves.

    Nothing else may write there meanwhile: what is printed goes to standard error.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output, redirect_stdout(sys.stderr):
        SERVER.start_io(stdout=output)
