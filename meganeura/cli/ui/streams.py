"""The streams of a process, made fit for what a command writes: there, and for every name."""

import os
import sys
from io import TextIOWrapper

NAMES = ("stdin", "stdout", "stderr")


def prepare_streams() -> None:
    """Open what the shell closed, and have characters that a terminal does not know spelled out.

    A descriptor that is closed would be that of the next file opened, which then gets what is
    meant for a reader.
    """
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_no_more() -> None:
    """Have standard output go nowhere, as it cannot be written to."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
