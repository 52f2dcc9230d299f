"""Every problem there is, of the front end and of the runtime, for `meganeura explain`."""

from meganeura_dsl.diagnostics.problem import Problem, problems_in
from meganeura_dsl.explain import PROBLEMS
from meganeura_runtime.backends import device_problems
from meganeura_runtime.export import cache_problems, quantization_problems
from meganeura_runtime.export.deployment import deployment_problems
from meganeura_runtime.export.mgb import container_problems
from meganeura_runtime.export.onnx import onnx_problems
from meganeura_runtime.export.source import form_problems
from meganeura_runtime.importing.onnx import import_problems
from meganeura_runtime.importing.source import torch_source_problems
from meganeura_runtime.infer import generation_problems, inference_problems
from meganeura_runtime.io import weight_names, weights
from meganeura_runtime.io.data import (
    data_problems,
    folder_problems,
    index_problems,
    ragged_problems,
    source_problems,
)
from meganeura_runtime.io.files import file_problems
from meganeura_runtime.io.hub import hub_problems
from meganeura_runtime.io.preprocess import preprocess_problems, token_problems
from meganeura_runtime.support import optional_imports
from meganeura_runtime.train import training_problems
from meganeura_runtime.train.report import report_problems


def problems() -> tuple[type[Problem], ...]:
    """All kinds of problems, by their classes."""
    return PROBLEMS + problems_in(
        data_problems,
        source_problems,
        folder_problems,
        file_problems,
        index_problems,
        ragged_problems,
        hub_problems,
        weights,
        weight_names,
        inference_problems,
        preprocess_problems,
        optional_imports,
        training_problems,
        report_problems,
        deployment_problems,
        container_problems,
        onnx_problems,
        form_problems,
        quantization_problems,
        import_problems,
        torch_source_problems,
        cache_problems,
        generation_problems,
        token_problems,
        device_problems,
    )
