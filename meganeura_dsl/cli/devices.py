"""`meganeura devices`: what a program can run on here."""

import typer


def devices() -> None:
    """List the devices, and say which one `--device auto` takes."""
    typer.echo("cpu")
