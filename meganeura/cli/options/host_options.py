"""The options `--coordinator`, `--hosts` and `--host`: one run in several processes."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from meganeura_runtime.backends.backend import Rendezvous

Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where the processes of a run meet: at the first."),
]
HostCount = Annotated[
    int | None, typer.Option("--hosts", min=1, help="How many processes train together.")
]
HostIndex = Annotated[
    int | None, typer.Option("--host", min=0, help="Which of them this is, from 0.")
]
PLACE = re.compile(r"[^\s:]+:[0-9]{1,5}|\[[0-9A-Fa-f:]+\]:[0-9]{1,5}")


def rendezvous(coordinator: str | None, hosts: int | None, host: int | None) -> "Rendezvous | None":
    """Returns the rendezvous that the three options name; `None` if none of them is given."""
    from meganeura_runtime.backends.backend import Hosts, Rendezvous

    if coordinator is None and hosts is None and host is None:
        return None
    if coordinator is None or hosts is None or host is None:
        text = "a run in several processes needs all of --coordinator, --hosts and --host"
        raise typer.BadParameter(text, param_hint="--coordinator")
    if not PLACE.fullmatch(coordinator):
        text = f"`{coordinator}` is no place such as 10.0.0.1:8476"
        raise typer.BadParameter(text, param_hint="--coordinator")
    if host >= hosts:
        text = f"of {hosts} hosts, the numbers are 0 to {hosts - 1}"
        raise typer.BadParameter(text, param_hint="--host")
    return Rendezvous(coordinator, Hosts(hosts, host))
