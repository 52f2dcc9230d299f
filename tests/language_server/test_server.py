"""The server as an editor meets it: over the protocol, in a process of its own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

URI = "file:///programs/net.mgn"
BROKEN = """\
# ümläut
block Net(d)(x: [n, d]) -> [n, 2]:
  y = x |> a: linear(3)  # 🎉
  return y |> b: linear(4)
"""

in_session = pytest.mark.asyncio(loop_scope="module")


@pytest_lsp.fixture(
    scope="module",
    loop_scope="module",
    config=ClientServerConfig(server_command=[sys.executable, "-m", "meganeura", "lsp"]),
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
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
    """What is said next about a document; each is handed out once."""
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
    """Where it changes, what imports it is told anew."""
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
