"""`meganeura fit`: what a training step takes of a device's memory, and the batch that fits."""

import json
from typing import Annotated

import typer

from meganeura.cli.options.device_options import DEVICE_HELP, NotTuned
from meganeura.cli.options.model_options import (
    DisabledRules,
    NoOptimizer,
    rewriting,
    rewriting_settings,
)
from meganeura.cli.options.target_program import load
from meganeura.cli.reports.memory_report import memory_data, memory_text
from meganeura.cli.ui.console import say


def fit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FILE.mgn:NAME|MODEL",
            help="A program, one `train` of it, or a standard model.",
        ),
    ],
    *,
    memory: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Find the largest batch for it, such as 8GiB."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help=f"{DEVICE_HELP} Without it, all that need not compile.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, such as batch=32."),
    ] = None,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    no_tuned: NotTuned = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON, with bytes.")] = False,
) -> None:
    """Tell what memory a training step takes, by role, and the largest batch that fits.

    Nothing runs, and the data need not be there. A backend without a device here is taken at the
    least that its devices promise. Of several devices, the memory is that of each, under each
    sharding.
    """
    from meganeura_dsl.settings.device_sharding import DeviceSharding
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import BUILT_IN
    from meganeura_runtime.train.spec.memory_fit import MemoryProbe
    from meganeura_runtime.train.spec.memory_fit import fit as fit_batch
    from meganeura_runtime.train.spec.train_spec import settings_of

    available = _amount(memory)
    program = load(target)
    train = program.train()
    rules = rewriting_settings(rewriting(no_opt=no_opt, disabled=disabled))
    settings = settings_of(program, train, [*(changes or ()), *rules])
    able = [(each.name, each.capabilities) for each in BUILT_IN]
    planning = [name for name, can in able if can.plans_memory and not can.plans_of]
    names = planning if device is None else [device]
    several = DeviceSharding if settings.devices > 1 else [settings.sharding]
    with explained_failures():
        probes = [
            MemoryProbe.of(
                program,
                train,
                settings.model_copy(update={"sharding": str(sharding)}),
                name,
                tuned=not no_tuned,
            )
            for name in names
            for sharding in several
        ]
        found = [fit_batch(probe, available) for probe in probes]
    if as_data:
        say(json.dumps(memory_data(train, found), indent=2))
        return
    say(memory_text(train, found))


def _amount(text: str | None) -> int | None:
    """The bytes of `--memory`."""
    from meganeura_dsl.support.byte_sizes import parsed_bytes

    if text is None:
        return None
    try:
        return parsed_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--memory") from None
