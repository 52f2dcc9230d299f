"""The cases of `onnx.backend.test` for nodes: models around one op, of elements that are read."""

import warnings
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.graph_inputs import ELEMENT

LARGEST = 4096
"""Bytes of a model to start mutants from."""


def node_cases(part: str = "") -> list[Any]:
    """The cases whose inputs and outputs have elements that are read; `part` is of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return [each for each in cases if part in each.name and _is_meant(each.model)]


def node_models(part: str = "") -> tuple[bytes, ...]:
    """Their small models, with small inputs as constants, so that shapes and axes are known."""
    found: list[bytes] = []
    for case in node_cases(part):
        given, _ = case_data(case)
        names = [each.name for each in case.model.graph.input]
        model = ModelProto()
        model.CopyFrom(case.model)
        make_constant(model, dict(zip(names, given, strict=True)))
        data = model.SerializeToString()
        if len(data) <= LARGEST:
            found.append(data)
    return tuple(found)


def case_data(case: Any) -> tuple[list[Array], list[Array]]:  # noqa: ANN401 - of a class that onnx does not type
    """The inputs of a case and the outputs that it wants."""
    given, wanted = (list(map(_array, each)) for each in case.data_sets[0])
    return given, wanted


def make_constant(model: ModelProto, feeds: dict[str, Array]) -> None:
    """Makes an initializer of an input that is a vector or a number."""
    kept = [each for each in model.graph.input if feeds[each.name].ndim > 1]
    for each in model.graph.input:
        if feeds[each.name].ndim <= 1:
            model.graph.initializer.append(numpy_helper.from_array(feeds.pop(each.name), each.name))
    inputs = [each.SerializeToString() for each in kept]
    del model.graph.input[:]
    for each in inputs:
        model.graph.input.add().ParseFromString(each)


def _is_meant(model: ModelProto | None) -> bool:
    if model is None:
        return False
    values = [*model.graph.input, *model.graph.output]
    return all(
        each.type.WhichOneof("value") == "tensor_type"
        and each.type.tensor_type.elem_type in ELEMENT
        for each in values
    )


def _array(given: Any) -> Array:  # noqa: ANN401 - a tensor of one of two kinds
    return np.asarray(numpy_helper.to_array(given) if isinstance(given, TensorProto) else given)
