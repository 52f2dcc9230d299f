"""Reports as plain data: every key, and nothing that JSON has no word for."""

import json

from meganeura_dsl.diagnostics.json_report import as_json
from meganeura_dsl.diagnostics.problem import Edit, Help, Remark, safe_fix, suggested_fix
from tests.dsl.diagnostics.test_terminal import at, error


def test_json_has_every_key() -> None:
    span = at("x = (1 +\n  2)", "(1 +\n  2)")
    report = error(
        span,
        "a\x1bb",
        path="fc",
        remarks=(Remark("for example", "h=7"), Remark("made here", "", span)),
        cure=safe_fix("write", Edit(span, "3")),
    )
    nowhere = dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    place = {"file": "net.mgn", "line": 1, "column": 5, "end_line": 2, "end_column": 5}
    assert json.loads(json.dumps(as_json(report))) == {
        "code": "E0999",
        "severity": "error",
        "headline": "wrong",
        "topic": "test",
        **place,
        "label": "a\x1bb",
        "path": "fc",
        "remarks": [
            {"title": "for example", "text": "h=7", **nowhere},
            {"title": "made here", "text": "", **place},
        ],
        "help": {"text": "write", "code": "x = 3", "line": 1, "applicability": "safe"},
        "fixes": [
            {"description": "write", "applicability": "safe", "edits": [{"text": "3", **place}]}
        ],
    }


def test_json_without_place_or_help() -> None:
    shown = as_json(error(None))
    assert shown["file"] is shown["line"] is shown["end_column"] is shown["help"] is None
    assert shown["remarks"] == []
    assert shown["fixes"] == []


def test_help_without_a_fix_keeps_its_code() -> None:
    shown = as_json(error(None, cure=Help("write", "x = 3")))
    none = {"text": "write", "code": "x = 3", "line": None, "applicability": "none"}
    assert shown["help"] == none


def test_a_fix_that_changes_the_meaning_says_so() -> None:
    span = at("x = 1", "1")
    shown = as_json(error(span, cure=suggested_fix("write", Edit(span, "3"))))
    assert shown["help"] is not None
    assert shown["help"]["applicability"] == shown["fixes"][0]["applicability"] == "suggested"
