"""A process that decodes files for another one: it reads paths and writes arrays.

Not a fork, which copies the locks of other threads, and not started anew from the user's program,
which would run it twice: `python -m` this module. The first message is a decoder, each other one a
path. Answers are a byte that says how it went, and then the elements; who asked finds out what was
wrong. The process ends where its input does.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.data.decoders import Decoder, decoder_of
from meganeura_runtime.support.messages import messages

DONE, FAILED = b"\0", b"\1"


def main() -> None:
    """Decode until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    given, out = messages(sys.stdin.buffer), sys.stdout.buffer
    decoder = decoder_of(next(given).decode())
    try:
        decode(decoder, given, out)
    except BrokenPipeError:  # nobody is left to read the answer, nor what is flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def decode(decoder: Decoder, given: Iterator[bytes], out: BinaryIO) -> None:
    """Answer each path."""
    for path in given:
        try:
            values = decoder.decode(Path(path.decode("utf-8", "surrogateescape")))
        except ProblemError:
            out.write(FAILED)
        else:
            out.write(DONE)
            out.write(np.ascontiguousarray(values).view(np.uint8).data)
        out.flush()


if __name__ == "__main__":
    main()
