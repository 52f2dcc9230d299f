"""The inference form of a model: its names are timm's, and its outputs those of the model."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.export.deployment.deployment_problems import DeployedDiffers
from meganeura_runtime.export.deployment.inference_form import Deployment, deploy, looks_untrained
from meganeura_runtime.io.weights import initial_values
from tests.effort import effort
from tests.narrow import NARROW, repvgg, trained

VARIANTS = effort(
    ("a0", "b1g4"), ("a0", "a1", "a2", "b0", "b1", "b1g4", "b2", "b2g4", "b3", "b3g4")
)


def deployed(model: Elaboration) -> Deployment:
    return deploy(model.graph, trained(model), RewriteOptions())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_repvgg_is_plain_and_named_as_timm_names_it(variant: str) -> None:
    model = repvgg(variant).elaborate()
    found = deployed(model)
    blocks = ["stem", "stages.0.0", "stages.0.1", "stages.1.0", "stages.2.0", "stages.2.1"]
    layers = [*(f"{block}.reparam_conv" for block in [*blocks, "stages.3.0"]), "head.fc"]
    assert sorted(found.names.values()) == sorted(
        f"{layer}.{part}" for layer in layers for part in ("weight", "bias")
    )
    assert found.difference < 1e-5


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_resnet_has_no_norms_left(name: str) -> None:
    model = NARROW[name].elaborate()
    found = deployed(model)
    convolutions = [
        each.name for each in model.parameters if len(each.type.shape) == 4 or "fc" in each.name
    ]
    biases = [each.replace(".weight", ".bias") for each in convolutions]
    assert sorted(found.names.values()) == sorted({*convolutions, *biases})
    assert {"conv1.weight", "conv1.bias", "layer2.0.downsample.0.bias"} <= {*found.names.values()}
    assert found.difference < 1e-5


def test_a_file_has_the_names_and_types_of_the_program(tmp_path: Path) -> None:
    model = NARROW["repvgg_a0"].elaborate()
    found = deployed(model)
    found.write(tmp_path / "out.safetensors", model.parameters, {})
    tensors = load_file(tmp_path / "out.safetensors")
    assert set(tensors) == set(found.names.values())
    np.testing.assert_array_equal(tensors["head.fc.weight"], trained(model)["head.fc.weight"])
    assert {array.dtype for array in tensors.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "name", effort(["whisper_tiny"], ["digits_cnn", "whisper_tiny", "lm_tiny"])
)
def test_other_models_keep_every_name_apart(name: str) -> None:
    model = NARROW[name].elaborate()
    found = deployed(model)
    assert len(set(found.names.values())) == len(found.names) == len(found.values)
    assert found.difference < 1e-5


def test_what_a_product_is_given_keeps_the_name_of_the_optimizer() -> None:
    # A projection that was scaled ahead is another projection: it must not pass for the old one.
    model = NARROW["whisper_tiny"].elaborate()
    found = deployed(model)
    given = trained(model)
    for key, name in found.names.items():
        if name in given:
            np.testing.assert_array_equal(found.values[key], given[name])


def test_a_form_that_differs_is_refused() -> None:
    model = NARROW["resnet18"].elaborate()
    values: Mapping[str, Array] = {
        name: np.full_like(array, 1e-30) if "running_var" in name else array
        for name, array in trained(model).items()
    } | {"conv1.weight": np.full((4, 3, 7, 7), 1e30, np.float32)}
    with pytest.raises(ProblemError) as caught:
        deploy(model.graph, values, RewriteOptions())
    assert isinstance(caught.value.problem, DeployedDiffers)


def test_statistics_that_never_moved_are_noticed() -> None:
    model = NARROW["resnet18"].elaborate()
    assert looks_untrained(model.parameters, initial_values(model.parameters, seed=3))
    assert not looks_untrained(model.parameters, trained(model))
    plain = NARROW["whisper_tiny"].elaborate()
    assert not looks_untrained(plain.parameters, initial_values(plain.parameters, seed=3))
