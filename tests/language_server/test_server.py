"""The server as an editor meets it: over the protocol, in its own process."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from meganeura.cli.app import run

URI = "file:///programs/net.mgn"
BROKEN = """\
# ümläut
block Net(d)(x: [n, d]) -> [n, 2]:
  y = x |> a: linear(3)  # 🎉
  return y |> b: linear(4)
"""
SMALL = "block A()(x: [n, 3]) -> [n, 2]:\n  return x |> fc: linear(2)\nmodel a = A()\n"

in_session = pytest.mark.asyncio(loop_scope="module")


@pytest_lsp.fixture(
    scope="module",
    loop_scope="module",
    config=ClientServerConfig(server_command=[sys.executable, "-m", "meganeura", "lsp"]),
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(_: LanguageClient, given: types.RegistrationParams) -> None:
        (asked,) = given.registrations
        assert asked.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES

    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
    )
    yield
    await lsp_client.shutdown_session()


async def opened(client: LanguageClient, text: str, uri: str = URI) -> list[types.Diagnostic]:
    """Open a document, and wait for what is said about it."""
    client.diagnostics.pop(uri, None)
    item = types.TextDocumentItem(uri, "meganeura", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    return await told(client, uri)


async def told(client: LanguageClient, uri: str = URI) -> list[types.Diagnostic]:
    """Returns the next messages about a document; each is returned once."""
    while uri not in client.diagnostics:  # noqa: ASYNC110  the client has no event for it
        await asyncio.sleep(0.01)
    return list(client.diagnostics.pop(uri))


def change(client: LanguageClient, text: str, version: int, uri: str = URI) -> None:
    """Replace all of a document."""
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(version, uri),
            [types.TextDocumentContentChangeWholeDocument(text)],
        )
    )


@in_session
async def test_all_problems_of_an_unsaved_text_are_told_and_gone_once_mended(
    client: LanguageClient,
) -> None:
    (found,) = await opened(client, BROKEN)
    assert (found.code, found.range.start.line, found.source) == ("E0303", 3, "meganeura")
    assert found.code_description is not None
    assert found.code_description.href.endswith("errors/E0303.md")
    assert found.message.startswith("`Net` returns another shape than it says\n")
    change(client, "block", 2)  # nothing is said about a text that was typed over
    change(client, BROKEN.replace("linear(4)", "linear(2)"), 3)
    assert await told(client) == []


@in_session
async def test_hints_of_the_lines_that_are_shown(client: LanguageClient) -> None:
    uri = "file:///programs/hints.mgn"
    await opened(client, BROKEN, uri)
    shown = types.Range(types.Position(2, 0), types.Position(2, 0))
    asked = types.InlayHintParams(types.TextDocumentIdentifier(uri), shown)
    hints = await client.text_document_inlay_hint_async(asked)
    assert [(each.position, each.label) for each in hints or []] == [
        (types.Position(2, 23), "[n, 3]")
    ]


@in_session
async def test_an_import_is_found_among_the_open_documents(client: LanguageClient) -> None:
    """A change of it is reported in the documents that import it."""
    part, whole = "file:///programs/part.mgn", "file:///programs/whole.mgn"
    good = "block Twice()(x: [n, d]) -> [n, d] = x + x\n"
    await opened(client, good, part)
    text = "from part import Twice\nblock Net()(x: [n, d]) -> [n, d] = x |> Twice\n"
    assert await opened(client, text, whole) == []
    change(client, good.replace("-> [n, d]", "-> [d, n]"), 2, part)
    await told(client, part)
    found = await told(client, whole)
    assert found[0].range.start.line == 0
    assert "(in part.mgn:1)" in found[0].message
    assert found[0].related_information is not None
    assert found[0].related_information[0].location.uri == part


@in_session
async def test_a_file_that_changes_on_disk_is_read_anew(
    client: LanguageClient, tmp_path: Path
) -> None:
    part, whole = tmp_path / "part.mgn", (tmp_path / "whole.mgn").as_uri()
    part.write_text("block Twice()(x: [n, d]) -> [n, d] = x + x\n")
    text = "from part import Twice\nblock Net()(x: [n, d]) -> [n, d] = x |> Twice\n"
    assert await opened(client, text, whole) == []
    part.write_text("block Other()(x: [n, d]) -> [n, d] = x + x\n")
    changed = types.FileEvent(part.as_uri(), types.FileChangeType.Changed)
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
    assert (await told(client, whole))[0].range.start.line == 0


@in_session
async def test_requests_about_a_place_are_answered(client: LanguageClient) -> None:
    uri = "file:///programs/place.mgn"
    assert await opened(client, SMALL, uri) == []
    document, label = types.TextDocumentIdentifier(uri), types.Position(1, 15)
    place = {"text_document": document, "position": label}
    hovered = await client.text_document_hover_async(types.HoverParams(**place))
    assert hovered is not None
    assert "fc.weight" in str(hovered.contents)
    defined = await client.text_document_definition_async(types.DefinitionParams(**place))
    assert isinstance(defined, types.Location)
    context = types.ReferenceContext(include_declaration=True)
    asked = types.ReferenceParams(context, **place)
    assert len(await client.text_document_references_async(asked) or []) == 1
    offered = await client.text_document_completion_async(types.CompletionParams(**place))
    assert offered
    form = types.SignatureHelpParams(document, types.Position(1, 25))
    assert await client.text_document_signature_help_async(form) is not None
    renaming = types.RenameParams(document, label, "head")
    edit = await client.text_document_rename_async(renaming)
    assert edit is not None
    assert edit.change_annotations is not None
    assert edit.change_annotations["keys"].label.startswith("2 checkpoint keys change: fc.weight")
    with pytest.raises(JsonRpcException, match="is no name"):
        await client.text_document_rename_async(types.RenameParams(document, label, "2x"))


@in_session
async def test_requests_about_a_document_are_answered(client: LanguageClient) -> None:
    uri = "file:///programs/all.mgn"
    assert await opened(client, SMALL, uri) == []
    document = types.TextDocumentIdentifier(uri)
    whole = types.Range(types.Position(0, 0), types.Position(3, 0))
    fixes = types.CodeActionParams(document, whole, types.CodeActionContext([]))
    assert not await client.text_document_code_action_async(fixes)
    options = types.FormattingOptions(2, insert_spaces=True)
    layout = types.DocumentFormattingParams(document, options)
    assert await client.text_document_formatting_async(layout) is not None
    folds = types.FoldingRangeParams(document)
    assert len(await client.text_document_folding_range_async(folds) or []) == 1
    outline = types.DocumentSymbolParams(document)
    assert len(await client.text_document_document_symbol_async(outline) or []) == 2
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document))
    assert lenses is not None
    assert lenses[1].command is not None
    assert lenses[1].command.title == "8 weights in 2 params"
    tokens = types.SemanticTokensParams(document)
    assert await client.text_document_semantic_tokens_full_async(tokens) is not None
    asked = types.ExecuteCommandParams("meganeura.run", ["check", "all.mgn"])
    await client.workspace_execute_command_async(asked)
    assert client.messages[-1].message == "meganeura check all.mgn"


def test_an_editor_that_leaves_ends_the_server_without_a_word() -> None:
    requests = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **request}) for request in requests]
    sent = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    ended = subprocess.run(
        [sys.executable, "-m", "meganeura", "lsp", "--stdio"],
        input=sent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ended.stderr == ""
    assert '"inlayHintProvider"' in ended.stdout


def test_without_its_library_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert run(["lsp"]) == 1
    assert "`pygls` is not installed, and is needed to serve an editor" in capsys.readouterr().err
