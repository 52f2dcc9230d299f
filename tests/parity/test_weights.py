"""Weights travel to PyTorch and back: the same keys, shapes and types, loaded strictly."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_dsl.ir.initializers import sample
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.io.weights import compare, write_weights
from tests.parity.references.images import DigitsNet

PARAMETERS = pipeline.elaborate_model(pipeline.load("digits_cnn")).parameters


def test_what_is_saved_here_is_loaded_strictly_there(tmp_path: Path) -> None:
    values = {
        each.name: sample(each.initializer, 0, each.name, concrete_shape(each.type.shape))
        for each in PARAMETERS
    }
    path = tmp_path / "weights.safetensors"
    write_weights(path, PARAMETERS, values, {"format": "pt"})
    module = DigitsNet()
    module.load_state_dict(load_file(path), strict=True)
    state = module.state_dict()
    assert list(state) == [each.name for each in PARAMETERS]
    assert state["bn1.num_batches_tracked"].dtype == torch.int64
    for name, value in values.items():
        np.testing.assert_array_equal(state[name].numpy(), value)


def test_what_is_saved_there_is_loaded_strictly_here(tmp_path: Path) -> None:
    state = DigitsNet().state_dict()
    state["bn1.num_batches_tracked"] += 7
    save_file(state, tmp_path / "model.safetensors")
    values = compare([tmp_path / "model.safetensors"], PARAMETERS).read()
    assert values["bn1.num_batches_tracked"].dtype == np.int32
    for name, value in values.items():
        np.testing.assert_array_equal(value, state[name].numpy())


def test_halves_of_pytorch_are_read_to_f32(tmp_path: Path) -> None:
    state = DigitsNet().state_dict()
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        halves = {name: each.to(dtype) for name, each in state.items() if each.is_floating_point()}
        save_file({**state, **halves}, tmp_path / "model.safetensors")
        values = compare([tmp_path / "model.safetensors"], PARAMETERS).read()
        for name, half in halves.items():
            np.testing.assert_array_equal(values[name], half.float().numpy())
