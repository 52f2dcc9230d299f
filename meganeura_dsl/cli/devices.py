"""`meganeura devices`: what a program can run on here."""

import typer

from meganeura_dsl.cli.output import table


def devices() -> None:
    """List the devices, and say which one `--device auto` takes."""
    from meganeura_runtime.adapters import DeviceError, list_devices
    from meganeura_runtime.session import choose_device

    rows = [("cpu", "NumPy, the reference", "always there")]
    try:
        rows += [
            (each.selector, each.name, f"{each.kind}, {each.backend}, {each.driver}")
            for each in list_devices()
        ]
    except DeviceError as error:
        typer.echo(f"no GPU can be used: {error}", err=True)
    typer.echo(table(rows))
    typer.echo(f"\nauto takes {choose_device('auto').description}")
