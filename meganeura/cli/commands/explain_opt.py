"""`meganeura explain-opt`: what the optimizer makes of a model, rule by rule."""

import json
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.driver.stages import Compiled, GraphMode, compiled_model, compiled_step
from meganeura.cli.options.certificate_option import OPTION, CertificateFile, certify
from meganeura.cli.options.device_options import NAMES, require_device
from meganeura.cli.options.model_options import (
    Changes,
    DisabledRules,
    NoOptimizer,
    configured,
    rewriting,
    rewriting_settings,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.target_program import load
from meganeura.cli.reports.optimizer_report import report_data, report_text
from meganeura.cli.ui.console import say

DRAWINGS = (".svg", ".html")


def explain_opt(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
    *,
    mode: Annotated[
        GraphMode, typer.Option(help="A model's forward pass, or one training step of a `train`.")
    ] = GraphMode.INFER,
    changes: Changes = None,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    device: Annotated[
        str, typer.Option(help=f"Whose kernels there are to choose from: {NAMES}.")
    ] = "cpu",
    drawing: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Draw both graphs: .svg, or a page with it, .html."
        ),
    ] = None,
    certified: CertificateFile = None,
    force: Force = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell what the optimizer does to a model: costs, times, and the rules it chose, with places.

    Sizes that are left open are small ones; with `--mode train`, `--set` replaces settings.
    """
    if drawing is not None and drawing.suffix not in DRAWINGS:
        text = f"`{drawing}` is neither a .svg nor a .html file"
        raise typer.BadParameter(text, param_hint="--svg")
    require_writable(certified, [Kind.RUNS], force=force, reads=[Path(target)], option=OPTION)
    require_device(device)
    rules = rewriting(no_opt=no_opt, disabled=disabled, device=device)
    sizes: dict[str, int] = {}
    match mode:
        case GraphMode.INFER:
            from meganeura_dsl.ir.types import example_sizes

            chosen = configured(target, changes)
            program = chosen.program
            sizes = {**example_sizes(chosen.elaborate().inputs.values()), **chosen.sizes}
            built: Compiled = compiled_model(chosen.elaborate(sizes).graph, rules)
        case GraphMode.TRAIN:
            settings = [*(changes or ()), *rewriting_settings(rules)]
            program = load(target)
            built = compiled_step(program, settings, rules.device)
    if drawing is not None:
        _draw(built, drawing)
    if certified is not None:
        certify(program, built.optimizations, certified, err=as_data)
    if as_data:
        say(json.dumps({"mode": mode, "sizes": sizes, **report_data(built)}, indent=2))
        return
    if sizes:
        say(f"for {', '.join(f'{name} = {size}' for name, size in sorted(sizes.items()))}")
    say(report_text(built))


def _draw(built: Compiled, file: Path) -> None:
    from meganeura.cli.reports.graph_svg import graph_svg
    from meganeura_runtime.io.files.atomic_write import write_text

    write_text(file, graph_svg(built.graph, built.optimized, as_page=file.suffix == ".html"))
