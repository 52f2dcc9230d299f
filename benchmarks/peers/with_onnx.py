"""ONNX Runtime on its WebGPU provider, for inference; PyTorch exports the models."""

import io
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

from benchmarks.peers.case import Material
from benchmarks.peers.contender import RESIDENT, Absent, Running
from benchmarks.peers.ours import ROUND_TRIP
from benchmarks.peers.with_torch import network
from meganeura_dsl.ir.graph import Array

PROVIDER = "WebGpuExecutionProvider"
DEVICE = "webgpu"
OPSET = 18
IR_VERSION = 10


class WithOnnx:
    """Inputs and outputs that stay on the GPU, and the usual call, which carries both."""

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Export a case, and open a session that runs on the GPU alone."""
        if one.case.trains:
            raise Absent("ONNX Runtime's WebGPU does not train")
        if PROVIDER not in onnxruntime.get_available_providers():
            raise Absent(f"this build of onnxruntime {onnxruntime.__version__} has no {PROVIDER}")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(_exported(one), options, [PROVIDER])
        if session.get_providers()[0] != PROVIDER:
            raise Absent(f"{PROVIDER} found no adapter it supports")
        (x,) = one.inputs.values()
        (source,), (target,) = session.get_inputs(), session.get_outputs()
        binding = session.io_binding()
        binding.bind_ortvalue_input(source.name, _placed(x, options))
        binding.bind_output(target.name, DEVICE, 0)
        nothing = np.zeros(1, np.float32)
        probe = _identity(nothing, options)

        yield Running(
            np.asarray(session.run(None, {source.name: x})[0]),
            {
                RESIDENT: lambda: session.run_with_iobinding(binding),
                ROUND_TRIP: lambda: session.run(None, {source.name: x}),
            },
            # What is read comes after everything that was begun before.
            lambda: probe.run(None, {"x": nothing}),
        )

    def __str__(self) -> str:
        return f"ONNX Runtime {onnxruntime.__version__}"


def _placed(x: Array, options: onnxruntime.SessionOptions) -> onnxruntime.OrtValue:
    """An input on the GPU, where only what a session computes can be put."""
    session = _identity(x, options)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", DEVICE, 0)
    session.run_with_iobinding(binding)
    return binding.get_outputs()[0]


def _identity(x: Array, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    around = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "identity", around[:1], around[1:])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, [PROVIDER])


def _exported(one: Material) -> bytes:
    (x,) = (torch.tensor(array) for array in one.inputs.values())
    model = network(one, "cpu").to(memory_format=torch.contiguous_format)
    content = io.BytesIO()
    torch.onnx.export(model, (x,), content, opset_version=OPSET, dynamo=False)
    return content.getvalue()
