"""`meganeura weights`: weights from a hub, and files of them beside the model they should fit."""

import json
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    ModelName,
    Prefix,
    Renames,
    allowed,
    configured,
    exceptions,
    given_names,
)
from meganeura.cli.options.output_file import Force
from meganeura.cli.ui.console import exit_code, say, show
from meganeura_dsl.diagnostics.json_report import as_json
from meganeura_dsl.diagnostics.plain_table import count, table
from meganeura_dsl.diagnostics.problem import ProblemError, Report

if TYPE_CHECKING:
    from meganeura_runtime.io.weights import Comparison

weights = typer.Typer(
    help="Get weights from a hub, and look at files of weights.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@weights.callback()
def _verbs() -> None:
    """Get weights from a hub, and look at files of weights."""


@weights.command()
def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `list` has it, or timm:NAME, hf:OWNER/NAME.")
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where to; weights/MODEL without."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model that the weights have to fit.")
    ] = None,
    changes: Changes = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Take what the cache holds; ask no hub.")
    ] = False,
    force: Force = False,
) -> None:
    """Download pretrained weights, with their preprocessing and the names of their classes.

    They are compared with checksums and with the model. `NAME@REVISION` is a branch, tag or commit.
    """
    from meganeura_dsl.support.paths import cache_folder
    from meganeura_runtime.io.hub.conversion import fitted, preparation_of, write_folder
    from meganeura_runtime.io.hub.pretrained import pretrained
    from meganeura_runtime.io.hub.snapshot import Cache

    source = pretrained(name)
    folder = Path("weights") / source.folder if output is None else output
    _require_replaceable(folder, force=force)
    taken_by = model or source.model
    chosen = configured(taken_by, changes) if taken_by else None
    if chosen is None and changes:
        raise typer.BadParameter("there is no model to change: name it by --model")
    parameters = None if chosen is None else chosen.elaborate().parameters
    say(f"{source.repository} at {source.revision}")
    with ExitStack() as held:
        base = cache_folder() or Path(held.enter_context(TemporaryDirectory()))
        snapshot = Cache.of(base, source, say, offline=offline).get(source)
        prepared = preparation_of(snapshot)
        tensors, found = fitted(snapshot, parameters)
        write_folder(folder, snapshot, tensors, prepared)
    if found is not None and chosen is not None:
        say("\n".join(_summary(chosen.name, found, ())))
    else:
        say("compared with no model, as none is known: --model does")
    if prepared.image is not None:
        say(f"images: {prepared.image.steps}")
    classes = count(len(prepared.classes), "name") if prepared.classes else "no names"
    say(f"classes: {classes}")
    pinned = f"{source.name}@{snapshot.source.revision}"
    say(f"written: {folder}; the same again: meganeura weights get {pinned}")


def _require_replaceable(folder: Path, *, force: bool) -> None:
    """Refuse, before anything is downloaded, to replace what no such command wrote."""
    from meganeura_runtime.io.files.file_problems import CannotWrite, WouldReplace
    from meganeura_runtime.io.hub.conversion import SOURCE
    from meganeura_runtime.io.hub.snapshot import BESIDE, WEIGHTS
    from meganeura_runtime.io.tensors.safetensors_file import read_metadata

    if folder.exists() and not folder.is_dir():
        raise ProblemError(CannotWrite(folder, "it is a file, and a folder is written"))
    path = folder / WEIGHTS
    if force:
        return
    if not path.exists():
        for other in (folder / name for name in BESIDE):
            if other.exists():
                reason = f"it is written beside `{path}`, and is there although that is not"
                raise ProblemError(WouldReplace(other, reason))
        return
    try:
        is_ours = SOURCE in read_metadata(path)
    except ProblemError:
        is_ours = False
    if not is_ours:
        raise ProblemError(WouldReplace(path, "it is not of a hub"))


@weights.command("list")
def list_() -> None:
    """List pretrained weights that standard models take, with the revisions they are pinned to."""
    from meganeura_runtime.io.hub.pretrained import PINNED

    head = ("name", "model", "repository", "commit", "SHA-256")
    rows = [
        (each.name, each.model, each.repository, each.revision[:12], each.sha256[:12])
        for each in PINNED
    ]
    say(table([head, *rows]))
    say("\nAny other repository: timm:resnet26.bt_in1k, hf:OWNER/NAME, and behind them @REVISION")


@weights.command()
def check(
    model: ModelName,
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
    kinds = Counter(tensor.kind for _, tensor in found.matched)
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
