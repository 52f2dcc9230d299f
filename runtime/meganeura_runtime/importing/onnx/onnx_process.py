"""ONNX Runtime in a separate process, which a file may crash."""

from collections.abc import Sequence
from pathlib import Path

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.comparison import Levels
from meganeura_runtime.importing.onnx.onnx_worker import packed, unpacked
from meganeura_runtime.support.worker_process import (
    WorkerEndedError,
    WorkerFailedError,
    WorkerProcess,
)

WORKER = "meganeura_runtime.importing.onnx.onnx_worker"
LONGEST = 600.0
"""Seconds of one run: what a file may ask of ONNX Runtime is not all counted beforehand."""


class OnnxFailedError(Exception):
    """ONNX Runtime refuses a model, or ended; the text says how."""


class OnnxProcess:
    """A process that is started when it is first needed, and anew where it ended."""

    def __init__(self, longest: float = LONGEST) -> None:
        self.worker = WorkerProcess(WORKER, longest)

    def run(
        self,
        path: Path,
        inputs: dict[str, Array],
        outputs: Sequence[str],
        levels: Levels = Levels.NONE,
    ) -> list[Array]:
        """The outputs of a model; raises `OnnxFailedError`."""
        asked = {
            "path": str(path.resolve()), "inputs": [*inputs], "outputs": [*outputs],
            "levels": levels.value,
        }  # fmt: skip
        try:
            return unpacked(self.worker.ask(asked, packed([*inputs.values()])))
        except (WorkerFailedError, WorkerEndedError) as error:
            raise OnnxFailedError(str(error)) from None


ONNX_PROCESS = OnnxProcess()
"""The one that this process has."""
