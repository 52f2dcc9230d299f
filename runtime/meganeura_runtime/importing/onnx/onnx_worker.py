"""A process that runs ONNX models for another one: native code that is given files nobody trusts.

A question says what to run; its bytes are the inputs, and those of the answer the outputs.
"""

import io
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.comparison import Levels, session_of
from meganeura_runtime.support.worker_process import answer_questions


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


def _run(asked: Mapping[str, object], content: bytes) -> bytes:
    names, outputs = cast("list[str]", asked["inputs"]), cast("list[str]", asked["outputs"])
    session = session_of(str(asked["path"]), Levels(str(asked["levels"])))
    found = session.run(outputs, dict(zip(names, unpacked(content), strict=True)))
    return packed([np.asarray(each) for each in found])


if __name__ == "__main__":
    answer_questions(_run)
