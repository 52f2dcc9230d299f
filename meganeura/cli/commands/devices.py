"""`meganeura devices`: what a program can run on here."""

from meganeura.cli.ui.console import say, table


def devices() -> None:
    """List the devices, and say which one `--device auto` takes."""
    from meganeura_runtime.backends.errors import DeviceError
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.backends.webgpu.device.adapters import list_devices

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
