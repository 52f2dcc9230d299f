r"""Reads the pages of `tests/spec`: prose, programs, and what the checker must say about them.

A page is Markdown. Each ```mgn block is a program; `title="lib.mgn"` makes it a file that the other
programs of the page import. At the end of a line of a program may stand

    # error: [E0301]               a report of this code starts on this line; also note, warning
    # error: [E0301] "stretch"     and its message contains this text
    # shape: [n, 10], i32[n]       what the names bound on this line are; f32 is left out

These comments are taken out before the program is checked, and what they do not mention must not be
reported. A ```text block is everything the checker says about the program before it, word for word.
In a block opened by ```mgn escaped, `\t`, `\r` and `\x00` stand for those characters. A ```console
block stands for a problem that no program can cause: the ```text block after it shows the one that
`spec_examples` has for the page.

`python -m tests.literate` writes the ```text blocks anew; read the difference before you keep it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Problem, Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check
from tests.spec_examples import EXAMPLES

SPEC = Path(__file__).parent / "spec"

FENCE = re.compile(r"```(?P<language>\w*) *(?P<options>.*)")
TITLE = re.compile(r'title="(?P<title>[^"]+)"')
MARKER = re.compile(
    r"\s*# (?P<kind>error|warning|note|shape): (?P<claim>\w*\[[^#]*?\](?:, \w*\[[^#]*?\])*)"
    r'(?: "(?P<words>[^"]*)")?$'
)
SHAPE = re.compile(r"(?P<dtype>\w*)(?P<sizes>\[.*?\])")
BOUND = re.compile(r"\s*(?P<names>\w+(?:, \w+)*) *=(?!=)")
ESCAPE = re.compile(r"\\(t|r|x[0-9a-f]{2})")


@dataclass(frozen=True)
class Claim:
    """That a report of a severity and code starts on a line, with these words in its message."""

    line: int
    severity: str
    code: str
    words: str = ""

    def covers(self, report: Report) -> bool:
        """True if a report is the one this claim speaks of."""
        return (
            report.label is not None
            and report.label.span.line == self.line
            and (report.severity.value, report.code) == (self.severity, self.code)
            and self.words in render(report)
        )

    def __str__(self) -> str:
        words = f' saying "{self.words}"' if self.words else ""
        return f"{self.severity}[{self.code}]{words}"


@dataclass
class Program:
    """One program of a page, without its markers, and what they say."""

    title: str
    starts: int
    """The line of the page above its first."""
    lines: list[str] = field(default_factory=list[str])
    claims: list[Claim] = field(default_factory=list[Claim])
    shapes: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    message: str | None = None
    message_starts: int = 0
    example: Problem | None = None

    def add(self, line: str, *, escaped: bool) -> None:
        """Take one more line, and the claims at its end."""
        while marker := MARKER.search(line):
            line = line[: marker.start()]
            self._claim(marker)
        self.lines.append(ESCAPE.sub(_unescape, line) if escaped else line)

    def _claim(self, marker: re.Match[str]) -> None:
        number = len(self.lines) + 1
        if marker["kind"] == "shape":
            found = SHAPE.finditer(marker["claim"])
            self.shapes[number] = [(each["dtype"] or "f32") + each["sizes"] for each in found]
        else:
            code = marker["claim"].strip("[]")
            self.claims.append(Claim(number, marker["kind"], code, marker["words"] or ""))

    @property
    def source(self) -> Source:
        """The program as a file."""
        return Source(self.title, "".join(f"{line}\n" for line in self.lines))


def _unescape(match: re.Match[str]) -> str:
    return match[0].encode("ascii").decode("unicode_escape")


@dataclass(frozen=True)
class Page:
    """A page of the specification."""

    path: Path
    programs: tuple[Program, ...]

    def load(self, module: tuple[str, ...]) -> Source | None:
        """The file of this page that an import means."""
        title = f"{'/'.join(module)}.mgn"
        return next((each.source for each in self.programs if each.title == title), None)

    def reports(self, program: Program) -> tuple[Report, ...]:
        """Returns the reports on one program."""
        if program.example is not None:
            return (program.example.report(),)
        return check(program.source, loader=self.load).reports

    def failures(self) -> Iterator[str]:
        """Yields claims of the page that the checker denies, or the other way round."""
        for program in self.programs:
            for line, fault in self._failures(program):
                yield f"{self.path.name}:{program.starts + line}: {fault}"

    def _failures(self, program: Program) -> Iterator[tuple[int, str]]:
        reports = self.reports(program)
        if program.message not in (None, message(reports)):
            yield len(program.lines) + 1, f"the message is now\n{message(reports)}"
        if program.example is None:
            yield from self._false_claims(program, reports)
            yield from self._wrong_shapes(program)

    def _false_claims(
        self, program: Program, reports: tuple[Report, ...]
    ) -> Iterator[tuple[int, str]]:
        here = [each for each in reports if _file(each) in ("", program.title)]
        for claim in program.claims:
            covered = next((report for report in here if claim.covers(report)), None)
            if covered is None:
                yield claim.line, f"there is no {claim}"
            else:
                here.remove(covered)
        for report in here:
            line = 0 if report.label is None else report.label.span.line
            yield line, f"nobody expects\n{render(report)}"

    def _wrong_shapes(self, program: Program) -> Iterator[tuple[int, str]]:
        bindings = check(program.source, loader=self.load).bindings if program.shapes else {}
        for line, expected in program.shapes.items():
            bound = BOUND.match(program.lines[line - 1])
            names = bound["names"].split(", ") if bound else []
            found = [bindings.get((line, name), f"unknown for `{name}`") for name in names]
            if found != expected:
                yield line, f"the shape is {', '.join(found) or 'unknown: nothing is bound here'}"


def _file(report: Report) -> str:
    return "" if report.label is None else report.label.span.source.name


def message(reports: tuple[Report, ...]) -> str:
    """All reports as a reader sees them, one below the other."""
    return "\n\n".join(render(report) for report in reports)


def read(path: Path) -> Page:
    """The page of a file."""
    programs: list[Program] = []
    language, escaped = None, False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        fence = FENCE.fullmatch(line)
        if language is not None and fence is not None:
            language = None
        elif fence is not None:
            language, escaped = fence["language"], "escaped" in fence["options"]
            title = TITLE.search(fence["options"])
            if language == "mgn":
                programs.append(Program(title["title"] if title else "example.mgn", number))
            elif language == "console":
                programs.append(Program("", number, example=EXAMPLES[path.stem]))
            elif language == "text":
                programs[-1].message, programs[-1].message_starts = "", number
        elif language == "mgn":
            programs[-1].add(line, escaped=escaped)
        elif language == "text":
            before = programs[-1].message
            programs[-1].message = f"{before}\n{line}" if before else line
    return Page(path, tuple(programs))


def update(page: Page) -> None:
    """Write what the checker says now into the ```text blocks of a page."""
    lines = page.path.read_text(encoding="utf-8").split("\n")
    for program in reversed(page.programs):
        if program.message is None:
            continue
        start = program.message_starts
        lines[start : lines.index("```", start)] = message(page.reports(program)).split("\n")
    page.path.write_text("\n".join(lines), encoding="utf-8")


def pages() -> list[Path]:
    """All pages of the specification."""
    return sorted(SPEC.rglob("*.md"))


if __name__ == "__main__":
    for each in pages():
        update(read(each))
