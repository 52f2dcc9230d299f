"""The device of a command, opened and announced, with the configs that were tuned for it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.registry import choose_device, device_forms
from meganeura_runtime.backends.registry import require_device as require

Precision = Annotated[
    ComputePrecision,
    typer.Option(help="The floats of products: tf32 and bf16 need `xla`, f16 `dawn`."),
]


def listed(forms: Sequence[str]) -> str:
    """`cpu, wgpu, or wgpu:N`."""
    *first, last = forms
    return f"{', '.join(first)}, or {last}" if first else last


NAMES = listed(device_forms())
"""The forms of device names."""

DEVICE_HELP = f"{NAMES} as `meganeura devices` counts."
Device = Annotated[str, typer.Option(help=DEVICE_HELP)]
NotTuned = Annotated[
    bool, typer.Option("--no-tuned", help="Leave unused what `meganeura tune` found.")
]


def require_device(selector: str) -> None:
    """Refuse a device that there is not, for a command that opens none."""
    from meganeura_runtime.backends.device_failures import explained_failures

    with explained_failures():
        require(selector)


def device_option(
    selector: str, *, no_tuned: bool, precision: ComputePrecision = ComputePrecision.F32
) -> "OpenDevice":
    """The device of that name; raises `DeviceError`, and `ProblemError` for the precision."""
    chosen = choose_device(selector, tuned=not no_tuned, precision=precision)
    announce(chosen)
    return chosen


def announce(chosen: "OpenDevice", *, err: bool = False) -> None:
    """Say which device it is."""
    say(f"device: {chosen.description}", err=err)
    if chosen.note:
        say(chosen.note, err=err)
