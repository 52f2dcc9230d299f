"""The entry of the command `meganeura`, with the preparations that come before all else."""

import sys
from collections.abc import Sequence
from itertools import pairwise

from meganeura.cli.ui.streams import prepare_streams
from meganeura_dsl.startup.process import end_process, prepare_process
from meganeura_dsl.startup.tricks import StartupError, Trick, is_enabled


def main() -> None:
    """Run the command line and exit."""
    prepare_streams()
    try:
        prepare_process()
    except StartupError as error:
        sys.exit(f"Error: {error}")
    arguments = sys.argv[1:]
    is_training = arguments[:1] == ["train"] and "--help" not in arguments
    is_alone = not any(each.startswith("--coordinator") for each in arguments)
    if is_training and is_alone and is_enabled(Trick.PREFETCH):
        from meganeura_runtime.backends.registry import begin_to_open

        begin_to_open(asked_device(arguments))

    from meganeura.cli.app import run

    end_process(run(arguments))


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
