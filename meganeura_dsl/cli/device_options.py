"""The device of a command, told to whoever gave it, with what was found out about it before."""

from typing import TYPE_CHECKING, Annotated

import typer

from meganeura_dsl.cli.output import say

if TYPE_CHECKING:
    from meganeura_runtime.session import Choice

NotTuned = Annotated[
    bool, typer.Option("--no-tuned", help="Leave unused what `meganeura tune` found.")
]


def require_device(selector: str) -> None:
    """Refuse a device that there is not, for a command that opens none."""
    from meganeura_runtime.session import require_device as require
    from meganeura_runtime.train.failures import explained_failures

    with explained_failures():
        require(selector)


def told_device(selector: str, *, no_tuned: bool) -> "Choice":
    """The device of that name; raises `DeviceError`."""
    from meganeura_runtime.session import choose_device

    chosen = choose_device(selector, tuned=not no_tuned)
    say(f"device: {chosen.description}")
    if chosen.tuning:
        say(chosen.tuning)
    return chosen
