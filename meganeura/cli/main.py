"""Where a process of the command `meganeura` begins, with what is to be done before all else."""

import gc
import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from meganeura_runtime.backends.registry import begin_to_open

MOST_YOUNG = 500_000
"""Objects that are made before the first search for garbage."""


def main() -> None:
    """Run the command line and exit."""
    # Graphs are many small objects that stay, and most of a short run.
    gc.set_threshold(MOST_YOUNG, 50, 50)
    # To look for plugins reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = sys.argv[1:]
    if arguments[:1] == ["train"] and "--help" not in arguments:
        begin_to_open(asked_device(arguments))

    from meganeura.cli.app import run

    sys.exit(run(arguments))


def asked_device(arguments: Sequence[str]) -> str:
    """The device that `train` is asked for, as far as its arguments say."""
    asked, wanted = ["auto"], list[str]()
    for argument, following in pairwise((*arguments, "")):
        option, _, text = argument.partition("=")
        value = text or following
        if option == "--device":
            wanted.append(value)
        elif option == "--set" and value.startswith("device="):
            asked.append(value.removeprefix("device="))
    return (*asked, *wanted)[-1]
