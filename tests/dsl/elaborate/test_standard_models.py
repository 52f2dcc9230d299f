"""The standard models: names and shapes of the checkpoints they load, and their structure."""

import json
from math import prod
from pathlib import Path

import pytest

from meganeura_dsl.ir import ops
from meganeura_dsl.pipeline import check_file, elaborate_model, load
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.symbolic.size import dim, show
from tests.standard import checked

STATE_DICTS = Path(__file__).parents[2] / "data" / "state_dicts.json"
"""Names, shapes and kinds read off torchvision 0.28, timm 1.0.31 and transformers 5.23."""

REPVGG = ("a0", "a1", "a2", "b0", "b1", "b1g4", "b2", "b2g4", "b3", "b3g4")
REFERENCES = {
    "resnet18": "resnet18",
    "whisper_tiny": "whisper_tiny_enc",
    **{f"repvgg_{variant}": f"repvgg_{variant}" for variant in REPVGG},
}


@pytest.mark.parametrize(("model", "reference"), REFERENCES.items(), ids=REFERENCES)
def test_parameters_are_the_checkpoint_s(model: str, reference: str) -> None:
    expected = {
        name: (tuple(shape), kind)
        for name, shape, kind in json.loads(STATE_DICTS.read_text())[reference]
    }
    elaboration = elaborate_model(load(model), model)
    found = {
        info.name: (info.type.shape, "buffer" if info.kind == "state" else "param")
        for info in elaboration.parameters
    }
    assert found == expected


def test_resnet18_lists_its_parameters_in_torchvision_s_order() -> None:
    expected = [name for name, _, _ in json.loads(STATE_DICTS.read_text())["resnet18"]]
    elaboration = elaborate_model(load("resnet18"))
    assert [info.name for info in elaboration.parameters] == expected


def test_a_value_used_twice_is_one_node() -> None:
    graph = elaborate_model(load("resnet18")).graph
    assert sum(isinstance(value.op, ops.Conv) for value in graph.values) == 20


def test_repvgg_b0_has_one_convolution_for_each_branch() -> None:
    graph = elaborate_model(load("repvgg_b0"), "repvgg_b0").graph
    assert sum(isinstance(value.op, ops.Conv) for value in graph.values) == 2 * 28


@pytest.mark.parametrize("name", [*standard_model_names()])
def test_standard_files_are_fine(name: str) -> None:
    reports = checked(name).reports
    assert not [each for each in reports if each.severity.value == "error"]
    meant_otherwise = {"N0006", "N0008", "N0009", "N0010", "N0011", "N0012", "N0013"}
    assert not [each for each in reports if each.code in meant_otherwise]


@pytest.mark.parametrize(
    ("file", "blocks"),
    [
        ("resnet", {"BasicBlock", "Bottleneck", "Residual", "Stage"}),
        ("repvgg", {"ConvBN", "RepLayer"}),
        ("whisper", {"SelfAttention", "EncoderLayer", "WhisperEncoder"}),
        ("lm", {"SelfAttention", "Mlp", "DecoderLayer", "Decoder"}),
        ("deepseek", {"turned", "LatentAttention", "Gate", "Moe", "Layer", "DeepSeek"}),
        ("ppo", {"gae", "clipped", "ActorCritic"}),
        ("rwkv", {"Shift", "Recurrence", "TimeMix", "ChannelMix", "Layer", "Rwkv"}),
        ("gpt2", {"Conv1D", "SelfAttention", "Mlp", "Layer", "Gpt2"}),
        ("vit", {"Attention", "Mlp", "Layer", "ViT"}),
        ("unet", {"LevelEmbedding", "ResBlock", "UNet", "normal_noise", "noisy"}),
        ("digits_cnn", {"Residual", "DigitsNet"}),
        ("gan", {"Generator", "Critic", "Drawn"}),
        ("wgan", {"Critic", "Drawn"}),
        ("pinn", {"Solution"}),
        ("maml", {"Regressor", "Adapted"}),
        ("linalg", {"cholesky", "inverse", "solve", "solve_lower", "log_abs_det"}),
        ("special", {"atan", "atan2", "asin", "acos", "lgamma", "digamma", "searchsorted"}),
        ("vision", {"pixel_shuffle", "unfold", "reflect_pad", "sample_at", "roi_align"}),
        ("sequence", {"ctc", "ctc_losses", "rnnt", "rnnt_losses"}),
        ("spectra", {"fft", "ifft", "rfft", "irfft", "long_conv"}),
        ("gp", {"Features", "Process"}),
        ("fno", {"SpectralConv", "Fno", "later"}),
        ("s4d", {"Kernel", "S4D", "Net"}),
        ("vae", {"Encoder", "Decoder", "Drawn"}),
        ("ddpm", {"image_share", "diffused", "ancestral_step", "Drawn"}),
        ("detr", {"Attention", "Detr", "assignment", "matched", "detr_loss"}),
        ("wav2vec2", {"Quantizer", "Encoder", "Wav2Vec2", "contrast", "wav2vec2_loss"}),
        ("mae", {"patches", "Mae", "mae_loss"}),
        ("dit", {"Timestep", "Modulation", "DiTBlock", "DiT", "Guided", "Drawn"}),
        ("distil", {"soft_targets"}),
    ],
)
def test_blocks_proved_for_all_sizes(file: str, blocks: set[str]) -> None:
    assert blocks <= set(checked(file).proved)


def test_resnet18_maps_every_image_to_logits() -> None:
    elaboration = elaborate_model(load("resnet18"))
    assert elaboration.inputs["x"].shape == (dim("n"), 3, dim("h"), dim("w"))
    assert elaboration.graph.outputs["output"].type.shape == (dim("n"), 1000)


def test_the_intermediate_sizes_of_resnet18_are_those_of_five_halvings() -> None:
    bindings = check_file("resnet18").bindings
    text = next(text for (_, name), text in bindings.items() if name == "layer4")
    assert text == "f32[n, 512, ceil(h/32), ceil(w/32)]"
    assert show((dim("h") + 31) // 32) == "ceil(h/32)"


def test_resnet18_of_one_colour_and_ten_classes_has_graphspec_s_weights() -> None:
    config = {"colors": 1, "classes": 10, "conv_bias": True}
    elaboration = elaborate_model(load("resnet18"), config=config)
    trained = [info for info in elaboration.parameters if info.kind != "state"]
    assert len(trained) == 82
    assert sum(prod(map(int, map(str, info.type.shape))) for info in trained) == 11_180_170
