"""A process that runs ONNX models for another one: native code that is given files nobody trusts.

A file that makes ONNX Runtime crash, or take all memory, ends this process alone. A request is two
messages, what to run as JSON and its inputs; so is an answer, an error or none and the outputs. The
process ends where its input does.
"""

import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import BinaryIO, cast

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.comparison import first_line, session_of
from meganeura_runtime.support.messages import messages, write_message


def write_request(
    file: BinaryIO, path: str, inputs: dict[str, Array], outputs: Sequence[str]
) -> None:
    """Ask for the outputs of a model."""
    asked = {"path": path, "inputs": [*inputs], "outputs": [*outputs]}
    write_message(file, json.dumps(asked).encode())
    write_message(file, packed([*inputs.values()]))
    file.flush()


def packed(arrays: Sequence[Array]) -> bytes:
    """Arrays as bytes, one behind the other."""
    buffer = io.BytesIO()
    for each in arrays:
        np.save(buffer, each, allow_pickle=False)
    return buffer.getvalue()


def unpacked(content: bytes) -> list[Array]:
    """Arrays of `packed` bytes, of numbers alone."""
    buffer, found = io.BytesIO(content), list[Array]()
    while buffer.tell() < len(content):
        found.append(np.load(buffer, allow_pickle=False))
    return found


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which libraries print to
    given = messages(sys.stdin.buffer)
    for asked in given:
        error, found = "", b""
        try:
            found = _run(json.loads(asked), unpacked(next(given)))
        except Exception as failure:  # noqa: BLE001 - its errors have no common base
            error = first_line(failure)
        write_message(out, json.dumps({"error": error}).encode())
        write_message(out, found)
        out.flush()


def _run(asked: dict[str, object], arrays: Sequence[Array]) -> bytes:
    names, outputs = cast("list[str]", asked["inputs"]), cast("list[str]", asked["outputs"])
    session = session_of(str(asked["path"]))
    found = session.run(outputs, dict(zip(names, arrays, strict=True)))
    return packed([np.asarray(each) for each in found])


if __name__ == "__main__":
    main()
