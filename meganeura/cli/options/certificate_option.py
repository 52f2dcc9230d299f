"""The option `--certificate FILE` of commands that optimize graphs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program
    from meganeura_dsl.transforms.egraph.optimized import Optimized

OPTION = "--certificate"
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        OPTION,
        metavar="FILE",
        help="Write the chains of rules from each graph to its optimized one, as .json: "
        "`meganeura-verify FILE` checks them.",
    ),
]


def certify(
    program: "Program", optimizations: "Sequence[Optimized]", file: Path, *, err: bool = False
) -> None:
    """Write the certificate of what was done to a program, and say so; on standard error if `err`.

    Raises `typer.BadParameter` if the optimizer is off. Where no chain is found, nothing is written
    and the command ends.
    """
    from meganeura_dsl.transforms.egraph.certificates.run_certificate import (
        NoChainError,
        certificate,
        certificate_text,
        steps_in,
    )
    from meganeura_runtime.io.files.atomic_write import write_text

    if not optimizations:
        text = "the optimizer is off (--no-opt, or optimize=false), so there is nothing to certify"
        raise typer.BadParameter(text, param_hint=OPTION)
    try:
        made = certificate(optimizations, program.texts)
    except NoChainError as error:
        say(f"nothing was written: {error}", err=True)
        raise typer.Exit(1) from None
    write_text(file, certificate_text(made))
    runs = count(len(made["runs"]), "optimization")
    steps = count(steps_in(made), "step")
    say(f"{file}: {steps} of {runs}; check it by meganeura-verify {file}", err=err)
