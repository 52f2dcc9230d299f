"""The device of a command, told to whoever gave it, with what was found out about it before."""

from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import say

if TYPE_CHECKING:
    from meganeura_runtime.backends.registry import DeviceChoice

NotTuned = Annotated[
    bool, typer.Option("--no-tuned", help="Leave unused what `meganeura tune` found.")
]


def require_device(selector: str) -> None:
    """Refuse a device that there is not, for a command that opens none."""
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import require_device as require

    with explained_failures():
        require(selector)


def device_option(selector: str, *, no_tuned: bool) -> "DeviceChoice":
    """The device of that name; raises `DeviceError`."""
    from meganeura_runtime.backends.registry import choose_device

    chosen = choose_device(selector, tuned=not no_tuned)
    say(f"device: {chosen.description}")
    if chosen.tuning:
        say(chosen.tuning)
    return chosen
