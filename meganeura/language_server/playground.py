"""The checker of the playground: one program, asked by a page in JSON.

The page runs it in Pyodide, unchanged; it needs neither an editor nor a file. Positions are pairs
of line and column from 0, in UTF-16 as the strings of JavaScript count.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lsprotocol.types import (
    CodeAction,
    CompletionItem,
    CompletionItemKind,
    Diagnostic,
    MarkupContent,
    Position,
    Range,
    TextEdit,
)

from meganeura.language_server.analysis import Analysis
from meganeura.language_server.code_actions import code_actions, formatting
from meganeura.language_server.code_lenses import code_lenses
from meganeura.language_server.diagnostics import SEVERITIES, diagnostic
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura.language_server.positions import Positions
from meganeura.settings_reports import settings_reports
from meganeura_dsl.checker import check
from meganeura_dsl.diagnostics.message_pages import message_page
from meganeura_dsl.diagnostics.report import Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.diagnostics.verdict import verdict
from meganeura_dsl.program import loader_beside
from meganeura_dsl.resources import standard_model_names, standard_models

NAME = "program.mgn"
FOLDER = Path("/playground")
"""Where the program would lie; nothing is there, so that imports are those of the library."""
MOST_PROBLEMS = 20
"""Problems that are drawn; a wrong name may cause hundreds."""

Json = dict[str, Any]


class Playground:
    """The program of the page as it was last checked."""

    def __init__(self) -> None:
        self._analysis = analysed("")

    def answer(self, request: str) -> str:
        """The answer to a request, both in JSON; `method` says which function is asked."""
        given = json.loads(request)
        return json.dumps(METHODS[given.pop("method")](self, **given))

    def check(self, text: str) -> Json:
        """Check a program: what the command line says of it, and what stands at its lines."""
        self._analysis = analysis = analysed(text)
        found = [each.severity for each in analysis.reports]
        result = analysis.result
        shown = analysis.reports[:MOST_PROBLEMS]
        return {
            "verdict": verdict(NAME, found, len(result.proved), result.holds),
            "fine": Severity.ERROR not in found,
            "models": list(result.elaborations),
            "problems": [_problem(report, analysis) for report in shown],
            "unshown": len(analysis.reports) - len(shown),
            "hints": [
                {"at": _at(each.position), "text": str(each.label), "stage": each.padding_left}
                for each in inlay_hints(analysis)
            ],
            "lenses": [
                {"line": lens.range.start.line, "text": lens.command.title}
                for lens in code_lenses(analysis)
                if lens.command is not None and lens.command.title != "train"
            ],
        }

    def hover(self, at: list[int]) -> Json | None:
        """Returns all that is known at a position, as Markdown, or None."""
        from meganeura.language_server.hover import hover

        found = hover(self._analysis, Position(*at))
        if found is None:
            return None
        assert isinstance(found.contents, MarkupContent)
        return {"text": found.contents.value, "range": found.range and _range(found.range)}

    def complete(self, text: str, at: list[int]) -> list[Json]:
        """Returns what may stand at a position of a newer text, by the last check."""
        from meganeura.language_server.completion import completion

        offset = Positions(text).offset(Position(*at))
        return [_item(each) for each in completion(self._analysis, text, offset)]

    def format(self, text: str) -> list[Json]:
        """The edit that lays a program out as `meganeura fmt` does."""
        return _edits(formatting(analysed(text)))

    def layers(self, model: str) -> str:
        """The layers of a model of the checked program, as `meganeura summary` lists them."""
        from meganeura_dsl import pipeline
        from meganeura_dsl.summary import summarize

        program = self._analysis.result.program
        found = summarize(
            model, lambda sizes: pipeline.elaborate_model(program, model, sizes=sizes), {}
        )
        return found.text(option="--set ")

    def drawing(self, model: str) -> Json:
        """The layers of a model of the checked program and their edges, for a page to lay out."""
        from meganeura_dsl import pipeline
        from meganeura_dsl.graph_drawing import drawing_data
        from meganeura_dsl.summary import summarize

        program = self._analysis.result.program
        found = summarize(
            model, lambda sizes: pipeline.elaborate_model(program, model, sizes=sizes), {}
        )
        return drawing_data(found, pipeline.elaborate_model(program, model).graph)

    def page(self, code: str) -> str | None:
        """The page of a message in Markdown, as `meganeura explain` shows it."""
        return message_page(code)

    def source(self, name: str) -> str:
        """The text of a program of the standard library; raises `KeyError`."""
        if name not in standard_model_names():
            raise KeyError(name)
        return (standard_models() / f"{name}.mgn").read_text(encoding="utf-8")


METHODS = {
    each.__name__: each
    for each in (
        *(Playground.check, Playground.hover, Playground.complete),
        *(Playground.format, Playground.layers, Playground.drawing),
        *(Playground.page, Playground.source),
    )
}


def analysed(text: str) -> Analysis:
    """Check a program that lies nowhere."""
    source, loader = Source(NAME, text), loader_beside(FOLDER / NAME)
    result = check(source, loader)
    reports = (*result.reports, *settings_reports(result))
    return Analysis((FOLDER / NAME).as_uri(), source, result, reports, loader)


def _problem(report: Report, analysis: Analysis) -> Json:
    found = diagnostic(report, analysis)
    return {
        "range": _range(found.range),
        "severity": _severity(found),
        "code": report.code,
        "message": found.message,
        "text": render(report),
        "fixes": [_fix(each) for each in _fixes(report, analysis)],
    }


def _severity(found: Diagnostic) -> str:
    names = {number: severity.value for severity, number in SEVERITIES.items()}
    return names[found.severity] if found.severity else "error"


def _fixes(report: Report, analysis: Analysis) -> Iterable[CodeAction]:
    """The fixes of one problem: those of others may stand at the same place."""
    found = diagnostic(report, analysis)
    for action in code_actions(analysis, found.range):
        if action.diagnostics and action.diagnostics[0] == found:
            yield action


def _fix(action: CodeAction) -> Json:
    changes: Mapping[str, Iterable[TextEdit]] = (action.edit and action.edit.changes) or {}
    edits = [edit for each in changes.values() for edit in each]
    return {"title": action.title, "safe": bool(action.is_preferred), "edits": _edits(edits)}


def _edits(edits: Iterable[TextEdit]) -> list[Json]:
    return [{"range": _range(each.range), "text": each.new_text} for each in edits]


_KINDS: Mapping[object, str] = {
    CompletionItemKind.Class: "class",
    CompletionItemKind.Constant: "constant",
    CompletionItemKind.EnumMember: "enum",
    CompletionItemKind.Field: "property",
    CompletionItemKind.Function: "function",
    CompletionItemKind.Keyword: "keyword",
    CompletionItemKind.Module: "namespace",
    CompletionItemKind.Property: "property",
    CompletionItemKind.Reference: "namespace",
    CompletionItemKind.Value: "text",
}
"""Names of the kinds in the editor of the page."""


def _item(item: CompletionItem) -> Json:
    documentation = item.documentation if isinstance(item.documentation, str) else ""
    return {
        "label": item.label,
        "kind": _KINDS.get(item.kind, "variable"),
        "detail": item.detail or "",
        "documentation": documentation,
        "text": item.insert_text or item.label,
        "rank": item.sort_text or item.label,
    }


def _at(position: Position) -> list[int]:
    return [position.line, position.character]


def _range(found: Range) -> list[list[int]]:
    return [_at(found.start), _at(found.end)]
