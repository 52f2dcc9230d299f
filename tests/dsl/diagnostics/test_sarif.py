"""Reports as SARIF: what the standard requires is there, for every kind of problem there is."""

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from meganeura.cli.error_catalogue import problems
from meganeura_dsl import checker
from meganeura_dsl.diagnostics.message_pages import message_page
from meganeura_dsl.diagnostics.problem import Edit, Help, Label, Remark, Report, Severity, safe_fix
from meganeura_dsl.diagnostics.sarif import as_sarif
from meganeura_dsl.diagnostics.source import Source, Span
from tests.effort import effort
from tests.literate import pages, read

LEVELS = ("none", "note", "warning", "error")
SOURCE = Source("my nets/größe:1.mgn", "x = 'Ω𝔸' + y\nz\n")


def log_of(*reports: Report) -> dict[str, Any]:
    """The log of some reports, through JSON and back."""
    return json.loads(json.dumps(as_sarif(reports, problems(), "1.2.3")))


def span(start: int, end: int, source: Source = SOURCE) -> Span:
    return Span(source, start, end)


def error(
    label: Label | None = None,
    remarks: tuple[Remark, ...] = (),
    cure: Help | None = None,
    path: str = "",
) -> Report:
    return Report("E0301", Severity.ERROR, "wrong", "test", label, remarks, cure, path)


# --- the properties that the standard requires ----------------------------------------------------


def assert_valid(log: dict[str, Any]) -> None:
    """The rules of SARIF 2.1.0 for every property that is written (its section numbers)."""
    assert log["version"] == "2.1.0"  # 3.13.2
    assert urlsplit(log["$schema"]).scheme == "https"  # 3.13.3
    for run in log["runs"]:
        assert run["columnKind"] == "unicodeCodePoints"  # 3.14.17
        driver = run["tool"]["driver"]
        assert driver["name"] == "meganeura"  # 3.19.8
        rules = [rule["id"] for rule in driver["rules"]]
        assert len(set(rules)) == len(rules)  # 3.19.23
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"].strip()  # 3.49.9
            assert rule["help"]["text"].strip()  # 3.49.13
            assert rule["defaultConfiguration"]["level"] in LEVELS
            assert all(rule["properties"]["tags"])
        for result in run["results"]:
            assert_valid_result(result, rules)


def assert_valid_result(result: dict[str, Any], rules: list[str]) -> None:
    assert rules[result["ruleIndex"]] == result["ruleId"]  # 3.27.5, 3.27.6
    assert result["level"] in LEVELS  # 3.27.10
    assert result["message"]["text"].strip()  # 3.27.11
    for location in result.get("locations", []):
        assert_valid_place(location["physicalLocation"])
    related = result.get("relatedLocations", [])
    assert [each["id"] for each in related] == list(range(1, len(related) + 1))  # 3.28.2
    for location in related:
        assert "text" in location["message"]
        assert_valid_place(location["physicalLocation"])
    for fix in result.get("fixes", []):
        assert fix["description"]["text"]  # 3.55.2
        assert fix["artifactChanges"]  # 3.55.3, at least one
        for change in fix["artifactChanges"]:
            assert_valid_uri(change["artifactLocation"]["uri"])
            assert change["replacements"]  # 3.56.3, at least one
            for replacement in change["replacements"]:
                assert_valid_region(replacement["deletedRegion"])  # 3.57.3
                assert isinstance(replacement["insertedContent"]["text"], str)


def assert_valid_place(place: dict[str, Any]) -> None:
    assert_valid_uri(place["artifactLocation"]["uri"])
    assert_valid_region(place["region"])


def assert_valid_uri(uri: str) -> None:
    """A URI reference (RFC 3986), absolute or relative: no space, no colon in a first segment."""
    assert uri
    assert uri.isascii()
    assert not set(' "<>\\^`{|}').intersection(uri)
    assert urlsplit(uri).scheme in ("", "file")


def assert_valid_region(region: dict[str, int]) -> None:
    """3.30: numbers from 1, and an end that is not before the start."""
    start = region["startLine"], region["startColumn"]
    end = region["endLine"], region["endColumn"]
    assert min(*start, *end) >= 1
    assert start <= end


def test_every_message_of_the_specification_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "CHECK", checker.CHECK // 10)  # E0330 takes all there are
    reports = [
        report
        for page in map(read, pages()[:: effort(3, 1)])
        for program in page.programs
        for report in page.reports(program)
    ]
    log = log_of(*reports)
    assert_valid(log)
    (run,) = log["runs"]
    assert len(run["results"]) == len(reports)
    fixes = [result for result in run["results"] if "fixes" in result]
    assert len(fixes) > effort(6, 20)
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {r.code for r in reports}


def test_a_log_without_results_says_that_the_run_was_fine() -> None:
    log = log_of()
    assert_valid(log)
    assert log["runs"][0]["results"] == []


# --- what a result says ---------------------------------------------------------------------------


def test_the_message_has_all_that_a_reader_of_the_terminal_sees() -> None:
    report = error(
        label=Label(span(0, 1), "here\nand on"),
        remarks=(Remark("for example", "h=7"), Remark("made here", "x = 1", span(13, 14))),
        cure=Help("write", "x = 3"),
        path="fc",
    )
    (result,) = log_of(report)["runs"][0]["results"]
    assert result["message"]["text"].split("\n") == [
        "wrong",
        "here",
        "and on",
        "in layer: fc",
        "for example: h=7",
        "made here: my nets/größe:1.mgn:2: x = 1",
        "help: write",
        "x = 3",
    ]
    (related,) = result["relatedLocations"]
    assert related["message"]["text"] == "made here: x = 1"
    assert related["physicalLocation"]["region"]["startLine"] == 2


def test_columns_count_code_points() -> None:
    (result,) = log_of(error(label=Label(span(11, 12))))["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 1, "startColumn": 12, "endLine": 1, "endColumn": 13}
    assert SOURCE.text[11] == "y"


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("net.mgn", "net.mgn"),
        ("my nets/größe:1.mgn", "my%20nets/gr%C3%B6%C3%9Fe%3A1.mgn"),
        ("/nets/a b.mgn", "file:///nets/a%20b.mgn"),
        ("../net.mgn", "../net.mgn"),
    ],
)
def test_files_are_uris(name: str, uri: str) -> None:
    place = span(0, 0, Source(name, "x"))
    (result,) = log_of(error(label=Label(place)))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
    assert unquote(uri).endswith(name)


def test_a_fix_is_replacements_of_the_text_before() -> None:
    fix = safe_fix("do", Edit(span(0, 1), "u"), Edit(span(14, 14), "!"))
    (result,) = log_of(error(label=Label(span(0, 1)), cure=fix))["runs"][0]["results"]
    assert result["fixes"][0]["properties"] == {"applicability": "safe"}
    (change,) = result["fixes"][0]["artifactChanges"]
    first, second = change["replacements"]
    assert first["insertedContent"] == {"text": "u"}
    assert second["deletedRegion"] == {
        "startLine": 2, "startColumn": 2, "endLine": 2, "endColumn": 2
    }  # fmt: skip


def test_a_report_of_no_place_has_no_location() -> None:
    (result,) = log_of(error())["runs"][0]["results"]
    assert "locations" not in result


def test_the_help_of_a_rule_is_its_page() -> None:
    (rule,) = log_of(error())["runs"][0]["tool"]["driver"]["rules"]
    page = message_page("E0301")
    assert rule["help"] == {"text": page, "markdown": page}
    assert rule["shortDescription"]["text"] == "two sides of different shapes"


def test_nothing_that_a_terminal_obeys_is_in_a_message() -> None:
    report = error(label=Label(span(0, 1), "\x1b[2J\u202e"))
    assert "\\x1b" in log_of(report)["runs"][0]["results"][0]["message"]["text"]
