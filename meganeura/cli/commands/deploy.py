"""`meganeura deploy`: the weights of a model's inference form, under the names others know."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.model_options import (
    AllowUnexpected,
    Changes,
    ConfiguredModel,
    DisabledRules,
    ModelName,
    allowed,
    configured,
    rewriting,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.declarations.models import Elaboration
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
    from meganeura_runtime.export.deployment.inference_form import Deployment
    from meganeura_runtime.io.weights import Allowed


def deploy(
    model: ModelName,
    *,
    weights: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="The trained weights: a file, an index or a folder."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write them.")
    ],
    allow_unexpected: AllowUnexpected = None,
    changes: Changes = None,
    disabled: DisabledRules = None,
    force: Force = False,
) -> None:
    """Fold a trained model into its inference form and write the weights of that.

    Both forms are run on random inputs first; where they differ, nothing is written.
    """
    require_writable(output, (Kind.WEIGHTS,), force=force, reads=weights)
    from meganeura_runtime.io.preprocess.preparation import preparation_of

    chosen = configured(model, changes)
    elaborated = elaborate_example(chosen)
    rules = rewriting(no_opt=False, disabled=disabled)
    deployed = deployment(elaborated, weights, allowed(None, allow_unexpected), rules)
    deployed.write(output, elaborated.parameters, preparation_of(weights).entries)
    before = count(len(elaborated.parameters), "tensor")
    say(f"{chosen.name}: {before} become {len(deployed.names):,}")
    say(f"largest difference of an output: {deployed.difference:.2g}")
    say(f"written: {output}")


def elaborate_example(chosen: ConfiguredModel) -> "Elaboration":
    """A model whose open sizes are small numbers, unless they are given."""
    from meganeura_dsl.ir.types import example_sizes

    sizes = example_sizes(chosen.elaborate().inputs.values())
    return chosen.elaborate({**sizes, **chosen.sizes})


def deployment(
    elaborated: "Elaboration",
    files: list[Path],
    excused: "Allowed",
    rules: "RewriteOptions",
    *,
    packs: bool = False,
) -> "Deployment":
    """The inference form with the weights of files; a model that saw no data is warned of.

    `packs`: quantized weights stay packed.
    """
    from meganeura_runtime.export.deployment.inference_form import deploy, looks_untrained
    from meganeura_runtime.io.weights import compare

    found = compare(files, elaborated.parameters, excused)
    values = found.read()
    if looks_untrained(elaborated.parameters, values):
        text = "warning: all running statistics are what they start as: was this model trained?"
        say(text, err=True)
    levels = found.quantized if packs else {}
    return deploy(elaborated.graph, values, rules, levels=levels)
