"""ONNX Runtime on its WebGPU provider, for inference; PyTorch exports the models."""

import io
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import onnxruntime
import torch

from benchmarks.peers.case import Material
from benchmarks.peers.contender import Absent, Running
from benchmarks.peers.with_torch import network

PROVIDER = "WebGpuExecutionProvider"
OPSET = 18
RESIDENT, FED = "ORT WebGPU", "ORT WebGPU, there and back"


class WithOnnx:
    """Inputs and outputs that stay on the GPU, and the usual call, which carries both."""

    name = RESIDENT

    def columns(self, *, trains: bool) -> tuple[str, ...]:
        """What it is timed for."""
        return () if trains else (RESIDENT, FED)

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Export a case, and open a session that runs on the GPU alone."""
        if PROVIDER not in onnxruntime.get_available_providers():
            raise Absent(f"this build of onnxruntime {onnxruntime.__version__} has no {PROVIDER}")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(_exported(one), options, [PROVIDER])
        if session.get_providers()[0] != PROVIDER:
            raise Absent(f"{PROVIDER} found no adapter it supports")
        (x,) = one.inputs.values()
        (source,), (target,) = session.get_inputs(), session.get_outputs()
        placed = onnxruntime.OrtValue.ortvalue_from_numpy(x, "webgpu", 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input(source.name, placed)
        binding.bind_output(target.name, "webgpu", 0)

        def resident() -> None:
            session.run_with_iobinding(binding)

        yield Running(
            np.asarray(session.run(None, {source.name: x})[0]),
            {RESIDENT: resident, FED: lambda: session.run(None, {source.name: x})},
            binding.synchronize_outputs,
        )

    def __str__(self) -> str:
        return f"ONNX Runtime {onnxruntime.__version__}"


def _exported(one: Material) -> bytes:
    (x,) = (torch.tensor(array) for array in one.inputs.values())
    model = network(one).cpu().to(memory_format=torch.contiguous_format)
    content = io.BytesIO()
    torch.onnx.export(model, (x,), content, opset_version=OPSET, dynamo=False)
    return content.getvalue()
