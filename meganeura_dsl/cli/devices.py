"""`meganeura devices`: what a program can run on here."""

from meganeura_dsl.cli.output import say, table


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
        say(f"no GPU can be used: {error}", err=True)
    say(table(rows))
    say(f"\nauto takes {choose_device('auto').description}")
