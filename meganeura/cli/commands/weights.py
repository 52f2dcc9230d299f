"""`meganeura weights`: files of weights beside the model they should fit."""

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    Prefix,
    Renames,
    allowed,
    configured,
    exceptions,
    given_names,
)
from meganeura.cli.ui.console import exit_code, say, show
from meganeura_dsl.diagnostics.json_report import as_json
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.diagnostics.problem import ProblemError, Report

if TYPE_CHECKING:
    from meganeura_runtime.io.weights import Comparison

weights = typer.Typer(
    help="Look at files of weights.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@weights.callback()
def _verbs() -> None:
    """Look at files of weights."""


@weights.command()
def check(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or a file with one.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A file, an index or a folder; or all shards."),
    ],
    *,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    changes: Changes = None,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare files with a model: every name, shape, type and value."""
    from meganeura_runtime.io.weights import compare

    chosen = configured(model, changes)
    excused = allowed(allow_missing, allow_unexpected)
    try:
        called = given_names(rename, prefix)
        found = compare(files, chosen.elaborate().parameters, excused, called)
    except ProblemError as error:
        if as_data:
            reports = (error.problem.report(),)
            say(json.dumps(_as_data(chosen.name, files, None, reports), indent=2))
            raise typer.Exit(exit_code(reports)) from None
        raise
    mismatch = found.mismatch(listed=None)
    problems = [*([] if mismatch is None else [mismatch]), *found.faults()]
    reports = tuple(problem.report() for problem in problems)
    if as_data:
        say(json.dumps(_as_data(chosen.name, files, found, reports), indent=2))
    else:
        show(reports, sys.stdout)
        say("\n".join(_summary(chosen.name, found, reports)))
    if reports:
        raise typer.Exit(exit_code(reports))


def _summary(name: str, found: "Comparison", reports: tuple[Report, ...]) -> list[str]:
    """`resnet18: fine, 122 tensors fit (102 f32, 20 i64)`, and what was excused."""
    if reports:
        return [f"{name}: {count(len(reports), 'error')}"]
    kinds = Counter(tensor.stored for _, tensor in found.matched)
    stored = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return [
        f"{name}: fine, {count(len(found.matched), 'tensor')} fit ({stored})",
        *(f"  {line}" for line in exceptions(found)),
    ]


def _as_data(
    name: str, files: list[Path], found: "Comparison | None", reports: tuple[Report, ...]
) -> dict[str, object]:
    """All that was found; `found` is None where a file could not even be opened."""
    data: dict[str, object] = {
        "model": name,
        "files": [str(file) for file in files],
        "fine": not reports,
        "reports": [as_json(report) for report in reports],
    }
    if found is None:
        return data
    mismatch = found.mismatch()
    nearest = {} if mismatch is None else {each: mismatch.nearest(each) for each in found.missing}
    return data | {
        "fit": len(found.matched),
        "missing": [{"name": each, "nearest": nearest[each]} for each in found.missing],
        "unexpected": list(found.unexpected),
        "shapes": [asdict(each) for each in found.shapes],
        "types": [asdict(each) for each in found.types],
        "allowed_missing": list(found.anew),
        "allowed_unexpected": list(found.unused),
        "renamed": dict(found.renamed),
    }
