"""The help of an error by small edits that were tried."""

import re
from dataclasses import replace

from meganeura_dsl.checker import Checker
from meganeura_dsl.diagnostics.fixes import hunks
from meganeura_dsl.diagnostics.report import Help, Report
from meganeura_dsl.elaborate.problems.location import STATE_IT
from meganeura_dsl.elaborate.scope.linker import Loader
from meganeura_dsl.repairs.known_slips import Slip
from meganeura_dsl.repairs.placements import is_addition
from meganeura_dsl.repairs.repair_search import Repaired, RepairSearch, errors_of
from meganeura_dsl.repairs.small_edits import Edits
from meganeura_dsl.syntax import ast

_CALL_IN_TEXT = re.compile(r"`([^`]*\([^`]*)`")

_FIRST = ("expand(", "f32(")
"""Begins of code that other systems add unasked: it comes before an edit that was tried."""
_SEARCHED = ("E0206", "E0503", "E0508")
MOST_SHOWN = 2
"""Small edits of which a help asks whether one is meant."""
MOST_SEARCHED = 3
"""Errors of a file for which small edits are searched."""
LONGEST = 20_000
"""Characters of the longest file in which they are searched."""


def with_repairs(
    checker: Checker, loader: Loader, reports: tuple[Report, ...]
) -> tuple[Report, ...]:
    """The reports of a file, some with another help, after small edits were tried.

    An edit is asked about in words: it is proved, and may not be what is meant.
    """
    errors = tuple(filter(_is_searched, errors_of(reports)))
    if not errors or checker.module.unread or len(checker.module.source.text) > LONGEST:
        return reports
    search = RepairSearch(checker, loader, reports)
    helped: dict[Report, Report] = {}
    asked: dict[ast.Node, int] = {}
    """The declarations that a question is about, each with the line of the error that has it."""
    searched = 0
    for each in errors:
        declaration = search.declaration(each)
        if declaration is None:
            continue
        if declaration not in asked and searched < MOST_SEARCHED:
            searched += 1
            question = _question(search, each, declaration)
            own = question or _own(search, each, declaration)
            helped[each] = replace(each, help=own)
            if question is not None and each.label is not None:
                asked[declaration] = each.label.span.line
        elif declaration in asked and not _codes(each.help, declaration.span.source.text):
            cured = Help(
                f"the edit that the error in line {asked[declaration]} asks about cures this too"
            )
            helped[each] = replace(each, help=cured)
    return tuple(helped.get(each, each) for each in reports)


def _is_searched(report: Report) -> bool:
    """True if an error is about shapes, element types, what an objective moves, or a name."""
    is_unknown = report.code == "E0201" and report.help is None
    return is_unknown or report.code.startswith("E03") or report.code in _SEARCHED


def _question(search: RepairSearch, report: Report, declaration: Repaired) -> Help | None:
    """A question about edits that mend more than the help of an error does, if there are any."""
    own, name = report.help, declaration.name.text
    if own is not None and own.edits and search.left_in(declaration, own.edits) == 0:
        return None
    codes = _codes(own, declaration.span.source.text)
    confirmed = [code for code in codes if search.is_confirmed(code, report, declaration)]
    if any(not is_addition(code) for code in confirmed):
        return None
    repairs = search.repairs(report, declaration)
    if repairs.slip is not None:
        return _about_slip(name, repairs.slip, repairs.likely)
    found = repairs.likely or (() if codes else repairs.further)
    return _about(name, found, own if confirmed else None) if found else None


def _own(search: RepairSearch, report: Report, declaration: Repaired) -> Help | None:
    """The help of an error itself, without a fix that leaves its declaration or a use refused."""
    own = report.help
    if own is None or not own.edits:
        return own
    left = search.left_in(declaration, own.edits)
    if left is None:
        return None if own.text != STATE_IT else Help(
            f"`{_fact(own.edits)}` would do, and what uses `{declaration.name.text}` refutes it"
        )  # fmt: skip
    if left == 0 or own.text != STATE_IT or search.is_mended_by_facts(declaration, own.edits):
        return own
    text = f"stated, it leaves `{declaration.name.text}` refused: mend the other errors first"
    return Help(f"{text}, and state it if it is still needed", f"where {_fact(own.edits)}")


def _fact(edits: Edits) -> str:
    """The fact that edits state."""
    return edits[0].text.strip().removeprefix("where ").strip(",: \n")


def _codes(own: Help | None, text: str) -> tuple[str, ...]:
    """The code of a help on a text, and calls that its words name, without what is written there.

    None if it states a fact instead.
    """
    if own is None or (own.code or "").startswith("where "):
        return ()
    found = (*(own.code or "").splitlines(), *_CALL_IN_TEXT.findall(own.text))
    return tuple(each for each in found if each not in text)


def _about(name: str, found: tuple[Edits, ...], own: Help | None) -> Help:
    """Asks whether an edit is meant, and shows the help that the error has otherwise."""
    code = None if own is None else own.code
    every = [line for edits in found[:MOST_SHOWN] for line in _lines(edits)]
    is_shown = own is not None and code is not None and _plain(code) not in _plain(*every)
    shown = found[: MOST_SHOWN - 1] if is_shown else found[:MOST_SHOWN]
    lines = [line for edits in shown for line in _lines(edits)]
    if is_shown and own is not None and code is not None and code.startswith(_FIRST):
        return Help(f"{own.text}\n    {code}\nor with this `{name}` holds", "\n".join(lines))
    if is_shown and own is not None:
        lines += [f"or {own.text}", f"    {code}"]
    text = f"is this meant? with it `{name}` holds" if len(shown) == 1 else (
        f"is one of these meant? with each `{name}` holds"
    )  # fmt: skip
    return Help(text, "\n".join(lines))


def _about_slip(name: str, slip: Slip, likely: tuple[Edits, ...]) -> Help:
    """Asks whether a known slip was made, and shows what else may be meant."""
    lines = _lines(slip.edits)
    asked = f"is this meant? with it `{name}` holds"
    if likely:
        lines += ["or", *_lines(likely[0])]
        asked = f"is one of these meant? with each `{name}` holds"
    return Help(f"{slip.words}\n{asked}", "\n".join(lines))


def _lines(edits: Edits) -> list[str]:
    """The lines that edits change, with their numbers, as they are afterwards."""
    return [
        f"line {number}:  {line.strip()}"
        for hunk in hunks(edits)
        for number, (before, line) in enumerate(
            zip(hunk.before, hunk.after, strict=True), hunk.line
        )
        if before != line
    ]


def _plain(*texts: str | None) -> str:
    return "".join(text or "" for text in texts).replace(" ", "")
