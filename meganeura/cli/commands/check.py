"""`meganeura check`: everything a program declares is proved, or refuted with an example."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura.cli.driver.checked_target import Checked, check_target
from meganeura.cli.driver.fix_file import fix_file
from meganeura.cli.driver.program_files import STANDARD_INPUT, named_programs
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import exit_code, say, show
from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.characters import printable
from meganeura_dsl.diagnostics.json_report import as_json
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.diagnostics.report import Report
from meganeura_dsl.diagnostics.verdict import verdict

if TYPE_CHECKING:
    from meganeura_dsl.symbolic.assumptions import Recorder


class Format(StrEnum):
    """The format of the reports."""

    TEXT = "text"
    SHORT = "short"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


ACTIONS = "GITHUB_ACTIONS"
"""The variable that is `true` in a job of GitHub Actions, where annotations follow a text."""
MOST_SHOWN = 20
"""Problems of a program that are drawn; a wrong name may cause hundreds."""


def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER|MODEL...",
            help="Programs, all those of a folder, standard models, or `-`, standard input.",
        ),
    ],
    *,
    output_format: Annotated[
        Format | None,
        typer.Option(
            "--output-format",
            "--format",
            help="With carets, one line each, or for other tools: JSON, SARIF 2.1.0, "
            "annotations of GitHub Actions (which follow the text in its jobs).",
        ),
    ] = None,
    as_data: Annotated[bool, typer.Option("--json", help="--output-format json")] = False,
    short: Annotated[bool, typer.Option("--short", help="--output-format short")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Apply safe fixes: syntax that can mean one thing only."),
    ] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="With --fix, apply suggestions too, which change what a program means: "
            "one at a time, each with its diff.",
        ),
    ] = False,
    limits: Annotated[
        str | None,
        typer.Option(metavar="webgpu-default|DEVICE", help="Does a training step fit a GPU?"),
    ] = None,
    certified: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="Write a proof of each condition on sizes, and the sizes that refute others, as "
            ".json: `meganeura-verify FILE` checks them.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Prove shapes, names, expectations and settings of programs."""
    shape = _format(output_format, as_data=as_data, short=short)
    targets = named_programs(targets)
    if fix and STANDARD_INPUT in targets:
        raise typer.BadParameter("it changes files: give one in place of `-`", param_hint="--fix")
    if unsafe and not fix:
        raise typer.BadParameter("it says what --fix applies: give both", param_hint="--unsafe")
    if certified is not None and len(targets) > 1:
        text = f"a certificate is of one program, and not of {len(targets)}"
        raise typer.BadParameter(text, param_hint="--certificate")
    reads = map(Path, targets)
    kinds = [Kind.SHAPES]
    require_writable(certified, kinds, force=force, reads=reads, option="--certificate")
    if fix:
        for_people = shape in (Format.TEXT, Format.SHORT)
        for fixed in (line for target in targets for line in fix_file(target, unsafe=unsafe)):
            say(fixed, err=not for_people)
    recorder = None if certified is None else _recorder()
    results = [check_target(target, recorder) for target in targets]
    if limits is not None:
        results = [_within(result, limits) for result in results]
    _write(results, shape)
    if certified is not None and recorder is not None and results[0].texts:
        _certify(results[0], recorder, certified, err=shape is not Format.TEXT)
    errors = [report for result in results for report in result.errors]
    if errors:
        raise typer.Exit(exit_code(errors))


def _recorder() -> "Recorder":
    from meganeura_dsl.symbolic.assumptions import Recorder

    return Recorder()


def _certify(result: Checked, recorder: "Recorder", file: Path, *, err: bool) -> None:
    """Write what was proved and refuted of sizes, and say what is not certified.

    A program with an error that nothing could be asked about has no certificate, as one of nothing
    would be right.
    """
    if result.errors and not recorder.answers:
        say(f"{file} is not written: nothing was proved or refuted of {result.target}", err=True)
        return
    from meganeura_dsl.symbolic.certificates.shape_certificate import shape_certificate
    from meganeura_runtime.io.files.atomic_write import write_text

    made = shape_certificate(recorder.answers, result.texts)
    write_text(file, json.dumps(made, separators=(",", ":")) + "\n")
    left = made["uncertified"]
    refuted = sum("example" in each for each in made["questions"])
    proved = count(len(made["questions"]) - refuted, "condition")
    say(
        f"{file}: {proved} proved, {refuted} refuted, {len(left)} not certified; "
        f"check it by meganeura-verify {file}",
        err=err,
    )
    for each in left:
        say(f"  {each['at']}: not certified: {each['text']}: {each['why']}", err=err)


def _format(chosen: Format | None, *, as_data: bool, short: bool) -> Format:
    """The one format that was asked for; text if none was."""
    asked = {
        *([chosen] if chosen else []),
        *([Format.JSON] if as_data else []),
        *([Format.SHORT] if short else []),
    }
    if len(asked) > 1:
        text = f"there is one output, and not {' and '.join(sorted(asked))}"
        raise typer.BadParameter(text, param_hint="--output-format")
    return asked.pop() if asked else Format.TEXT


def _write(results: Sequence[Checked], shape: Format) -> None:
    """Write what was found on standard output."""
    reports = [report for result in results for report in result.reports]
    match shape:
        case Format.TEXT:
            for result in results:
                show(result.reports[:MOST_SHOWN], sys.stdout)
                left = len(result.reports) - MOST_SHOWN
                if left > 0:
                    say(f"{count(left, 'more problem')}, not shown: --short has all, a line each\n")
                say(_summary(result))
            if os.environ.get(ACTIONS) == "true":
                _annotate(reports)
        case Format.SHORT:
            show(reports, sys.stdout, short=True)
        case Format.JSON:
            say(json.dumps(_as_data(results), indent=2))
        case Format.SARIF:
            from meganeura.cli.error_catalogue import problems
            from meganeura_dsl.diagnostics.sarif import as_sarif

            say(json.dumps(as_sarif(reports, problems(), __version__), indent=2))
        case Format.GITHUB:
            _annotate(reports)
        case _:
            assert_never(shape)


def _annotate(reports: Sequence[Report]) -> None:
    """Write each report as an annotation of GitHub Actions."""
    from meganeura_dsl.diagnostics.github import annotation

    for report in reports:
        say(annotation(report))


def _within(result: Checked, limits: str) -> Checked:
    """A target that is fine, and what of its training steps is beyond the limits of a GPU."""
    from meganeura.cli.driver.device_fit import fits

    if result.errors or result.program is None:
        return result
    fitting = [fits(result.program, train, limits) for train in result.program.trains]
    reports = [report for found, _ in fitting for report in found]
    facts = tuple(fact for _, fact in fitting)
    return replace(result, reports=(*result.reports, *reports), facts=facts)


def _summary(result: Checked) -> str:
    """`resnet18: fine, 3 blocks proved for all sizes, 3 expectations hold`."""
    found = [each.severity for each in result.reports]
    said = verdict(printable(result.target), found, len(result.proved), result.holds)
    return "\n  ".join([said, *result.facts])


def _as_data(results: Sequence[Checked]) -> list[dict[str, object]]:
    return [
        {
            "target": result.target,
            "fine": not result.errors,
            "proved": list(result.proved),
            "expectations": result.holds,
            "reports": [as_json(report) for report in result.reports],
        }
        for result in results
    ]
