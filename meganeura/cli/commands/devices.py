"""`meganeura devices`: what a program can run on here."""

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import table


def devices() -> None:
    """List the devices, and say which one `--device auto` takes."""
    from meganeura_runtime.backends.errors import DeviceError
    from meganeura_runtime.backends.registry import backends, choose_device

    known, broken = backends()
    rows: list[tuple[str, str, str]] = []
    for backend in sorted(known, key=lambda each: each.name):
        try:
            rows += [(each.name, each.title, each.details) for each in backend.devices()]
        except DeviceError as error:
            say(f"no {backend.title} can be used: {error}", err=True)
    for error in broken:
        say(str(error), err=True)
    say(table(rows))
    say(f"\nauto takes {choose_device('auto').description}")
