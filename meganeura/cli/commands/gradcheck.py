"""`meganeura gradcheck`: every gradient of a program against finite differences."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.device_options import NAMES
from meganeura.cli.options.target_program import load
from meganeura.cli.ui.console import say
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.support.optional_imports import load as load_extra

if TYPE_CHECKING:
    from meganeura_dsl.gradcheck.device_check import RunGraph
    from meganeura_dsl.ir.graph import Array, Graph


def gradcheck(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE|MODEL...", help="Programs, or standard models.")
    ],
    *,
    block: Annotated[str | None, typer.Option(help="Check only this block.")] = None,
    examples: Annotated[int, typer.Option(min=1, help="Cases to try of each.")] = 200,
    device: Annotated[
        str | None, typer.Option(help=f"Hold a device against the reference as well: {NAMES}.")
    ] = None,
    kinks: Annotated[
        bool,
        typer.Option("--kinks", help="Numbers on kinks: gradients must be finite there."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Other cases.")] = 0,
) -> None:
    """Compare the gradients of blocks and models with finite differences.

    Fails where a gradient is wrong or could not be checked, and where nothing that was asked for
    has one.
    """
    load_extra("hypothesis", "gradcheck", "draw the cases that gradients are tried on")
    from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
    from meganeura_dsl.gradcheck.subjects import subjects
    from meganeura_dsl.gradcheck.verdict_text import describe
    from meganeura_dsl.gradcheck.verdicts import Failed, Skipped, Verdict

    effort = SearchBudget(examples, seed, kinks, None if device is None else _runner(device))
    wrong = False
    for target in targets:
        program = load(target)
        known = (*program.module.blocks, *program.models)
        if block is not None and block not in known:
            text = f"{program.source.name} has {', '.join(known)}, not `{block}`"
            raise typer.BadParameter(text, param_hint="--block")
        asked = block or program.chosen
        found = subjects(program.module, asked)
        if not found and asked:
            say(f"{program.source.name}: `{asked}` is no block and no model: it is not checked")
        elif not found:
            say(f"{program.source.name}: it declares no block and no model")
        verdicts: list[Verdict] = []
        for subject in found:
            verdicts.append(check_gradients(subject, effort))
            say(describe(verdicts[-1]))
        wrong |= any(
            isinstance(each, Failed) or (isinstance(each, Skipped) and not each.is_constant)
            for each in verdicts
        )
        wrong |= bool(found or asked) and all(isinstance(each, Skipped) for each in verdicts)
    if wrong:
        raise typer.Exit(1)


def _runner(device: str) -> "RunGraph":
    """Runs a graph once on the device."""
    from meganeura_runtime.backends.device_failures import explained_failures

    with explained_failures():
        chosen = choose_device(device)
    say(f"device: {chosen.description}")

    def run(graph: "Graph", feeds: "Mapping[str, Array]") -> "Mapping[str, Array]":
        with explained_failures(), chosen.open(graph) as session:
            session.load({name: feeds[name] for name in session.names})
            given = {name: each for name, each in feeds.items() if name not in session.names}
            return dict(session.step(given))

    return run
